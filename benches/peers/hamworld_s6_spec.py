"""HamWorldS6 and HamWorldLiteral: sizes, initial parameters, synthetic inputs (numpy only).

Seeds and names are those of the goldens in `tests/golden/hamworld_s6`; `exported` maps wmc's names to them.
N is the number of states of a channel.
"""
import json
import math
import pathlib

import numpy as np
import spec as S

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "hamworld_s6"

OBS, ACT, NQ, NC, DM, LAYERS = 17, 6, 8, 32, 128, 2
Z = 2 * NQ + NC                       # 48, order [q(0:8), p(8:16), c(16:48)]
XIN = Z + ACT + DM                    # 182, order [z, a, h]
BINS = 101
EPS_ACT, RHO_TEMP, ALPHA = 0.05, 0.5, 0.3
RMS_EPS = 1e-5
T, K, BATCH = 8, 5, 128               # window, rollout length, batch
DECAY = 1e-2
SLOW = ("ema.", "")
HORIZON, ITERS, N_GAUSS, N_POL, ELITES = 6, 6, 128, 32, 16
N_CAND = N_GAUSS + N_POL
CEM_TEMP, STD0, STD_MIN, POL_STD = 0.5, 0.4, 0.05, 0.3

WEIGHTS = dict(repr=1.0, dyn=1.0, roll=0.5, reward=1.0, value=0.5, policy=0.1,
               sa=0.05, energy=0.01, ham=0.05, temp=0.01, dec=0.01, c=0.001)
EMA_PREFIXES = ("enc.", "proj.", "value.")     # nets that own an EMA copy ("ema." + name)

MLPS = dict(enc=[OBS, 256, 256, Z], core=[XIN, 256, 2 * NQ], G=[XIN, 128, NQ * ACT],
            fc=[XIN, 256, NC], H=[2 * NQ, 128, 128, 1], reward=[Z, 256, BINS],
            value=[Z, 256, BINS], pi=[Z, 128, ACT], proj=[Z, 128, 64])


# output layers are damped so that latents stay O(1) over a rollout and CEM scores stay O(1)
GAIN = {"core.1.weight": 0.2, "G.1.weight": 0.2, "fc.1.weight": 0.2, "H.2.weight": 0.5,
        "reward.1.weight": 0.5, "value.1.weight": 0.5}


def shapes(N):
    """name -> shape of every trainable parameter."""
    s = {}
    for n, d in MLPS.items():
        for i in range(len(d) - 1):
            s[f"{n}.{i}.weight"] = (d[i + 1], d[i])
            s[f"{n}.{i}.bias"] = (d[i + 1],)
    s["mem.in.weight"], s["mem.in.bias"] = (DM, Z + ACT), (DM,)
    for l in range(LAYERS):
        m = f"mem.{l}."
        s[m + "norm"] = (DM,)
        s[m + "in_proj"] = (2 * DM, DM)          # rows [0:128] -> x, rows [128:256] -> gate
        s[m + "dt.weight"], s[m + "dt.bias"] = (DM, DM), (DM,)
        s[m + "B"], s[m + "C"] = (N, DM), (N, DM)
        s[m + "A_log"], s[m + "D"] = (DM, N), (DM,)
        s[m + "out_proj"] = (DM, DM)
    return s


def params(N):
    """f32 parameters plus EMA copies (EMA = online + noise, so the target path is really tested)."""
    r = S.random(7)
    p = {}
    for n, sh in shapes(N).items():
        if n.endswith("A_log"):
            v = np.log(np.arange(1, N + 1))[None, :] + 0.1 * r.standard_normal(sh)
        elif n.endswith(("norm", ".D")):
            v = 1 + 0.1 * r.standard_normal(sh)
        elif n.endswith("dt.bias"):
            dt = np.exp(r.uniform(math.log(1e-3), math.log(1e-1), sh))
            v = dt + np.log(-np.expm1(-dt))                      # inverse softplus
        elif len(sh) == 2:
            v = r.uniform(-1, 1, sh) * math.sqrt(3.0 / sh[1]) * GAIN.get(n, 1.0)    # variance gain^2/fan_in
        else:
            v = r.uniform(-0.1, 0.1, sh)
        p[n] = v.astype(np.float32)
    for n in [n for n in p if n.startswith(EMA_PREFIXES)]:
        p["ema." + n] = (p[n] * (1 + 0.05 * r.standard_normal(p[n].shape))
                         + 0.005 * r.standard_normal(p[n].shape)).astype(np.float32)
    return p


