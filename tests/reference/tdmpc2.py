"""TD-MPC2 (Hansen, Su, Wang 2024): the losses, the planner and the metrics of `models/tdmpc2.wm` at the sizes of `models/tdmpc2_small.wm`.

Arrays are [B, time, ..]; `E` counts the critics of the ensemble.
"""
import torch
import torch.nn.functional as F

from common import (Stop, SymlogTwoHot, TanhNormal, Values, adam_step, check_differences, dropout, gradients, losses_and_objective, member,
                    mlp, quantile, save, slow_step, under)

B, T, O, A, Z, E, BINS = 3, 5, 5, 2, 16, 3, 21
GAMMA, RHO, ENTROPY, TAU, RATE = 0.99, 0.5, 1e-4, 0.01, 0.01
WEIGHTS = {"consistency": 20.0, "reward": 0.1, "value": 0.1, "policy": 1.0}
LR, CLIP, COUNT = 3e-4, 20.0, 6


# ---- networks ----------------------------------------------------------------------------------------------------------

def simnorm(x):
    """Groups of 8 entries become points of a simplex."""
    return x.unflatten(-1, (-1, 8)).softmax(-1).flatten(-2)


def encode(p, obs):
    return simnorm(mlp(p, "encoder", obs, act=F.mish))


def dynamics(p, z, a):
    return simnorm(mlp(p, "dynamics", z, a, act=F.mish))


def reward(p, z, a):
    return SymlogTwoHot(mlp(p, "reward", z, a, act=F.mish), -10, 10)


def critic(p, e, z, a, uniforms=None):
    """Member e of the ensemble; `uniforms` are the draws of its dropout."""
    drop = None if uniforms is None else dropout(uniforms, RATE)
    return SymlogTwoHot(mlp(member(p, "q", e), "q", z, a, act=F.mish, dropped=drop), -10, 10)


def policy(p, z):
    return TanhNormal(mlp(p, "pi", z, act=F.mish), -10, 2)


# ---- losses ------------------------------------------------------------------------------------------------------------

def losses(p, slow, data, draw, scale, sg):
    obs, a, r = data["obs"], data["a"], data["r"]
    rho = RHO ** torch.arange(T)
    mean = lambda x: (rho[:x.shape[1]] * x).mean()

    y = sg(encode(p, obs))
    b, b_before = policy(p, y).draw(draw["b"])
    target = torch.stack([critic(slow, e, y[:, 1:], b[:, 1:]).mean() for e in draw["pair"].tolist()]).min(0).values
    td = sg(r + GAMMA * target)

    z = [encode(p, obs[:, 0])]
    for t in range(T - 1):
        z.append(dynamics(p, z[-1], a[:, t]))
    z = torch.stack(z, 1)
    zt = z[:, :-1]

    # Draws of dropout: [B, t, place in the fold, member of the ensemble, unit]. Place e evaluates member e.
    value = torch.stack([critic(p, e, zt, a, draw["value"][:, :, e, e]).nll(td) for e in range(E)]).mean(0)

    frozen = {k: x.detach() for k, x in p.items()}
    zs = sg(z)
    pi = policy(p, zs)
    u, u_before = pi.draw(draw["u"])
    duo = draw["duo"].tolist()
    qpi = torch.stack([critic(frozen, e, zs, u, draw["qpi"][:, :, i, e]).mean() for i, e in enumerate(duo)]).mean(0)

    # The scale is updated before it is used.
    spread = (quantile(qpi[:, 0], 0.95) - quantile(qpi[:, 0], 0.05)).clamp(min=1)
    assert spread > 1.1, "the percentiles do not count"
    scale = sg(scale + 0.01 * (spread - scale))

    parts = {
        "consistency": mean((z[:, 1:] - y[:, 1:]).square().mean(-1)),
        "reward": mean(reward(p, zt, a).nll(r)),
        "value": mean(value),
        "policy": -mean(qpi / scale - ENTROPY * A * pi.logp_before(u_before)),
    }
    values = {"y": y, "b": b, "b.before": b_before, "td": td, "z": z, "u": u, "u.before": u_before, "qpi": qpi}
    return parts, values, scale


# ---- planning ------------------------------------------------------------------------------------------------------------

ENVS, H, ROUNDS, GAUSS, PRIOR, ELITES = 2, 3, 3, 9, 4, 5


