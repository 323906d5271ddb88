"""HaM-World in JAX. Same structure and names as model_torch.py (see spec.py for conventions)."""
import jax
import jax.numpy as jnp
import numpy as np
import spec as S

HGRAD = "auto"      # "auto": jax.grad of H (what a user writes) | "manual": closed form
SCAN = False        # True: lax.scan for the time / horizon / CEM loops, False: unrolled Python loops
UNROLL = 1          # steps that one round of a lax.scan over time makes
sg = jax.lax.stop_gradient
silu = jax.nn.silu


def tensors(d, dtype=jnp.float32):
    return {k: jnp.asarray(np.asarray(v), dtype) for k, v in d.items()}


def lin(p, n, x):
    return x @ p[n + ".weight"].T + p[n + ".bias"]


def mlp(p, n, x):
    k = len(S.MLPS[n.removeprefix("ema.")]) - 1
    for i in range(k - 1):
        x = silu(lin(p, f"{n}.{i}", x))
    return lin(p, f"{n}.{k - 1}", x)


# ------------------------------------------------------------------ symlog two-hot
def symlog(x):
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x):
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))


def bins(x):
    return jnp.linspace(S.BIN_LO, S.BIN_HI, S.BINS, dtype=x.dtype)


def twohot(x):
    pos = (jnp.clip(symlog(x), S.BIN_LO, S.BIN_HI) - S.BIN_LO) / ((S.BIN_HI - S.BIN_LO) / (S.BINS - 1))
    i0 = jnp.clip(jnp.floor(pos), 0, S.BINS - 2)[..., None]
    w1 = pos[..., None] - i0
    k = jnp.arange(S.BINS, dtype=x.dtype)
    return (k == i0) * (1 - w1) + (k == i0 + 1) * w1


def decode(logits):
    return symexp((jax.nn.softmax(logits, -1) * bins(logits)).sum(-1))


def ce(target, logits):
    return -(target * jax.nn.log_softmax(logits, -1)).sum(-1)


# ------------------------------------------------------------------ selective memory
def rmsnorm(x, w):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + S.RMS_EPS) * w


def ssm_proj(p, l, u):
    m = f"mem.{l}."
    xg = rmsnorm(u, p[m + "norm"]) @ p[m + "in_proj"].T
    x, g = xg[..., :S.DM], xg[..., S.DM:]
    return x, g, jax.nn.softplus(lin(p, m + "dt", x)), x @ p[m + "B"].T, x @ p[m + "C"].T


def ssm_update(A, s, dt, x, Bm):
    return jnp.exp(dt[..., None] * A) * s + (dt * x)[..., None] * Bm[..., None, :]


def ssm_read(s, Cm):
    return (s * Cm[..., None, :]).sum(-1)


def ssm_out(p, l, y, x, g, u):
    m = f"mem.{l}."
    return ((y + p[m + "D"] * x) * silu(g)) @ p[m + "out_proj"].T + u


def mem_step(p, z, a, states):
    u, new = lin(p, "mem.in", jnp.concatenate([z, a], -1)), []
    for l in range(S.LAYERS):
        x, g, dt, Bm, Cm = ssm_proj(p, l, u)
        s = ssm_update(-jnp.exp(p[f"mem.{l}.A_log"]), states[l], dt, x, Bm)
        new.append(s)
        u = ssm_out(p, l, ssm_read(s, Cm), x, g, u)
    return u, new


def selective_scan(A, dt, x, Bm, Cm, s, keep=True):
    """dt,x [B,T,128], Bm,Cm [B,T,N], s [B,128,N] -> y [B,T,128], states [B,T,128,N] (or None)."""
    def body(s, i):
        d, xx, b, c = i
        s = ssm_update(A, s, d, xx, b)
        return s, ((ssm_read(s, c), s) if keep else (ssm_read(s, c), None))
    if SCAN:
        sw = lambda v: jnp.swapaxes(v, 0, 1)
        _, (y, ss) = jax.lax.scan(body, s, tuple(map(sw, (dt, x, Bm, Cm))), unroll=UNROLL)
        return sw(y), (sw(ss) if keep else None)
    ys, ss = [], []
    for t in range(dt.shape[1]):
        s, (y, _) = body(s, (dt[:, t], x[:, t], Bm[:, t], Cm[:, t]))
        ys.append(y)
        ss.append(s)
    return jnp.stack(ys, 1), (ss if keep else None)       # list of T states: only the needed ones get stacked


