"""What the four oracles share: test values, layers, distributions, optimisers, files.

Everything is float64. Test values are rounded to float32 first, so that an f32 run of the model starts from the same numbers.
Where PyTorch has a thing (layer norm, Adam, quantiles, KL divergences, the tanh-squashed normal), PyTorch's is used.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import distributions as D

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
DATA = pathlib.Path(__file__).parent / "data"


# ---- test values ---------------------------------------------------------------------------------------------------

class Values:
    """Seeded test values. `normal`, `uniform`, .. return float64 tensors that are exact in float32."""

    def __init__(self, seed):
        self.rng = np.random.Generator(np.random.PCG64(seed))

    @staticmethod
    def exact(x):
        return torch.from_numpy(np.asarray(x, np.float32).astype(np.float64))

    def normal(self, *shape, scale=1.0, mean=0.0):
        return self.exact(mean + scale * self.rng.standard_normal(shape))

    def uniform(self, *shape, low=0.0, high=1.0):
        return self.exact(self.rng.uniform(low, high, shape))

    def open_unit(self, *shape):
        """Uniform draws away from the ends, for logarithms of logarithms."""
        return self.uniform(*shape, low=1e-3, high=1 - 1e-3)

    def subset(self, of, size):
        return torch.from_numpy(self.rng.permutation(of)[:size].astype(np.int64))

    def linear(self, path, out, inn, ensemble=(), gain=1.0):
        return {
            f"{path}.weight": self.normal(*ensemble, out, inn, scale=gain / math.sqrt(inn)),
            f"{path}.bias": self.normal(*ensemble, out, scale=0.1),
        }

    def mlp(self, name, sizes, norm=None, norm_out=None, ensemble=(), gain=1.0):
        """Parameters of `mlp`: `sizes` = input, hidden .., output; `norm` is None, "rms" or "layer"."""
        p = {}
        for i, (inn, out) in enumerate(zip(sizes[:-1], sizes[1:])):
            last = i == len(sizes) - 2
            p |= self.linear(f"{name}.{i}", out, inn, ensemble, gain if last else 1.0)
            kind = norm_out if last else norm
            if kind:
                p[f"{name}.{i}.scale"] = self.normal(*ensemble, out, scale=0.1, mean=1.0)
            if kind == "layer":
                p[f"{name}.{i}.shift"] = self.normal(*ensemble, out, scale=0.1)
        return p

    def nearby(self, params, scale=0.05):
        """Other values of the same parameters: slow copies, the policy that collected the data."""
        return {k: self.exact(v.numpy() + scale * self.rng.standard_normal(tuple(v.shape))) for k, v in params.items()}

    def slots(self, params, names=("m", "v")):
        """State of an optimiser that has been running for a while: `m` of either sign, `v` positive."""
        out = {}
        for path, x in params.items():
            for name in names:
                g = self.normal(*x.shape, scale=0.1)
                out[f"{name}.{path}"] = self.exact((g * g + 1e-4).numpy()) if name == "v" else g
        return out


# ---- stopped gradients ------------------------------------------------------------------------------------------------

class Stop:
    """`sg`. Replaying holds every stopped value at what it was, so that finite differences see what the gradient sees."""

    def __init__(self):
        self.seen, self.replaying, self.at = [], False, 0

    def __call__(self, x):
        if self.replaying:
            self.at += 1
            return self.seen[self.at - 1]
        self.seen.append(x.detach().clone())
        return self.seen[-1]

    def replay(self):
        self.replaying, self.at = True, 0


# ---- layers -------------------------------------------------------------------------------------------------------------

def symlog(x):
    return torch.sign(x) * torch.log1p(torch.abs(x))


def symexp(x):
    return torch.sign(x) * torch.expm1(torch.abs(x))


def normed(p, path, x, rms_eps):
    if f"{path}.shift" in p:
        return F.layer_norm(x, x.shape[-1:], p[f"{path}.scale"], p[f"{path}.shift"], eps=1e-5)
    if f"{path}.scale" in p:
        return F.rms_norm(x, x.shape[-1:], p[f"{path}.scale"], eps=rms_eps)
    return x


def mlp(p, name, *parts, act, dropped=None, rms_eps=1e-4):
    """Linear, dropout (first layer only), norm, activation; then linear and norm. `parts` are laid side by side."""
    x = torch.cat(parts, -1)
    depth = sum(f"{name}.{i}.weight" in p for i in range(9))
    for i in range(depth):
        x = F.linear(x, p[f"{name}.{i}.weight"], p[f"{name}.{i}.bias"])
        if i == 0 and dropped is not None:
            x = dropped(x)
        x = normed(p, f"{name}.{i}", x, rms_eps)
        if i < depth - 1:
            x = act(x)
    return x


def member(p, name, e):
    """The parameters of one member of an ensemble."""
    return {k: v[e] for k, v in p.items() if k.startswith(name + ".")}


def dropout(uniforms, rate):
    return lambda x: torch.where(uniforms < rate, torch.zeros_like(x), x / (1 - rate))


# ---- distributions --------------------------------------------------------------------------------------------------------

class SymlogTwoHot:
    """Bins even in symlog space (TD-MPC2): a target's neighbours share it linearly there; mean = symexp(E[bin])."""

    def __init__(self, logits, low, high):
        self.logits, self.low, self.high = logits, low, high
        self.bins = torch.linspace(low, high, logits.shape[-1])

    def mean(self):
        return symexp((self.logits.softmax(-1) * self.bins).sum(-1))

    def nll(self, x):
        n = len(self.bins)
        at = (symlog(x).clamp(self.low, self.high) - self.low) * (n - 1) / (self.high - self.low)
        below = at.floor().clamp(max=n - 2).long()
        share = at - below
        logp = self.logits.log_softmax(-1)
        pick = lambda i: logp.gather(-1, i[..., None])[..., 0]
        return -((1 - share) * pick(below) + share * pick(below + 1))


