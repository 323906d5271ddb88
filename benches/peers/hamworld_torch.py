"""HamWorld in PyTorch (sizes and names: hamworld_spec.py)."""
from functools import partial

import torch
import torch.nn.functional as F
import hamworld_spec as M
import layers_torch as L
import spec as S


def length(x):
    """Euclidean, at least 1e-6, over the last axis."""
    return L.sq(x).clamp(min=1e-12).sqrt()[..., None]


def short(x, bound):
    return x * (bound / length(x)).clamp(max=1)


def encode(p, n, obs):
    return short(L.mlp(p, n, obs), M.INSIDE)


# ------------------------------------------------------------------ memory
def project(p, l, x):
    """A layer's decay, new state, readout and gate, from its input alone."""
    m = f"param.m.{l}."
    n = F.layer_norm(x, x.shape[-1:], p[m + "norm.scale"], p[m + "norm.shift"])
    dt, v, c, gate = L.lin(p, f"m.{l}", n).chunk(4, -1)
    return torch.exp(-torch.exp(p[m + "a_log"]) * (F.softplus(dt) + 0.001)), v, c, gate


def output(p, l, x, state, c, gate):
    m = f"param.m.{l}."
    mid = x + torch.sigmoid(gate) * L.lin(p, m + "out", c * state)
    return mid + L.lin(p, m + "back", F.silu(L.lin(p, m + "wide", mid)))


def read(p, x):
    return F.layer_norm(x, x.shape[-1:], p["param.m.scale"], p["param.m.shift"])


def memory_step(p, za, states):
    """One step: za = [z, a], states [...,128] of the layers -> h, new states."""
    x, new = L.lin(p, "param.m.lift", za), []
    for l, s in enumerate(states):
        decay, v, c, gate = project(p, l, x)
        s = decay * s + v
        new.append(s)
        x = output(p, l, x, s, c, gate)
    return read(p, x), new


def memory_segment(p, za):
    """All steps of segments [B,T,..] from a state of zeros -> h and the states of the layers, [B,T,128]."""
    x, states = L.lin(p, "param.m.lift", za), []
    for l in range(M.LAYERS):
        decay, v, c, gate = project(p, l, x)
        ss = [v[:, 0]]
        for t in range(1, v.shape[1]):
            ss.append(decay[:, t] * ss[-1] + v[:, t])
        states.append(torch.stack(ss, 1))
        x = output(p, l, x, states[-1], c, gate)
    return read(p, x), states


# ------------------------------------------------------------------ transition
def transition(p, z, a, h, alpha, guard):
    """The next latent, and values for the losses. With `guard` the energy's gradient is a constant if it is steep on
    average over the batch, the first axis."""
    E, slope = L.energy(p, "param.energy", z[..., :2 * M.NQ])
    slope = slope.unflatten(-1, (2, M.NQ))
    far = length(slope)
    held = slope * (M.SHORT / far).clamp(max=1)
    if guard:
        steep = far.mean((-2, 0), keepdim=True) > M.STEEP
        held = torch.where(steep, held.detach(), held)
    Hq, Hp = held.unbind(-2)
    f, e = F.silu(L.lin(p, "trunks", torch.cat([z, a, h], -1))).chunk(2, -1)
    f, e = F.silu(L.lin(p, "param.trunk.1", f)), F.silu(L.lin(p, "param.side.1", e))
    f, e = L.lin(p, "param.trunk.2", f), L.lin(p, "param.side.2", e)
    f, e = L.lin(p, "fields", f), L.lin(p, "side", e)
    d, gate, G = f.tensor_split((2 * M.NQ, 4 * M.NQ), -1)
    nq, np_ = (torch.tanh(d) * torch.sigmoid(gate)).chunk(2, -1)
    push = (torch.tanh(G).unflatten(-1, (M.NQ, a.shape[-1])) * a[..., None, :]).sum(-1)
    dq = (1 - alpha) * nq + alpha * Hp
    dp = (1 - alpha) * np_ - alpha * Hq + push
    dc = torch.tanh(e[..., :M.NC]) * torch.sigmoid(e[..., M.NC:])
    new = torch.nan_to_num(z + torch.cat([dq, dp, dc], -1), 0.0, 1e6, -1e6)
    return short(new, M.INSIDE), dict(E=E, dq=dq, dp=dp, dc=dc, apart=L.sq(nq - Hp) + L.sq(np_ + Hq))


