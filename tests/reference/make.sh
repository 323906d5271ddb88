#!/usr/bin/env bash
# Computes every file of `data/` anew: `tests/reference/make.sh [FOLDER] [WMC]`, where WMC is the program (default target/debug/wmc) and FOLDER holds the Python environment (about 5 GB, for
# torch comes with its CUDA libraries; nothing of it is used).
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="${1:-$here/venv}"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet -r "$here/requirements.txt"
"$venv/bin/python" "$here/checks.py"
for model in tdmpc2 dreamerv3 sac ppo; do
  "$venv/bin/python" "$here/$model.py"
done
"$venv/bin/python" "$here/variants.py" "${2:-$here/../../target/debug/wmc}"
