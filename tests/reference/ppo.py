"""PPO (Schulman et al. 2017): recorded values and losses of `models/ppo.wm` at the sizes of `models/ppo_small.wm`.

A rollout of 12 steps over three episodes: obs[0..4] ends in a terminal state, obs[5..9] by time, obs[10..12] is cut by the rollout's end. The
steps 4 and 9, from an episode's last observation to the next one's first, are no transitions: action and reward are zero there.
"""
import torch
from torch import distributions as D

from common import Values, adam_step, check_differences, gradients, losses_and_objective, mlp, save, under

T, O, A = 12, 5, 2
GAMMA, LAMBDA, EPS = 0.99, 0.95, 0.2
WEIGHTS = {"policy": 1.0, "value": 0.5}
LR, CLIP, COUNT, PROGRESS = 3e-4, 0.5, 9, 0.5


def policy(p, obs):
    return D.Independent(D.Normal(mlp(p, "pi", obs, act=torch.tanh), p["pi.log_std"].exp()), 1)


def value(p, obs):
    return mlp(p, "vf", obs, act=torch.tanh)[..., 0]


def spread(mean, power):
    return torch.sqrt((power - mean**2).clamp(min=0) + 1e-8)


def recorded(p, data, running):
    """What is computed once, by the policy and the value that collected the rollout, with the statistics of then."""
    obs, a, r, first, terminal = (data[k] for k in ("obs", "a", "r", "first", "terminal"))
    x = ((obs - running["mu"]) / spread(running["mu"], running["power"])).clamp(-10, 10)
    assert (x.abs() == 10).any() and (x.abs() < 10).float().mean() > 0.5
    gained = []
    for t in range(T):
        gained.append(r[t] + (0.0 if first[t] or t == 0 else GAMMA * gained[-1]))
    reward = (r / spread(running["drift"], running["swing"])).clamp(-10, 10)
    v = value(p, x)
    c = GAMMA * (~terminal).to(v.dtype)
    delta = reward + c * v[1:] - v[:-1]

    # Episode by episode, in the sum form: adv[t] = sum_l (product of c lambda) delta[t + l].
    adv = torch.zeros(T + 1)
    starts = first.nonzero()[:, 0].tolist() + [T + 1]
    for start, end in zip(starts[:-1], starts[1:]):
        for t in range(start, end - 1):
            weight = 1.0
            for l in range(t, end - 1):
                adv[t] += weight * delta[l]
                weight *= c[l] * LAMBDA
    moved = ~first[1:]
    return {
        "moved": moved, "raw": obs[:T], "gained": torch.stack(gained), "x": x, "gain": reward, "logp0": policy(p, x[:T]).log_prob(a),
        "v": v, "c": c, "delta": delta, "adv": adv, "ret": adv[:T] + v[:T],
    }


def losses(p, a, record):
    """Of a minibatch of steps; what is no transition does not count."""
    moved, old, adv = record["moved"], record["v"], record["adv"]
    pi = policy(p, record["x"])
    ratio = (pi.log_prob(a) - record["logp0"]).exp()
    edge = torch.zeros(len(a))
    edge[moved] = (adv[moved] - adv[moved].mean()) / (adv[moved].std(correction=1) + 1e-8)
    now = value(p, record["x"])
    near = old + (now - old).clamp(-EPS, EPS)
    parts = {
        "policy": -torch.minimum(ratio * edge, ratio.clamp(1 - EPS, 1 + EPS) * edge)[moved].mean(),
        "value": 0.5 * torch.maximum((now - record["ret"]) ** 2, (near - record["ret"]) ** 2)[moved].mean(),
    }
    kl = (ratio - 1 - ratio.log())[moved].mean()
    return parts, {"ratio": ratio, "edge": edge, "vf1": now, "near": near}, kl


