"""DreamerV3 (Hafner et al. 2025): the losses and metrics of `models/dreamerv3.wm` at the sizes of `models/dreamerv3_small.wm`.

Arrays are [B, t, ..] while filtering and [B, t, k, ..] while imagining; a state is h [.., 14] and s [.., 3, 4].
"""
import torch
import torch.nn.functional as F
from torch import distributions as D

from common import (Stop, SymexpTwoHot, Values, check_differences, gradients, laprop_step, losses_and_objective, mlp, quantile, save,
                    slow_step, symlog, under)

B, T, O, A, DETER, S, N, U, H, BINS = 3, 5, 5, 2, 14, 3, 4, 9, 3, 21
LAMBDA, FREE, ENTROPY, UNIMIX, TAU = 0.95, 1.0, 3e-4, 0.01, 0.02
DISCOUNT = 1 - 1 / 333
WEIGHTS = {"dyn": 1.0, "rep": 0.1, "rec": 1.0, "reward": 1.0, "cont": 1.0, "policy": 1.0, "value": 1.0, "repval": 0.3}
LR, WARMUP, COUNT = 4e-5, 1000, 699
BLOCKS = 2
FEAT = DETER + S * N


# ---- networks ------------------------------------------------------------------------------------------------------------

def net(p, name, *parts):
    return mlp(p, name, *parts, act=F.silu)


def features(state):
    h, s = state
    return torch.cat([h, s.flatten(-2)], -1)


def gates(p, h, *inputs):
    """Block by block: each sees its part of the state and all other inputs; one norm over all blocks."""
    cut = lambda x: x.unflatten(-1, (BLOCKS, -1))
    rest = torch.cat(inputs, -1)[..., None, :]
    both = torch.cat([cut(h), rest.expand(*rest.shape[:-2], BLOCKS, -1)], -1)
    hidden = torch.einsum("...gi,gvi->...gv", both, p["gates.weight"]).flatten(-2) + p["gates.bias"]
    hidden = F.silu(F.rms_norm(hidden, hidden.shape[-1:], p["gates.scale"], eps=1e-4))
    out = torch.einsum("...gv,grv->...gr", cut(hidden), p["gates.out"]).unflatten(-1, (3, -1))
    return (out.transpose(-3, -2).flatten(-2) + p["gates.shift"].unflatten(-1, (3, -1))).unbind(-2)


def recur(p, state, a):
    """The next deterministic state: a GRU in blocks, whose gates come from one hidden layer."""
    h, s = state
    a = a / a.abs().clamp(min=1).detach()
    inputs = [F.silu(net(p, "from_h", h)), F.silu(net(p, "from_s", s.flatten(-2))), F.silu(net(p, "from_a", a))]
    reset, cand, update = gates(p, h, *inputs)
    cand = torch.tanh(torch.sigmoid(reset) * cand)
    update = torch.sigmoid(update - 1)
    return update * cand + (1 - update) * h


def prior(p, h):
    return net(p, "prior", h).unflatten(-1, (S, N))


def posterior(p, h, obs):
    return net(p, "post", h, F.silu(net(p, "embed", symlog(obs)))).unflatten(-1, (S, N))


def classes(logits):
    """S categoricals, mixed with 1 % of the uniform distribution."""
    return D.Independent(D.OneHotCategorical((1 - UNIMIX) * logits.softmax(-1) + UNIMIX / N), 1)


def draw_classes(logits, uniforms, sg):
    """Straight-through: a one-hot draw (Gumbel-max) whose gradient is that of the probabilities."""
    probs = classes(logits).mean
    race = probs.log() - (-uniforms.log()).log()
    top = race.topk(2).values
    assert (top[..., 0] - top[..., 1]).min() > 1e-4, "a draw is no clear choice"
    hot = F.one_hot(race.argmax(-1), N).to(probs.dtype)
    return sg(hot) + probs - sg(probs)


def actor(p, feat):
    x = F.silu(net(p, "actor", feat))
    mean, std = (F.linear(x, p[f"actor.{k}.weight"], p[f"actor.{k}.bias"]) for k in ("mean", "std"))
    return D.Independent(D.Normal(torch.tanh(mean), 0.1 + 0.9 * torch.sigmoid(std + 2)), 1)


