#!/bin/sh
# Builds the fuzzers of the clang preset and lets every target run: tests/fuzz/run.sh [--together] SECONDS [TARGET...]
# --together: SECONDS are those of all targets on all cores.
# Seeds are this tree's specs and profiles and, when they stand beside it, the measured data. What a target finds
# new goes to build/fuzz/corpus/TARGET; what breaks it to build/fuzz/crash/TARGET-...; then the exit code is 1.
set -eu
cd "$(dirname "$0")/../.."
together=""
[ "${1-}" != --together ] || { together=yes; shift; }
[ $# -ge 1 ] || { echo "usage: tests/fuzz/run.sh [--together] SECONDS [TARGET...]" >&2; exit 2; }
seconds=$1
shift
data=${TRACECAST_DATA:-../shared/data}

tools/setup.sh --clang
cmake --preset clang >/dev/null
cmake --build --preset clang --target fuzzers
[ $# -gt 0 ] || set -- $(cd build/clang/bin && ls | sed -n 's/_fuzzer$//p')
[ -z "$together" ] || seconds=$((seconds * $(nproc) / $# + 1))
mkdir -p build/fuzz/crash

# seed TARGET LARGEST FILE...: copies what exists, cut to LARGEST bytes.
seed() {
  target=$1 largest=$2
  shift 2
  mkdir -p "build/fuzz/seed/$target" "build/fuzz/corpus/$target"
  for file in "$@"; do
    [ ! -f "$file" ] || head -c "$largest" "$file" >"build/fuzz/seed/$target/$(basename "$file")"
  done
}

# unpack TARGET: in place of packed seeds, the prefixes of what they hold.
unpack() {
  for file in "build/fuzz/seed/$1"/*.gz; do
    [ -f "$file" ] || continue
    { gzip -dc "$file" 2>/dev/null || true; } | head -c 65536 >"${file%.gz}"
    rm "$file"
  done
}

# prepare TARGET: writes its seeds and says how many bytes its longest input has.
prepare() {
  case $1 in
    config) seed config 4096 tests/models/language/configs/*.json; echo 4096 ;;
    aten) seed aten 16384; python3 -c "import sys; sys.path.insert(0, \"tests/bad_input\"); import mutate, pathlib; [pathlib.Path(\"build/fuzz/seed/aten\", name).write_bytes(text) for name, text in ((\"a.graph\", mutate.GRAPH), (\"b.json\", mutate.exported()))]"; echo 16384 ;;
    onnx) seed onnx 65536 "$data"/onnx/*.onnx; build/clang/bin/onnx_seeds build/fuzz/seed/onnx; echo 65536 ;;
    gpu_spec) seed gpu_spec 16384 hwspecs/gpu/*.textproto; echo 16384 ;;
    cost_profile) seed cost_profile 65536 hwspecs/cost/*.textproto; echo 65536 ;;
    framework_profile) seed framework_profile 16384 hwspecs/framework/*.textproto; echo 16384 ;;
    table) seed table 8192 "$data"/published/*.csv "$data"/kernels/*.csv*; echo 8192 ;;
    kineto) seed kineto 65536 "$data"/traces/kineto/*.json.gz; unpack kineto; echo 65536 ;;
    nvprof) seed nvprof 16384 "$data"/traces/nvprof/*; unpack nvprof; echo 16384 ;;
    nsys) seed nsys 1048576 "$data"/traces/nsys/*.sqlite; echo 1048576 ;;
    archive) seed archive 65536 "$data"/traces/*/*.tar.gz; build/clang/bin/archive_seeds build/fuzz/seed/archive; echo 65536 ;;
    sqlite) seed sqlite 65536; build/clang/bin/sqlite_seeds build/fuzz/seed/sqlite; echo 65536 ;;
    kernel_list) seed kernel_list 16384 "$data"/traces/profiles/orion/*_4_fwd.csv.gz; unpack kernel_list; echo 16384 ;;
    record) seed record 65536; build/clang/bin/record_seeds build/fuzz/seed/record "$data"/traces/*/*.gz; echo 65536 ;;
    stream) seed stream 16384; build/clang/bin/stream_seeds build/fuzz/seed/stream; echo 16384 ;;
    chakra) seed chakra 65536 "$data"/traces/chakra/*.json.gz; unpack chakra; echo 65536 ;;
    *) seed "$1" 16384; echo 16384 ;;
  esac
}

for target in "$@"; do
  echo "$target $(prepare "$target")"
done | xargs -P "$(nproc)" -n 2 sh -c '
  if "build/clang/bin/${1}_fuzzer" -max_total_time="$0" -max_len="$2" -rss_limit_mb=512 -timeout=10 \
      -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/crash/$1-" \
      "build/fuzz/corpus/$1" "build/fuzz/seed/$1" >"build/fuzz/$1.log" 2>&1; then
    echo "$1: clean, $(sed -n "s/^stat::number_of_executed_units: *//p" "build/fuzz/$1.log") inputs"
  else
    echo "$1: FAILED, see build/fuzz/$1.log"
    exit 1
  fi' "$seconds"
