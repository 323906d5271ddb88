"""The cases in PyTorch: `build` returns a function to time and one that reads the first numbers of its result."""
import os
from functools import partial

import torch

import hamworld_s6_torch as memory
import layers_torch as L
import spec as S

LONG = 64       # unrolling longer scans takes too long to compile
CHUNK = 16


def build(kind, n, variant, model):
    torch.set_num_threads(int(os.environ.get("NT", "2")))
    # A device that PyTorch has no kernels for leaves it on the processor.
    cuda = os.environ.get("PEER_DEVICE") == "cuda"
    if cuda:
        torch.set_default_device("cuda")
    L.GRADIENT = "autograd" if variant == "torch-autograd" else "manual"
    made = plain
    if variant.startswith("compile"):
        made = compiled(cpp_wrapper="cppwrap" in variant)
    f, value = cases[kind](made, n, model)
    return (waited(f) if cuda else f), lambda y: value(y).detach().cpu().numpy()


def plain(f):
    return f


def compiled(cpp_wrapper):
    import torch._dynamo as dynamo
    import torch._inductor.config as inductor
    dynamo.config.cache_size_limit = 64
    inductor.cpp_wrapper = cpp_wrapper
    return partial(torch.compile, dynamic=False)


def waited(f):
    """PyTorch returns before a device is done."""
    def g():
        y = f()
        torch.cuda.synchronize()
        return y
    return g


def plan(made, n, model):
    (M, sizes), (R, _) = S.load(model, "spec"), S.load(model, "torch")
    f = R.planner(L.tensors(M.params(*sizes)), L.tensors(M.decision(*sizes)), made)
    return f, lambda y: y[0][-1][0]


def train(made, n, model):
    (M, sizes), (R, _) = S.load(model, "spec"), S.load(model, "torch")
    trainer = L.Trainer(L.tensors(M.params(*sizes)), made(R.losses), M.SLOW, M.DECAY)
    batch = L.tensors(M.batch(*sizes))
    return (lambda: trainer.step(batch)), lambda y: y


def scanned(made, n, part):
    """The inputs, and a scan in parts: `part` computes its output and the state for the next part."""
    d, part = L.tensors(S.scan(n)), made(part)
    start = torch.zeros(S.BATCH, *d["param.rate"].shape)
    steps = CHUNK if made is not plain and n > LONG else n

    def f(*before):
        s, out = start, []
        for t in range(0, n, steps):
            y, s = part(*before, *[d[f"data.{k}"][:, t:t + steps] for k in "dt v b c".split()], s)
            out.append(y)
        return out
    return d, f


def scan(made, n, model):
    def part(A, dt, x, B, C, s):
        y, ss = memory.selective_scan(A, dt, x, B, C, s)
        return y, ss[-1]
    d, f = scanned(made, n, part)

    @torch.no_grad()
    def whole():
        out = f(d["param.rate"])
        return out[0] if len(out) == 1 else torch.cat(out, 1)
    return whole, lambda y: y[0, :, 0]


def scanback(made, n, model):
    def part(A, gain_dt, gain_x, gain_B, gain_C, dt, x, B, C, s):
        y, ss = memory.selective_scan(A, gain_dt * dt, gain_x * x, gain_B * B, gain_C * C, s)
        return y.square().sum(), ss[-1]
    d, f = scanned(made, n, part)
    weights = [d[f"param.{k}"].requires_grad_() for k in "rate dt_gain v_gain b_gain c_gain".split()]

    def whole():
        loss = sum(f(*weights)) / (S.BATCH * n)
        grads = torch.autograd.grad(loss, weights)
        return torch.cat([loss.detach()[None], (weights[0].detach() - grads[0])[0, :5]])
    return whole, lambda y: y


def hgrad(made, n, model):
    p = L.tensors(S.hgrad())
    x = torch.cat([p.pop("data.q"), p.pop("data.p")], -1)[:, 0]
    g = made(lambda p, x: L.energy(p, "param.energy", x)[1])
    return torch.no_grad()(lambda: g(p, x)), lambda y: y[0]


def elite(made, n, model):
    d = L.tensors(S.elite())
    score, actions = d["data.score"][0, 0], d["data.u"][0, 0]
    g = made(L.elite_update)
    return torch.no_grad()(lambda: g(score, actions, S.ELITES, S.TEMPERATURE, S.STD_MIN)), lambda y: y[0]


def sgemm(made, n, model):
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return (lambda: a @ b), lambda y: torch.tensor([2 * 1024**3 / 1e9])


cases = dict(plan=plan, train=train, scan=scan, scanback=scanback, hgrad=hgrad, elite=elite, sgemm=sgemm)