def act(p, obs, last, draw):
    """One decision for each environment, by MPPI. Returns what the planner computed, row by row."""
    rows = [act_one(p, obs[i], last[i], {k: x[i] for k, x in draw.items()}) for i in range(len(obs))]
    return {k: torch.stack([row[k] for row in rows]) for k in rows[0]}


def act_one(p, obs, last, draw):
    z0 = encode(p, obs)
    # The policy's own plans: drawn once, candidates in every round. The last draw (at H) belongs to no action.
    x, own = z0.expand(PRIOR, -1), []
    for k in range(H):
        own.append(policy(p, x).draw(draw["plan.own.guess"][:, k])[0])
        x = dynamics(p, x, own[-1])
    own = torch.stack(own, 1)

    mean = torch.cat([last[1:], torch.zeros(1, A)])
    std = torch.full((H, A), 2.0)
    means, stds, scores = [mean], [std], []
    for i in range(ROUNDS):
        drawn = (mean + std * draw["plan.noise"][i]).clamp(-1, 1)
        pool = torch.cat([own, drawn])
        score, x = torch.zeros(len(pool)), z0.expand(len(pool), -1)
        for k in range(H):
            score = score + GAMMA**k * reward(p, x, pool[:, k]).mean()
            x = dynamics(p, x, pool[:, k])
        end = policy(p, x).draw(draw["plan.try.b"][i])[0]
        q = torch.stack([critic(p, e, x, end).mean() for e in range(E)], -1)
        score = score + GAMMA**H * q[:, draw["plan.try.duo"][i]].mean(-1)

        best = score.topk(ELITES).indices
        w = (score[best] / 2).softmax(0)
        elite = pool[best]
        mean = (w[:, None, None] * elite).sum(0)
        std = (w[:, None, None] * (elite - mean) ** 2).sum(0).sqrt().clamp(0.05, 2)
        means.append(mean), stds.append(std), scores.append(score)

    # One elite by its weight (Gumbel-max).
    race = (w + 1e-12).log() - (-draw["act.found"].log()).log()
    margin = race.topk(2).values
    assert margin[0] - margin[1] > 1e-3
    sample = elite[race.argmax(), 0]
    ranked = torch.stack(scores).sort(-1, descending=True).values
    assert (ranked[:, ELITES - 1] - ranked[:, ELITES]).min() > 1e-4, "the last elite is no clear choice"
    return {
        "act.train": (sample + std[0] * draw["act.train"]).clamp(-1, 1),
        "act.eval": sample,
        "next.carry.plan.last": mean,
        "value.plan.own.u": own,
        "value.plan.mean": torch.stack(means),
        "value.plan.std": torch.stack(stds),
        "value.plan.score": torch.stack(scores),
        "value.found.mean": mean[0],
        "value.found.std": std[0],
        "value.found.sample": sample,
        "value.found.score": (w * score[best]).sum(),
    }


def evaluate(p, obs, a, starts=3, steps=7):
    """Open-loop from every start: the squared error at k steps."""
    y = encode(p, obs)
    x = [y[:, :starts]]
    for k in range(steps):
        x.append(dynamics(p, x[-1], a[:, k:k + starts]))
    out = {f"metric.mse[{k}]": (x[k] - y[:, k:k + starts]).square().sum(-1).mean() for k in (3, 5, 7)}
    return out | {"value.y": y, "value.x": torch.stack(x, 2)}


# ---- the cases -----------------------------------------------------------------------------------------------------------

def parameters(v):
    norms = {"norm": "layer"}
    return (v.mlp("encoder", [O, 19, Z], **norms, norm_out="layer") | v.mlp("dynamics", [Z + A, 17, 18, Z], **norms, norm_out="layer")
            | v.mlp("reward", [Z + A, 13, 11, BINS], **norms) | v.mlp("q", [Z + A, 13, 11, BINS], **norms, ensemble=(E,))
            | v.mlp("pi", [Z, 15, 14, 2 * A], **norms, gain=2.0))