# ------------------------------------------------------------------ training
def losses(p, batch, alpha=M.alpha(), weights=M.weights()):
    p = L.joined(p, M.JOINED)
    obs, act, rew = batch["data.obs"], batch["data.a"], batch["data.r"]
    z = encode(p, "param.encoder", obs)
    zt, zsg, loss = z[:, :-1], z.detach(), {}
    h, states = memory_segment(p, torch.cat([zt, act], -1))
    zn, s = transition(p, zt, act, h, alpha, True)
    with torch.no_grad():
        near = L.mlp(p, "slow.project", encode(p, "slow.encoder", obs[:, 1:]))
        slow = L.mlp(p, "slow.value", zsg)
        ret = L.lambda_return(rew, S.GAMMA * batch["data.discount"], L.decode(slow))
        t_ret, t_slow, t_rew = L.twohot(ret, M.BINS), torch.softmax(slow[:, :-1], -1), L.twohot(rew, M.BINS)
        small = (L.sq(act) < M.SMALL ** 2).to(z.dtype)
        count = small.sum().clamp(min=1)
    loss["repr"] = (L.mlp(p, "param.project", zn) - near).square().mean()
    error = L.sq(zn - zsg[:, 1:])
    loss["dyn"] = error.mean() / M.Z
    # Re-rolls continue from the one-step predictions; each further step has one start less.
    roll, pairs, zr = error.sum(), M.T, zn
    for k in range(1, M.K):
        n = M.T - k
        zr, ak, states = zr[:, :n], act[:, k:], [x[:, :n] for x in states]
        hr, states = memory_step(p, torch.cat([zr, ak], -1), states)
        zr, _ = transition(p, zr, ak, hr, alpha, True)
        roll, pairs = roll + L.sq(zr - zsg[:, k + 1:]).sum(), pairs + n
    loss["roll"] = roll / (pairs * M.Z * obs.shape[0])
    loss["reward"] = L.ce(t_rew, L.mlp(p, "param.reward", zn)).mean()
    value = torch.log_softmax(L.mlp(p, "param.value", zt), -1)
    loss["value.ce"], loss["value.slow"] = -(t_ret * value).sum(-1).mean(), -(t_slow * value).sum(-1).mean()
    loss["value"] = loss["value.ce"] + loss["value.slow"]
    loss["policy"] = (L.mlp(p, "param.prior", zsg[:, :-1]) - act).square().mean()
    dq, dp = s["dq"].square().mean(-1), s["dp"].square().mean(-1)
    loss["sa"] = (small * (dq + dp)).sum() / count
    after = L.mlp(p, "param.energy", zn[..., :2 * M.NQ])[..., 0]
    loss["energy"] = (small * (after - s["E"]).square()).sum() / count
    loss["ham"] = s["apart"].mean() / M.NQ
    loss["temp"] = (dq - M.BALANCE * dp).mean()
    loss["decouple"] = L.covariance(zt[..., :M.NQ], zt[..., M.NQ:2 * M.NQ]).square().mean()
    loss["c_sparse"] = s["dc"].abs().mean()
    return sum(w * loss[k] for k, w in weights.items()), loss


# ------------------------------------------------------------------ planner
def search_round(p, z, states, mean, std, noise, alpha=M.alpha(), by=M.Search()):
    """noise [n,H,A] of the Gaussian candidates, then of the prior's rollouts -> mean, std, scores."""
    n = noise.shape[0]
    z, states = z.expand(n, -1), [s.expand(n, -1) for s in states]
    fixed = (mean + std * noise[:by.random]).clamp(-1, 1)
    guided = by.std_prior * noise[by.random:]
    zs, acts = [], []
    for k in range(by.horizon):
        a = torch.cat([fixed[:, k], (L.mlp(p, "param.prior", z[by.random:]) + guided[:, k]).clamp(-1, 1)])
        h, states = memory_step(p, torch.cat([z, a], -1), states)
        z, _ = transition(p, z, a, h, alpha, False)
        zs.append(z)
        acts.append(a)
    score = L.returned(p, "param.reward", "param.value", torch.stack(zs))
    return *L.elite_update(score, torch.stack(acts, 1), by.elites, by.temperature, by.std_min), score


def encode_one(p, obs):
    return encode(p, "param.encoder", obs)


def advance(p, z, a, states):
    return memory_step(p, torch.cat([z, a], -1), states)[1]


def planner(p, d, made, alpha=M.alpha(), by=M.Search()):
    """A decision: searches from the last plan, one step on, and advances the memory by the action. Returns the rounds
    and the memory. `made` compiles a function."""
    p = L.joined(p, M.JOINED)
    first, each, last = made(encode_one), made(partial(search_round, alpha=alpha, by=by)), made(advance)
    states = [d[f"carry.m.{l}.h"] for l in range(M.LAYERS)]

    def decide():
        z, plan = first(p, d["data.obs"]), d["carry.plan.last"][0]
        mean = torch.cat([plan[1:], torch.zeros_like(plan[:1])])
        rounds = L.search(each, by.std, p, z, states, mean, d["draw.plan.noise"][0])
        return rounds, last(p, z, rounds[-1][0][:1], states)
    return torch.no_grad()(decide)