def mem_seq(p, z, a):
    u, all_states = lin(p, "mem.in", jnp.concatenate([z, a], -1)), []
    for l in range(S.LAYERS):
        x, g, dt, Bm, Cm = ssm_proj(p, l, u)
        A = -jnp.exp(p[f"mem.{l}.A_log"])
        y, ss = selective_scan(A, dt, x, Bm, Cm, jnp.zeros((z.shape[0], *A.shape), z.dtype))
        all_states.append(ss)
        u = ssm_out(p, l, y, x, g, u)
    return u, all_states


# ------------------------------------------------------------------ Hamiltonian + transition
def dsilu(u):
    s = jax.nn.sigmoid(u)
    return s * (1 + u * (1 - s))


def ham(p, x):
    if HGRAD == "auto":
        def f(v):
            h = mlp(p, "H", v)[..., 0]
            return h.sum(), h
        g, h = jax.grad(f, has_aux=True)(x)
        return h, g
    u1 = lin(p, "H.0", x)
    u2 = lin(p, "H.1", silu(u1))
    h = lin(p, "H.2", silu(u2))[..., 0]
    g2 = (dsilu(u2) * p["H.2.weight"][0]) @ p["H.1.weight"]
    return h, (dsilu(u1) * g2) @ p["H.0.weight"]


def transition(p, z, a, h, alpha=S.ALPHA):
    x = jnp.concatenate([z, a, h], -1)
    net = mlp(p, "core", x)
    G = mlp(p, "G", x).reshape(*x.shape[:-1], S.NQ, S.ACT)
    dc = mlp(p, "fc", x)
    H, g = ham(p, z[..., :2 * S.NQ])
    gq, gp = g[..., :S.NQ], g[..., S.NQ:]
    dq = (1 - alpha) * net[..., :S.NQ] + alpha * gp
    dp = (1 - alpha) * net[..., S.NQ:] - alpha * gq + (G * a[..., None, :]).sum(-1)
    return z + jnp.concatenate([dq, dp, dc], -1), dict(net=net, dq=dq, dp=dp, dc=dc, H=H, gq=gq, gp=gp)


# ------------------------------------------------------------------ training loss
def forward(p, obs, act):
    z = mlp(p, "enc", obs)
    h, states = mem_seq(p, z[:, :-1], act[:, :-1])
    zn, aux = transition(p, z[:, :-1], act[:, :-1], h)
    return z, h, states, zn, aux