def reward(p, feat):
    return SymexpTwoHot(net(p, "reward", feat), -5, 5)


def critic(p, feat):
    return SymexpTwoHot(net(p, "critic", feat), -5, 5)


def cont(p, feat):
    return net(p, "cont", feat)[..., 0]


# ---- losses ------------------------------------------------------------------------------------------------------------------

def filtered(p, obs, a, first, uniforms, sg):
    """Deterministic states, posterior logits and draws along a segment."""
    batch, steps = first.shape
    h, s, act = torch.zeros(batch, DETER), torch.zeros(batch, S, N), torch.zeros(batch, A)
    hs, pos, ss = [], [], []
    for t in range(steps):
        # An episode's first step sees the empty state and no action.
        keep = (~first[:, t]).to(h.dtype)
        state = (h * keep[:, None], s * keep[:, None, None])
        h = recur(p, state, act * keep[:, None])
        po = posterior(p, h, obs[:, t])
        s = draw_classes(po, uniforms[:, t], sg)
        if t < steps - 1:
            act = a[:, t]
        hs.append(h), pos.append(po), ss.append(s)
    return torch.stack(hs, 1), torch.stack(pos, 1), torch.stack(ss, 1)


def losses(p, slow, data, draw, scale, sg):
    obs, a, r, first, terminal = (data[k] for k in ("obs", "a", "r", "first", "terminal"))
    live = torch.where(terminal, 0.0, DISCOUNT)
    counted = ~first[:, 1:]                       # step t is a transition

    # World model. The first observation only gives the others their past.
    h, po, s = filtered(p, obs, a, first, draw["s"], sg)
    pr = prior(p, h)
    feat = features((h, s))[:, 1:]
    kl = lambda x, y: D.kl_divergence(classes(x), classes(y)).clamp(min=FREE)
    parts = {
        "dyn": kl(sg(po), pr)[:, 1:].mean(),
        "rep": kl(po, sg(pr))[:, 1:].mean(),
        "rec": (net(p, "decode", feat) - symlog(obs[:, 1:])).square().sum(-1).mean(),
        # Between episodes there is no reward and no end.
        "reward": reward(p, feat).nll(r).mean(),
        "cont": F.binary_cross_entropy_with_logits(cont(p, feat), live),
    }

    # Imagination: H steps of the actor from every state but the first.
    g, us = [(sg(h)[:, 1:], sg(s)[:, 1:])], []
    ghs, gss = [], []
    for k in range(H):
        pi = actor(p, features(g[-1]))
        us.append(pi.base_dist.loc + pi.base_dist.scale * draw["u"][:, :, k])
        gh = recur(p, g[-1], us[-1])
        gs = draw_classes(prior(p, gh), draw["gs"][:, :, k], sg)
        ghs.append(gh), gss.append(gs), g.append((sg(gh), sg(gs)))
    g = tuple(torch.stack(x, 2) for x in zip(*g))
    u = torch.stack(us, 2)
    gfeat = features(g)
    c = torch.sigmoid(cont(p, gfeat))
    rew, val = reward(p, gfeat).mean(), critic(p, gfeat).mean()
    ret = [val[:, :, H]]
    for k in reversed(range(H)):
        ret.append(rew[:, :, k + 1] + c[:, :, k + 1] * ((1 - LAMBDA) * val[:, :, k + 1] + LAMBDA * ret[-1]))
    ret = torch.stack(ret[::-1], 2)
    w = c.cumprod(2)
    aim = sg(ret[:, :, :H])

    # Actor and critic; the scale of returns is updated before it is used.
    scale = sg(scale + 0.01 * (quantile(aim, 0.95) - quantile(aim, 0.05) - scale))
    adv = sg((aim - val[:, :, :H]) / scale.clamp(min=1))
    start = gfeat[:, :, :H]
    pi, weight = actor(p, start), sg(w[:, :, :H])
    parts["policy"] = -(weight * (pi.log_prob(sg(u)) * adv + ENTROPY * pi.entropy())).mean()
    parts["value"] = {
        "ret": (weight * critic(p, start).nll(aim)).mean(),
        "slow": (weight * critic(p, start).nll(sg(critic(slow, start).mean()))).mean(),
    }

    # The critic on replayed rewards. An episode's last state has nothing but its imagined return to rest on.
    boot = ret[:, :, 0]
    seen = [boot[:, -1]]
    for t in reversed(range(1, T - 1)):
        through = r[:, t] + live[:, t] * ((1 - LAMBDA) * boot[:, t] + LAMBDA * seen[-1])
        seen.append(torch.where(first[:, t + 1], boot[:, t - 1], through))
    seen = torch.stack(seen[::-1], 1)
    there = critic(p, feat[:, :-1])
    parts["repval"] = {
        "ret": (there.nll(sg(seen[:, :-1])) * counted[:, 1:]).mean(),
        "slow": (there.nll(sg(critic(slow, feat[:, :-1]).mean())) * counted[:, 1:]).mean(),
    }
    values = {
        "h": h, "po": po, "pr": pr, "s": s, "f.h": h, "f.s": s, "g.h": g[0], "g.s": g[1], "u": u, "gh": torch.stack(ghs, 2),
        "gs": torch.stack(gss, 2), "c": c, "val": val, "ret": ret[:, :, :-1], "w": w, "aim": aim, "adv": adv, "seen": seen[:, :-1],
    }
    return parts, values, scale