def main():
    v = Values(42)
    p = v.mlp("pi", [O, 19, 17, A]) | {"pi.log_std": v.normal(A, scale=0.2, mean=-0.3)} | v.mlp("vf", [O, 18, 13, 1])
    first = torch.zeros(T + 1).bool()
    first[[0, 5, 10]] = True
    terminal = torch.zeros(T).bool()
    terminal[3] = True
    moved = (~first[1:]).to(torch.float64)
    data = {
        "obs": v.normal(T + 1, O), "a": v.normal(T, A, scale=0.8) * moved[:, None], "r": v.normal(T) * moved, "first": first,
        "terminal": terminal,
    }
    # Statistics of a hundred rows before, with one observation of hardly any spread.
    running = {
        "seen": torch.tensor(100.0), "mu": v.normal(O, scale=0.3), "drift": Values.exact(0.25), "swing": Values.exact(0.5),
    }
    running["power"] = Values.exact((running["mu"] ** 2 + torch.tensor([1.0, 0.5, 2.0, 0.001, 1.5])).numpy())
    with torch.no_grad():
        record = recorded(p, data, running)
    save("ppo_record", under("param", p) | under("data", data) | under("running", running),
         # A record has its base cases too: `gained[-1]`, `adv[T]`.
         under("record", record | {"gained": torch.cat([torch.zeros(1), record["gained"]])}),
         {"gained": [[-1, T]]} | {k: [[0, T + 1]] if k in ("v", "adv", "x") else [[0, T]] for k in record if k != "gained"})

    # A later epoch: the policy has moved, and seven of the twelve steps are the minibatch.
    p = v.nearby(p, scale=0.15)
    places = torch.tensor([7, 0, 4, 11, 2, 6, 8])
    a = data["a"][places]
    rounded = {k: record[k][places] if record[k].dtype == torch.bool else Values.exact(record[k][places].numpy())
               for k in ("moved", "raw", "gained", "x", "logp0", "v", "adv", "ret")}
    slots = v.slots(p)

    for x in p.values():
        x.requires_grad_()
    parts, values, kl = losses(p, a, rounded)
    ratio, gain = values["ratio"], values["edge"]
    out, objective = losses_and_objective(parts, WEIGHTS)
    grads = gradients(objective, p)
    after, after_slots = adam_step(p, grads, slots, COUNT, LR * (1 - PROGRESS), eps=1e-5, clip=CLIP)
    again = lambda moved: losses_and_objective(losses(moved, a, rounded)[0], WEIGHTS)[1]
    norm = torch.sqrt(sum(g.square().sum() for g in grads.values())).item()
    print("  differences:", check_differences(again, p, grads), f"norm {norm:.3f}, ratios", [round(x, 3) for x in ratio.tolist()],
          "advantages", [round(x, 2) for x in gain.tolist()])
    counted = rounded["moved"]
    assert (values["near"] != values["vf1"]).any() and (values["near"] == values["vf1"]).any(), "no value is clipped"
    assert norm > CLIP
    assert (counted & (ratio > 1.2) & (gain > 0)).any() and (counted & (ratio < 0.8) & (gain < 0)).any(), "nothing is clipped"
    assert (counted & (ratio > 1.2) & (gain < 0)).any() and not counted.all()

    inputs = under("param", p) | under("data", {"a": a}) | under("record", rounded) | under("slot.main", slots)
    inputs |= {"progress": torch.tensor(PROGRESS), "count.main": torch.tensor(COUNT + 1)} | under("running", running)
    out |= {"objective.main": objective, "metric.kl": kl} | under("value", values) | under("grad", grads)
    out |= under("next.param", after) | under("next.slot.main", after_slots)
    # The statistics are renewed by the rows of the minibatch.
    seen = running["seen"] + len(places)
    blend = lambda name, x: running[name] + (x.mean(0) - running[name]) * len(places) / seen
    out |= under("next.running", {
        "seen": seen, "mu": blend("mu", rounded["raw"]), "power": blend("power", rounded["raw"] ** 2),
        "drift": blend("drift", rounded["gained"]), "swing": blend("swing", rounded["gained"] ** 2),
    })
    save("ppo", inputs, out)


if __name__ == "__main__":
    main()
