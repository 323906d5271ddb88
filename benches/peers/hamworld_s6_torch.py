"""HamWorldS6 and HamWorldLiteral in PyTorch (sizes and names: hamworld_s6_spec.py)."""
import torch
import torch.nn.functional as F
import hamworld_s6_spec as M
import layers_torch as L
import spec as S
from layers_torch import ce, lin, mlp, sq, twohot


# ------------------------------------------------------------------ selective memory
def rmsnorm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + M.RMS_EPS) * w


def ssm_proj(p, l, u):
    m = f"mem.{l}."
    x, g = F.linear(rmsnorm(u, p[m + "norm"]), p[m + "in_proj"]).chunk(2, -1)
    return x, g, F.softplus(lin(p, m + "dt", x)), F.linear(x, p[m + "B"]), F.linear(x, p[m + "C"])


def ssm_update(A, s, dt, x, Bm):
    """s [...,128,N] <- exp(dt*A) * s + (dt*x) B^T"""
    return torch.exp(dt[..., None] * A) * s + (dt * x)[..., None] * Bm[..., None, :]


def ssm_read(s, Cm):
    """y = s C: as a sum where that becomes part of a compiled kernel."""
    if torch.compiler.is_compiling():
        return (s * Cm[..., None, :]).sum(-1)
    return torch.matmul(s, Cm[..., None]).squeeze(-1)


def ssm_out(p, l, y, x, g, u):
    m = f"mem.{l}."
    return F.linear((y + p[m + "D"] * x) * F.silu(g), p[m + "out_proj"]) + u


def mem_step(p, z, a, states):
    """one step; states: list of LAYERS tensors [...,128,N]. Returns h [...,128], new states."""
    u, new = lin(p, "mem.in", torch.cat([z, a], -1)), []
    for l in range(M.LAYERS):
        x, g, dt, Bm, Cm = ssm_proj(p, l, u)
        s = ssm_update(-torch.exp(p[f"mem.{l}.A_log"]), states[l], dt, x, Bm)
        new.append(s)
        u = ssm_out(p, l, ssm_read(s, Cm), x, g, u)
    return u, new


def selective_scan(A, dt, x, Bm, Cm, s):
    """dt,x [B,T,128], Bm,Cm [B,T,N], s [B,128,N] -> y [B,T,128], list of T states."""
    ys, ss = [], []
    for t in range(dt.shape[1]):
        s = ssm_update(A, s, dt[:, t], x[:, t], Bm[:, t])
        ss.append(s)
        ys.append(ssm_read(s, Cm[:, t]))
    return torch.stack(ys, 1), ss


def mem_seq(p, z, a):
    """z [B,M,48], a [B,M,6] from zero state -> h [B,M,128], states[layer][t]."""
    u, all_states = lin(p, "mem.in", torch.cat([z, a], -1)), []
    for l in range(M.LAYERS):
        x, g, dt, Bm, Cm = ssm_proj(p, l, u)
        A = -torch.exp(p[f"mem.{l}.A_log"])
        y, ss = selective_scan(A, dt, x, Bm, Cm, z.new_zeros(z.shape[0], *A.shape))
        all_states.append(ss)
        u = ssm_out(p, l, y, x, g, u)
    return u, all_states


# ------------------------------------------------------------------ transition
def transition(p, z, a, h, alpha=M.ALPHA):
    """returns z_next and the pieces the losses need."""
    x = torch.cat([z, a, h], -1)
    net = mlp(p, "core", x)
    G = mlp(p, "G", x).unflatten(-1, (M.NQ, M.ACT))
    dc = mlp(p, "fc", x)
    H, g = L.energy(p, "H", z[..., :2 * M.NQ])
    gq, gp = g[..., :M.NQ], g[..., M.NQ:]
    dq = (1 - alpha) * net[..., :M.NQ] + alpha * gp
    dp = (1 - alpha) * net[..., M.NQ:] - alpha * gq + (G * a[..., None, :]).sum(-1)
    return z + torch.cat([dq, dp, dc], -1), dict(net=net, dq=dq, dp=dp, dc=dc, H=H, gq=gq, gp=gp)


