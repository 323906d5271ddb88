"""HaM-World in PyTorch. Functional: parameters are a flat dict name -> tensor (see spec.py)."""
import torch
import torch.nn.functional as F
import spec as S

READOUT = "matmul"      # SSM readout y = s @ C: "matmul" (best in eager) or "sum" (fuses in inductor)
HGRAD = "manual"        # gradient of H: "manual" closed form | "func" torch.func.grad | "autograd"


def tensors(d, dtype=torch.float32):
    return {k: torch.as_tensor(v).to(dtype) for k, v in d.items()}


def lin(p, n, x):
    return F.linear(x, p[n + ".weight"], p[n + ".bias"])


def mlp(p, n, x):
    k = len(S.MLPS[n.removeprefix("ema.")]) - 1
    for i in range(k - 1):
        x = F.silu(lin(p, f"{n}.{i}", x))
    return lin(p, f"{n}.{k - 1}", x)


# ------------------------------------------------------------------ symlog two-hot
def symlog(x):
    return torch.sign(x) * torch.log1p(torch.abs(x))


def symexp(x):
    return torch.sign(x) * torch.expm1(torch.abs(x))


def bins(x):
    return torch.linspace(S.BIN_LO, S.BIN_HI, S.BINS, dtype=x.dtype)


def twohot(x):
    pos = (symlog(x).clamp(S.BIN_LO, S.BIN_HI) - S.BIN_LO) / ((S.BIN_HI - S.BIN_LO) / (S.BINS - 1))
    i0 = pos.floor().clamp(0, S.BINS - 2)
    w1 = (pos - i0)[..., None]
    k = torch.arange(S.BINS, dtype=x.dtype)
    i0 = i0[..., None]
    return (k == i0) * (1 - w1) + (k == i0 + 1) * w1


def decode(logits):
    return symexp((torch.softmax(logits, -1) * bins(logits)).sum(-1))


def ce(target, logits):
    return -(target * torch.log_softmax(logits, -1)).sum(-1)


# ------------------------------------------------------------------ selective memory
def rmsnorm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + S.RMS_EPS) * w


def ssm_proj(p, l, u):
    m = f"mem.{l}."
    x, g = F.linear(rmsnorm(u, p[m + "norm"]), p[m + "in_proj"]).chunk(2, -1)
    return x, g, F.softplus(lin(p, m + "dt", x)), F.linear(x, p[m + "B"]), F.linear(x, p[m + "C"])


def ssm_update(A, s, dt, x, Bm):
    """s [...,128,N] <- exp(dt*A) * s + (dt*x) B^T"""
    return torch.exp(dt[..., None] * A) * s + (dt * x)[..., None] * Bm[..., None, :]


def ssm_read(s, Cm):
    if READOUT == "matmul":
        return torch.matmul(s, Cm[..., None]).squeeze(-1)
    return (s * Cm[..., None, :]).sum(-1)


def ssm_out(p, l, y, x, g, u):
    m = f"mem.{l}."
    return F.linear((y + p[m + "D"] * x) * F.silu(g), p[m + "out_proj"]) + u


def mem_step(p, z, a, states):
    """one step; states: list of LAYERS tensors [...,128,N]. Returns h [...,128], new states."""
    u, new = lin(p, "mem.in", torch.cat([z, a], -1)), []
    for l in range(S.LAYERS):
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
    for l in range(S.LAYERS):
        x, g, dt, Bm, Cm = ssm_proj(p, l, u)
        A = -torch.exp(p[f"mem.{l}.A_log"])
        y, ss = selective_scan(A, dt, x, Bm, Cm, z.new_zeros(z.shape[0], *A.shape))
        all_states.append(ss)
        u = ssm_out(p, l, y, x, g, u)
    return u, all_states


# ------------------------------------------------------------------ Hamiltonian + transition
def dsilu(u):
    s = torch.sigmoid(u)
    return s * (1 + u * (1 - s))


def ham(p, x):
    """H(q,p) and its gradient; x = [q,p] [...,16]. Returns H [...], dH/d[q,p] [...,16]."""
    if HGRAD == "func":
        g, h = torch.func.grad_and_value(lambda v: mlp(p, "H", v).sum())(x)
        return mlp(p, "H", x)[..., 0], g
    if HGRAD == "autograd":
        with torch.enable_grad():
            keep = x.requires_grad
            v = x if keep else x.detach().requires_grad_()
            h = mlp(p, "H", v)
            return h[..., 0], torch.autograd.grad(h.sum(), v, create_graph=keep)[0]
    u1 = lin(p, "H.0", x)
    u2 = lin(p, "H.1", F.silu(u1))
    h = lin(p, "H.2", F.silu(u2))[..., 0]
    g2 = (dsilu(u2) * p["H.2.weight"][0]) @ p["H.1.weight"]
    return h, (dsilu(u1) * g2) @ p["H.0.weight"]


