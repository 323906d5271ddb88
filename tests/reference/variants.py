"""Models that are no baselines (`variants/*.wm`), each made of things that go wrong easily: losses, gradients, values, one step.

    python tests/reference/variants.py target/debug/wmc

The program is asked for the shapes of the parameters (`wmc show --json`) and for nothing else.
"""
import json
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import distributions as D

from common import Stop, Values, check_differences, dropout, member, save, slow_step, symexp, symlog, under
from common import mlp as plain_mlp

HERE = pathlib.Path(__file__).parent
B, O, A = 3, 5, 2
tanh, softplus, sigmoid = torch.tanh, F.softplus, torch.sigmoid


def mlp(p, name, *parts, act=F.silu, **options):
    return plain_mlp(p, name, *parts, act=act, rms_eps=1e-5, **options)


def linear(p, path, x):
    return F.linear(x, p[f"{path}.weight"], p.get(f"{path}.bias"))


def sq(*parts):
    return sum((x * x).sum(-1) for x in parts)


def inner_grad(f, x):
    """The derivative of f at x along this one argument, to be differentiated again."""
    x = x * 1.0 if x.requires_grad else x.clone().requires_grad_()
    return torch.autograd.grad(f(x).sum(), x, create_graph=True)[0]


def where_mean(x, c):
    return (x * c).sum() / max(1, int(c.sum()))


def gru(p, name, x, carries):
    new = []
    for l, h in enumerate(carries):
        at = lambda which, y: linear(p, f"{name}.{l}.{which}", y)
        u = sigmoid(at("ux", x) + at("uh", h))
        x = u * h + (1 - u) * tanh(at("kx", x) + sigmoid(at("rx", x) + at("rh", h)) * at("kh", h))
        new.append(x)
    return x, new


def ssm(p, name, x, carries):
    y, new = linear(p, f"{name}.lift", x), []
    for l, h in enumerate(carries):
        at = lambda which, y: linear(p, f"{name}.{l}.{which}", y)
        norm = F.rms_norm(y, y.shape[-1:], p[f"{name}.{l}.norm.scale"], eps=1e-5)
        v, gate = at("v", norm), at("gate", norm)
        dt = softplus(at("dt", v))
        h = torch.exp(-dt * p[f"{name}.{l}.A_log"].exp()) * h + dt * v * at("B", v)
        new.append(h)
        y = y + at("out", (h * at("C", v) + p[f"{name}.{l}.skip"] * v) * F.silu(gate))
    return y, new


# ---- leapfrog -----------------------------------------------------------------------------------------------------------

def leapfrog(p, slow, d, draw, progress, sg):
    K, gamma, lam, dt = 3, 0.97, 0.9, 0.2
    T = d["obs"].shape[1]
    alpha = (0.1 + 0.4 * min(max((progress - 0.2) / 0.6, 0), 1)) * (1 - 0.5 * progress)
    energy = lambda q, m: mlp(p, "energy", q, m, act=softplus)[..., 0]

    def lstm(x, carry):
        h, c = carry
        gate = lambda n: linear(p, f"m.{n}x", x) + linear(p, f"m.{n}h", h)
        c = sigmoid(gate("f") + 1) * c + sigmoid(gate("i")) * tanh(gate("g"))
        return sigmoid(gate("o")) * tanh(c), c

    def step(z, a, m):
        q, mom = z[0], z[1]
        for _ in range(2):
            half = mom - 0.5 * dt * inner_grad(lambda x: energy(x, mom), q)
            q_new = q + dt * inner_grad(lambda x: energy(q, x), half)
            mom = half - 0.5 * dt * inner_grad(lambda x: energy(x, half), q_new)
            q = q_new
        L = mlp(p, "factor", q, m, act=tanh).reshape(*q.shape[:-1], 3, 3)
        L = torch.tril(L, -1) + torch.diag_embed(softplus(torch.diagonal(L, dim1=-2, dim2=-1)))
        Hp = inner_grad(lambda x: energy(q, x), mom)
        friction = (L @ L.transpose(-1, -2) @ Hp[..., None])[..., 0]
        G = mlp(p, "control", q, act=lambda x: F.gelu(x, approximate="tanh")).reshape(*q.shape[:-1], 3, A)
        push = (G @ a[..., None])[..., 0]
        return [z[0] + alpha * (q - z[0]), mom + push - friction, z[2] + mlp(p, "context", *z, a, m)], (Hp * friction).sum(-1)

    value = lambda p, z: mlp(p, "value", *z)
    bins = torch.linspace(-3, 3, 11)
    mean = lambda p, z: (value(p, z).softmax(-1) * bins).sum(-1)
    z = list(mlp(p, "encoder", symlog(d["obs"]), act=F.elu).split([3, 3, 4], -1))
    zs = [sg(x) for x in z]
    start = (torch.zeros(B, 6), 0.1 * torch.ones(B, 6))
    carry, outs = [start], []
    for t in range(T - 1):
        reset = d["first"][:, t, None]
        past = [torch.where(reset, s, c) for s, c in zip(start, carry[-1])]
        carry.append(lstm(torch.cat([*[x[:, t] for x in z], d["a"][:, t]], -1), past))
        outs.append(carry[-1][0])
    m = torch.stack(outs, 1)
    now = [x[:, :-1] for x in z]
    s, lost = step(now, d["a"], m)

    roll = 0
    for i in range(T - K):
        y, c = [x[:, i] for x in z], carry[i]
        for k in range(K):
            c = lstm(torch.cat([*y, d["a"][:, i + k]], -1), c)
            y, _ = step(y, d["a"][:, i + k], c[0])
            roll = roll + gamma ** (k + 1) * sq(*[a - b[:, i + k + 1] for a, b in zip(y, zs)])
    v = mean(slow, zs)
    ret = [v[:, -1]]
    for t in reversed(range(T - 1)):
        discount = torch.where(d["terminal"][:, t], 0.0, gamma)
        ret.insert(0, d["r"][:, t] + discount * torch.where(d["first"][:, t + 1], v[:, t + 1], (1 - lam) * v[:, t + 1] + lam * ret[0]))
    ret = torch.stack(ret[:-1], 1)
    at = (sg(ret).clamp(-3, 3) + 3) / 0.6
    below = at.floor().clamp(0, 9).long()
    logp = value(p, now).log_softmax(-1)
    pick = lambda i: logp.gather(-1, i[..., None])[..., 0]
    q, c = z[0].reshape(-1, 3), z[2].reshape(-1, 4)
    cov = (q - q.mean(0)).T @ (c - c.mean(0)) / (len(q) - 1)
    losses = {
        "dyn": where_mean(sq(*[a - b[:, 1:] for a, b in zip(s, zs)]), ~d["first"][:, 1:]),
        "roll": roll.mean() / K / (T - K),
        "value": -((1 - at + below) * pick(below) + (at - below) * pick(below + 1)).mean(),
        "lost": lost.mean(),
        "gp": sq(inner_grad(lambda x: mean(p, [x, z[1], z[2]]), z[0])).mean(),
        "decouple": (cov * cov).sum(),
        "rew": ((mlp(p, "rew", *s, d["a"])[..., 0] - symlog(d["r"])) ** 2).mean(),
    }
    weights = {"dyn": 1, "roll": 0.5 * min(max((progress - 0.1) / 0.5, 0), 1), "value": 0.5, "lost": 0.1, "gp": 0.01, "decouple": 0.1, "rew": 1}
    return losses, weights, {"z.q": z[0], "m.out": m, "ret": ret, "s.next.p": s[1]}, {}