class SymexpTwoHot:
    """Bins at symexp of an even grid (DreamerV3): a target's neighbours share it linearly in raw space; mean = E[bin]."""

    def __init__(self, logits, low, high):
        self.logits = logits
        self.bins = symexp(torch.linspace(low, high, logits.shape[-1]))

    def mean(self):
        return (self.logits.softmax(-1) * self.bins).sum(-1)

    def nll(self, x):
        x = x.clamp(self.bins[0], self.bins[-1])
        above = torch.searchsorted(self.bins, x.contiguous(), right=True).clamp(1, len(self.bins) - 1)
        lo, hi = self.bins[above - 1], self.bins[above]
        share = (x - lo) / (hi - lo)
        logp = self.logits.log_softmax(-1)
        pick = lambda i: logp.gather(-1, i[..., None])[..., 0]
        return -((1 - share) * pick(above - 1) + share * pick(above))


class TanhNormal:
    """A net's output is [mean, raw deviation]; tanh holds the log-deviation in a range."""

    def __init__(self, out, low, high):
        self.mean, raw = out.chunk(2, -1)
        self.log_std = low + 0.5 * (high - low) * (torch.tanh(raw) + 1)
        self.normal = D.Independent(D.Normal(self.mean, self.log_std.exp()), 1)

    def draw(self, noise):
        """The draw and its value before the squash."""
        before = self.mean + self.log_std.exp() * noise
        return torch.tanh(before), before

    def logp_before(self, before):
        return self.normal.log_prob(before)

    def logp(self, before):
        squash = D.transforms.TanhTransform(cache_size=1)
        return self.normal.log_prob(before) - squash.log_abs_det_jacobian(before, torch.tanh(before)).sum(-1)


def quantile(x, p):
    return torch.quantile(x.flatten(), p, interpolation="linear")


# ---- optimisers -------------------------------------------------------------------------------------------------------------

def adam_step(params, grads, slots, count, lr, eps=1e-8, clip=None, scale=lambda path: 1.0):
    """PyTorch's own Adam and clip, started from `slots` after `count` updates. Returns new parameters and new slots."""
    leaves = {k: v.detach().clone().requires_grad_() for k, v in params.items()}
    for k, v in leaves.items():
        v.grad = grads[k].clone()
    groups = [{"params": [v], "lr": lr * scale(k)} for k, v in leaves.items()]
    adam = torch.optim.Adam(groups, lr=lr, betas=(0.9, 0.999), eps=eps, foreach=False)
    for k, v in leaves.items():
        adam.state[v] = {
            "step": torch.tensor(float(count)), "exp_avg": slots[f"m.{k}"].clone(), "exp_avg_sq": slots[f"v.{k}"].clone(),
        }
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(leaves.values(), clip)
    adam.step()
    new = {f"m.{k}": adam.state[v]["exp_avg"] for k, v in leaves.items()}
    new |= {f"v.{k}": adam.state[v]["exp_avg_sq"] for k, v in leaves.items()}
    return {k: v.detach() for k, v in leaves.items()}, new


