#!/bin/sh
# find_package_test.sh CMAKE BUILD_FOLDER CONSUMER COMPILER FLAGS: see CMakeLists.txt.
set -eu
cmake=$1 build=$2 consumer=$3 compiler=$4 flags=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$cmake" --install "$build" --prefix "$folder/prefix" >/dev/null
# Headers that are found in the source tree by luck would hide one that is not installed.
cp -r "$consumer" "$folder/consumer"
"$cmake" -S "$folder/consumer" -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" >/dev/null
"$cmake" --build "$folder/build"
"$folder/build/first_steps"

# Every job through the installed library and the installed program, to the last digit; so are the golden ones.
here=$(dirname "$0")
data=${TRACECAST_DATA:-$here/../../../shared/data}
if [ -d "$data/onnx" ]; then
  sed "s|ONNX/|$data/onnx/|" "$here/jobs" >"$folder/jobs"
else
  [ -z "${CI:-}" ] || { echo "no $data/onnx"; exit 1; }
  echo "[skipped] the job of an ONNX file: no $data/onnx"
  grep -v ONNX/ "$here/jobs" >"$folder/jobs"
fi
grep -h "^predict " "$here"/../golden/*/command | sed "s/ --format json//" >>"$folder/jobs"
python3 "$here/same_results.py" "$folder/prefix/bin/tracecast" "$folder/build/consumer" "$folder/jobs"