def leapfrog_step(p, grads, progress):
    leaves = {k: v.detach().clone().requires_grad_() for k, v in p.items()}
    for k, v in leaves.items():
        v.grad = grads[k].clone()
    rate = 1e-3 + (1e-4 - 1e-3) * progress
    groups = [{"params": [v], "lr": rate * (0.3 if k.startswith("encoder.") else 1)} for k, v in leaves.items()]
    torch.nn.utils.clip_grad_norm_(leaves.values(), 0.5)
    torch.optim.AdamW(groups, weight_decay=0.02).step()
    return {k: v.detach() for k, v in leaves.items()}


# ---- a recurrent state-space model --------------------------------------------------------------------------------------------

def rssm(p, slow, d, draw, progress, sg):
    H, gamma, lam, S = 4, 0.95, 0.9, 3
    T = d["obs"].shape[1]
    g = tanh(mlp(p, "embed", d["obs"], act=F.relu))
    h1, h2, e1, e2 = [torch.zeros(B, 4)], [torch.zeros(B, 3)] * 2, [], []
    for t in range(T):
        out, h1 = gru(p, "e1", g[:, t], [torch.where(d["first"][:, t, None], 0.0, h1[0])])
        e1.append(out)
        if t < T - 1:
            out, h2 = ssm(p, "e2", torch.cat([g[:, t], d["a"][:, t]], -1), h2)
            e2.append(out)
    e1, e2 = torch.stack(e1, 1), torch.stack(e2, 1)
    mix = lambda h, s, a, w: mlp(p, "mix", h, s, a, w, act=F.mish)
    gauss = lambda x: D.Normal(x[..., :S], softplus(x[..., S:]) + 0.1)
    hs, po, pr, ss = [], [], [], []
    h, s = torch.zeros(B, 5), torch.zeros(B, S)
    for t in range(T):
        past = [h, s, d["a"][:, t - 1] if t else torch.zeros(B, A)]
        h = mix(*[torch.where(d["first"][:, t, None], 0.0, x) for x in past], sg(g[:, t]))
        po.append(mlp(p, "post", h, g[:, t]))
        pr.append(mlp(p, "prior", h))
        q = gauss(po[-1])
        s = q.mean + q.stddev * draw["s"][:, t]
        hs.append(h), ss.append(s)
    h, s, po, pr = (torch.stack(x, 1) for x in (hs, ss, po, pr))
    bk, now = [], torch.zeros(B, 5)
    for t in reversed(range(T)):
        now = torch.where(d["first"][:, t, None], 0.0, tanh(mlp(p, "back", now, g[:, t])))
        bk.insert(0, now)
    bk = torch.stack(bk, 1)
    kl = lambda a, b: D.kl_divergence(gauss(a), gauss(b)).sum(-1).clamp(min=0.1)
    bins = symexp(torch.linspace(-4, 4, 9))

    def nll(logits, x):
        x = x.clamp(bins[0], bins[-1])
        j = (torch.searchsorted(bins, x.contiguous(), right=True) - 1).clamp(0, 7)
        w = (x - bins[j]) / (bins[j + 1] - bins[j])
        logp = logits.log_softmax(-1)
        return -((1 - w) * logp.gather(-1, j[..., None])[..., 0] + w * logp.gather(-1, j[..., None] + 1)[..., 0])

    moved = ~d["first"][:, 1:]
    alive = F.binary_cross_entropy_with_logits(mlp(p, "cont", h, s)[:, 1:, 0], (~d["terminal"]).double(), reduction="none")
    xh, xs, logps = [sg(h)], [sg(s)], []
    for k in range(H):
        mean, raw = mlp(p, "actor", xh[k], xs[k]).chunk(2, -1)
        pi = D.Normal(mean, (-3 + 2 * (tanh(raw) + 1)).exp())
        before = mean + pi.stddev * draw["u"][:, :, k]
        u = tanh(before)
        logps.append((pi.log_prob(before) - torch.log(1 - u * u)).sum(-1))
        xh.append(mix(xh[k], xs[k], u, torch.zeros(B, T, 4)))
        q = gauss(mlp(p, "prior", xh[-1]))
        xs.append(q.mean + q.stddev * draw["xs"][:, :, k])
    c = [gamma * sigmoid(mlp(p, "cont", *x)[..., 0]) for x in zip(xh, xs)]
    val = [mlp(slow, "critic", *x)[..., 0] for x in zip(xh, xs)]
    rew = [(mlp(p, "rew", *x).softmax(-1) * bins).sum(-1) for x in zip(xh, xs)]
    ret, w = [val[H]], [torch.ones(B, T)]
    for k in reversed(range(H)):
        ret.insert(0, rew[k + 1] + c[k + 1] * ((1 - lam) * val[k + 1] + lam * ret[0]))
    for k in range(1, H):
        w.append(w[-1] * c[k])
    ret, w, logp = torch.stack(ret[:-1], -1), sg(torch.stack(w, -1)), torch.stack(logps, -1)
    spread = torch.quantile(ret.flatten(), 0.9) - torch.quantile(ret.flatten(), 0.1)
    R = sg(1.25 + 0.1 * (spread.clamp(min=1) - 1.25))
    N = sg(0.25 + 0.2 * (ret.mean() - 0.25))
    critic = torch.stack([mlp(p, "critic", sg(a), sg(b))[..., 0] for a, b in zip(xh[:H], xs[:H])], -1)
    losses = {
        "kl": (0.8 * kl(sg(po), pr) + 0.2 * kl(po, sg(pr))).mean(),
        "rec": (sq(mlp(p, "dec", h, s) - symlog(d["obs"])) + 0.1 * sq(bk - h)).mean(),
        "rew": where_mean(nll(mlp(p, "rew", h, s)[:, 1:], d["r"]), moved),
        "cont": where_mean(alive, moved),
        "mem": (sq(e1[:, :-1]) + sq(e2 - 1)).mean(),
        "actor": (-w * (ret - N) / R + 0.01 * logp).mean(),
        "critic": (w * (critic - sg(ret)) ** 2).mean(),
    }
    values = {"e1.out": e1, "e2.out": e2, "h": h, "s": s, "bk": bk, "ret": ret}
    return losses, dict.fromkeys(losses, 1) | {"mem": 0.1}, values, {"next.running.R": R, "next.running.N": N}


