"""HaM-World as all peers see it: shapes, names, constants, initial parameters, synthetic inputs (numpy only).

The framework files contain maths alone. Seeds and names are those of the goldens in `tests/golden/hamworld_s6`.
Linear layers: weight [out, in], y = x @ weight.T + bias.
"""
import math
import numpy as np

OBS, ACT, NQ, NC, DM, LAYERS = 17, 6, 8, 32, 128, 2
Z = 2 * NQ + NC                       # 48, order [q(0:8), p(8:16), c(16:48)]
XIN = Z + ACT + DM                    # 182, order [z, a, h]
BINS, BIN_LO, BIN_HI = 101, -20.0, 20.0
GAMMA, LAM, EPS_ACT, RHO_TEMP, ALPHA = 0.99, 0.95, 0.05, 0.5, 0.3
RMS_EPS = 1e-5
T, K, BATCH = 8, 5, 128               # window, rollout length, batch
LR, BETA1, BETA2, ADAM_EPS, WD, CLIP, EMA_TAU = 1e-4, 0.9, 0.999, 1e-8, 1e-2, 10.0, 0.99
HORIZON, ITERS, N_GAUSS, N_POL, ELITES = 6, 6, 128, 32, 16
N_CAND = N_GAUSS + N_POL
CEM_TEMP, STD0, STD_MIN, POL_STD, VAR_EPS = 0.5, 0.4, 0.05, 0.3, 1e-6

LOSSES = ["repr", "dyn", "roll", "reward", "value", "value_ce", "value_slow", "policy",
          "sa", "energy", "ham", "temp", "dec", "c"]
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


def init_params(N, seed):
    """f32 parameters plus EMA copies (EMA = online + noise, so the target path is really tested)."""
    r = np.random.Generator(np.random.PCG64(seed))
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


def make_batch(B, seed):
    """obs [B,T,17], act [B,T,6] in [-1,1] (about a quarter of the steps near zero), rew [B,T]."""
    r = np.random.Generator(np.random.PCG64(seed + 1000))
    obs = r.standard_normal((B, T, OBS))
    act = r.uniform(-1, 1, (B, T, ACT))
    small = r.uniform(size=(B, T)) < 0.25
    act = np.where(small[..., None], 0.01 * act, act)
    rew = r.standard_normal((B, T)) * np.exp(r.standard_normal((B, T)))
    return {k: v.astype(np.float32) for k, v in dict(obs=obs, act=act, rew=rew).items()}


def make_plan_inputs(N, seed):
    """obs [17], a_prev [6], mem state [2,128,N], mu0 [6,6], noise [6 iters,160,6 horizon,6 act]."""
    r = np.random.Generator(np.random.PCG64(seed + 2000))
    d = dict(obs=r.standard_normal(OBS), a_prev=r.uniform(-1, 1, ACT),
             state=0.1 * r.standard_normal((LAYERS, DM, N)),
             mu0=0.1 * r.standard_normal((HORIZON, ACT)),
             noise=r.standard_normal((ITERS, N_CAND, HORIZON, ACT)))
    return {k: v.astype(np.float32) for k, v in d.items()}


# ----------------------------------------------------------------------------- cases
STATES = dict(HamWorldS6=16, HamWorldLiteral=128)          # models that have peers, and their N
ROWS = 4096


def parse(case, model=None):
    """"plan16" -> ("plan", 16), "scanback512" -> ("scanback", 512); "plan" of HamWorldS6 -> ("plan", 16)."""
    kind = case.rstrip("0123456789")
    if kind not in ("plan", "train", "scan", "scanback", "hgrad", "elite", "sgemm"):
        raise SystemExit(f"there is no case {case}")
    if case != kind:
        return kind, int(case[len(kind):])
    if kind not in ("plan", "train"):
        return kind, 0
    if model not in STATES:
        raise SystemExit(f"there are no peers of {model}, only of {', '.join(STATES)}")
    return kind, STATES[model]


def scan_inputs(steps, batch=BATCH, N=16):
    r = np.random.Generator(np.random.PCG64(3))
    d = dict(A=-np.exp(np.log(np.arange(1, N + 1))[None] + 0.1 * r.standard_normal((DM, N))),
             dt=r.uniform(1e-3, 1e-1, (batch, steps, DM)), x=r.standard_normal((batch, steps, DM)),
             B=r.standard_normal((batch, steps, N)), C=r.standard_normal((batch, steps, N)))
    return {k: v.astype(np.float32) for k, v in d.items()}


def scan_gains(N=16):
    """What the backward case differentiates by, beside A: a factor for every channel of every input."""
    return {k: np.ones(n, np.float32) for k, n in dict(dt=DM, x=DM, B=N, C=N).items()}


def hgrad_inputs():
    return np.random.Generator(np.random.PCG64(5)).standard_normal((ROWS, 2 * NQ)).astype(np.float32)


def elite_inputs():
    r = np.random.Generator(np.random.PCG64(9))
    return dict(score=r.standard_normal(N_CAND).astype(np.float32),
                actions=r.uniform(-1, 1, (N_CAND, HORIZON, ACT)).astype(np.float32))
