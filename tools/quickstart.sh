#!/bin/sh
# From a fresh clone to the first prediction: installs what is missing, builds the program, predicts a training step.
set -eu
cd "$(dirname "$0")/.."

tools/setup.sh --build
cmake --preset release -DTRACECAST_BUILD_TESTS=OFF -DTRACECAST_UNITY=ON >/dev/null
cmake --build --preset release --target tracecast

tracecast=build/release/bin/tracecast
set -- predict resnet50 --gpu v100 --batch 64 --phase train --framework tensorflow
echo
echo "\$ $tracecast $*"
"$tracecast" "$@"
cat <<END

Next:
  $tracecast predict YOUR.onnx --gpu t4 --batch 1 --phase infer       your own network
  $tracecast predict resnet50 --gpu a100_pcie_40gb --batch 64 --explain   where the time goes, layer by layer
  $tracecast --help
END
