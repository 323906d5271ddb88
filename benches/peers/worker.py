"""One peer on one case, as a worker: `worker.py CASE VARIANT [--model NAME]`.

Prints one JSON line when ready (seconds of the first call, the first numbers of what it computed), then answers every
number n on standard input with one JSON line of n times in ms. CASE: plan, train, scan8, scanback8, hgrad, elite, sgemm
(plan16 and plan128 say the memory's N). VARIANT: torch, torch-autograd, compile, compile-cppwrap, jax, jax-scan.
"""
import argparse
import json
import os
import sys
import time

import numpy as np
import spec as S

LONG = 64       # scans over more steps are not unrolled as a whole: that does not compile in sane time
CHUNK = 16


def scan_cut(d, t, n):
    return [d[k][:, t:t + n] for k in ("dt", "x", "B", "C")]


def build_torch(kind, n, variant):
    import torch
    import model_torch as R
    torch.set_num_threads(int(os.environ.get("NT", "2")))
    # A device that PyTorch has no kernels for leaves it on the processor.
    cuda = os.environ.get("PEER_DEVICE") == "cuda"
    if cuda:
        torch.set_default_device("cuda")
    compiled = variant.startswith("compile")
    R.READOUT = "sum" if compiled else "matmul"
    R.HGRAD = "autograd" if variant == "torch-autograd" else "manual"
    if compiled:
        import torch._dynamo
        import torch._inductor.config
        torch._dynamo.config.cache_size_limit = 64
        torch._inductor.config.cpp_wrapper = "cppwrap" in variant
    made = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
    numpy = lambda y: y.detach().cpu().numpy()

    if kind == "plan":
        p, d = R.tensors(S.init_params(n, 7)), R.tensors(S.make_plan_inputs(n, 7))
        iteration, prepare = made(R.cem_iter), made(R.plan_prep)
        return torch.no_grad()(lambda: R.plan(p, d, True, iteration, prepare)), numpy
    if kind == "train":
        batch = R.tensors(S.make_batch(S.BATCH, 7))
        trainer = R.Trainer(R.tensors(S.init_params(n, 7)), made(R.losses))
        return (lambda: trainer.step(batch)), numpy
    if kind == "scan":
        d = R.tensors(S.scan_inputs(n))
        start = torch.zeros(S.BATCH, *d["A"].shape)
        steps = min(n, CHUNK) if compiled and n > LONG else n
        def part(A, dt, x, B, C, s):
            y, ss = R.selective_scan(A, dt, x, B, C, s)
            return y, ss[-1]
        part = made(part)
        @torch.no_grad()
        def f():
            s, out = start, []
            for t in range(0, n, steps):
                y, s = part(d["A"], *scan_cut(d, t, steps), s)
                out.append(y)
            return out[0] if len(out) == 1 else torch.cat(out, 1)
        return f, lambda y: y[0, :, 0].cpu().numpy()
    if kind == "scanback":
        d = R.tensors(S.scan_inputs(n))
        gains = {k: v.requires_grad_() for k, v in R.tensors(S.scan_gains()).items()}
        A = d["A"].requires_grad_()
        start = torch.zeros(S.BATCH, *A.shape)
        steps = min(n, CHUNK) if compiled and n > LONG else n
        def part(A, gains, dt, x, B, C, s):
            y, ss = R.selective_scan(A, gains["dt"] * dt, gains["x"] * x, gains["B"] * B, gains["C"] * C, s)
            return y.square().sum(), ss[-1]
        part = made(part)
        weights = [A, *gains.values()]
        def f():
            s, total = start, 0.0
            for t in range(0, n, steps):
                y, s = part(A, gains, *scan_cut(d, t, steps), s)
                total = total + y
            loss = total / (S.BATCH * n)
            grads = torch.autograd.grad(loss, weights)
            return torch.cat([loss.detach()[None], (A.detach() - grads[0])[0, :5]])
        return f, numpy
    if kind == "hgrad":
        p, x = R.tensors(S.init_params(16, 7)), torch.as_tensor(S.hgrad_inputs())
        g = made(lambda p, x: R.ham(p, x)[1])
        return torch.no_grad()(lambda: g(p, x)), lambda y: y[0].cpu().numpy()
    if kind == "elite":
        d = R.tensors(S.elite_inputs())
        g = made(R.elite_update)
        return torch.no_grad()(lambda: g(d["score"], d["actions"])), lambda y: y[0].cpu().numpy()
    if kind == "sgemm":
        a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
        return (lambda: a @ b), lambda y: [2 * 1024**3 / 1e9]


