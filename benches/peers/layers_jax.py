"""Parts of the models in JAX. Parameters are a flat dict of names and arrays."""
import jax
import jax.numpy as jnp
import numpy as np
import spec as S

GRADIENT = "manual"     # the energy's: "manual" in closed form | "auto" with jax.grad
SCAN = False            # loops as lax.scan, and not unrolled
UNROLL = 1              # steps that one round of such a loop makes
sg = jax.lax.stop_gradient
silu = jax.nn.silu


def tensors(d, dtype=jnp.float32):
    return {k: jnp.asarray(np.asarray(v), dtype) for k, v in d.items()}


def lin(p, n, x):
    return x @ p[n + ".weight"].T + p[n + ".bias"]


def mlp(p, n, x):
    i = 0
    while f"{n}.{i + 1}.weight" in p:
        x = silu(lin(p, f"{n}.{i}", x))
        i += 1
    return lin(p, f"{n}.{i}", x)


def joined(p, layers):
    """Adds layers that compute several layers of the same input: `layers` lists the parts of each."""
    whole = lambda parts, k: jnp.concatenate([p[f"{n}.{k}"] for n in parts])
    return p | {f"{n}.{k}": whole(parts, k) for n, parts in layers.items() for k in ("weight", "bias")}


def sq(x):
    return (x * x).sum(-1)


def loop(body, carry, xs):
    """`lax.scan`, unrolled unless SCAN."""
    if SCAN:
        return jax.lax.scan(body, carry, xs, unroll=UNROLL)
    ys = []
    for i in range(jax.tree.leaves(xs)[0].shape[0]):
        carry, y = body(carry, jax.tree.map(lambda x: x[i], xs))
        ys.append(y)
    return carry, jax.tree.map(lambda *y: jnp.stack(y), *ys)


# ------------------------------------------------------------------ symlog two-hot
def symlog(x):
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x):
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))


def twohot(x, bins):
    pos = (jnp.clip(symlog(x), S.BIN_LO, S.BIN_HI) - S.BIN_LO) / ((S.BIN_HI - S.BIN_LO) / (bins - 1))
    i0 = jnp.clip(jnp.floor(pos), 0, bins - 2)[..., None]
    w1 = pos[..., None] - i0
    k = jnp.arange(bins, dtype=x.dtype)
    return (k == i0) * (1 - w1) + (k == i0 + 1) * w1


def decode(logits):
    bins = jnp.linspace(S.BIN_LO, S.BIN_HI, logits.shape[-1], dtype=logits.dtype)
    return symexp((jax.nn.softmax(logits, -1) * bins).sum(-1))


def ce(target, logits):
    return -(target * jax.nn.log_softmax(logits, -1)).sum(-1)


def lambda_return(reward, discount, value):
    """reward, discount (gamma in it) [B,M], value [B,M+1] -> [B,M]."""
    ret, R = [], value[:, -1]
    for t in reversed(range(reward.shape[1])):
        R = reward[:, t] + discount[:, t] * ((1 - S.LAM) * value[:, t + 1] + S.LAM * R)
        ret.append(R)
    return jnp.stack(ret[::-1], 1)


# ------------------------------------------------------------------ energy
def dsilu(u):
    s = jax.nn.sigmoid(u)
    return s * (1 + u * (1 - s))


def energy(p, n, x):
    """An energy of three layers and its gradient: x [...,16] -> [...], [...,16]."""
    if GRADIENT == "auto":
        def f(v):
            h = mlp(p, n, v)[..., 0]
            return h.sum(), h
        g, h = jax.grad(f, has_aux=True)(x)
        return h, g
    u1 = lin(p, n + ".0", x)
    u2 = lin(p, n + ".1", silu(u1))
    h = lin(p, n + ".2", silu(u2))[..., 0]
    g2 = (dsilu(u2) * p[n + ".2.weight"][0]) @ p[n + ".1.weight"]
    return h, (dsilu(u1) * g2) @ p[n + ".0.weight"]


def covariance(q, p):
    """Between entries of q and p over all samples: [B,T,n], [B,T,n] -> [n,n]."""
    q, p = q.reshape(-1, q.shape[-1]), p.reshape(-1, p.shape[-1])
    return (q - q.mean(0)).T @ (p - p.mean(0)) / (q.shape[0] - 1)


# ------------------------------------------------------------------ optimiser
class Trainer:
    """AdamW, clipping by the global norm and slow copies in one jitted step, without optax. `slow`: the prefixes of a
    slow copy's name and of its parameter's."""

    def __init__(self, params, losses, slow, decay, lr=S.LR):
        self.w = {k: v for k, v in params.items() if not k.startswith(slow[0])}
        self.copies = {k: v for k, v in params.items() if k.startswith(slow[0])}
        zeros = lambda: {k: jnp.zeros_like(v) for k, v in self.w.items()}
        self.slots = dict(m=zeros(), v=zeros(), t=jnp.zeros((), jnp.int32))

        def step(w, copies, slots, batch):
            (total, parts), g = jax.value_and_grad(lambda w: losses({**w, **copies}, batch), has_aux=True)(w)
            norm = jnp.sqrt(sum((v * v).sum() for v in g.values()))
            scale = jnp.minimum(1.0, S.CLIP / (norm + 1e-6))
            t = slots["t"] + 1
            c1, c2 = 1 - S.BETA1 ** t.astype(total.dtype), 1 - S.BETA2 ** t.astype(total.dtype)
            m, v, new = {}, {}, {}
            for k in w:
                gk = g[k] * scale
                m[k] = S.BETA1 * slots["m"][k] + (1 - S.BETA1) * gk
                v[k] = S.BETA2 * slots["v"][k] + (1 - S.BETA2) * gk * gk
                new[k] = w[k] * (1 - lr * decay) - lr * (m[k] / c1) / (jnp.sqrt(v[k] / c2) + S.ADAM_EPS)
            moved = {k: (1 - S.TAU) * x + S.TAU * new[slow[1] + k.removeprefix(slow[0])] for k, x in copies.items()}
            return new, moved, dict(m=m, v=v, t=t), total
        self.jitted = jax.jit(step, donate_argnums=(0, 1, 2))

    @property
    def p(self):
        return {**self.w, **self.copies}

    def step(self, batch):
        self.w, self.copies, self.slots, total = self.jitted(self.w, self.copies, self.slots, batch)
        return jax.block_until_ready((total, self.w))[0]


# ------------------------------------------------------------------ planner
def elite_update(score, actions, elites, temperature, std_min):
    g, idx = jax.lax.top_k(score, elites)
    w = jax.nn.softmax(g / temperature)[:, None, None]
    e = actions[idx]
    mean = (w * e).sum(0)
    return mean, jnp.maximum(jnp.sqrt((w * (e - mean) ** 2).sum(0) + S.VAR_EPS), std_min)


def returned(p, reward, value, z):
    """Scores of rollouts z [H,n,48]: rewards on the way and the value at their end, by the names of two heads."""
    r = decode(mlp(p, reward, z))
    disc = S.GAMMA ** jnp.arange(z.shape[0], dtype=r.dtype)
    return (r * disc[:, None]).sum(0) + S.GAMMA ** z.shape[0] * decode(mlp(p, value, z[-1]))


def search(search_round, std, p, z, states, mean, noise):
    """Runs the rounds of a search, each with its noise -> means, deviations and scores, stacked."""
    def body(carry, noise):
        mean, std, score = search_round(p, z, states, *carry, noise)
        return (mean, std), (mean, std, score)
    return jax.lax.scan(body, (mean, jnp.full_like(mean, std)), noise)[1]