def transition(p, z, a, h, alpha=S.ALPHA):
    """returns z_next and the pieces the losses need."""
    x = torch.cat([z, a, h], -1)
    net = mlp(p, "core", x)
    G = mlp(p, "G", x).unflatten(-1, (S.NQ, S.ACT))
    dc = mlp(p, "fc", x)
    H, g = ham(p, z[..., :2 * S.NQ])
    gq, gp = g[..., :S.NQ], g[..., S.NQ:]
    dq = (1 - alpha) * net[..., :S.NQ] + alpha * gp
    dp = (1 - alpha) * net[..., S.NQ:] - alpha * gq + (G * a[..., None, :]).sum(-1)
    return z + torch.cat([dq, dp, dc], -1), dict(net=net, dq=dq, dp=dp, dc=dc, H=H, gq=gq, gp=gp)


# ------------------------------------------------------------------ training loss
def forward(p, obs, act):
    z = mlp(p, "enc", obs)
    h, states = mem_seq(p, z[:, :-1], act[:, :-1])
    zn, aux = transition(p, z[:, :-1], act[:, :-1], h)
    return z, h, states, zn, aux


def losses(p, batch):
    obs, act, rew = batch["obs"], batch["act"], batch["rew"]
    M, NS = S.T - 1, S.T - S.K
    z, h, states, zn, aux = forward(p, obs, act)
    zt, at, rt = z[:, :-1], act[:, :-1], rew[:, :-1]
    zsg, L = z.detach(), {}
    with torch.no_grad():
        zbar = mlp(p, "ema.enc", obs)
        proj_t = mlp(p, "ema.proj", zbar[:, 1:])
        vlog = mlp(p, "ema.value", zsg)
        v = decode(vlog)
        ret, R = [], v[:, -1]
        for t in reversed(range(M)):
            R = rt[:, t] + S.GAMMA * ((1 - S.LAM) * v[:, t + 1] + S.LAM * R)
            ret.append(R)
        ret = torch.stack(ret[::-1], 1)
        p_lam, p_bar, p_rew = twohot(ret), torch.softmax(vlog[:, :-1], -1), twohot(rt)
        mask = (at.square().sum(-1) < S.EPS_ACT ** 2).to(z.dtype)
        nmask = mask.sum().clamp(min=1.0)
    sq = lambda x: x.square().sum(-1)
    L["repr"] = sq(mlp(p, "proj", zn) - proj_t).mean()
    L["dyn"] = sq(zn - zsg[:, 1:]).mean()
    # rollouts from s = 0..NS-1: step k=1 equals the teacher-forced prediction, so continue from there
    zr = zn[:, :NS]
    st = [torch.stack(ss[:NS], 1) for ss in states]              # state after consuming (z_s, a_s)
    roll = sq(zr - zsg[:, 1:1 + NS])
    for k in range(1, S.K):
        ak = act[:, k:k + NS]
        hr, st = mem_step(p, zr, ak, st)
        zr, _ = transition(p, zr, ak, hr)
        roll = roll + sq(zr - zsg[:, k + 1:k + 1 + NS])
    L["roll"] = roll.mean()
    L["reward"] = ce(p_rew, mlp(p, "reward", zn)).mean()
    vl = mlp(p, "value", zt)
    L["value_ce"], L["value_slow"] = ce(p_lam, vl).mean(), ce(p_bar, vl).mean()
    L["value"] = L["value_ce"] + L["value_slow"]
    L["policy"] = sq(torch.tanh(mlp(p, "pi", zt)) - at).mean()
    Hn = mlp(p, "H", zn[..., :2 * S.NQ])[..., 0]
    L["sa"] = (mask * (sq(aux["dq"]) + sq(aux["dp"]))).sum() / nmask
    L["energy"] = (mask * (Hn - aux["H"]).square()).sum() / nmask
    net = aux["net"]
    L["ham"] = (sq(net[..., :S.NQ] - aux["gp"]) + sq(net[..., S.NQ:] + aux["gq"])).mean()
    L["temp"] = (sq(aux["dq"]) - S.RHO_TEMP * sq(aux["dp"])).mean()
    q, pm = zt[..., :S.NQ].flatten(0, 1), zt[..., S.NQ:2 * S.NQ].flatten(0, 1)
    L["dec"] = ((q - q.mean(0)).T @ (pm - pm.mean(0)) / (q.shape[0] - 1)).square().sum()
    L["c"] = aux["dc"].abs().mean()
    return sum(w * L[k] for k, w in S.WEIGHTS.items()), L


