#!/usr/bin/env bash
# Fuzzes the core: replays the saved inputs of every target, then looks for new
# ones. Each target checks its answers against a model, so it finds wrong
# numbers, not only crashes.
#
#   .ci/fuzz.sh                 all targets, 2 minutes in all
#   .ci/fuzz.sh 9000            2.5 hours in all
#   .ci/fuzz.sh 1800 plan       one target for 30 minutes
#   .ci/fuzz.sh --keep [...]    and put what it learned into tests/fuzz-corpus
#
# A fault is left in build/fuzz/faults; give that file to the target to see it
# again. Needs clang with its run-time libraries; installs them as root on
# Debian when they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
keep=no
[ "${1:-}" != --keep ] || { keep=yes; shift; }
seconds=${1:-120}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(schedule lookup capture graphs plan tune)
tools=$PWD/.venv/bin:${SPECGRID_TOOLS:+$SPECGRID_TOOLS:}$PATH
build=build/fuzz

find_clang() {
  local name
  for name in clang++-19 clang++-18 clang++-17 clang++-16 clang++; do
    if echo 'int main(){}' |
      "$name" -x c++ -fsanitize=address - -o /dev/null 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  return 1
}

clang=$(find_clang) || {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends clang-19 libclang-rt-19-dev >/dev/null
  clang=$(find_clang)
}

PATH=$tools cmake --preset fuzz "-DCMAKE_CXX_COMPILER=$clang" >/dev/null
mkdir -p $build/faults
PATH=$tools cmake --build --preset fuzz >$build/build.log || {
  cat $build/build.log
  exit 1
}

unpack() {  # a line of hexadecimal digits is one input
  rm -rf "$build/saved/$1" && mkdir -p "$build/saved/$1" "$build/found/$1"
  python3 - "tests/fuzz-corpus/$1.txt" "$build/saved/$1" <<'PY'
import pathlib, sys
source, target = map(pathlib.Path, sys.argv[1:])
lines = source.read_text().split() if source.exists() else []
for number, line in enumerate(lines):
    (target / f"{number:04}").write_bytes(bytes.fromhex(line))
PY
}

pack() {
  rm -rf "$build/merged/$1" && mkdir -p "$build/merged/$1"
  "$build/fuzz_$1" -merge=1 -max_len=400 "$build/merged/$1" \
    "$build/saved/$1" "$build/found/$1" 2>/dev/null
  python3 - "$build/merged/$1" "tests/fuzz-corpus/$1.txt" <<'PY'
import pathlib, sys
source, target = map(pathlib.Path, sys.argv[1:])
inputs = sorted((f.read_bytes() for f in source.iterdir()), key=lambda b: (len(b), b))
target.parent.mkdir(exist_ok=True)
target.write_text("".join(f"{data.hex()}\n" for data in inputs[:800] if data))
PY
}

fuzz() {
  local log=$build/$1.log
  if ! "$build/fuzz_$1" -max_total_time="$2" -max_len=400 -timeout=20 \
    -print_final_stats=1 -artifact_prefix="$build/faults/$1-" \
    "$build/found/$1" "$build/saved/$1" >"$log" 2>&1; then
    tail -40 "$log"
    echo "fuzz $1: FAULT, see $build/faults and $log"
    return 1
  fi
  printf 'fuzz %-9s %4d saved inputs replayed, %8d inputs in %d s, no fault\n' \
    "$1" "$(find "$build/saved/$1" -type f | wc -l)" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$2"
}

for target in "${targets[@]}"; do unpack "$target"; done
# One target a core at a time; together they take the time asked for.
cores=$(nproc)
share=$((seconds * (cores < ${#targets[@]} ? cores : ${#targets[@]}) / ${#targets[@]}))
export build
export -f fuzz
printf '%s\n' "${targets[@]}" |
  xargs -P "$cores" -I{} bash -euo pipefail -c "fuzz {} $((share > 0 ? share : 1))"
if [ $keep = yes ]; then
  for target in "${targets[@]}"; do pack "$target"; done
  wc -l tests/fuzz-corpus/*.txt
fi
