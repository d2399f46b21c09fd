#!/usr/bin/env bash
# Runs the tests under sanitizers:
#   python   the Python suite on an extension built with address and
#            undefined-behaviour sanitizers; tests marked slow are left out (they
#            start processes by the hundred, or wait)
#   leaks    the C++ tests under address sanitizer with its leak check on
#   threads  the C++ tests, many threads on shared objects among them, under the
#            thread sanitizer. CPython itself is not instrumented, so the
#            interpreter's own locks are unknown to it; the core is what is
#            checked here, and it holds everything threads can share.
#
#   .ci/sanitize.sh                     all three
#   .ci/sanitize.sh python [TESTS...]   one; of the Python suite these tests alone
#
# Uses .venv for the tools and keeps its own builds in build/sanitize*.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
what=${1:-all}
shift || true
python=$root/.venv/bin/python
export PATH=$root/.venv/bin:$PATH
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-2}
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1

# A virtual environment that sees the tools of .venv but has its own specgrid.
sanitized_extension() {
  local venv=$root/build/sanitize-venv site
  [ -x "$venv/bin/python" ] || "$python" -m venv --without-pip "$venv"
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  rm -rf "$root/build/sanitize-site"
  mkdir -p "$root/build/sanitize-site"
  PIP_CONSTRAINT=$root/.ci/constraints.txt "$python" -m pip install -q --no-deps \
    --target "$root/build/sanitize-site" . \
    --config-settings=build-dir=build/sanitize \
    --config-settings=install.strip=false \
    --config-settings=cmake.build-type=RelWithDebInfo \
    --config-settings=cmake.define.SPECGRID_SANITIZE=address,undefined
  # Order matters: the sanitized package hides the one installed in .venv.
  "$venv/bin/python" - "$root/build/sanitize-site" "$site" <<'PY'
import pathlib, sys, sysconfig
target = pathlib.Path(sysconfig.get_path("purelib")) / "sanitize.pth"
lines = [sys.argv[1], sys.argv[2]]
# Tools that .venv itself takes from elsewhere.
for pth in pathlib.Path(sys.argv[2]).glob("*.pth"):
    lines += [
        line for line in pth.read_text().splitlines()
        if line.startswith("/") and pathlib.Path(line).is_dir()
        and not (pathlib.Path(line) / "specgrid").exists()
    ]
target.write_text("\n".join(lines) + "\n")
PY
}

python_suite() {
  sanitized_extension
  local libraries venv=$root/build/sanitize-venv
  libraries="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
  "$venv/bin/python" -c '
import importlib.util
where = importlib.util.find_spec("specgrid").origin
assert "sanitize-site" in where, where'
  # The sources are read from the installed copy, so that no test can pick up
  # the extension that is not sanitized. PYTHONMALLOC: every allocation of the
  # interpreter is seen too.
  LD_PRELOAD=$libraries PYTHONMALLOC=malloc SPECGRID_SANITIZED=1 \
    "$venv/bin/python" -m pytest -q -p no:cacheprovider -n "$(nproc)" \
    --timeout=900 -m 'not slow' "${@:-tests}"
}

cpp_tests() {  # cpp_tests PRESET: configure, build, run
  cmake --preset "$1" >/dev/null
  cmake --build --preset "$1" >"build/$1.log" || { cat "build/$1.log"; return 1; }
  "build/$1/specgrid_tests" | tail -3
}

leaks() { ASAN_OPTIONS=detect_leaks=1 cpp_tests asan; }
threads() { TSAN_OPTIONS=halt_on_error=1 cpp_tests tsan; }

case $what in
  all) leaks; threads; python_suite "$@" ;;
  python) python_suite "$@" ;;
  leaks) leaks ;;
  threads) threads ;;
  *) echo "sanitize.sh: all, python, leaks or threads, not $what" >&2; exit 2 ;;
esac
echo "sanitizers: $what clean"
