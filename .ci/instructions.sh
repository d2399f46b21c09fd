#!/usr/bin/env bash
# Compares the instruction counts of ten calls with benchmarks/instructions.json:
# more than 3 % above is a failure, where compiler, Python, NumPy and valgrind are
# the stored ones; elsewhere it says so and only shows the counts.
#
#   .ci/instructions.sh          check
#   .ci/instructions.sh store    store new counts, when a change is meant
#
# Needs specgrid installed in .venv (a release build) and valgrind, which it
# installs as root on Debian when it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq valgrind >/dev/null
fi
.venv/bin/python benchmarks/instructions.py "${1:-check}"
