"""Holds the shared distributions and optimisers against the prelude's text, written out once more: `python checks.py`."""
import math

import torch

from common import SymexpTwoHot, SymlogTwoHot, TanhNormal, Values, adam_step, laprop_step, quantile, symexp, symlog


def prelude_twohot(logits, x, lo, hi, scale):
    """`twohot` of distributions.wm, line by line: nll and mean."""
    bins = logits.shape[-1]
    step = (hi - lo) / (bins - 1)
    iota = torch.arange(bins, dtype=torch.float64)
    grid = lo + step * iota
    at = (symlog(x).clamp(lo, hi) - lo) / step
    below = at.floor().clamp(0, bins - 2)
    left, right = symexp(lo + step * below), symexp(lo + step * (below + 1))
    w = ((x - left) / (right - left)).clamp(0, 1) if scale == "symexp" else at - below
    k, w, below = iota, w[..., None], below[..., None]
    target = torch.where(k == below, 1 - w, 0.0) + torch.where(k == below + 1, w, 0.0)
    p = logits.softmax(-1)
    mean = (0.5 * (p - p.flip(-1)) * symexp(grid)).sum(-1) if scale == "symexp" else symexp((p * grid).sum(-1))
    return -(target * logits.log_softmax(-1)).sum(-1), mean


def close(a, b, bound=1e-12):
    assert (a - b).abs().max() <= bound * b.abs().max().clamp(min=1), (a - b).abs().max()


def main():
    v = Values(1)
    x = torch.cat([v.normal(200, scale=30), torch.tensor([0.0, 1.0, -1.0, 1e4, -1e4, 3e9, -3e9])])
    for bins, lo, hi in [(21, -5, 5), (21, -10, 10), (101, -10, 10), (255, -20, 20), (2, -1, 1)]:
        logits = v.normal(len(x), bins)
        for kind, scale in [(SymlogTwoHot, "symlog"), (SymexpTwoHot, "symexp")]:
            dist = kind(logits, lo, hi)
            nll, mean = prelude_twohot(logits, x, lo, hi, scale)
            # On the border of two bins either side may take all of it, up to rounding in symlog.
            close(dist.nll(x), nll, 1e-9)
            close(dist.mean(), mean, 1e-9)

    # The tanh-normal: log-density of the squashed value, by the change of variables at the value before the squash.
    pi = TanhNormal(v.normal(50, 4), -5, 2)
    u, before = pi.draw(v.normal(50, 2))
    e = (before - pi.mean) / pi.log_std.exp()
    normal = (-0.5 * e * e - pi.log_std - 0.9189385332046727).sum(-1)
    close(pi.logp_before(before), normal)
    close(pi.logp(before), normal - (2 * (math.log(2) - before - torch.nn.functional.softplus(-2 * before))).sum(-1))
    inner = before.abs().max(-1).values < 3
    close(pi.logp(before)[inner], (normal - torch.log(1 - u * u).sum(-1))[inner], 1e-9)

    # Percentiles, linear between neighbours.
    s = v.normal(45).sort().values
    at = 0.95 * 44
    close(quantile(s, 0.95), s[int(at)] + (at - int(at)) * (s[int(at) + 1] - s[int(at)]))

    # Adam and LaProp as optimizers.wm has them.
    p, g = {"w": v.normal(7)}, {"w": v.normal(7, scale=3)}
    slots, n = v.slots(p), 5
    new, state = adam_step(p, g, slots, n - 1, lr=0.1, eps=1e-5, clip=0.5)
    h = g["w"] * min(1, 0.5 / (g["w"].norm().item() + 1e-6))
    m, r = 0.9 * slots["m.w"] + 0.1 * h, 0.999 * slots["v.w"] + 0.001 * h * h
    close(new["w"], p["w"] - 0.1 * (m / (1 - 0.9**n)) / ((r / (1 - 0.999**n)).sqrt() + 1e-5))
    close(state["v.w"], r)
    new, state, _ = laprop_step(p, g, slots, n - 1, lr=0.1, warmup=10)
    h = g["w"] / max(1, g["w"].norm().item() / (0.3 * max(1e-3, p["w"].norm().item())))
    r = 0.999 * slots["v.w"] + 0.001 * h * h
    m = 0.9 * slots["m.w"] + 0.1 * h / ((r / (1 - 0.999**n)).sqrt() + 1e-20)
    close(new["w"], p["w"] - 0.1 * min(1, (n - 1) / 10) * m / (1 - 0.9**n))
    close(state["m.w"], m)
    print("the shared parts agree with the prelude's text")


if __name__ == "__main__":
    main()