# ------------------------------------------------------------------ training loss
def losses(p, batch):
    obs, act, rew = batch["obs"], batch["act"], batch["rew"]
    NS = M.T - M.K
    z = mlp(p, "enc", obs)
    zt, at, rt, zsg, loss = z[:, :-1], act[:, :-1], rew[:, :-1], z.detach(), {}
    h, states = mem_seq(p, zt, at)
    zn, aux = transition(p, zt, at, h)
    with torch.no_grad():
        proj_t = mlp(p, "ema.proj", mlp(p, "ema.enc", obs)[:, 1:])
        vlog = mlp(p, "ema.value", zsg)
        ret = L.lambda_return(rt, torch.full_like(rt, S.GAMMA), L.decode(vlog))
        p_lam, p_bar, p_rew = twohot(ret, M.BINS), torch.softmax(vlog[:, :-1], -1), twohot(rt, M.BINS)
        mask = (sq(at) < M.EPS_ACT ** 2).to(z.dtype)
        nmask = mask.sum().clamp(min=1.0)
    loss["repr"] = sq(mlp(p, "proj", zn) - proj_t).mean()
    loss["dyn"] = sq(zn - zsg[:, 1:]).mean()
    # rollouts from s = 0..NS-1: step k=1 equals the teacher-forced prediction, so continue from there
    zr = zn[:, :NS]
    st = [torch.stack(ss[:NS], 1) for ss in states]              # state after consuming (z_s, a_s)
    roll = sq(zr - zsg[:, 1:1 + NS])
    for k in range(1, M.K):
        ak = act[:, k:k + NS]
        hr, st = mem_step(p, zr, ak, st)
        zr, _ = transition(p, zr, ak, hr)
        roll = roll + sq(zr - zsg[:, k + 1:k + 1 + NS])
    loss["roll"] = roll.mean()
    loss["reward"] = ce(p_rew, mlp(p, "reward", zn)).mean()
    vl = mlp(p, "value", zt)
    loss["value_ce"], loss["value_slow"] = ce(p_lam, vl).mean(), ce(p_bar, vl).mean()
    loss["value"] = loss["value_ce"] + loss["value_slow"]
    loss["policy"] = sq(torch.tanh(mlp(p, "pi", zt)) - at).mean()
    Hn = mlp(p, "H", zn[..., :2 * M.NQ])[..., 0]
    loss["sa"] = (mask * (sq(aux["dq"]) + sq(aux["dp"]))).sum() / nmask
    loss["energy"] = (mask * (Hn - aux["H"]).square()).sum() / nmask
    net = aux["net"]
    loss["ham"] = (sq(net[..., :M.NQ] - aux["gp"]) + sq(net[..., M.NQ:] + aux["gq"])).mean()
    loss["temp"] = (sq(aux["dq"]) - M.RHO_TEMP * sq(aux["dp"])).mean()
    loss["dec"] = L.covariance(zt[..., :M.NQ], zt[..., M.NQ:2 * M.NQ]).square().sum()
    loss["c"] = aux["dc"].abs().mean()
    return sum(w * loss[k] for k, w in M.WEIGHTS.items()), loss


# ------------------------------------------------------------------ CEM planner
def search_round(p, z, states, mean, std, noise):
    """noise [n,6,6]: of candidates around the mean, then of the policy's rollouts. z [1,48]; states of [1,128,N].
    Returns mean, std, scores."""
    n, ng = noise.shape[0], M.N_GAUSS
    z, st = z.expand(n, -1), [s.expand(n, -1, -1) for s in states]
    gauss = (mean + std * noise[:ng]).clamp(-1, 1)
    zs, acts = [], []
    for k in range(M.HORIZON):
        ap = torch.tanh(mlp(p, "pi", z[ng:])) + M.POL_STD * noise[ng:, k]
        a = torch.cat([gauss[:, k], ap.clamp(-1, 1)], 0)
        h, st = mem_step(p, z, a, st)
        z, _ = transition(p, z, a, h)
        zs.append(z)
        acts.append(a)
    score = L.returned(p, "reward", "value", torch.stack(zs))
    return *L.elite_update(score, torch.stack(acts, 1), M.ELITES, M.CEM_TEMP, M.STD_MIN), score


def prepare(p, obs, a_prev, state):
    z = mlp(p, "enc", obs[None])
    return z, mem_step(p, z, a_prev[None], [s[None] for s in state])[1]


def planner(p, d, made):
    """A decision: what `search` gives, and the memory after it. `made` makes functions fast."""
    first, each = made(prepare), made(search_round)

    def decide():
        z, states = first(p, d["obs"], d["a_prev"], d["state"])
        return L.search(each, M.STD0, p, z, states, d["mu0"], d["noise"]), states
    return torch.no_grad()(decide)