def evaluate(p, obs, a, first, draw, starts=3, steps=7):
    """The prior's rollout under the real actions from every start, in [h, class probabilities]."""
    sg = Stop()
    h, po, s = filtered(p, obs, a, first, draw["s"], sg)
    state = (h[:, :starts], s[:, :starts])
    yhs, yps, yss, out = [], [], [], {}
    for k in range(1, steps + 1):
        yh = recur(p, state, a[:, k - 1:k - 1 + starts])
        yp = prior(p, yh)
        state = (yh, draw_classes(yp, draw["ys"][:, :, k - 1], sg))
        yhs.append(yh), yps.append(yp), yss.append(state[1])
        there = slice(k, k + starts)
        error = (yh - h[:, there]).square().sum(-1) + (classes(yp).mean - classes(po[:, there]).mean).square().sum((-1, -2))
        if k in (3, 5, 7):
            out[f"metric.mse[{k}]"] = error.mean()
    stack = lambda xs: torch.stack(xs, 2)
    return out | {"value.h": h, "value.po": po, "value.s": s, "value.yh": stack(yhs), "value.yp": stack(yps), "value.ys": stack(yss)}


# ---- the cases ---------------------------------------------------------------------------------------------------------------

def parameters(v):
    rms = {"norm": "rms"}
    return (v.mlp("embed", [O, 11, 13, U], **rms, norm_out="rms") | v.mlp("from_h", [DETER, U], norm_out="rms")
            | v.mlp("from_s", [S * N, U], norm_out="rms") | v.mlp("from_a", [A, U], norm_out="rms")
            | {"gates.weight": v.normal(BLOCKS, DETER // BLOCKS, DETER // BLOCKS + 3 * U, scale=0.2),
               "gates.bias": v.normal(DETER, scale=0.1), "gates.scale": v.normal(DETER, scale=0.1, mean=1.0),
               "gates.out": v.normal(BLOCKS, 3 * DETER // BLOCKS, DETER // BLOCKS, scale=0.5),
               "gates.shift": v.normal(3 * DETER, scale=0.1)} | v.mlp("post", [DETER + U, 11, S * N], **rms, gain=2.0)
            | v.mlp("prior", [DETER, 11, 10, S * N], **rms, gain=2.0) | v.mlp("decode", [FEAT, 12, 11, 10, O], **rms)
            | v.mlp("reward", [FEAT, 12, BINS], **rms, gain=0.7) | v.mlp("cont", [FEAT, 12, 1], **rms)
            | v.mlp("actor", [FEAT, 12, 11, 10], **rms, norm_out="rms") | v.linear("actor.mean", A, 10) | v.linear("actor.std", A, 10) | v.mlp("critic", [FEAT, 12, 11, 10, BINS], **rms, gain=0.7))


def main():
    v = Values(21)
    p = parameters(v)
    p["cont.1.bias"] = torch.tensor([2.0])       # imagined episodes go on, mostly
    slow = v.nearby({k: x for k, x in p.items() if k.startswith("critic.")})
    flag = lambda *rows: torch.tensor(rows).bool()
    # Sample 0 starts an episode. Sample 1 ends one at obs[2] (terminal) and starts the next at obs[3]. Sample 2 starts one at obs[1] and ends
    # it at obs[4]. Between the last observation and the next first one nothing happens: no action, no reward.
    first = flag([1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 1, 0, 0, 0])
    moved = (~first[:, 1:]).to(torch.float64)
    data = {
        "obs": v.normal(B, T, O, scale=1.5),
        "a": v.uniform(B, T - 1, A, low=-1, high=1) * moved[..., None],
        "r": v.normal(B, T - 1, scale=2) * moved,
        "first": first,
        "terminal": flag([0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]),
    }
    data["r"][0, 1] = 200.0                       # beyond the outermost bin, symexp(5) = 147
    draw = {"s": v.open_unit(B, T, S, N), "u": v.normal(B, T - 1, H, A), "gs": v.open_unit(B, T - 1, H, S, N)}
    scale = Values.exact(2.5)
    slots = v.slots(p)

    for x in p.values():
        x.requires_grad_()
    sg = Stop()
    parts, values, new_scale = losses(p, slow, data, draw, scale, sg)
    out, objective = losses_and_objective(parts, WEIGHTS)
    grads = gradients(objective, p)
    after, after_slots, clipped = laprop_step(p, grads, slots, COUNT, LR, WARMUP)

    def again(moved):
        sg.replay()
        return losses_and_objective(losses(moved, slow, data, draw, scale, sg)[0], WEIGHTS)[1]
    print("  differences:", check_differences(again, p, grads, entries=120), f"; agc clips {clipped} of {len(p)} tensors")
    kl = D.kl_divergence(classes(values["po"]), classes(values["pr"]))
    print(f"  kl above the free nat: {(kl > FREE).sum()} of {kl.numel()}, scale {scale.item():.3f} -> {new_scale.item():.3f}",
          f"largest |u| {values['u'].abs().max():.2f}")
    assert 0 < (kl > FREE).sum() < kl.numel() and 0 < clipped < len(p)

    inputs = under("param", p) | under("slow", slow) | under("data", data) | under("draw", draw) | under("slot.main", slots)
    inputs |= {"running.R": scale, "progress": torch.tensor(0.5), "count.main": torch.tensor(COUNT + 1)}
    out |= {"objective.main": objective, "next.running.R": new_scale} | under("grad", grads) | under("value", values)
    out |= under("next.param", after) | under("next.slot.main", after_slots) | under("next.slow", slow_step(slow, after, TAU))
    t, short, long, next_ = [1, T], [0, H], [0, H + 1], [1, H + 1]
    save("dreamerv3", inputs, out, {k: [[0, T]] for k in ("h", "po", "pr", "s", "f")} | {"seen": [[1, T - 1]]} | {k: [t, short] for k in ("u", "aim", "adv", "ret")}
         | {k: [t, long] for k in ("g", "c", "val", "w")} | {k: [t, next_] for k in ("gh", "gs")})

    with torch.no_grad():
        data = {"obs": v.normal(2, 10, O), "a": v.uniform(2, 9, A, low=-1, high=1), "first": flag([1] + 9 * [0], 10 * [0])}
        draw = {"s": v.open_unit(2, 10, S, N), "ys": v.open_unit(2, 3, 7, S, N)}
        whole, pairs = [[0, 10]], [[0, 3], [1, 8]]
        save("dreamerv3_evaluate", under("param", p) | under("data", data) | under("draw", draw), evaluate(p, **data, draw=draw),
             {"h": whole, "po": whole, "s": whole, "yh": pairs, "yp": pairs, "ys": pairs})


if __name__ == "__main__":
    main()
