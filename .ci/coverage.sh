#!/usr/bin/env bash
# Measures which lines and branches the tests reach, and prints the figures:
#   core     csrc/core by the C++ tests and the replay of saved fuzz inputs (gcov)
#   python   python/specgrid by the Python suite (coverage.py)
#
#   .ci/coverage.sh          both; fails when one is under 95 % (lines or branches)
#   .ci/coverage.sh core     one of them
#   .ci/coverage.sh python -n0 -k plan   pytest's arguments behind it
#
# The plug-in counts only where vLLM can be imported: without it its tests do not
# run, and the figure says so.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
shift || true
least=95
python=$PWD/.venv/bin/python
export PATH=$PWD/.venv/bin:$PATH
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-2}

core() {
  local build=build/coverage topic
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

python_suite() {
  local omit=() status=0
  if ! "$python" -c 'import vllm' 2>/dev/null; then
    echo 'vLLM is not here: python/specgrid/vllm_plugin is left out of the figure'
    omit=(--omit '*/vllm_plugin/*')
  fi
  cat >build/coveragerc <<'INI'
[run]
branch = true
source_pkgs = specgrid
parallel = true
data_file = build/python.coverage
patch = subprocess
concurrency = thread,multiprocessing
[report]
precision = 1
skip_covered = true
exclude_also =
    if TYPE_CHECKING:
    @overload
    \.\.\.$
    assert_never
INI
  rm -f build/python.coverage*
  COVERAGE_RCFILE=build/coveragerc "$python" -m coverage run --rcfile build/coveragerc \
    -m pytest -q -p no:cacheprovider "$@" || status=$?
  "$python" -m coverage combine -q --rcfile build/coveragerc
  "$python" -m coverage report --rcfile build/coveragerc --show-missing \
    "${omit[@]}" | tail -60
  "$python" -m coverage json -q --rcfile build/coveragerc "${omit[@]}" \
    -o build/coverage-python.json
  "$python" - "$least" <<'PY'
import json, sys
least = float(sys.argv[1])
total = json.load(open("build/coverage-python.json"))["totals"]
lines = 100 * total["covered_lines"] / total["num_statements"]
branches = 100 * total["covered_branches"] / total["num_branches"]
print(f"python/specgrid: lines {lines:.1f} %, branches {branches:.1f} %")
sys.exit(min(lines, branches) < least)
PY
  return $status
}

mkdir -p build
case $what in
  all) core; python_suite ;;
  core) core ;;
  python) python_suite "$@" ;;
  *) echo "coverage.sh: all, core or python, not $what" >&2; exit 2 ;;
esac