def laprop_step(params, grads, slots, count, lr, warmup, beta1=0.9, beta2=0.999, eps=1e-20, agc=0.3, floor=1e-3):
    """LaProp (Ziyin et al. 2020) behind adaptive gradient clipping (Brock et al. 2021), the rate linear from zero."""
    new, state, clipped = {}, {}, 0
    n = count + 1
    for k, w in params.items():
        g = grads[k]
        upper = agc * max(floor, w.norm().item())
        clipped += g.norm().item() > upper
        g = g * min(1.0, upper / max(g.norm().item(), 1e-300))
        v = beta2 * slots[f"v.{k}"] + (1 - beta2) * g.square()
        m = beta1 * slots[f"m.{k}"] + (1 - beta1) * g / ((v / (1 - beta2**n)).sqrt() + eps)
        rate = lr * min(1.0, count / warmup)
        new[k] = w - rate * m / (1 - beta1**n)
        state[f"m.{k}"], state[f"v.{k}"] = m, v
    return new, state, clipped


def slow_step(slow, fast, tau):
    return {k: (1 - tau) * v + tau * fast[k] for k, v in slow.items()}


# ---- a case: its files, gradients and checks ----------------------------------------------------------------------------------

def under(prefix, tensors):
    return {f"{prefix}.{k}": v for k, v in tensors.items()}


def save(name, inputs, outputs, ranges=None):
    """`NAME.in.safetensors` (reals as f32, which is exact) and `NAME.out.safetensors` (reals as f64)."""
    def stored(tensors, real):
        out = {}
        for k, v in tensors.items():
            x = torch.as_tensor(v).detach().numpy()
            assert np.isfinite(x).all(), k
            if x.dtype == np.float64:
                assert real is np.float64 or (x.astype(np.float32) == x).all(), f"{k} is not exact in f32"
                x = x.astype(real)
            out[k] = np.ascontiguousarray(x).reshape(x.shape)
        return out

    DATA.mkdir(exist_ok=True)
    save_file(stored(inputs, np.float32), DATA / f"{name}.in.safetensors")
    metadata = {"ranges": json.dumps(ranges or {}, sort_keys=True)}
    save_file(stored(outputs, np.float64), DATA / f"{name}.out.safetensors", metadata)
    sizes = [(DATA / f"{name}.{x}.safetensors").stat().st_size for x in ("in", "out")]
    print(f"{name}: {len(inputs)} inputs {sizes[0] / 1024:.0f} KB, {len(outputs)} outputs {sizes[1] / 1024:.0f} KB")


def gradients(objective, params):
    """Of every parameter; each must be reached, and none may be zero throughout."""
    found = torch.autograd.grad(objective, list(params.values()), retain_graph=True)
    for (path, _), g in zip(params.items(), found):
        assert g.abs().max() > 0, f"{path} has no gradient"
    return dict(zip(params, found))


def check_differences(objective, params, grads, entries=60, seed=0, step=1e-5, bound=1e-6):
    """Central differences at random entries: `objective(params)` replays the stopped values. Error relative to the tensor's gradient."""
    rng = np.random.default_rng(seed)
    worst = (0.0, "")
    for path in rng.choice(list(params), entries):
        x = params[path].detach()
        i = tuple(int(rng.integers(n)) for n in x.shape)
        values = []
        for sign in (1, -1):
            moved = x.clone()
            moved[i] += sign * step
            values.append(objective({**params, path: moved}).item())
        there = (values[0] - values[1]) / (2 * step)
        worst = max(worst, (abs(there - grads[path][i].item()) / max(grads[path].abs().max().item(), 1e-3), path))
    assert worst[0] < bound, worst
    return worst


def losses_and_objective(parts, weights):
    """Losses by name, and their weighted sum. `parts`: name -> scalar or {part: scalar}."""
    out, total = {}, 0.0
    for name, value in parts.items():
        if isinstance(value, dict):
            out |= {f"loss.{name}.{k}": v for k, v in value.items()}
            value = sum(value.values())
        out[f"loss.{name}"] = value
        total = total + weights[name] * value
    return out, total