# ---- ensembles --------------------------------------------------------------------------------------------------------------

def ensembles(p, slow, d, draw, progress, sg):
    N, E, V, gamma = 3, 4, 3, 0.9
    T = d["obs"].shape[1]
    noise, weight = 0.5 - 0.4 * min(progress / 0.5, 1), progress**2
    simnorm = lambda x: x.reshape(*x.shape[:-1], 2, 3).softmax(-1).reshape(x.shape)
    encode = lambda p, o: simnorm(mlp(p, "enc", o, act=F.mish))
    policy = lambda p, z: tanh(mlp(p, "pi", z, act=F.relu))
    dyn = lambda z, a, e: mlp(member(p, "dyn", e), "dyn", z, a).chunk(2, -1)

    def q(p, z, a, e, u=None):
        return mlp(member(p, "q", e), "q", z, a, act=F.relu, dropped=None if u is None else dropout(u, 0.2))[..., 0]

    z, zs, a = encode(p, d["obs"]), encode(slow, d["obs"]), d["a"]
    b = (policy(slow, zs) + (noise * draw["b"]).clamp(-0.5, 0.5)).clamp(-1, 1)
    boot = torch.stack([q(slow, zs, b, e) for e in draw["pick"].tolist()]).min(0).values
    target = []
    for i in range(T - N):
        alive, total = torch.ones(B), 0
        for k in range(N):
            total = total + gamma**k * alive * d["r"][:, i + k]
            alive = alive * (~d["terminal"][:, i + k]).double()
        target.append(total + gamma**N * alive * boot[:, i + N])
    target = sg(torch.stack(target, 1))
    now = z[:, :-1]
    outs = [dyn(now, a, e) for e in range(E)]
    mean = sum(m for m, _ in outs) / E
    dis = sum(sq(m - mean) for m, _ in outs) / E
    var = [softplus(raw) + 0.1 for _, raw in outs]
    pull = inner_grad(lambda x: q(p, now, x, 0, draw["gp"][:, :, 0]) + q(p, now, x, 1, draw["gp.1"][:, :, 1]), a)
    proj, projs = mlp(p, "proj", z), mlp(p, "proj", zs)
    X, Y = proj.reshape(-1, 5), projs.reshape(-1, 5)
    cov = (X - X.mean(0)).T @ (Y - Y.mean(0)) / (len(X) - 1)
    frozen = {k: x.detach() for k, x in p.items()}
    u = policy(p, sg(z))
    losses = {
        "dyn": sum(((m - sg(z[:, 1:])) ** 2 / s + s.log()).sum(-1) for (m, _), s in zip(outs, var)).mean() / E,
        "crit": sum((q(p, z[:, :T - N], a[:, :T - N], e, draw["crit"][:, :, e, e]) - target) ** 2 for e in range(V)).mean(),
        "gp": ((pull.norm(dim=-1) - 1) ** 2).mean(),
        "cc": ((cov**2).sum() / 10 + 0.1 * proj.logsumexp(-1) + (proj.sort(-1).values * torch.arange(5)).sum(-1)).mean(),
        "dis": dis.mean(),
        "actor": (-sum(q(frozen, sg(z), u, e, draw["actor"][:, :, e, e]) for e in range(V)) / V + 0.01 * u.max(-1).values
                  + (u + 2).prod(-1)).mean(),
    }
    return losses, {"dyn": 1, "crit": 1, "gp": 0.1, "cc": weight, "dis": -0.01, "actor": 1}, {"target": target, "dis": dis}, {}


