"""The inputs of a case as the peers have them, for `wmc bench --worker .. --params F.safetensors`: `export.py CASE F [--model NAME]`.

Tensors have the goldens' names; the file's metadata say under `wmc.map` which of ours each is (the format of `--map`), so that nothing
else is needed to read it. What the goldens do not have (the scan's and the elites' inputs) is under `scan.`, `elite.`, `hgrad.`.
"""
import argparse
import json
import pathlib

import numpy as np
import spec as S
from safetensors.numpy import save_file

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "hamworld_s6" / "map.json"


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
        x, gate = np.split(p[at + "in_proj"] @ (u / np.sqrt((u * u).mean() + S.RMS_EPS) * p[at + "norm"]), 2)
        dt = np.logaddexp(0, linear(at + "dt", x))
        s = np.exp(-dt[:, None] * np.exp(p[at + "A_log"])) * s + np.outer(dt * x, p[at + "B"] @ x)
        u = u + p[at + "out_proj"] @ ((s @ (p[at + "C"] @ x) + p[at + "D"] * x) * silu(gate))
        states.append(s)
    return states


def golden_map(data):
    """The goldens' map: parameters and slow copies, and with `data` the batch."""
    return {k: v for k, v in json.loads(GOLDEN.read_text()).items() if data or not k.startswith("data.")}


def case(kind, n):
    """Tensors, and the map from our names to them."""
    if kind == "plan":
        p, d = S.init_params(n, 7), S.make_plan_inputs(n, 7)
        wide = lambda x: {k: v.astype(np.float64) for k, v in x.items()}
        memory = np.stack(advanced(wide(p), wide(d)))
        tensors = {**p, **{f"plan_in.{k}": v for k, v in d.items()}, "plan_in.memory": memory}
        names = golden_map(data=False)
        names["data.obs"] = dict(tensor="plan_in.obs", shape=[1, S.OBS])
        names["value.plan.mean"] = dict(tensor="plan_in.mu0", shape=[1, S.HORIZON, S.ACT])
        names["draw.plan.noise"] = dict(tensor="plan_in.noise", shape=[1, S.ITERS, S.N_CAND, S.HORIZON, S.ACT])
        for l in range(S.LAYERS):
            names[f"carry.m.{l}.h"] = dict(tensor="plan_in.memory", rows=[l, l + 1])
        tensors["plan_in.first"] = np.zeros(1)
        names["data.first"] = "plan_in.first"
        tensors["progress"] = np.array([0.65])          # alpha is 0.3 and every warm-up 1
        return tensors, names
    if kind == "train":
        tensors = {**S.init_params(n, 7), **{f"in.{k}": v for k, v in S.make_batch(S.BATCH, 7).items()}}
        tensors["in.first"] = np.zeros((S.BATCH, S.T))
        tensors["progress"] = np.array([0.65])
        return tensors, {**golden_map(data=True), "data.first": "in.first"}
    if kind in ("scan", "scanback"):
        tensors = {f"scan.{k}": v for k, v in S.scan_inputs(n).items()} | {f"scan.gain.{k}": v for k, v in S.scan_gains().items()}
        names = {"param.rate": "scan.A", "data.dt": "scan.dt", "data.v": "scan.x", "data.b": "scan.B", "data.c": "scan.C",
                 "param.dt_gain": "scan.gain.dt", "param.v_gain": "scan.gain.x", "param.b_gain": "scan.gain.B", "param.c_gain": "scan.gain.C"}
        return tensors, names
    if kind == "hgrad":
        tensors = {k: v for k, v in S.init_params(16, 7).items() if k.startswith("H.")} | {"hgrad.x": S.hgrad_inputs()}
        names = {k: v for k, v in golden_map(data=False).items() if k.startswith("param.energy.")}
        names["data.q"] = dict(tensor="hgrad.x", cols=[0, S.NQ], shape=[S.ROWS, 1, S.NQ])
        names["data.p"] = dict(tensor="hgrad.x", cols=[S.NQ, 2 * S.NQ], shape=[S.ROWS, 1, S.NQ])
        return tensors, names
    if kind == "elite":
        tensors = {f"elite.{k}": v for k, v in S.elite_inputs().items()}
        return tensors, {"data.score": dict(tensor="elite.score", shape=[1, 1, S.N_CAND]),
                         "data.u": dict(tensor="elite.actions", shape=[1, 1, S.N_CAND, S.HORIZON, S.ACT])}
    raise SystemExit(f"nothing to export for {kind}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("out")
    parser.add_argument("--model")
    a = parser.parse_args()
    tensors, names = case(*S.parse(a.case, a.model))
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    save_file(tensors, a.out, metadata={"wmc.map": json.dumps(names)})


if __name__ == "__main__":
    main()
