"""Cases, models with peers, shared constants, and inputs of the small cases (numpy only).

A model has three files: sizes and inputs in `MODEL_spec.py`, the maths in `MODEL_torch.py` and `MODEL_jax.py`.
Arrays have the names that `wmc show FILE --params` prints, unless the model's `exported` maps them.
Linear layers: weight [out, in], y = x @ weight.T + bias.
"""
import importlib

import numpy as np

BIN_LO, BIN_HI = -20.0, 20.0
GAMMA, LAM = 0.99, 0.95
LR, BETA1, BETA2, ADAM_EPS, CLIP, TAU = 1e-4, 0.9, 0.999, 1e-8, 10.0, 0.01
VAR_EPS = 1e-6

# Models with peers: the start of their files' names, and the number of states of a memory channel if it varies.
MODELS = {"HamWorld": ("hamworld", ()), "HamWorldS6": ("hamworld_s6", (16,)),
          "HamWorldLiteral": ("hamworld_s6", (128,))}
CASES = ("plan", "train", "scan", "scanback", "hgrad", "elite", "sgemm")


def parse(case):
    """"scanback512" -> ("scanback", 512), "plan" -> ("plan", 0)."""
    kind = case.rstrip("0123456789")
    if kind not in CASES:
        raise SystemExit(f"there is no case {case}")
    return kind, int(case[len(kind):] or 0)


def load(model, part):
    """A file of a model (part: spec, torch or jax), and what its spec's `params`, `batch` and `decision` take."""
    if model not in MODELS:
        raise SystemExit(f"there are no peers of {model}, only of {', '.join(MODELS)}")
    file, sizes = MODELS[model]
    return importlib.import_module(f"{file}_{part}"), sizes


def singles(d):
    return {k: np.ascontiguousarray(v, np.float32) for k, v in d.items()}


def random(seed):
    return np.random.Generator(np.random.PCG64(seed))


# ----------------------------------------------------------------------------- small cases
BATCH, CHANNELS, STATES = 128, 128, 16              # of benches/scan.wm
ROWS, NQ, WIDTH = 4096, 8, 128                      # of benches/hgrad.wm
CANDIDATES, HORIZON, ACT, ELITES, TEMPERATURE, STD_MIN = 160, 6, 6, 16, 0.5, 0.05       # of benches/elite.wm


def scan(steps):
    """The backward case differentiates by the decay rates and by a gain for every channel of every input."""
    r = random(3)
    d = {"param.rate": -np.exp(np.log(np.arange(1, STATES + 1))[None] + 0.1 * r.standard_normal((CHANNELS, STATES))),
         "data.dt": r.uniform(1e-3, 1e-1, (BATCH, steps, CHANNELS)),
         "data.v": r.standard_normal((BATCH, steps, CHANNELS)),
         "data.b": r.standard_normal((BATCH, steps, STATES)), "data.c": r.standard_normal((BATCH, steps, STATES))}
    gains = {f"param.{k}_gain": np.ones(n) for k, n in dict(dt=CHANNELS, v=CHANNELS, b=STATES, c=STATES).items()}
    return singles({**d, **gains})


def hgrad():
    r = random(5)
    sizes = [2 * NQ, WIDTH, WIDTH, 1]
    d = {f"data.{k}": r.standard_normal((ROWS, 1, NQ)) for k in "qp"}
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        d[f"param.energy.{i}.weight"] = r.standard_normal((outputs, inputs)) / np.sqrt(inputs)
        d[f"param.energy.{i}.bias"] = r.uniform(-0.1, 0.1, outputs)
    return singles(d)


def elite():
    r = random(9)
    return singles({"data.score": r.standard_normal((1, 1, CANDIDATES)),
                    "data.u": r.uniform(-1, 1, (1, 1, CANDIDATES, HORIZON, ACT))})
