"""Writes the peers' inputs of a case for `wmc bench --worker .. --params FILE`: `export.py CASE FILE [--model NAME]`.

If tensors have names of their own, the file's metadata maps wmc's names to them: `wmc.map`, in the format of `--map`.
"""
import argparse
import json

import numpy as np
import spec as S
from safetensors.numpy import save_file


def case(kind, n, model):
    """Tensors, and the map from our names to theirs; none where they are ours."""
    if kind in ("plan", "train"):
        spec, sizes = S.load(model, "spec")
        return spec.exported(kind, *sizes)
    made = dict(scan=lambda: S.scan(n), scanback=lambda: S.scan(n), hgrad=S.hgrad, elite=S.elite)
    if kind not in made:
        raise SystemExit(f"nothing to export for {kind}")
    return made[kind](), None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("out")
    parser.add_argument("--model")
    a = parser.parse_args()
    tensors, names = case(*S.parse(a.case), a.model)
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    save_file(tensors, a.out, metadata={"wmc.map": json.dumps(names)} if names else None)


if __name__ == "__main__":
    main()
