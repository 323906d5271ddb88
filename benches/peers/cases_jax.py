"""The cases in JAX: `build` returns a function to time and one that reads the first numbers of its result."""
import jax
import jax.numpy as jnp
import numpy as np

import hamworld_s6_jax as memory
import layers_jax as L
import spec as S

LONG = 64       # unrolling longer scans takes too long to compile


def build(kind, n, variant, model):
    L.SCAN = variant == "jax-scan" or kind.startswith("scan") and n > LONG
    L.UNROLL = 1 if variant == "jax-scan" else 8
    L.GRADIENT = "auto" if variant == "jax-auto" else "manual"
    f, value = cases[kind](n, model)
    return (lambda: jax.block_until_ready(f())), value


def plan(n, model):
    (M, sizes), (R, _) = S.load(model, "spec"), S.load(model, "jax")
    f = R.planner(L.tensors(M.params(*sizes)), L.tensors(M.decision(*sizes)))
    return f, lambda y: y[0][0][-1][0]


def train(n, model):
    (M, sizes), (R, _) = S.load(model, "spec"), S.load(model, "jax")
    trainer = L.Trainer(L.tensors(M.params(*sizes)), R.losses, M.SLOW, M.DECAY)
    batch = L.tensors(M.batch(*sizes))
    return (lambda: trainer.step(batch)), lambda y: y


def scanned(w, d):
    """The scan on inputs with their gains."""
    gained = lambda k: w[f"param.{k}_gain"] * d[f"data.{k}"] if f"param.{k}_gain" in w else d[f"data.{k}"]
    inputs = map(gained, "dt v b c".split())
    return memory.selective_scan(w["param.rate"], *inputs, jnp.zeros((S.BATCH, *w["param.rate"].shape)), keep=False)[0]


def scan(n, model):
    d = L.tensors(S.scan(n))
    w = {"param.rate": d["param.rate"]}
    g = jax.jit(scanned)
    return (lambda: g(w, d)), lambda y: y[0, :, 0]


def scanback(n, model):
    d = L.tensors(S.scan(n))
    w = {k: d.pop(k) for k in list(d) if k.startswith("param.")}
    g = jax.jit(jax.value_and_grad(lambda w, d: L.sq(scanned(w, d)).sum() / (S.BATCH * n)))
    value = lambda y: np.concatenate([[y[0]], np.asarray(w["param.rate"] - y[1]["param.rate"])[0, :5]])
    return (lambda: g(w, d)), value


def hgrad(n, model):
    p = L.tensors(S.hgrad())
    x = jnp.concatenate([p.pop("data.q"), p.pop("data.p")], -1)[:, 0]
    g = jax.jit(lambda p, x: L.energy(p, "param.energy", x)[1])
    return (lambda: g(p, x)), lambda y: y[0]


def elite(n, model):
    d = L.tensors(S.elite())
    score, actions = d["data.score"][0, 0], d["data.u"][0, 0]
    g = jax.jit(L.elite_update, static_argnums=(2, 3, 4))
    return (lambda: g(score, actions, S.ELITES, S.TEMPERATURE, S.STD_MIN)), lambda y: y[0]


def sgemm(n, model):
    a = jnp.ones((1024, 1024))
    g = jax.jit(lambda a: a @ a)
    return (lambda: g(a)), lambda y: [2 * 1024**3 / 1e9]


cases = dict(plan=plan, train=train, scan=scan, scanback=scanback, hgrad=hgrad, elite=elite, sgemm=sgemm)
