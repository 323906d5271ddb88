"""PPO (Schulman et al. 2017): recorded values and losses of `models/ppo.wm` at the sizes of `models/ppo_small.wm`.

A rollout of 12 steps over three episodes: obs[0..4] ends in a terminal state, obs[5..9] by time, obs[10..12] is cut by the rollout's end. The
steps 4 and 9, from an episode's last observation to the next one's first, are no transitions: action and reward are zero there.
"""
import torch
from torch import distributions as D

from common import Values, adam_step, check_differences, gradients, losses_and_objective, mlp, save, under

T, O, A = 12, 5, 2
GAMMA, LAMBDA, EPS = 0.99, 0.95, 0.2
WEIGHTS = {"policy": 1.0, "value": 0.5, "entropy": 0.001}
LR, CLIP, COUNT = 2e-4, 0.5, 9


def policy(p, obs):
    return D.Independent(D.Normal(mlp(p, "pi", obs, act=torch.tanh), p["pi.log_std"].exp()), 1)


def value(p, obs):
    return mlp(p, "vf", obs, act=torch.tanh)[..., 0]


def recorded(p, data):
    """What is computed once, by the policy and the value that collected the rollout."""
    obs, a, r, first, terminal = (data[k] for k in ("obs", "a", "r", "first", "terminal"))
    v = value(p, obs)
    c = GAMMA * (~terminal).to(v.dtype)
    delta = r + c * v[1:] - v[:-1]

    # Episode by episode, in the sum form: adv[t] = sum_l (product of c lambda) delta[t + l].
    adv = torch.zeros(T + 1)
    starts = first.nonzero()[:, 0].tolist() + [T + 1]
    for start, end in zip(starts[:-1], starts[1:]):
        for t in range(start, end - 1):
            weight = 1.0
            for l in range(t, end - 1):
                adv[t] += weight * delta[l]
                weight *= c[l] * LAMBDA
    # Over the transitions of the whole rollout: the two steps between episodes do not count.
    moved = ~first[1:]
    gain = torch.zeros(T)
    gain[moved] = (adv[:T][moved] - adv[:T][moved].mean()) / (adv[:T][moved].std(correction=1) + 1e-8)
    return {
        "moved": moved, "logp0": policy(p, obs[:T]).log_prob(a), "v": v, "c": c, "delta": delta, "adv": adv, "gain": gain,
        "ret": adv[:T] + v[:T],
    }


def losses(p, obs, a, record):
    """Of a minibatch of steps; what is no transition does not count."""
    moved = record["moved"]
    pi = policy(p, obs)
    ratio = (pi.log_prob(a) - record["logp0"]).exp()
    gain = record["gain"]
    parts = {
        "policy": -torch.minimum(ratio * gain, ratio.clamp(1 - EPS, 1 + EPS) * gain)[moved].mean(),
        "value": ((value(p, obs) - record["ret"]) ** 2)[moved].mean(),
        "entropy": -pi.entropy()[moved].mean(),
    }
    kl = (ratio - 1 - ratio.log())[moved].mean()
    return parts, ratio, kl


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
    with torch.no_grad():
        record = recorded(p, data)
    save("ppo_record", under("param", p) | under("data", data), under("record", record),
         {k: [[0, T + 1]] if k in ("v", "adv") else [[0, T]] for k in record})

    # A later epoch: the policy has moved, and seven of the twelve steps are the minibatch.
    p = v.nearby(p, scale=0.15)
    places = torch.tensor([7, 0, 4, 11, 2, 6, 8])
    batch = {"obs": data["obs"][places], "a": data["a"][places]}
    rounded = {k: record[k][places] if record[k].dtype == torch.bool else Values.exact(record[k][places].numpy())
               for k in ("moved", "logp0", "gain", "ret")}
    slots = v.slots(p)

    for x in p.values():
        x.requires_grad_()
    parts, ratio, kl = losses(p, **batch, record=rounded)
    out, objective = losses_and_objective(parts, WEIGHTS)
    grads = gradients(objective, p)
    after, after_slots = adam_step(p, grads, slots, COUNT, LR, eps=1e-5, clip=CLIP)
    again = lambda moved: losses_and_objective(losses(moved, **batch, record=rounded)[0], WEIGHTS)[1]
    norm = torch.sqrt(sum(g.square().sum() for g in grads.values())).item()
    print("  differences:", check_differences(again, p, grads), f"norm {norm:.3f}, ratios", [round(x, 3) for x in ratio.tolist()],
          "gains", [round(x, 2) for x in rounded["gain"].tolist()])
    counted, gain = rounded["moved"], rounded["gain"]
    assert norm > CLIP
    assert (counted & (ratio > 1.2) & (gain > 0)).any() and (counted & (ratio < 0.8) & (gain < 0)).any(), "nothing is clipped"
    assert (counted & (ratio > 1.2) & (gain < 0)).any() and not counted.all()

    inputs = under("param", p) | under("data", batch) | under("record", rounded) | under("slot.main", slots)
    inputs |= {"progress": torch.tensor(0.5), "count.main": torch.tensor(COUNT + 1)}
    out |= {"objective.main": objective, "value.ratio": ratio, "metric.kl": kl} | under("grad", grads)
    out |= under("next.param", after) | under("next.slot.main", after_slots)
    save("ppo", inputs, out)


if __name__ == "__main__":
    main()
