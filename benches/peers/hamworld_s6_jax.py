"""HamWorldS6 and HamWorldLiteral in JAX (sizes and names: hamworld_s6_spec.py)."""
import jax
import jax.numpy as jnp
import hamworld_s6_spec as M
import layers_jax as L
import spec as S
from layers_jax import ce, lin, mlp, sg, silu, sq, twohot


# ------------------------------------------------------------------ selective memory
def rmsnorm(x, w):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + M.RMS_EPS) * w


def ssm_proj(p, l, u):
    m = f"mem.{l}."
    xg = rmsnorm(u, p[m + "norm"]) @ p[m + "in_proj"].T
    x, g = xg[..., :M.DM], xg[..., M.DM:]
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
    for l in range(M.LAYERS):
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
        return s, (ssm_read(s, c), s if keep else None)
    sw = lambda v: jnp.swapaxes(v, 0, 1)
    _, (y, ss) = L.loop(body, s, tuple(map(sw, (dt, x, Bm, Cm))))
    return sw(y), (sw(ss) if keep else None)


def mem_seq(p, z, a):
    u, all_states = lin(p, "mem.in", jnp.concatenate([z, a], -1)), []
    for l in range(M.LAYERS):
        x, g, dt, Bm, Cm = ssm_proj(p, l, u)
        A = -jnp.exp(p[f"mem.{l}.A_log"])
        y, ss = selective_scan(A, dt, x, Bm, Cm, jnp.zeros((z.shape[0], *A.shape), z.dtype))
        all_states.append(ss)
        u = ssm_out(p, l, y, x, g, u)
    return u, all_states


# ------------------------------------------------------------------ transition
def transition(p, z, a, h, alpha=M.ALPHA):
    x = jnp.concatenate([z, a, h], -1)
    net = mlp(p, "core", x)
    G = mlp(p, "G", x).reshape(*x.shape[:-1], M.NQ, M.ACT)
    dc = mlp(p, "fc", x)
    H, g = L.energy(p, "H", z[..., :2 * M.NQ])
    gq, gp = g[..., :M.NQ], g[..., M.NQ:]
    dq = (1 - alpha) * net[..., :M.NQ] + alpha * gp
    dp = (1 - alpha) * net[..., M.NQ:] - alpha * gq + (G * a[..., None, :]).sum(-1)
    return z + jnp.concatenate([dq, dp, dc], -1), dict(net=net, dq=dq, dp=dp, dc=dc, H=H, gq=gq, gp=gp)


# ------------------------------------------------------------------ training loss
def losses(p, batch):
    obs, act, rew = batch["obs"], batch["act"], batch["rew"]
    NS = M.T - M.K
    z = mlp(p, "enc", obs)
    zt, at, rt, zsg, loss = z[:, :-1], act[:, :-1], rew[:, :-1], sg(z), {}
    h, states = mem_seq(p, zt, at)
    zn, aux = transition(p, zt, at, h)
    proj_t = sg(mlp(p, "ema.proj", mlp(p, "ema.enc", obs)[:, 1:]))
    vlog = sg(mlp(p, "ema.value", zsg))
    ret = L.lambda_return(rt, jnp.full_like(rt, S.GAMMA), L.decode(vlog))
    p_lam, p_bar, p_rew = twohot(ret, M.BINS), jax.nn.softmax(vlog[:, :-1], -1), twohot(rt, M.BINS)
    mask = (sq(at) < M.EPS_ACT ** 2).astype(z.dtype)
    nmask = jnp.maximum(mask.sum(), 1.0)
    loss["repr"] = sq(mlp(p, "proj", zn) - proj_t).mean()
    loss["dyn"] = sq(zn - zsg[:, 1:]).mean()
    # rollouts from s = 0..NS-1: step k=1 equals the teacher-forced prediction, so continue from there
    def body(carry, i):
        zr, st, roll = carry
        ak, target = i
        hr, st = mem_step(p, zr, ak, st)
        zr, _ = transition(p, zr, ak, hr)
        return (zr, st, roll + sq(zr - target)), None
    zr, st = zn[:, :NS], [ss[:, :NS] for ss in states]
    ahead = [(act[:, k:k + NS], zsg[:, k + 1:k + 1 + NS]) for k in range(1, M.K)]
    carry, _ = L.loop(body, (zr, st, sq(zr - zsg[:, 1:1 + NS])), tuple(map(jnp.stack, zip(*ahead))))
    loss["roll"] = carry[2].mean()
    loss["reward"] = ce(p_rew, mlp(p, "reward", zn)).mean()
    vl = mlp(p, "value", zt)
    loss["value_ce"], loss["value_slow"] = ce(p_lam, vl).mean(), ce(p_bar, vl).mean()
    loss["value"] = loss["value_ce"] + loss["value_slow"]
    loss["policy"] = sq(jnp.tanh(mlp(p, "pi", zt)) - at).mean()
    Hn = mlp(p, "H", zn[..., :2 * M.NQ])[..., 0]
    loss["sa"] = (mask * (sq(aux["dq"]) + sq(aux["dp"]))).sum() / nmask
    loss["energy"] = (mask * (Hn - aux["H"]) ** 2).sum() / nmask
    net = aux["net"]
    loss["ham"] = (sq(net[..., :M.NQ] - aux["gp"]) + sq(net[..., M.NQ:] + aux["gq"])).mean()
    loss["temp"] = (sq(aux["dq"]) - M.RHO_TEMP * sq(aux["dp"])).mean()
    loss["dec"] = (L.covariance(zt[..., :M.NQ], zt[..., M.NQ:2 * M.NQ]) ** 2).sum()
    loss["c"] = jnp.abs(aux["dc"]).mean()
    return sum(w * loss[k] for k, w in M.WEIGHTS.items()), loss


# ------------------------------------------------------------------ CEM planner
def search_round(p, z, states, mean, std, noise):
    """noise [n,6,6]: of candidates around the mean, then of the policy's rollouts. z [1,48]; states of [1,128,N].
    Returns mean, std, scores."""
    n, ng = noise.shape[0], M.N_GAUSS
    start = jnp.broadcast_to(z, (n, M.Z)), [jnp.broadcast_to(s, (n, *s.shape[1:])) for s in states]

    def body(carry, i):
        z, st = carry
        a, pn = i
        ap = jnp.tanh(mlp(p, "pi", z[ng:])) + M.POL_STD * pn
        a = jnp.concatenate([a, jnp.clip(ap, -1, 1)], 0)
        h, st = mem_step(p, z, a, st)
        z, _ = transition(p, z, a, h)
        return (z, st), (z, a)
    gauss = jnp.clip(mean + std * noise[:ng], -1, 1)
    _, (zs, acts) = L.loop(body, start, (jnp.swapaxes(gauss, 0, 1), jnp.swapaxes(noise[ng:], 0, 1)))
    score = L.returned(p, "reward", "value", zs)
    return *L.elite_update(score, jnp.swapaxes(acts, 0, 1), M.ELITES, M.CEM_TEMP, M.STD_MIN), score


def planner(p, d):
    """A decision: what `search` gives, and the memory after it."""
    @jax.jit
    def decide(p, d):
        z = mlp(p, "enc", d["obs"][None])
        _, states = mem_step(p, z, d["a_prev"][None], [s[None] for s in d["state"]])
        return L.search(search_round, M.STD0, p, z, states, d["mu0"], d["noise"]), states
    return lambda: decide(p, d)
