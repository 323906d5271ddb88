"""One peer on one case, as a worker: `worker.py CASE VARIANT [--model NAME]`.

Prints one JSON line when ready (seconds of the first call, the first numbers of the result), then answers every number
n on standard input with one JSON line of n times in ms. CASE: plan, train, scan8, scanback8, hgrad, elite, sgemm.
VARIANT: torch, torch-autograd, compile, compile-cppwrap, jax, jax-auto, jax-scan.
"""
import argparse
import importlib
import json
import sys
import time

import numpy as np
import spec as S


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("variant")
    parser.add_argument("--model")
    a = parser.parse_args()
    t0 = time.perf_counter()
    cases = importlib.import_module("cases_jax" if a.variant.startswith("jax") else "cases_torch")
    f, value = cases.build(*S.parse(a.case), a.variant, a.model)
    t1 = time.perf_counter()
    y = value(f())
    t2 = time.perf_counter()
    f()
    ready = dict(import_s=t1 - t0, first_call_s=t2 - t1, second_call_s=time.perf_counter() - t2,
                 value=np.asarray(y, np.float64).ravel()[:6].tolist())
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            t = time.perf_counter()
            f()
            times.append((time.perf_counter() - t) * 1e3)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