def main():
    v = Values(11)
    p = parameters(v)
    slow = v.nearby({k: x for k, x in p.items() if k.startswith("q.")})
    data = {"obs": v.normal(B, T, O), "a": v.uniform(B, T - 1, A, low=-1, high=1), "r": v.normal(B, T - 1, scale=2)}
    data["r"][0, 2], data["r"][1, 1] = 30_000.0, 0.0   # beyond the outermost bin, symexp(10) = 22,025; exactly on a bin
    draw = {
        "b": v.normal(B, T, A), "pair": torch.tensor([2, 0]), "u": v.normal(B, T, A), "duo": torch.tensor([1, 2]),
        # The rate is 0.01: a tenth of the draws is put below it, so that there is something to drop.
        "qpi": dropping(v, B, T, 2, E, 13), "value": dropping(v, B, T - 1, E, E, 13),
    }
    scale = Values.exact(1.3)
    world = {k: x for k, x in p.items() if not k.startswith("pi.")}
    actor = {k: x for k, x in p.items() if k.startswith("pi.")}
    slots = {"world": v.slots(world), "actor": v.slots(actor)}

    for x in p.values():
        x.requires_grad_()
    values = losses(p, slow, data, draw, scale, Stop())[1]
    out, grads, after, after_slots = {}, {}, {}, {}
    for name, own, step in [
        ("world", world, dict(clip=CLIP, scale=lambda path: 0.3 if path.startswith("encoder.") else 1.0)),
        ("actor", actor, dict(clip=CLIP, eps=1e-5)),
    ]:
        # The world first. The policy asks its new critics; the latents that it asks about are those of before.
        now = {k: (after[k].detach() if k in after and k.startswith("q.") else x) for k, x in p.items()}
        sg = Stop()
        parts, _, new_scale = losses(now, slow, data, draw, scale, sg)
        mine = {k: x for k, x in parts.items() if (k == "policy") == (name == "actor")}
        named, objective = losses_and_objective(mine, WEIGHTS)
        out |= named | {f"objective.{name}": objective}
        found = gradients(objective, own)
        new, state = adam_step(own, found, slots[name], COUNT, LR, **step)
        grads |= found
        after |= new
        after_slots |= under(name, state)

        def again(moved):
            sg.replay()
            there = losses({**now, **moved}, slow, data, draw, scale, sg)[0]
            return sum(WEIGHTS[k] * there[k] for k in mine)
        norm = torch.sqrt(sum(g.square().sum() for g in found.values())).item()
        print(f"  differences: {name}", check_differences(again, own, found), f"norm {norm:.3f}")

    inputs = under("param", p) | under("slow", slow) | under("data", data) | under("draw", draw)
    inputs |= {"running.S": scale, "progress": torch.tensor(0.5)}
    for name in slots:
        inputs |= under(f"slot.{name}", slots[name]) | {f"count.{name}": torch.tensor(COUNT + 1)}
    out |= under("grad", grads) | under("value", values) | {"next.running.S": new_scale}
    out |= under("next.param", after) | under("next.slot", after_slots) | under("next.slow", slow_step(slow, after, TAU))
    full, short = [[0, T]], [[0, T - 1]]
    save("tdmpc2", inputs, out, {"y": full, "b": full, "td": short, "z": full, "u": full, "qpi": full})

    with torch.no_grad():
        draw = {
            "plan.own.guess": v.normal(ENVS, PRIOR, H + 1, A), "plan.noise": v.normal(ENVS, ROUNDS, GAUSS, H, A),
            "plan.try.b": v.normal(ENVS, ROUNDS, GAUSS + PRIOR, A),
            "plan.try.duo": torch.stack([torch.stack([v.subset(E, 2) for _ in range(ROUNDS)]) for _ in range(ENVS)]),
            "act.found": v.open_unit(ENVS, ELITES), "act.train": v.normal(ENVS, A),
        }
        obs, last = v.normal(ENVS, O), v.uniform(ENVS, H, A, low=-1, high=1)
        inputs = under("param", p) | under("draw", draw) | {"data.obs": obs, "carry.plan.last": last}
        save("tdmpc2_act", inputs, act(p, obs, last, draw), {
            "plan.own.u": [[0, PRIOR], [0, H]], "plan.mean": [[0, ROUNDS + 1], [0, H]], "plan.std": [[0, ROUNDS + 1], [0, H]],
            "plan.score": [[0, ROUNDS]],
        })

        data = {"obs": v.normal(2, 10, O), "a": v.uniform(2, 9, A, low=-1, high=1)}
        save("tdmpc2_evaluate", under("param", p) | under("data", data),
             evaluate(p, **data), {"y": [[0, 10]], "x": [[0, 3], [0, 8]]})


def dropping(v, *shape):
    u = v.uniform(*shape, low=0.02)
    u[v.uniform(*shape) < 0.1] = Values.exact(0.005)
    return u


if __name__ == "__main__":
    main()
