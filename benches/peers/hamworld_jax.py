"""HamWorld in JAX (sizes and names: hamworld_spec.py)."""
from functools import partial

import jax
import jax.numpy as jnp
import hamworld_spec as M
import layers_jax as L
import spec as S
from layers_jax import lin, mlp, sg, silu, sq

sigmoid = jax.nn.sigmoid


def length(x):
    """Euclidean, at least 1e-6, over the last axis."""
    return jnp.sqrt(jnp.maximum(sq(x), 1e-12))[..., None]


def short(x, bound):
    return x * jnp.minimum(bound / length(x), 1)


def encode(p, n, obs):
    return short(mlp(p, n, obs), M.INSIDE)


# ------------------------------------------------------------------ memory
def layer_norm(x, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + M.NORM_EPS) * scale + shift


def project(p, l, x):
    """A layer's decay, new state, readout and gate, from its input alone."""
    m = f"param.m.{l}."
    n = layer_norm(x, p[m + "norm.scale"], p[m + "norm.shift"])
    dt, v, c, gate = jnp.split(lin(p, f"m.{l}", n), 4, -1)
    return jnp.exp(-jnp.exp(p[m + "a_log"]) * (jax.nn.softplus(dt) + 0.001)), v, c, gate


def output(p, l, x, state, c, gate):
    m = f"param.m.{l}."
    mid = x + sigmoid(gate) * lin(p, m + "out", c * state)
    return mid + lin(p, m + "back", silu(lin(p, m + "wide", mid)))


def read(p, x):
    return layer_norm(x, p["param.m.scale"], p["param.m.shift"])


def memory_step(p, za, states):
    """One step: za = [z, a], states [...,128] of the layers -> h, new states."""
    x, new = lin(p, "param.m.lift", za), []
    for l, s in enumerate(states):
        decay, v, c, gate = project(p, l, x)
        new.append(decay * s + v)
        x = output(p, l, x, new[-1], c, gate)
    return read(p, x), new


def memory_segment(p, za):
    """All steps of segments [B,T,..] from a state of zeros -> h and the states of the layers, [B,T,128]."""
    def body(s, i):
        decay, v = i
        s = decay * s + v
        return s, s
    x, states, sw = lin(p, "param.m.lift", za), [], lambda v: jnp.swapaxes(v, 0, 1)
    for l in range(M.LAYERS):
        decay, v, c, gate = project(p, l, x)
        states.append(sw(L.loop(body, jnp.zeros_like(v[:, 0]), (sw(decay), sw(v)))[1]))
        x = output(p, l, x, states[-1], c, gate)
    return read(p, x), states


# ------------------------------------------------------------------ transition
def transition(p, z, a, h, alpha, guard):
    """The next latent, and values for the losses. With `guard` the energy's gradient is a constant if it is steep on
    average over the batch, the first axis."""
    E, slope = L.energy(p, "param.energy", z[..., :2 * M.NQ])
    slope = slope.reshape(*slope.shape[:-1], 2, M.NQ)
    far = length(slope)
    held = slope * jnp.minimum(M.SHORT / far, 1)
    if guard:
        held = jnp.where(far.mean((0, -2), keepdims=True) > M.STEEP, sg(held), held)
    Hq, Hp = held[..., 0, :], held[..., 1, :]
    f, e = jnp.split(silu(lin(p, "trunks", jnp.concatenate([z, a, h], -1))), 2, -1)
    f, e = silu(lin(p, "param.trunk.1", f)), silu(lin(p, "param.side.1", e))
    f, e = lin(p, "param.trunk.2", f), lin(p, "param.side.2", e)
    f, e = lin(p, "fields", f), lin(p, "side", e)
    d, gate, G = jnp.split(f, (2 * M.NQ, 4 * M.NQ), -1)
    nq, np_ = jnp.split(jnp.tanh(d) * sigmoid(gate), 2, -1)
    push = (jnp.tanh(G).reshape(*G.shape[:-1], M.NQ, -1) * a[..., None, :]).sum(-1)
    dq = (1 - alpha) * nq + alpha * Hp
    dp = (1 - alpha) * np_ - alpha * Hq + push
    dc = jnp.tanh(e[..., :M.NC]) * sigmoid(e[..., M.NC:])
    new = jnp.nan_to_num(z + jnp.concatenate([dq, dp, dc], -1), nan=0.0, posinf=1e6, neginf=-1e6)
    return short(new, M.INSIDE), dict(E=E, dq=dq, dp=dp, dc=dc, apart=sq(nq - Hp) + sq(np_ + Hq))