def ensembles_act(p, obs, last, draw):
    """Path-integral control: 8 normal candidates and 3 of the policy's, 4 elites, 2 iterations."""
    E, V, gamma, H = 4, 3, 0.9, 3
    x = mlp(p, "enc", obs, act=F.mish)
    z = x.reshape(B, 2, 3).softmax(-1).reshape(B, 6)
    step = lambda x, u: sum(mlp(member(p, "dyn", e), "dyn", x, u).chunk(2, -1)[0] for e in range(E)) / E
    score_of = lambda x, u: torch.stack([mlp(member(p, "q", e), "q", x, u, act=F.relu)[..., 0] for e in range(V)]).min(0).values
    x, own = z, []
    for k in range(H):
        own.append(tanh(mlp(p, "pi", x, act=F.relu)))
        x = step(x, own[-1])
    own = torch.stack(own, 1)[:, :, None].expand(B, H, 3, A)
    mean, std = torch.cat([last[:, 1:], torch.zeros(B, 1, A)], 1), torch.ones(B, H, A)
    for i in range(2):
        drawn = (mean[:, :, None] + std[:, :, None] * draw["plan.noise"][:, i].transpose(1, 2)).clamp(-1, 1)
        pool = torch.cat([own, drawn], 2)
        x, score = z[:, None].expand(B, 11, 6), 0
        for k in range(H):
            score = score + gamma**k * score_of(x, pool[:, k])
            x = step(x, pool[:, k])
        best = score.topk(4, 1)
        w = (best.values / 0.7).softmax(1)[:, None, :, None]
        elite = pool.gather(2, best.indices[:, None, :, None].expand(B, H, 4, A))
        mean = (elite * w).sum(2)
        std = ((elite - mean[:, :, None]) ** 2 * w).sum(2).sqrt().clamp(0.1, 1.5)
    return {"action": (mean[:, 0] + std[:, 0] * draw["act.train"]).clamp(-1, 1), "next.carry.plan.last": mean}


# ---- ranges -----------------------------------------------------------------------------------------------------------------

def ranges(p, slow, d, draw, progress, sg):
    T, a = d["obs"].shape[1], d["a"]
    e = tanh(mlp(p, "enc", d["obs"]))
    f, g, h = (lambda *x, n=n: tanh(mlp(p, n, *x)) for n in "fgh")
    x, y = [e[:, 0], g(e[:, 1], a[:, 0])], [h(e[:, 0])]
    y.append(f(x[1], y[0]))
    w, ds, cs, last = [e[:, 0]], [], [], torch.zeros(B, 3)
    for t in range(2, T):
        x.append(g(y[t - 1], a[:, t - 1]) + 0.1 * x[t - 2])
        y.append(f(x[t], y[t - 1]))
    for t in range(1, T):
        w.append(f(w[-1], e[:, t]) if t < 3 else g(w[-1], a[:, t - 1]))
    for t in range(T):
        c = [f(last, e[:, t])]
        for k in range(3):
            c.append(0.5 * c[k] + h(c[k]))
        last = c[3] + 0.1 * c[1]
        ds.append(last), cs.append(torch.stack(c, 1))
    y3 = [e[:, 0]]
    for t in range(1, T):
        y3.append(0.5 * y3[-1] + e[:, t] if t < 3 else tanh(y3[2]) + e[:, 3] if t == 3 else 0.3 * y3[-1] - y3[t - 3])
    b = [e[:, T - 1]]
    for t in reversed(range(T - 1)):
        b.insert(0, 0.5 * b[0] + e[:, t] if t > 2 else tanh(b[0]) * b[1])
    n, u, v = [e[:, 0]], [e[:, 0]], [e[:, 1]]
    for t in range(1, T):
        n.append(n[-1] + 0.1 * draw["n"][:, t - 1] if t < 3 else 0.5 * n[-1] + softplus(e[:, t]) * draw["n.1"][:, t - 3])
        u.append(0.5 * u[-1] + 0.1 * v[-1] + 0.3 * draw["u"][:, t - 1])
        v.append(tanh(u[1]) if t == 1 else u[t] * v[t - 2])
    x, y, w, ds, y3, b, n, u, v, c = (torch.stack(s, 1) for s in (x, y, w, ds, y3, b, n, u, v, cs))
    losses = {
        "one": sq(x - y).mean(), "two": sq(w).mean(), "three": sq(ds - e).mean(), "four": (sq(y3) + sq(b)).mean(),
        "five": sq(n - 1).mean(), "six": sq(u - v).mean(),
    }
    return losses, dict.fromkeys(losses, 1), {"x": x, "y": y, "w": w, "c": c, "d": ds, "y3": y3, "b": b, "n": n, "u": u, "v": v}, {}


# ---- orders -----------------------------------------------------------------------------------------------------------------

