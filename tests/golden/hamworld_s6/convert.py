"""Takes the goldens over: `python convert.py FOLDER`, where FOLDER holds the golden files of HaM-World as they were generated.

Copies what the tests read, writes `names.json` (our names -> the goldens' tensors) and `plan.safetensors` (the planner's start in our names),
and checks that the map covers every parameter once. numpy and safetensors as pinned in `tests/reference/requirements.txt`.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
FILES = ["inputs_f32", "outputs_f64", "grads_f64", "step1_f64"]


def parameters():
    """Path of a parameter -> its golden tensor, or a range of its rows."""
    out = {}
    nets = {"encoder": ("enc", 3), "core": ("core", 2), "context": ("fc", 2), "control": ("G", 2), "energy": ("H", 3), "project": ("proj", 2),
            "prior": ("pi", 2), "reward": ("reward", 2), "value": ("value", 2)}
    for ours, (theirs, layers) in nets.items():
        for i in range(layers):
            for kind in ("weight", "bias"):
                out[f"{ours}.{i}.{kind}"] = f"{theirs}.{i}.{kind}"
    out |= {"m.lift.weight": "mem.in.weight", "m.lift.bias": "mem.in.bias"}
    for l in range(2):
        out |= {
            f"m.{l}.norm.scale": f"mem.{l}.norm",
            f"m.{l}.v.weight": {"tensor": f"mem.{l}.in_proj", "rows": [0, 128]},
            f"m.{l}.gate.weight": {"tensor": f"mem.{l}.in_proj", "rows": [128, 256]},
            f"m.{l}.dt.weight": f"mem.{l}.dt.weight",
            f"m.{l}.dt.bias": f"mem.{l}.dt.bias",
            f"m.{l}.B.weight": f"mem.{l}.B",
            f"m.{l}.C.weight": f"mem.{l}.C",
            f"m.{l}.A_log": f"mem.{l}.A_log",
            f"m.{l}.skip": f"mem.{l}.D",
            f"m.{l}.out.weight": f"mem.{l}.out_proj",
        }
    return out


def outputs():
    """Everything else that a run reads or gives. `rows`, `cols`, `last`: ranges of the first, second and last axis."""
    part = lambda tensor, name: {f"{name}.q": {"tensor": tensor, "last": [0, 8]}, f"{name}.p": {"tensor": tensor, "last": [8, 16]},
                                 f"{name}.c": {"tensor": tensor, "last": [16, 48]}}
    losses = ["repr", "dyn", "roll", "reward", "value", "policy", "sa", "energy", "ham", "temp"]
    return {
        "data.obs": "in.obs", "data.a": {"tensor": "in.act", "cols": [0, 7]}, "data.r": {"tensor": "in.rew", "cols": [0, 7]},
        **{f"loss.{name}": f"loss.{name}" for name in losses},
        "loss.value.ce": "loss.value_ce", "loss.value.slow": "loss.value_slow", "loss.decouple": "loss.dec", "loss.c_sparse": "loss.c",
        "objective.main": "loss.total",
        **part("z", "value.z"), **part("z_ema", "value.zs"), **part("z_next", "value.s.next"),
        "value.m.out": "h",
        "value.m.carry.0.h": {"tensor": "mem_state_last.0", "at": {"t": 6}}, "value.m.carry.1.h": {"tensor": "mem_state_last.1", "at": {"t": 6}},
        "value.s.E": "H", "value.s.Hq": "dH_dq", "value.s.Hp": "dH_dp", "value.s.dq": "dq", "value.s.dp": "dp", "value.s.dc": "dc",
        "value.plan.mean": {"tensor": "plan.mu", "at": {"i": [1, 7]}}, "value.plan.std": {"tensor": "plan.std", "at": {"i": [1, 7]}},
        "value.plan.score": "plan.score", "act.eval": "plan.action",
    }


def load(folder, name):
    with safe_open(folder / f"{name}.safetensors", "np") as f:
        return {k: f.get_tensor(k) for k in f.keys()}


def advanced(p, x, states):
    """One step of the memory (the golden's README states it), in float64."""
    linear = lambda name, v: v @ p[name + ".weight"].T + p[name + ".bias"]
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    u, new = linear("mem.in", x), []
    for l, s in enumerate(states):
        at = f"mem.{l}."
        normed = u / np.sqrt((u * u).mean() + 1e-5) * p[at + "norm"]
        v, gate = np.split(p[at + "in_proj"] @ normed, 2)
        dt = np.logaddexp(0, linear(at + "dt", v))
        s = np.exp(-dt[:, None] * np.exp(p[at + "A_log"])) * s + np.outer(dt * v, p[at + "B"] @ v)
        y = s @ (p[at + "C"] @ v) + p[at + "D"] * v
        u = u + p[at + "out_proj"] @ (y * gate * sigmoid(gate))
        new.append(s)
    return u, new


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in FILES:
        shutil.copyfile(folder / f"{name}.safetensors", HERE / f"{name}.safetensors")
        (HERE / f"{name}.safetensors").chmod(0o644)
    names = parameters()
    tensors = {name: load(folder, name) for name in FILES}

    # Every golden parameter is covered, each row once.
    covered = {}
    for theirs in names.values():
        entry = theirs if isinstance(theirs, dict) else {"tensor": theirs}
        whole = tensors["inputs_f32"][entry["tensor"]]
        covered.setdefault(entry["tensor"], []).extend(range(*entry.get("rows", [0, len(whole)])))
    golden = {k[5:] for k in tensors["grads_f64"]}
    assert set(covered) == golden, set(covered) ^ golden
    assert all(sorted(rows) == list(range(len(tensors["inputs_f32"][k]))) for k, rows in covered.items())
    everything = set().union(*tensors.values())
    for entry in outputs().values():
        assert (entry["tensor"] if isinstance(entry, dict) else entry) in everything, entry

    # The golden's planner advances the memory once by (z, a_prev) and starts there: that state is the carry of our `act`.
    p = {k: v.astype(np.float64) for k, v in tensors["inputs_f32"].items()}
    z = tensors["outputs_f64"]["plan.z"][0]
    h, states = advanced(p, np.concatenate([z, p["plan_in.a_prev"]]), p["plan_in.state"])
    assert np.abs(h - tensors["outputs_f64"]["plan.h"][0]).max() < 1e-12
    start = {f"carry.m.{l}.h": s[None] for l, s in enumerate(states)}
    start |= {"data.obs": p["plan_in.obs"][None], "draw.plan.noise": p["plan_in.noise"][None], "planner.plan.mean": p["plan_in.mu0"][None]}
    narrow = {k: np.ascontiguousarray(v if k.startswith("carry") else v.astype(np.float32)) for k, v in start.items()}
    save_file(narrow, HERE / "plan.safetensors")

    document = {
        "files": {"param": "inputs_f32", "slow": "inputs_f32", "data": "inputs_f32", "grad": "grads_f64", "next": "step1_f64"},
        "prefixes": {"param": "", "slow": "ema.", "grad": "grad.", "next.param": "step1.", "next.slow": "step1.ema."},
        "params": names,
        "others": outputs(),
    }
    (HERE / "names.json").write_text(json.dumps(document, indent=1) + "\n")
    print(len(names), "parameters,", sum(x.size for k, x in p.items() if k in covered), "numbers")


if __name__ == "__main__":
    main()