# ------------------------------------------------------------------ training
def losses(p, batch, alpha=M.alpha(), weights=M.weights()):
    p = L.joined(p, M.JOINED)
    obs, act, rew = batch["data.obs"], batch["data.a"], batch["data.r"]
    z = encode(p, "param.encoder", obs)
    zt, zsg, loss = z[:, :-1], sg(z), {}
    h, states = memory_segment(p, jnp.concatenate([zt, act], -1))
    zn, s = transition(p, zt, act, h, alpha, True)
    near = sg(mlp(p, "slow.project", encode(p, "slow.encoder", obs[:, 1:])))
    slow = sg(mlp(p, "slow.value", zsg))
    ret = L.lambda_return(rew, S.GAMMA * batch["data.discount"], L.decode(slow))
    small = (sq(act) < M.SMALL ** 2).astype(z.dtype)
    count = jnp.maximum(small.sum(), 1)
    loss["repr"] = ((mlp(p, "param.project", zn) - near) ** 2).mean()
    error = sq(zn - zsg[:, 1:])
    loss["dyn"] = error.mean() / M.Z
    # Re-rolls continue from the one-step predictions; each further step has one start less.
    roll, pairs, zr = error.sum(), M.T, zn
    for k in range(1, M.K):
        n = M.T - k
        zr, ak, states = zr[:, :n], act[:, k:], [x[:, :n] for x in states]
        hr, states = memory_step(p, jnp.concatenate([zr, ak], -1), states)
        zr, _ = transition(p, zr, ak, hr, alpha, True)
        roll, pairs = roll + sq(zr - zsg[:, k + 1:]).sum(), pairs + n
    loss["roll"] = roll / (pairs * M.Z * obs.shape[0])
    loss["reward"] = L.ce(L.twohot(rew, M.BINS), mlp(p, "param.reward", zn)).mean()
    value = mlp(p, "param.value", zt)
    loss["value.ce"] = L.ce(L.twohot(ret, M.BINS), value).mean()
    loss["value.slow"] = L.ce(jax.nn.softmax(slow[:, :-1], -1), value).mean()
    loss["value"] = loss["value.ce"] + loss["value.slow"]
    loss["policy"] = ((mlp(p, "param.prior", zsg[:, :-1]) - act) ** 2).mean()
    dq, dp = (s["dq"] ** 2).mean(-1), (s["dp"] ** 2).mean(-1)
    loss["sa"] = (small * (dq + dp)).sum() / count
    after = mlp(p, "param.energy", zn[..., :2 * M.NQ])[..., 0]
    loss["energy"] = (small * (after - s["E"]) ** 2).sum() / count
    loss["ham"] = s["apart"].mean() / M.NQ
    loss["temp"] = (dq - M.BALANCE * dp).mean()
    loss["decouple"] = (L.covariance(zt[..., :M.NQ], zt[..., M.NQ:2 * M.NQ]) ** 2).mean()
    loss["c_sparse"] = jnp.abs(s["dc"]).mean()
    return sum(w * loss[k] for k, w in weights.items()), loss


# ------------------------------------------------------------------ planner
def search_round(p, z, states, mean, std, noise, alpha=M.alpha(), by=M.Search()):
    """noise [n,H,A] of the Gaussian candidates, then of the prior's rollouts -> mean, std, scores."""
    n, r = noise.shape[0], by.random
    start = jnp.broadcast_to(z, (n, M.Z)), [jnp.broadcast_to(s, (n, M.DM)) for s in states]

    def body(carry, i):
        z, states = carry
        a, guided = i
        a = jnp.concatenate([a, jnp.clip(mlp(p, "param.prior", z[r:]) + guided, -1, 1)])
        h, states = memory_step(p, jnp.concatenate([z, a], -1), states)
        z, _ = transition(p, z, a, h, alpha, False)
        return (z, states), (z, a)
    fixed = jnp.clip(mean + std * noise[:r], -1, 1)
    _, (zs, acts) = L.loop(body, start, (jnp.swapaxes(fixed, 0, 1), by.std_prior * jnp.swapaxes(noise[r:], 0, 1)))
    score = L.returned(p, "param.reward", "param.value", zs)
    return *L.elite_update(score, jnp.swapaxes(acts, 0, 1), by.elites, by.temperature, by.std_min), score


def planner(p, d, alpha=M.alpha(), by=M.Search()):
    """A decision: searches from the last plan, one step on, and advances the memory by the action. Returns the rounds
    and the memory."""
    p = L.joined(p, M.JOINED)

    @jax.jit
    def decide(p, d):
        z, states = encode(p, "param.encoder", d["data.obs"]), [d[f"carry.m.{l}.h"] for l in range(M.LAYERS)]
        plan = d["carry.plan.last"][0]
        mean = jnp.concatenate([plan[1:], jnp.zeros_like(plan[:1])])
        each = partial(search_round, alpha=alpha, by=by)
        rounds = L.search(each, by.std, p, z, states, mean, d["draw.plan.noise"][0])
        return rounds, memory_step(p, jnp.concatenate([z, rounds[0][-1][:1]], -1), states)[1]
    return lambda: decide(p, d)