def ema_update(p):
    with torch.no_grad():
        names = [n for n in p if n.startswith("ema.")]
        torch._foreach_lerp_([p[n] for n in names], [p[n[4:]] for n in names], 1 - S.EMA_TAU)


class Trainer:
    """loss fn may be compiled; optimizer = AdamW (fused CPU kernel), global-norm clip, EMA."""

    def __init__(self, params, loss_fn=losses, fused=True):
        self.p = {k: v.clone().requires_grad_(not k.startswith("ema.")) for k, v in params.items()}
        self.w = [v for v in self.p.values() if v.requires_grad]
        self.opt = torch.optim.AdamW(self.w, lr=S.LR, betas=(S.BETA1, S.BETA2), eps=S.ADAM_EPS,
                                     weight_decay=S.WD, fused=fused)
        self.loss_fn = loss_fn

    def step(self, batch):
        self.opt.zero_grad(set_to_none=True)
        total, L = self.loss_fn(self.p, batch)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.w, S.CLIP)
        self.opt.step()
        ema_update(self.p)
        return total.detach()


# ------------------------------------------------------------------ CEM planner
def rollout_score(p, z, states, gauss, pol_noise, mem=True, h0=None):
    """gauss [Ng,6,6] fixed candidate actions; pol_noise [Np,6,6]: actions tanh(pi(z)) + POL_STD*noise.
    z [1,48]; states list of [1,128,N]. Returns G [Ng+Np], actions [Ng+Np,6,6]."""
    n, ng = gauss.shape[0] + pol_noise.shape[0], gauss.shape[0]
    z = z.expand(n, -1)
    st = [s.expand(n, -1, -1) for s in states]
    zs, acts = [], []
    for k in range(S.HORIZON):
        a = gauss[:, k]
        if pol_noise.shape[0]:
            ap = torch.tanh(mlp(p, "pi", z[ng:])) + S.POL_STD * pol_noise[:, k]
            a = torch.cat([a, ap.clamp(-1, 1)], 0)
        if mem:
            h, st = mem_step(p, z, a, st)
        else:
            h = h0.expand(n, -1)
        z, _ = transition(p, z, a, h)
        zs.append(z)
        acts.append(a)
    r = decode(mlp(p, "reward", torch.stack(zs)))                # [6, n]
    disc = S.GAMMA ** torch.arange(S.HORIZON, dtype=r.dtype)
    G = (r * disc[:, None]).sum(0) + S.GAMMA ** S.HORIZON * decode(mlp(p, "value", z))
    return G, torch.stack(acts, 1)


def cem_iter(p, z, states, mu, std, noise, mem=True, h0=None):
    gauss = (mu + std * noise[:S.N_GAUSS]).clamp(-1, 1)
    G, a = rollout_score(p, z, states, gauss, noise[S.N_GAUSS:], mem, h0)
    return *elite_update(G, a), G


def elite_update(G, a):
    g, idx = torch.topk(G, S.ELITES)
    w = torch.softmax(g / S.CEM_TEMP, 0)[:, None, None]
    e = a[idx]
    mu = (w * e).sum(0)
    return mu, torch.sqrt((w * (e - mu).square()).sum(0) + S.VAR_EPS).clamp(min=S.STD_MIN)


def plan_prep(p, obs, a_prev, state):
    z = mlp(p, "enc", obs[None])
    h, st = mem_step(p, z, a_prev[None], [s[None] for s in state])
    return z, h, st


def plan(p, d, mem=True, iter_fn=cem_iter, prep_fn=plan_prep, trace=None):
    """one CEM planning step; d as spec.make_plan_inputs. Returns action mu_I[0]."""
    z, h, st = prep_fn(p, d["obs"], d["a_prev"], d["state"])
    mu, std = d["mu0"], torch.full_like(d["mu0"], S.STD0)
    for i in range(S.ITERS):
        mu, std, G = iter_fn(p, z, st, mu, std, d["noise"][i], mem, h)
        if trace is not None:
            trace.append((mu, std, G))
    return mu[0]