def losses(w, ema, batch):
    """w: trainable dict, ema: dict with 'ema.' names."""
    p = {**w, **ema}
    obs, act, rew = batch["obs"], batch["act"], batch["rew"]
    M, NS = S.T - 1, S.T - S.K
    z, h, states, zn, aux = forward(p, obs, act)
    zt, at, rt = z[:, :-1], act[:, :-1], rew[:, :-1]
    zsg, L = sg(z), {}
    proj_t = sg(mlp(p, "ema.proj", mlp(p, "ema.enc", obs)[:, 1:]))
    vlog = sg(mlp(p, "ema.value", zsg))
    v = decode(vlog)
    ret, R = [], v[:, -1]
    for t in reversed(range(M)):
        R = rt[:, t] + S.GAMMA * ((1 - S.LAM) * v[:, t + 1] + S.LAM * R)
        ret.append(R)
    ret = jnp.stack(ret[::-1], 1)
    p_lam, p_bar, p_rew = twohot(ret), jax.nn.softmax(vlog[:, :-1], -1), twohot(rt)
    mask = ((at ** 2).sum(-1) < S.EPS_ACT ** 2).astype(z.dtype)
    nmask = jnp.maximum(mask.sum(), 1.0)
    sq = lambda x: (x * x).sum(-1)
    L["repr"] = sq(mlp(p, "proj", zn) - proj_t).mean()
    L["dyn"] = sq(zn - zsg[:, 1:]).mean()
    zr = zn[:, :NS]
    st = [jnp.stack(ss[:NS], 1) if isinstance(ss, list) else ss[:, :NS] for ss in states]
    roll = sq(zr - zsg[:, 1:1 + NS])

    def body(carry, i):
        zr, st, roll = carry
        ak, tgt = i
        hr, st = mem_step(p, zr, ak, st)
        zr, _ = transition(p, zr, ak, hr)
        return (zr, st, roll + sq(zr - tgt)), None
    aks = [act[:, k:k + NS] for k in range(1, S.K)]
    tgts = [zsg[:, k + 1:k + 1 + NS] for k in range(1, S.K)]
    carry = (zr, st, roll)
    if SCAN:
        carry, _ = jax.lax.scan(body, carry, (jnp.stack(aks), jnp.stack(tgts)))
    else:
        for i in zip(aks, tgts):
            carry, _ = body(carry, i)
    L["roll"] = carry[2].mean()
    L["reward"] = ce(p_rew, mlp(p, "reward", zn)).mean()
    vl = mlp(p, "value", zt)
    L["value_ce"], L["value_slow"] = ce(p_lam, vl).mean(), ce(p_bar, vl).mean()
    L["value"] = L["value_ce"] + L["value_slow"]
    L["policy"] = sq(jnp.tanh(mlp(p, "pi", zt)) - at).mean()
    Hn = mlp(p, "H", zn[..., :2 * S.NQ])[..., 0]
    L["sa"] = (mask * (sq(aux["dq"]) + sq(aux["dp"]))).sum() / nmask
    L["energy"] = (mask * (Hn - aux["H"]) ** 2).sum() / nmask
    net = aux["net"]
    L["ham"] = (sq(net[..., :S.NQ] - aux["gp"]) + sq(net[..., S.NQ:] + aux["gq"])).mean()
    L["temp"] = (sq(aux["dq"]) - S.RHO_TEMP * sq(aux["dp"])).mean()
    q, pm = zt[..., :S.NQ].reshape(-1, S.NQ), zt[..., S.NQ:2 * S.NQ].reshape(-1, S.NQ)
    L["dec"] = (((q - q.mean(0)).T @ (pm - pm.mean(0)) / (q.shape[0] - 1)) ** 2).sum()
    L["c"] = jnp.abs(aux["dc"]).mean()
    return sum(wt * L[k] for k, wt in S.WEIGHTS.items()), L


def split(p):
    return ({k: v for k, v in p.items() if not k.startswith("ema.")},
            {k: v for k, v in p.items() if k.startswith("ema.")})


def init_opt(w):
    zeros = lambda: {k: jnp.zeros_like(v) for k, v in w.items()}
    return dict(m=zeros(), v=zeros(), t=jnp.zeros((), jnp.int32))


def train_step(w, ema, opt, batch):
    """loss + grad + global-norm clip + AdamW + EMA, hand-written (no optax dependency)."""
    (total, L), g = jax.value_and_grad(losses, has_aux=True)(w, ema, batch)
    norm = jnp.sqrt(sum((v * v).sum() for v in g.values()))
    scale = jnp.minimum(1.0, S.CLIP / (norm + 1e-6))
    t = opt["t"] + 1
    dt = total.dtype
    c1, c2 = 1 - S.BETA1 ** t.astype(dt), 1 - S.BETA2 ** t.astype(dt)
    m, v, nw = {}, {}, {}
    for k in w:
        gk = g[k] * scale
        m[k] = S.BETA1 * opt["m"][k] + (1 - S.BETA1) * gk
        v[k] = S.BETA2 * opt["v"][k] + (1 - S.BETA2) * gk * gk
        nw[k] = w[k] * (1 - S.LR * S.WD) - S.LR * (m[k] / c1) / (jnp.sqrt(v[k] / c2) + S.ADAM_EPS)
    nema = {k: S.EMA_TAU * x + (1 - S.EMA_TAU) * nw[k[4:]] for k, x in ema.items()}
    return nw, nema, dict(m=m, v=v, t=t), total


