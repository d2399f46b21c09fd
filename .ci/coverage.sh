#!/usr/bin/env bash
# Measures which lines and branches the tests reach, and prints the figures:
#   core     csrc/core by the C++ tests and the replay of saved fuzz inputs (gcov)
#   python   python/specgrid by the Python suite (coverage.py)
#
#   .ci/coverage.sh            both; fails when one is under 95 % (lines or branches)
#   .ci/coverage.sh core       one of them
#   .ci/coverage.sh python -k plan   pytest's arguments behind it
#
# The figure of Python has parts that run in other environments (the plug-in inside
# vLLM, the report in a browser). The gate measures each and then judges the whole:
#   .ci/coverage.sh run COMMAND...   run it, add what its Pythons reach
#   .ci/coverage.sh report           print and judge what was added, start anew
# A Python takes part when coverage is installed in its environment.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
shift || true
least=95
root=$PWD
python=$root/.venv/bin/python
export SPECGRID_COVERAGE=$root/build/coverage-python

core() {
  local build=build/coverage topic
  export PATH=$root/.venv/bin:$PATH
  export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-2}
  cmake --preset coverage >/dev/null
  cmake --build --preset coverage >build/coverage.log ||
    { cat build/coverage.log; return 1; }
  find $build -name '*.gcda' -delete
  $build/specgrid_tests | tail -2
  for topic in tests/fuzz-corpus/*.txt; do
    "$build/fuzz_$(basename "$topic" .txt)" "$topic"
  done
  # Branches a compiler adds for exceptions nobody can throw are not counted.
  "$python" -m gcovr --root . --filter 'csrc/core/' --object-directory $build \
    --exclude-throw-branches --exclude-unreachable-branches \
    --print-summary --txt build/coverage-core.txt \
    --fail-under-line $least --fail-under-branch $least ||
    { cat build/coverage-core.txt; return 1; }
}

run() {
  mkdir -p "$SPECGRID_COVERAGE"
  COVERAGE_PROCESS_START=$root/.ci/coveragerc "$@"
}

report() {
  local omit=()
  export COVERAGE_RCFILE=$root/.ci/coveragerc
  "$python" -m coverage combine -q
  "$python" -m coverage json -q -o build/coverage-python.json
  if ! "$python" -c '
import json, sys
files = json.load(open("build/coverage-python.json"))["files"]
sys.exit(not files["python/specgrid/vllm_plugin/_scheduler.py"]["executed_lines"])'; then
    echo 'measured without vLLM: python/specgrid/vllm_plugin is left out of the figure'
    omit=(--omit '*/vllm_plugin/*')
    "$python" -m coverage json -q -o build/coverage-python.json "${omit[@]}"
  fi
  "$python" -m coverage report --show-missing "${omit[@]}" >build/coverage-python.txt
  awk 'NR <= 2 || $6 + 0 < 95 || /^TOTAL/' build/coverage-python.txt
  rm -rf "$SPECGRID_COVERAGE"
  "$python" - "$least" <<'PY'
import json, sys
least = float(sys.argv[1])
total = json.load(open("build/coverage-python.json"))["totals"]
lines = 100 * total["covered_lines"] / total["num_statements"]
branches = 100 * total["covered_branches"] / total["num_branches"]
print(f"python/specgrid: lines {lines:.1f} %, branches {branches:.1f} %")
sys.exit(min(lines, branches) < least)
PY
}

suite() {
  local status=0
  run "$python" -m pytest -q -n 2 -p no:cacheprovider "$@" || status=$?
  report && return $status
}

mkdir -p build
case $what in
  all) core; suite ;;
  core) core ;;
  python) suite "$@" ;;
  run) run "$@" ;;
  report) report ;;
  *) echo "coverage.sh: all, core, python, run or report, not $what" >&2; exit 2 ;;
esac
