"""Soft actor-critic (Haarnoja et al. 2018, with a learned temperature): the losses of `models/sac.wm` at the sizes of `models/sac_small.wm`.

One transition (obs[0], a[0], r[0], obs[1]) a sample.
"""
import torch
import torch.nn.functional as F

from common import (Stop, TanhNormal, Values, adam_step, check_differences, gradients, losses_and_objective, member, mlp, save, slow_step,
                    under)

B, O, A, E = 5, 5, 2, 3
GAMMA, TAU = 0.99, 0.005
LR = {"critic": 1e-3, "actor": 3e-4, "temperature": 1e-3}
COUNT = 4


def critics(p, obs, a):
    """[B, E]"""
    return torch.stack([mlp(member(p, "q", e), "q", obs, a, act=F.relu)[..., 0] for e in range(E)], -1)


def policy(p, obs):
    return TanhNormal(mlp(p, "pi", obs, act=F.relu), -5, 2)


def losses(p, slow, data, noise, again, sg):
    obs, a, r, terminal = data["obs"], data["a"], data["r"], data["terminal"]
    temperature = p["log_temp"].exp()

    # A fresh action at both observations.
    pi = policy(p, obs)
    u, before = pi.draw(noise)
    lp = pi.logp(before)
    soft = critics(slow, obs, u).min(-1).values - temperature * lp
    target = sg(r[:, 0] + GAMMA * torch.where(terminal[:, 0], 0.0, soft[:, 1]))

    q = critics(p, obs[:, 0], a[:, 0])
    frozen = {k: v.detach() for k, v in p.items()}
    q_of_policy = critics(frozen, obs[:, 0], u[:, 0]).min(-1).values
    # Another one for the temperature.
    v, v_before = pi.draw(again)
    parts = {
        "critic": ((q - target[:, None]) ** 2).sum(-1).mean(),
        "actor": (sg(temperature) * lp[:, 0] - q_of_policy).mean(),
        # The target entropy is -A.
        "temperature": (temperature * sg(-pi.logp(v_before)[:, 0] + A)).mean(),
    }
    values = {"u": u, "u.before": before, "lp": lp, "soft": soft, "target": target[:, None], "v": v, "v.before": v_before}
    return parts, values


def main():
    v = Values(31)
    p = v.mlp("q", [O + A, 19, 17, 1], ensemble=(E,)) | v.mlp("pi", [O, 18, 13, 2 * A]) | {"log_temp": v.normal(scale=0.1, mean=-2.3)}
    slow = v.nearby({k: x for k, x in p.items() if k.startswith("q.")})
    data = {
        "obs": v.normal(B, 2, O),
        "a": v.uniform(B, 1, A, low=-1, high=1),
        "r": v.normal(B, 1),
        "terminal": torch.tensor([0, 1, 0, 0, 1]).bool()[:, None],
    }
    noise, more = v.normal(B, 2, A), v.normal(B, 2, A)
    groups = {"critic": "q.", "actor": "pi.", "temperature": "log_temp"}
    slots = {name: v.slots({k: x for k, x in p.items() if k.startswith(prefix)}) for name, prefix in groups.items()}

    p = {k: x.requires_grad_() for k, x in p.items()}
    out, grads, after, after_slots = {}, {}, {}, {}
    values = losses(p, slow, data, noise, more, Stop())[1]
    # One after the other: each sees the parameters that those before it have changed.
    for name, prefix in groups.items():
        now = {k: (after[k] if k in after else x).detach().requires_grad_() for k, x in p.items()}
        sg = Stop()
        parts = losses(now, slow, data, noise, more, sg)[0]
        named, objective = losses_and_objective({name: parts[name]}, {name: 1.0})
        own = {k: x for k, x in now.items() if k.startswith(prefix)}
        out |= named | {f"objective.{name}": objective}
        found = gradients(objective, own)
        new, state = adam_step(own, found, slots[name], COUNT, LR[name])

        def again(moved):
            sg.replay()
            return losses({**now, **moved}, slow, data, noise, more, sg)[0][name]
        print("  differences:", name, check_differences(again, own, found, entries=40))
        grads |= found
        after |= new
        after_slots |= under(name, state)

    inputs = under("param", p) | under("slow", slow) | under("data", data) | {"draw.u": noise, "draw.v": more, "progress": torch.tensor(0.5)}
    for name in groups:
        inputs |= under(f"slot.{name}", slots[name]) | {f"count.{name}": torch.tensor(COUNT + 1)}
    out |= under("grad", grads) | under("value", values)
    out |= under("next.param", after) | under("next.slot", after_slots) | under("next.slow", slow_step(slow, after, TAU))
    save("sac", inputs, out, {"u": [[0, 2]], "lp": [[0, 2]], "soft": [[0, 2]], "target": [[0, 1]], "v": [[0, 2]]})


if __name__ == "__main__":
    main()