# ------------------------------------------------------------------ CEM planner
def rollout_score(p, z, states, gauss, pol_noise, mem=True, h0=None):
    ng = gauss.shape[0]
    n = ng + pol_noise.shape[0]
    z = jnp.broadcast_to(z, (n, S.Z))
    st = [jnp.broadcast_to(s, (n, *s.shape[1:])) for s in states]

    def body(carry, i):
        z, st = carry
        a, pn = i
        if pol_noise.shape[0]:
            ap = jnp.tanh(mlp(p, "pi", z[ng:])) + S.POL_STD * pn
            a = jnp.concatenate([a, jnp.clip(ap, -1, 1)], 0)
        if mem:
            h, st = mem_step(p, z, a, st)
        else:
            h = jnp.broadcast_to(h0, (n, S.DM))
        z, _ = transition(p, z, a, h)
        return (z, st), (z, a)
    if SCAN:
        (z, _), (zs, acts) = jax.lax.scan(body, (z, st), (jnp.swapaxes(gauss, 0, 1), jnp.swapaxes(pol_noise, 0, 1)))
    else:
        zs, acts, carry = [], [], (z, st)
        for k in range(S.HORIZON):
            carry, (zk, ak) = body(carry, (gauss[:, k], pol_noise[:, k]))
            zs.append(zk)
            acts.append(ak)
        z, zs, acts = carry[0], jnp.stack(zs), jnp.stack(acts)
    r = decode(mlp(p, "reward", zs))
    disc = S.GAMMA ** jnp.arange(S.HORIZON, dtype=r.dtype)
    G = (r * disc[:, None]).sum(0) + S.GAMMA ** S.HORIZON * decode(mlp(p, "value", z))
    return G, jnp.swapaxes(acts, 0, 1)


def cem_iter(p, z, states, mu, std, noise, mem=True, h0=None):
    gauss = jnp.clip(mu + std * noise[:S.N_GAUSS], -1, 1)
    G, a = rollout_score(p, z, states, gauss, noise[S.N_GAUSS:], mem, h0)
    return *elite_update(G, a), G


def elite_update(G, a):
    g, idx = jax.lax.top_k(G, S.ELITES)
    w = jax.nn.softmax(g / S.CEM_TEMP)[:, None, None]
    e = a[idx]
    mu = (w * e).sum(0)
    return mu, jnp.maximum(jnp.sqrt((w * (e - mu) ** 2).sum(0) + S.VAR_EPS), S.STD_MIN)


def plan(p, d, mem=True, trace=False, loop=True):
    """loop=True: lax.scan over CEM iterations (body unrolled over the horizon unless SCAN)."""
    z = mlp(p, "enc", d["obs"][None])
    h, st = mem_step(p, z, d["a_prev"][None], [s[None] for s in d["state"]])

    def body(c, noise):
        mu, std, G = cem_iter(p, z, st, *c, noise, mem, h)
        return (mu, std), (mu, std, G)
    c = (d["mu0"], jnp.full_like(d["mu0"], S.STD0))
    if loop:
        c, tr = jax.lax.scan(body, c, d["noise"])
    else:
        tr = []
        for i in range(S.ITERS):
            c, t = body(c, d["noise"][i])
            tr.append(t)
        tr = tuple(jnp.stack(x) for x in zip(*tr))
    return (c[0][0], tr) if trace else c[0][0]