def build_jax(kind, n, variant):
    import jax
    import jax.numpy as jnp
    import model_jax as R
    R.SCAN = variant == "jax-scan" or kind.startswith("scan") and n > LONG
    R.UNROLL = 1 if variant == "jax-scan" else 8
    R.HGRAD = "manual" if variant == "jax-manual" else "auto"

    if kind == "plan":
        p, d = R.tensors(S.init_params(n, 7)), R.tensors(S.make_plan_inputs(n, 7))
        g = jax.jit(R.plan)
        return (lambda: g(p, d).block_until_ready()), np.asarray
    if kind == "train":
        batch = R.tensors(S.make_batch(S.BATCH, 7))
        w, ema = R.split(R.tensors(S.init_params(n, 7)))
        state = [w, ema, R.init_opt(w)]
        g = jax.jit(R.train_step, donate_argnums=(0, 1, 2))
        def f():
            *state[:], loss = g(*state, batch)
            return jax.block_until_ready((loss, state[0]))[0]
        return f, np.asarray
    if kind == "scan":
        d = R.tensors(S.scan_inputs(n))
        start = jnp.zeros((S.BATCH, *d["A"].shape))
        g = jax.jit(lambda d: R.selective_scan(d["A"], d["dt"], d["x"], d["B"], d["C"], start, keep=False)[0])
        return (lambda: g(d).block_until_ready()), lambda y: np.asarray(y)[0, :, 0]
    if kind == "scanback":
        d = R.tensors(S.scan_inputs(n))
        A = d.pop("A")
        start = jnp.zeros((S.BATCH, *A.shape))
        def loss(w, d):
            u = {k: w[k] * d[k] for k in d}
            y, _ = R.selective_scan(w["A"], u["dt"], u["x"], u["B"], u["C"], start, keep=False)
            return (y * y).sum() / (S.BATCH * n)
        w = dict(A=A, **R.tensors(S.scan_gains()))
        g = jax.jit(jax.value_and_grad(loss))
        def value(y):
            return np.concatenate([[y[0]], np.asarray(A - y[1]["A"])[0, :5]])
        return (lambda: jax.block_until_ready(g(w, d))), value
    if kind == "hgrad":
        p, x = R.tensors(S.init_params(16, 7)), jnp.asarray(S.hgrad_inputs())
        g = jax.jit(lambda p, x: R.ham(p, x)[1])
        return (lambda: g(p, x).block_until_ready()), lambda y: np.asarray(y)[0]
    if kind == "elite":
        d = R.tensors(S.elite_inputs())
        g = jax.jit(R.elite_update)
        return (lambda: jax.block_until_ready(g(d["score"], d["actions"]))), lambda y: np.asarray(y[0])
    if kind == "sgemm":
        a = jnp.ones((1024, 1024))
        g = jax.jit(lambda a: a @ a)
        return (lambda: g(a).block_until_ready()), lambda y: [2 * 1024**3 / 1e9]


def waited(f):
    """PyTorch returns before a device is done."""
    import torch
    def g():
        y = f()
        torch.cuda.synchronize()
        return y
    return g


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("variant")
    parser.add_argument("--model")
    a = parser.parse_args()
    kind, n = S.parse(a.case, a.model)
    t0 = time.perf_counter()
    build = build_jax if a.variant.startswith("jax") else build_torch
    f, value = build(kind, n, a.variant)
    if os.environ.get("PEER_DEVICE") == "cuda" and build is build_torch:
        f = waited(f)
    t1 = time.perf_counter()
    y = value(f())
    t2 = time.perf_counter()
    f()
    ready = dict(import_s=t1 - t0, first_call_s=t2 - t1, second_call_s=time.perf_counter() - t2,
                 value=np.asarray(y, np.float64).ravel()[:6].tolist())
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            t = time.perf_counter()
            f()
            times.append((time.perf_counter() - t) * 1e3)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
