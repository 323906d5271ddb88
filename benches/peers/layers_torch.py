"""Parts of the models in PyTorch. Parameters are a flat dict of names and tensors."""
import torch
import torch.nn.functional as F
import spec as S

GRADIENT = "manual"     # the energy's: "manual" in closed form | "autograd"


def tensors(d, dtype=torch.float32):
    return {k: torch.as_tensor(v).to(dtype) for k, v in d.items()}


def lin(p, n, x):
    return F.linear(x, p[n + ".weight"], p[n + ".bias"])


def mlp(p, n, x):
    i = 0
    while f"{n}.{i + 1}.weight" in p:
        x = F.silu(lin(p, f"{n}.{i}", x))
        i += 1
    return lin(p, f"{n}.{i}", x)


def joined(p, layers):
    """Adds layers that compute several layers of the same input: `layers` lists the parts of each."""
    whole = lambda parts, k: torch.cat([p[f"{n}.{k}"] for n in parts])
    return p | {f"{n}.{k}": whole(parts, k) for n, parts in layers.items() for k in ("weight", "bias")}


def sq(x):
    return x.square().sum(-1)


# ------------------------------------------------------------------ symlog two-hot
def symlog(x):
    return torch.sign(x) * torch.log1p(torch.abs(x))


def symexp(x):
    return torch.sign(x) * torch.expm1(torch.abs(x))


def twohot(x, bins):
    pos = (symlog(x).clamp(S.BIN_LO, S.BIN_HI) - S.BIN_LO) / ((S.BIN_HI - S.BIN_LO) / (bins - 1))
    i0 = pos.floor().clamp(0, bins - 2)
    w1 = (pos - i0)[..., None]
    k = torch.arange(bins, dtype=x.dtype)
    i0 = i0[..., None]
    return (k == i0) * (1 - w1) + (k == i0 + 1) * w1


def decode(logits):
    bins = torch.linspace(S.BIN_LO, S.BIN_HI, logits.shape[-1], dtype=logits.dtype)
    return symexp((torch.softmax(logits, -1) * bins).sum(-1))


def ce(target, logits):
    return -(target * torch.log_softmax(logits, -1)).sum(-1)


def lambda_return(reward, discount, value):
    """reward, discount (gamma in it) [B,M], value [B,M+1] -> [B,M]."""
    ret, R = [], value[:, -1]
    for t in reversed(range(reward.shape[1])):
        R = reward[:, t] + discount[:, t] * ((1 - S.LAM) * value[:, t + 1] + S.LAM * R)
        ret.append(R)
    return torch.stack(ret[::-1], 1)


# ------------------------------------------------------------------ energy
def dsilu(u):
    s = torch.sigmoid(u)
    return s * (1 + u * (1 - s))


def energy(p, n, x):
    """An energy of three layers and its gradient: x [...,16] -> [...], [...,16]."""
    if GRADIENT == "autograd":
        with torch.enable_grad():
            keep = x.requires_grad
            v = x if keep else x.detach().requires_grad_()
            h = mlp(p, n, v)
            return h[..., 0], torch.autograd.grad(h.sum(), v, create_graph=keep)[0]
    u1 = lin(p, n + ".0", x)
    u2 = lin(p, n + ".1", F.silu(u1))
    h = lin(p, n + ".2", F.silu(u2))[..., 0]
    g2 = (dsilu(u2) * p[n + ".2.weight"][0]) @ p[n + ".1.weight"]
    return h, (dsilu(u1) * g2) @ p[n + ".0.weight"]


def covariance(q, p):
    """Between entries of q and p over all samples: [B,T,n], [B,T,n] -> [n,n]."""
    q, p = q.flatten(0, 1), p.flatten(0, 1)
    return (q - q.mean(0)).T @ (p - p.mean(0)) / (q.shape[0] - 1)


# ------------------------------------------------------------------ optimiser
class Trainer:
    """AdamW in one fused kernel, clipping by the global norm, slow copies. `slow`: the prefixes of a slow copy's name
    and of its parameter's."""

    def __init__(self, params, losses, slow, decay, lr=S.LR):
        trained = lambda name: not name.startswith(slow[0])
        self.p = {k: v.clone().requires_grad_(trained(k)) for k, v in params.items()}
        self.w = {k: v for k, v in self.p.items() if trained(k)}
        copies = [k for k in self.p if not trained(k)]
        self.slow = [self.p[k] for k in copies]
        self.fast = [self.p[slow[1] + k.removeprefix(slow[0])] for k in copies]
        self.opt = torch.optim.AdamW(self.w.values(), lr=lr, betas=(S.BETA1, S.BETA2), eps=S.ADAM_EPS,
                                     weight_decay=decay, fused=True)
        self.losses = losses

    def step(self, batch):
        self.opt.zero_grad(set_to_none=True)
        total, _ = self.losses(self.p, batch)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.w.values(), S.CLIP)
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.slow, self.fast, S.TAU)
        return total.detach()


# ------------------------------------------------------------------ planner
def elite_update(score, actions, elites, temperature, std_min):
    g, idx = torch.topk(score, elites)
    w = torch.softmax(g / temperature, 0)[:, None, None]
    e = actions[idx]
    mean = (w * e).sum(0)
    return mean, torch.sqrt((w * (e - mean).square()).sum(0) + S.VAR_EPS).clamp(min=std_min)


def returned(p, reward, value, z):
    """Scores of rollouts z [H,n,48]: rewards on the way and the value at their end, by the names of two heads."""
    r = decode(mlp(p, reward, z))
    disc = S.GAMMA ** torch.arange(z.shape[0], dtype=r.dtype)
    return (r * disc[:, None]).sum(0) + S.GAMMA ** z.shape[0] * decode(mlp(p, value, z[-1]))


def search(search_round, std, p, z, states, mean, noise):
    """Runs the rounds of a search, each with its noise -> a list of mean, deviation, scores."""
    std, rounds = torch.full_like(mean, std), []
    for each in noise:
        mean, std, score = search_round(p, z, states, mean, std, each)
        rounds.append((mean, std, score))
    return rounds
