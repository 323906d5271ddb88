"""The inputs of a case as the peers have them, for `wmc bench --worker .. --params F.safetensors`: `export.py CASE F [--model NAME]`.

Where tensors have names of their own, the file's metadata say under `wmc.map` which of ours each is (the format of `--map`), so that
nothing else is needed to read it.
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