def batch(N=None, size=BATCH):
    """obs [B,T,17], act [B,T,6] in [-1,1] (about a quarter of the steps near zero), rew [B,T]."""
    r = S.random(1007)
    obs = r.standard_normal((size, T, OBS))
    act = r.uniform(-1, 1, (size, T, ACT))
    small = r.uniform(size=(size, T)) < 0.25
    act = np.where(small[..., None], 0.01 * act, act)
    rew = r.standard_normal((size, T)) * np.exp(r.standard_normal((size, T)))
    return S.singles(dict(obs=obs, act=act, rew=rew))


def decision(N):
    """obs [17], a_prev [6], mem state [2,128,N], mu0 [6,6], noise [6 iters,160,6 horizon,6 act]."""
    r = S.random(2007)
    return S.singles(dict(obs=r.standard_normal(OBS), a_prev=r.uniform(-1, 1, ACT),
                          state=0.1 * r.standard_normal((LAYERS, DM, N)), mu0=0.1 * r.standard_normal((HORIZON, ACT)),
                          noise=r.standard_normal((ITERS, N_CAND, HORIZON, ACT))))


# ----------------------------------------------------------------------------- for wmc
def advanced(p, d):
    """The memory after (z, a_prev), in float64: where the peers' planner starts."""
    linear = lambda name, v: v @ p[name + ".weight"].T + p[name + ".bias"]
    silu = lambda v: v / (1 + np.exp(-v))
    z = d["obs"]
    for i in range(2):
        z = silu(linear(f"enc.{i}", z))
    u, states = linear("mem.in", np.concatenate([linear("enc.2", z), d["a_prev"]])), []
    for l, s in enumerate(d["state"]):
        at = f"mem.{l}."
        x, gate = np.split(p[at + "in_proj"] @ (u / np.sqrt((u * u).mean() + RMS_EPS) * p[at + "norm"]), 2)
        dt = np.logaddexp(0, linear(at + "dt", x))
        s = np.exp(-dt[:, None] * np.exp(p[at + "A_log"])) * s + np.outer(dt * x, p[at + "B"] @ x)
        u = u + p[at + "out_proj"] @ ((s @ (p[at + "C"] @ x) + p[at + "D"] * x) * silu(gate))
        states.append(s)
    return states


def golden_map(data):
    """The goldens' map: parameters and slow copies, and with `data` the batch."""
    return {k: v for k, v in json.loads((GOLDEN / "map.json").read_text()).items() if data or not k.startswith("data.")}


def exported(kind, N):
    """Tensors, and the map from our names to theirs."""
    if kind == "plan":
        p, d = params(N), decision(N)
        wide = lambda x: {k: v.astype(np.float64) for k, v in x.items()}
        memory = np.stack(advanced(wide(p), wide(d)))
        tensors = {**p, **{f"plan_in.{k}": v for k, v in d.items()}, "plan_in.memory": memory}
        names = golden_map(data=False)
        names["data.obs"] = dict(tensor="plan_in.obs", shape=[1, OBS])
        names["value.plan.mean"] = dict(tensor="plan_in.mu0", shape=[1, HORIZON, ACT])
        names["draw.plan.noise"] = dict(tensor="plan_in.noise", shape=[1, ITERS, N_CAND, HORIZON, ACT])
        for l in range(LAYERS):
            names[f"carry.m.{l}.h"] = dict(tensor="plan_in.memory", rows=[l, l + 1])
        tensors["plan_in.first"] = np.zeros(1)
        names["data.first"] = "plan_in.first"
        tensors["progress"] = np.array([0.65])          # alpha is 0.3 and every warm-up 1
        return tensors, names
    tensors = {**params(N), **{f"in.{k}": v for k, v in batch().items()}}
    tensors["in.first"] = np.zeros((BATCH, T))
    tensors["progress"] = np.array([0.65])
    return tensors, {**golden_map(data=True), "data.first": "in.first"}
