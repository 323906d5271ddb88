"""HamWorld, the published model: sizes, schedules, settings of the search, inputs (numpy only).

Arrays have the names that `wmc show models/hamworld.wm --params` prints. Parameters and the planner's inputs are from
the goldens in `tests/golden/published_*`; the batch of the train step is synthetic.
"""
import json
import pathlib
from dataclasses import dataclass

import numpy as np
import spec as S
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden"
NAMES = json.loads((GOLDEN / "published_names.json").read_text())       # ours: the authors'

NQ, NC, DM, LAYERS = 8, 32, 128, 2
Z = 2 * NQ + NC                         # 48, order [q(0:8), p(8:16), c(16:48)]
T, K, BATCH = 8, 3, 128                 # decisions of a segment, steps of a re-roll, batch
BINS = 255
SMALL, STEEP, SHORT, INSIDE = 0.15, 25.0, 5.0, 50.0     # bounds of an action, of energy gradients, of latents
BALANCE, NORM_EPS = 0.5, 1e-5
DECAY = 0.0
SLOW = ("slow.", "param.")
PROGRESS = 0.45                         # of the training, inside all ramps

# Layers with the same input, computed as one product.
JOINED = {"fields": ["param.core.0", "param.gate.0", "param.control.0"], "side": ["param.context.0", "param.open.0"],
          "trunks": ["param.trunk.0", "param.side.0"],
          **{f"m.{l}": [f"param.m.{l}.{n}" for n in ("dt", "v", "c", "gate")] for l in range(LAYERS)}}


@dataclass(frozen=True)
class Search:
    """Settings of the planner; deviations are in units of the action, whose range is 2."""
    horizon: int = 6
    iterations: int = 6
    random: int = 96
    elites: int = 16
    temperature: float = 0.5
    std: float = 0.8
    std_min: float = 0.1
    std_prior: float = 0.3


def ramp(a, b, start, end, x):
    return a + (b - a) * min(max((x - start) / (end - start), 0.0), 1.0)


def alpha(progress=PROGRESS):
    return ramp(0.1, 0.5, 0.3, 1.0, progress)


def weights(progress=PROGRESS):
    late = ramp(0.0, 1.0, 0.3, 0.6, progress)
    return dict(repr=1.0, dyn=1.0, roll=ramp(0.05, 0.5, 0.3, 0.6, progress), reward=1.0, value=0.5, policy=0.1,
                sa=0.05 * late, energy=0.01 * late, ham=0.05, temp=0.01, decouple=0.01, c_sparse=0.001)


def golden(name, task="cheetah"):
    return load_file(GOLDEN / f"published_{task}" / f"{name}.safetensors")


def params(task="cheetah"):
    theirs = golden("params_f32", task)
    return {ours: theirs[name] for ours, name in NAMES.items()}


def batch():
    """Synthetic segments: a quarter of the actions is small, one discount in fifty is 0."""
    r = S.random(1007)
    p = params()
    obs, act = p["param.encoder.0.weight"].shape[1], p["param.prior.2.bias"].shape[0]
    small = r.uniform(size=(BATCH, T, 1)) < 0.25
    d = dict(obs=r.standard_normal((BATCH, T + 1, obs)),
             a=np.where(small, 0.01, 1.0) * r.uniform(-1, 1, (BATCH, T, act)),
             r=r.standard_normal((BATCH, T)) * np.exp(r.standard_normal((BATCH, T))),
             discount=1.0 * (r.uniform(size=(BATCH, T)) > 0.02), first=np.zeros((BATCH, T + 1)))
    return S.singles({f"data.{k}": v for k, v in d.items()})


def decision(task="cheetah"):
    """A decision in the middle of an episode: its search starts from the last plan."""
    g = golden("plan_f64", task)
    noise = np.concatenate([g["warm.noise_random"], g["warm.noise_policy"]], 1)
    d = {"data.obs": golden("batch_f32", task)["observations"][:1, 3], "data.first": np.zeros(1),
         "draw.plan.noise": noise[None], "carry.plan.last": g["first.final_mean"][None], "carry.plan.begun": np.ones(1)}
    memory = {f"carry.m.{l}.h": g["warm.memory_state"][:, l] for l in range(LAYERS)}
    return {**d, **memory}


def exported(kind):
    """Tensors under wmc's names, which need no map."""
    inputs = decision() if kind == "plan" else batch()
    return {**params(), **inputs, "progress": np.array([PROGRESS])}, None
