"""Holds the oracles' files against what the command says of the models: `python names.py PATH_TO_WMC`, from anywhere.

Names and shapes of parameters, slow copies, data, draws, carries, running values, losses and slots must be those of `wmc show --json`.
"""
import json
import pathlib
import subprocess
import sys

from safetensors import safe_open

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
# Case -> model, batch (None: a rollout), steps of the data, entry point.
CASES = {
    "tdmpc2": ("tdmpc2", 3, 5, "train_step"), "tdmpc2_act": ("tdmpc2", 2, None, "act"), "tdmpc2_evaluate": ("tdmpc2", 2, 10, "evaluate"),
    "dreamerv3": ("dreamerv3", 3, 5, "train_step"), "dreamerv3_evaluate": ("dreamerv3", 2, 10, "evaluate"),
    "sac": ("sac", 5, 2, "train_step"), "ppo_record": ("ppo", None, 12, "record"), "ppo": ("ppo", 7, None, "train_step"),
}


def shown(command, file, *sizes):
    run = [command, "show", str(file), "--root", str(ROOT / "models"), "--json", "--dim", ",".join(sizes)]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)["models"][-1]


def shapes(path):
    with safe_open(path, "np") as f:
        return {k: tuple(f.get_slice(k).get_shape()) for k in f.keys()}


def size(axes):
    return tuple(a["size"] for a in axes)


def check(case, model, batch, steps, entry):
    given = shapes(HERE / "data" / f"{case}.in.safetensors")
    found = shapes(HERE / "data" / f"{case}.out.safetensors")
    known, slows = {}, {}
    params = {p["path"]: size(p["axes"]) for p in model["params"]}
    owner = {p["path"]: p["module"] for p in model["params"]}
    known |= {f"param.{k}": v for k, v in params.items()}
    slow = {m["name"] for m in model["modules"] if m["slow"] is not None}
    slows = {f"slow.{k}": v for k, v in params.items() if owner[k] in slow}
    for x in model["inputs"]:
        lead = () if batch is None else (batch,)
        if steps is not None:
            more = steps + 1 if entry == "record" else steps
            lead += (more - 1 if x["outcome"] else more,)
        known[f"data.{x['name']}"] = lead + size(x["axes"])
    drawn = {}
    for d in model["draws"]:
        lead = (batch,) if d["per_sample"] else ()
        indices = tuple(i["to"] - i["from"] for i in d["indices"])
        drawn.setdefault(f"draw.{d['name']}", []).append(lead + indices + size(d["axes"]))
    known |= slows | {f"carry.{c['path']}": (batch,) + size(c["axes"]) for c in model["carries"]}
    known |= {f"running.{r['name']}": size(r["axes"]) for r in model["running"]} | {"progress": ()}
    for o in model["optimizers"]:
        known[f"count.{o['name']}"] = ()
        for t in o["trains"]:
            for path in (k for k in params if owner[k] == t["module"]):
                known |= {f"slot.{o['name']}.{s}.{path}": params[path] for s in o["slots"]}
    wrong = []
    for name, shape in given.items():
        if name.startswith("record."):
            ok = name[7:] in model["records"] and shape == (batch,)
        elif name.startswith("draw."):
            ok = shape in drawn.get(name, [])
        else:
            ok = known.get(name) == shape
        wrong += [] if ok else [f"{name} {shape}, expected {known.get(name, drawn.get(name))}"]
    if entry == "train_step":
        wanted = {f"param.{k}" for k in params} | set(slows)
        wanted |= {f"loss.{name}" for x in model["losses"] for name in [x["name"], *x["parts"]]} | {f"grad.{k}" for k in params}
        wanted |= {f"next.{k}" for k in known if k.split(".")[0] in ("param", "slow", "running", "slot")}
        wrong += [f"{name} is missing" for name in sorted(wanted - set(given) - set(found))]
        wrong += [f"{k} {v}" for k, v in found.items() if k.startswith("grad.") and params[k[5:]] != v]
    return wrong


def hamworld(command):
    """The map of the goldens names every parameter, at its shape."""
    folder = ROOT / "tests" / "golden" / "hamworld_s6"
    names = json.loads((folder / "names.json").read_text())["params"]
    tensors = shapes(folder / "inputs_f32.safetensors")
    params = {p["path"]: size(p["axes"]) for p in shown(command, ROOT / "models" / "hamworld_s6.wm", "O=17", "A=6")["params"]}
    wrong = [f"{k} is named on one side" for k in set(names) ^ set(params)]
    for path, entry in names.items():
        entry = entry if isinstance(entry, dict) else {"tensor": entry}
        shape = tensors[entry["tensor"]]
        if "rows" in entry:
            shape = (entry["rows"][1] - entry["rows"][0],) + shape[1:]
        wrong += [] if params.get(path) == shape else [f"{path} {params.get(path)} against {shape}"]
    return wrong


def main():
    command, bad = sys.argv[1], 0
    results = {case: check(case, shown(command, HERE / "models" / f"{m}_small.wm", "O=5", "A=2"), *rest) for case, (m, *rest) in CASES.items()}
    results["hamworld_s6"] = hamworld(command)
    for case, wrong in results.items():
        bad += len(wrong)
        print(case, "ok" if not wrong else "")
        for line in wrong:
            print("  ", line)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