def orders(p, slow, d, draw, progress, sg):
    T, gamma, a, r = d["obs"].shape[1], 0.9, d["a"], d["r"]
    z = mlp(p, "enc", d["obs"])
    rew = lambda x: mlp(p, "rew", x)[..., 0]
    s = z[:, :-1] + mlp(p, "dyn", z[:, :-1], a)
    mean, raw = mlp(p, "act0", sg(z[:, :-1])).chunk(2, -1)
    pi = D.Normal(mean, (-5 + 3.5 * (tanh(raw) + 1)).exp())
    before = torch.atanh(a.clamp(-0.999999, 0.999999))
    bc = -(pi.log_prob(before) - torch.log(1 - tanh(before) ** 2)).sum(-1)

    def third(x, v):
        x = x * 1.0
        g1 = torch.autograd.grad(mlp(p, "en", x, v, act=softplus).sum(), x, create_graph=True)[0]
        g2 = torch.autograd.grad((g1 * v).sum(), x, create_graph=True)[0]
        return g1, g2, torch.autograd.grad((g2 * v).sum(), x, create_graph=True)[0]

    th, q = third(z, sg(z) + 1), [z[:, 0]]
    for t in range(T - 1):
        q.append(q[t] + 0.1 * third(q[t], a[:, t, :1].expand(B, 3))[1])
    q = torch.stack(q, 1)
    score = (linear(p, "wq.0", z) @ linear(p, "wk.0", z).transpose(-1, -2) / 2)
    score = score.masked_fill(torch.triu(torch.ones(T, T), 1).bool(), -1e9)
    att = score.softmax(-1) @ linear(p, "wv.0", z)
    rz, bias, temp = rew(z), p["bias"], p["temp"]
    cum, total, back, rest = [], torch.zeros(B), [], rew(sg(z[:, -1]))
    for t in range(T - 1):
        total = torch.where(d["first"][:, t], 0.0, total) + r[:, t]
        cum.append(total)
    for t in reversed(range(T - 1)):
        rest = torch.where(d["first"][:, t + 1], 0.0, r[:, t] + gamma * rest)
        back.insert(0, rest)
    cum, back = torch.stack(cum, 1), torch.stack(back, 1)
    tri = torch.stack([z[:, :T - 2], z[:, 2:]], 2)
    w2 = torch.stack([rew(z[:, i + 3]) + r[:, i:i + 3].sum(1) for i in range(T - 3)], 1)
    sign = torch.tensor([1.0, -1.0]).repeat(T // 2)
    dev = torch.sqrt(((z - z.mean((0, 1))) ** 2).mean((0, 1)) + 1e-4)
    losses = {
        "dyn": sq(s - sg(z[:, 1:])).mean(), "rew": ((rew(s) - r) ** 2).mean(), "bc": bc.mean(),
        "th": sq(*th).mean(), "qq": sq(q).mean(), "att": sq(att - z).mean(),
        "reg": sq(bias) + temp**2, "reg2": temp**3 * float((r > 0).any()), "reg3": (sign * rz).mean() + temp / T,
        "stat": sq(z.mean((0, 1)) - bias) + z[..., 0].max(0).values.mean() + z[..., 1].flatten().logsumexp(0),
        "spread": F.relu(1 - dev).sum(), "std": (((rz - rz.mean()) / (rz.std() + 1e-8)) ** 3).mean(),
        "med": torch.quantile(rz.flatten(), 0.5) + rz.sort(0).values[1].mean(),
        "pair": ((rew(z[:, 0::2]) - (d["obs"][:, 0::2] * d["obs"][:, 1::2]).sum(-1)) ** 2).mean(),
        "tri": sq(tri - tri[:, :, :1]).mean(), "cum": ((rz[:, :-1] - cum) ** 2).mean(), "back": ((rz[:, :-1] - back) ** 2).mean(),
        "w2": (w2**2).mean(),
    }
    weights = dict.fromkeys(losses, 1) | {"bc": 0.1, "reg": 0.1, "reg2": 2 * (0.5 + progress)}
    return losses, weights, {"th.g3": th[2], "qq": q, "att": att, "cum": cum, "back": back}, {}


# ---- a learned mass, two memories, discrete latents --------------------------------------------------------------------------

def mass(p, slow, d, draw, progress, sg):
    K, gamma, dt, S, N, E = 2, 0.95, 0.9, 2, 4, 3
    T = d["obs"].shape[1]
    flat = lambda path, x: F.linear(x, p[f"{path}.weight"].reshape(-1, x.shape[-1]), p[f"{path}.bias"].reshape(-1) if f"{path}.bias" in p else None)
    pot = lambda q, w: mlp(p, "pot", q, w, act=softplus)[..., 0]
    inert = p["log_mass"].exp() + 0.1

    def lstm(x, carry):
        h, c = carry
        g = (flat("m.from_x", x) + flat("m.from_h", h)).unflatten(-1, (4, 4))
        c = sigmoid(g[..., 1, :] + 1) * c + sigmoid(g[..., 0, :]) * tanh(g[..., 3, :])
        return sigmoid(g[..., 2, :]) * tanh(c), c

    def mamba2(x, h):
        y = flat("d.lift", x)
        norm = F.rms_norm(y, y.shape[-1:], p["d.0.norm.scale"], eps=1e-5)
        v, dts = flat("d.0.v", norm).unflatten(-1, (2, 2)), softplus(flat("d.0.dt", norm))
        decay = torch.exp(-dts * p["d.0.A_log"].exp())
        h = decay[..., None, None] * h + (dts[..., None] * v)[..., None] * flat("d.0.B", norm)[..., None, None, :]
        read = (h * flat("d.0.C", norm)[..., None, None, :]).sum(-1) + p["d.0.skip"][..., None] * v
        return y + flat("d.0.out", read.flatten(-2) * F.silu(flat("d.0.gate", norm))), h

    def verlet(q, mom, w):
        half = mom - 0.5 * dt * inner_grad(lambda x: pot(x, w), q)
        q = q + dt * half / inert
        return q, half - 0.5 * dt * inner_grad(lambda x: pot(x, w), q)

    def onehot(logits):
        probs = 0.95 * logits.unflatten(-1, (S, N)).softmax(-1) + 0.05 / N
        return probs, probs.log()

    def head(name, x, norm):
        x = flat(f"{name}.0", x)
        x = F.layer_norm(x, x.shape[-1:], p[f"{name}.0.scale"], p[f"{name}.0.shift"], 1e-5) if norm else x
        return onehot(flat(f"{name}.1", F.relu(x)))

    def critic(p, e, *x):
        x = F.linear(torch.cat(x, -1), p["q.0.weight"][e], p["q.0.bias"][e])
        x = F.silu(F.rms_norm(x, x.shape[-1:], p["q.0.scale"][e], 1e-5))
        return F.linear(x, p["q.1.weight"][e].reshape(1, -1), p["q.1.bias"][e].reshape(1))[..., 0]

    z = mlp(p, "enc", d["obs"], act=tanh)
    # A tensor of its own for each step: the derivative by z[t] takes in what a memory makes of it at t, and at no other step.
    zq, zp = [z[:, t, :3] * 1.0 for t in range(T)], [z[:, t, 3:] * 1.0 for t in range(T)]
    zqs, zps = [sg(x) for x in zq], [sg(x) for x in zp]
    start = (torch.zeros(B, 4), 0.2 * torch.ones(B, 4)), torch.zeros(B, 2, 2, 3)
    (carry, state), w = start, []
    for t in range(T - 1):
        first = d["first"][:, t]
        carry = [torch.where(first[:, None], s, c) for s, c in zip(start[0], carry)]
        carry = lstm(torch.cat([zq[t], zp[t], d["a"][:, t]], -1), carry)
        out, state = mamba2(carry[0], torch.where(first[:, None, None, None], 0.0, state))
        w.append(out)
    post = [head("post", torch.cat([w[t], d["obs"][:, t]], -1), True) for t in range(T - 1)]
    prior = [head("prior", w[t], False) for t in range(T - 1)]
    kl = lambda a, b: (a[0] * (a[1] - b[1])).sum((-1, -2)).clamp(min=0.2)
    still = lambda dist: (sg(dist[0]), sg(dist[1]))
    picked = [(po[1] - torch.log(-torch.log(draw["s"][:, t]))).argmax(-1) for t, po in enumerate(post)]
    s = [F.one_hot(i, N) + po[0] - sg(po[0]) for i, po in zip(picked, post)]
    x = [verlet(zq[t], zp[t], w[t]) for t in range(T - 1)]
    n = [(q, mom + mlp(p, "push", q, mom, d["a"][:, t], s[t].flatten(-2))) for t, (q, mom) in enumerate(x)]
    ns = [(sg(q), sg(mom)) for q, mom in n]
    ret, last = [], torch.zeros(B)
    for t in reversed(range(T - 1)):
        boot = torch.stack([critic(slow, int(e), *ns[t], d["a"][:, t] * (e + 1)) for e in draw["pick"]]).min(0).values
        last = d["r"][:, t] + gamma * (0.5 * (d["r"][:, t] + gamma * boot) + 0.5 * last)
        ret.insert(0, sg(last))
    roll = []
    for i in range(T - K - 1):
        q, mom, total = zq[i], zp[i], 0
        for k in range(K):
            q, mom = verlet(q, mom, w[i + k])
            total = total + gamma ** (k + 1) * (sq(q - zqs[i + k + 1]) + mom[:, 0].abs())
        roll.append(total)
    curv = []
    for t in range(T - 1):
        force = torch.autograd.grad(pot(zq[t], w[t]).sum(), zq[t], create_graph=True)[0]
        curv.append(sq(torch.autograd.grad(sq(force).sum(), zq[t], create_graph=True)[0]))
    total = lambda q, mom, w: pot(q, w) + 0.5 * (mom**2 / inert).sum(-1)
    over_time = lambda f: torch.stack([f(t) for t in range(T - 1)], 1)
    losses = {
        "dyn": where_mean(over_time(lambda t: sq(n[t][0] - zqs[t + 1]) + 0.5 * sq(n[t][1] - zps[t + 1])), ~d["first"][:, 1:]),
        "roll": torch.stack(roll).mean(),
        "kl": over_time(lambda t: kl(still(post[t]), prior[t]) + 0.1 * kl(post[t], still(prior[t]))).mean(),
        "crit": over_time(lambda t: sum((critic(p, e, zq[t], zp[t], d["a"][:, t] * (e + 1) / 3) - ret[t]) ** 2 for e in range(E)) / E).mean(),
        "curv": torch.stack(curv).mean(),
        "ham": over_time(lambda t: (total(*x[t], w[t]) - total(zq[t], zp[t], w[t])) ** 2).mean(),
    }
    weights = {"dyn": 1, "roll": 0.7 * min(max((progress - 0.1) / 0.4, 0), 1), "kl": 0.3, "crit": 1, "curv": 0.01, "ham": 0.1}
    return losses, weights, {"d.out": torch.stack(w, 1), "s": torch.stack(s, 1), "ret": torch.stack(ret, 1)}, {}


# ---- Mamba and Mamba-2 -------------------------------------------------------------------------------------------------------

def over_time(p, path, x):
    """A depthwise causal convolution of whole sequences: [B, T, channels]."""
    weight, bias = p[f"{path}.weight"], p[f"{path}.bias"]
    padded = F.pad(x.transpose(1, 2), (weight.shape[-1] - 1, 0))
    return F.conv1d(padded, weight[:, None], bias, groups=len(weight)).transpose(1, 2)


def rms(p, path, x):
    return F.rms_norm(x, x.shape[-1:], p[f"{path}.scale"], eps=1e-5)


def mamba(p, name, layers, x):
    """Gu, Dao 2023: the block of `Mamba`, in the plain form of its recurrence, with pre-norms and the final norm."""
    y = linear(p, f"{name}.lift", x)
    for l in range(layers):
        at = lambda which, y: linear(p, f"{name}.{l}.{which}", y)
        norm = rms(p, f"{name}.{l}.norm", y)
        u = F.silu(over_time(p, f"{name}.{l}.conv", at("v", norm)))
        dt = softplus(at("dt", at("low", u)))
        decay, b, c = -p[f"{name}.{l}.A_log"].exp(), at("B", u), at("C", u)
        h, read = torch.zeros(*u.shape[::2], b.shape[-1]), []
        for t in range(u.shape[1]):
            h = torch.exp(dt[:, t, :, None] * decay) * h + (dt[:, t] * u[:, t])[..., None] * b[:, t, None, :]
            read.append((h * c[:, t, None, :]).sum(-1))
        read = torch.stack(read, 1) + p[f"{name}.{l}.skip"] * u
        y = y + (read * F.silu(at("gate", norm))) @ p[f"{name}.{l}.out"].T
    return rms(p, f"{name}.norm", y)


def mamba2(p, name, layers, channels, x):
    """Dao, Gu 2024: one group, the norm behind the gate."""
    y = linear(p, f"{name}.lift", x)
    for l in range(layers):
        at = lambda which, y: linear(p, f"{name}.{l}.{which}", y)
        norm = rms(p, f"{name}.{l}.norm", y)
        wide = [F.silu(over_time(p, f"{name}.{l}.conv_{k}", at(k, norm))) for k in ("v", "B", "C")]
        u, b, c = wide[0].unflatten(-1, (-1, channels)), wide[1], wide[2]
        dt = softplus(at("dt", norm) + p[f"{name}.{l}.start"])
        decay = -p[f"{name}.{l}.A_log"].exp()
        # The closed form instead of the recurrence: every step reads all steps before it, faded by the decays between.
        total = (dt * decay).cumsum(1)
        fade = torch.exp(total[:, :, None] - total[:, None])
        fade = fade * torch.ones(x.shape[1], x.shape[1]).tril()[None, :, :, None]
        read = torch.einsum("btsg,btn,bsn,bsg,bsgp->btgp", fade, c, b, dt, u)
        read = (read + p[f"{name}.{l}.skip"][:, None] * u).flatten(-2)
        y = y + rms(p, f"{name}.{l}.tail", read * F.silu(at("gate", norm))) @ p[f"{name}.{l}.out"].T
    return rms(p, f"{name}.norm", y)


def mambas(p, slow, d, draw, progress, sg):
    obs, a = d["obs"], d["a"]
    m = mamba(p, "m", 2, torch.cat([obs[:, :-1], a], -1))
    w = mamba2(p, "d", 2, 4, obs)
    out = mlp(p, "out", m, w[:, :-1], act=tanh)
    losses = {"next": sq(out - obs[:, 1:]).mean(), "size": (sq(m) + sq(w[:, :-1])).mean()}
    return losses, {"next": 1, "size": 0.1}, {"m.out": m, "d.out": w}, {}


# ---- samples against each other ----------------------------------------------------------------------------------------------

def contrast(p, slow, d, draw, progress, sg):
    T, temp = d["obs"].shape[1], p["temp"].exp()
    z = mlp(p, "enc", d["obs"])
    s = z[:, :-1] + mlp(p, "dyn", z[:, :-1], d["a"])
    key, q = mlp(p, "proj", mlp(slow, "enc", d["obs"])[:, 1:]), mlp(p, "proj", s)
    own, logit = (key * q).sum(-1), torch.einsum("ctj,btj->btc", key, q)
    every = torch.einsum("cuj,btj->btcu", q, key).flatten(2)
    near = torch.einsum("btc,ctk->btk", logit.softmax(-1), s)
    by_size = lambda x: x.flatten(0, 1).sort(0).values
    apart = sq(z[:, :-1].transpose(0, 1)[None] - s[:, :, None])
    h = [torch.full((B, 3), 0.1)]
    for t in range(T):
        h.append(tanh(z[:, t] + (h[t] @ h[t].T).softmax(-1) @ h[t]))
    h = torch.stack(h[1:], 1)
    pull = inner_grad(lambda x: sq(x).logsumexp(0), z)
    losses = {
        "nce": ((temp * logit).logsumexp(-1) - temp * own).mean(), "back": (every.logsumexp(-1) - own).mean(),
        "near": sq(near - z[:, :-1]).mean(), "swd": sq(by_size(z[:, :-1]) - by_size(s)).sum(),
        "mmd": torch.exp(-apart).mean(), "h": sq(h).mean(), "pull": sq(pull).mean(),
    }
    weights = {"nce": 1, "back": 0.5, "near": 0.3, "swd": 0.2, "mmd": 0.1, "h": 0.5, "pull": 0.2}
    return losses, weights, {"logit": logit, "near": near, "h": h, "pull": pull}, {}


# ---- the cases ----------------------------------------------------------------------------------------------------------------

def described(program, name):
    command = [program, "show", HERE / f"variants/{name}.wm", "--dim", f"O={O},A={A}", "--params", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["models"][0]


CASES = {
    # oracle, T, progress, optimisers by the start of their parameters' paths, slow copies, draws, running values
    "leapfrog": (leapfrog, 6, 0.375, {"main": ""}, ("value",), lambda v, T: {}, {}),
    "rssm": (rssm, 7, 0.0, {"main": "", "ac": ("actor.", "critic.")}, ("critic",),
             lambda v, T: {"s": v.normal(B, T, 3), "u": v.normal(B, T, 4, A), "xs": v.normal(B, T, 4, 3)}, {"R": 1.25, "N": 0.25}),
    "ensembles": (ensembles, 5, 0.25, {"world": "", "actor": ("pi.",)}, ("q", "pi", "enc"), lambda v, T: {
        "pick": torch.tensor([2, 0]), "b": v.normal(B, T, A), "crit": v.uniform(B, 2, 3, 3, 6), "gp": v.uniform(B, 4, 3, 6),
        "gp.1": v.uniform(B, 4, 3, 6), "actor": v.uniform(B, T, 3, 3, 6)}, {}),
    "ranges": (ranges, 7, 0.0, {"main": ""}, (), lambda v, T: {
        "n": v.normal(B, 2, 3), "n.1": v.normal(B, T - 3, 3), "u": v.normal(B, T - 1, 3)}, {}),
    "orders": (orders, 6, 0.25, {"main": ""}, (), lambda v, T: {}, {}),
    "mass": (mass, 6, 0.25, {"main": ""}, ("q",), lambda v, T: {"s": v.open_unit(B, T - 1, 2, 4), "pick": v.subset(3, 2)}, {}),
    "contrast": (contrast, 5, 0.25, {"main": ""}, ("enc",), lambda v, T: {}, {}),
    "mambas": (mambas, 8, 0.25, {"main": ""}, (), lambda v, T: {}, {}),
}


def values_of(v, model, T):
    """Parameters of a size that keeps every unit alive, and data with episodes that end inside a segment."""
    p = {}
    for x in model["params"]:
        shape = [a["size"] for a in x["axes"]]
        fan = shape[-1] if x["path"].endswith("weight") else 4
        p[x["path"]] = v.normal(*shape, scale=fan**-0.5, mean=1.0 if x["path"].endswith("scale") else 0.0)
    d = {}
    for x in model["inputs"]:
        shape = [B, T - 1 if x["outcome"] else T] + [a["size"] for a in x["axes"]]
        flags = lambda: torch.from_numpy(v.rng.random(tuple(shape)) < 0.25)
        d[x["name"]] = flags() if x["dtype"] == "bool" else v.uniform(*shape, low=-1, high=1) if x["name"] == "a" else v.normal(*shape)
    return p, d


def case(program, name, seed):
    oracle, T, progress, optimizers, slow_names, draws, running = CASES[name]
    v = Values(seed)
    p, d = values_of(v, described(program, name), T)
    slow = v.nearby({k: x for k, x in p.items() if k.split(".")[0] in slow_names})
    draw = draws(v, T)
    for x in p.values():
        x.requires_grad_()
    sg = Stop()
    losses, weights, values, more = oracle(p, slow, d, draw, progress, sg)
    out, grads = {f"loss.{k}": x for k, x in losses.items()}, {}
    # Losses `for` an optimiser of their own: those of `actor`, in `ensembles`.
    own = lambda o: {k for k in losses if name != "ensembles" or (k == "actor") == (o == "actor")}
    special = tuple(x for xs in optimizers.values() if xs for x in xs)
    for o, starts in optimizers.items():
        mine = {k: x for k, x in p.items() if (k.startswith(starts) if starts else not k.startswith(special or ("no",)))}
        objective = sum(weights[k] * losses[k] for k in own(o))
        out[f"objective.{o}"] = objective
        found = torch.autograd.grad(objective, list(mine.values()), retain_graph=True, allow_unused=True)
        found = {k: torch.zeros_like(mine[k]) if g is None else g for k, g in zip(mine, found)}
        grads |= found

        def again(moved):
            sg.replay()
            now = oracle({**p, **moved}, slow, d, draw, progress, sg)[0]
            return sum(weights[k] * now[k] for k in own(o))
        print(f"  differences: {o}", check_differences(again, mine, found, entries=25, bound=1e-5))
    out |= under("grad", grads) | under("value", values) | more
    if name == "leapfrog":
        after = leapfrog_step(p, grads, progress)
        out |= under("next.param", after) | under("next.slow", slow_step(slow, after, 0.05))
    inputs = under("param", p) | under("slow", slow) | under("data", d) | under("draw", draw) | {"progress": torch.tensor(progress)}
    inputs |= {f"running.{k}": torch.tensor(x) for k, x in running.items()}
    save(f"variant_{name}", inputs, out)
    if name == "ensembles":
        draw = {"plan.noise": v.normal(B, 2, 8, 3, A), "act.train": v.normal(B, A), "act.found": v.open_unit(B, 4)}
        obs, last = v.normal(B, O), v.uniform(B, 3, A, low=-1, high=1)
        with torch.no_grad():
            decided = ensembles_act(p, obs, last, draw)
        save("variant_ensembles_act", under("param", p) | under("draw", draw) | {"data.obs": obs, "carry.plan.last": last}, decided)


if __name__ == "__main__":
    for i, name in enumerate(CASES):
        case(sys.argv[1], name, 70 + i)
