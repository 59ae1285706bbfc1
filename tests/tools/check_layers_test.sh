#!/bin/sh
# tools/check_layers finds each kind of fault in a tree that has just that one, and none in a clean tree.
# Run from the root of the source tree.
set -eu
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# new_tree: a clean tree of some boxes.
new_tree() {
  rm -rf "$tree"
  mkdir -p "$tree/sim/base" "$tree/sim/engine" "$tree/sim/cost" "$tree/sim/job" "$tree/models/lowering" "$tree/hwspecs" \
    "$tree/tools"
  echo 'tracecast_library(base SOURCES a.cpp HEADERS a.hpp)' >"$tree/sim/base/CMakeLists.txt"
  echo '#pragma once' >"$tree/sim/base/a.hpp"
  echo '#include "sim/base/a.hpp"' >"$tree/sim/base/a.cpp"
  printf 'tracecast_library(models\n  SOURCES g.cpp\n  HEADERS g.hpp  # the graph\n  DEPS base)\n' \
    >"$tree/models/CMakeLists.txt"
  echo '#include "sim/base/a.hpp"' >"$tree/models/g.hpp"
  printf '#include "models/g.hpp"\n#include "models/hidden.hpp"\n' >"$tree/models/g.cpp"
  printf '#include <boost/graph/adjacency_list.hpp>\n' >"$tree/models/hidden.hpp"
  echo '#include "sim/base/a.hpp"' >"$tree/sim/engine/e.cpp"
  touch "$tree/sim/engine/e.hpp" "$tree/sim/cost/c.hpp" "$tree/models/lowering/l.hpp"
  printf '#include "models/lowering/l.hpp"\n#include "sim/cost/c.hpp"\n' >"$tree/sim/job/j.cpp"
  printf '#include <iostream>\n#include "models/g.hpp"\n' >"$tree/tools/t.cpp"
  printf 'void read(const Message& m, LinkSpec& fresh);\n' >"$tree/hwspecs/s.cpp"
  printf 'GpuSpec with(GpuSpec gpu);\nint count(const LinkSpec& link);\nvoid take(GpuSpec&& gpu);\n' \
    >"$tree/hwspecs/s.hpp"
}

# expect CODE PATTERN WHAT: the check ends with CODE and says PATTERN.
expect() {
  code=0
  output=$(tools/check_layers "$tree" 2>&1) || code=$?
  if [ "$code" -ne "$1" ] || ! printf '%s\n' "$output" | grep -q "$2"; then
    printf 'FAILED: %s\n  wanted exit code %s and "%s", got %s and\n%s\n' "$3" "$1" "$2" "$code" "$output"
    failed=$((failed + 1))
  fi
}

# fault FILE LINE PATTERN WHAT: a clean tree with LINE added to FILE.
fault() {
  new_tree
  printf '%s\n' "$2" >>"$tree/$1"
  expect 1 "$3" "$4"
}

new_tree
expect 0 ' 0 faults' 'a clean tree has no faults'
fault sim/engine/e.cpp '#include "models/g.hpp"' \
  'sim/engine/e.cpp:2: models/g.hpp: sim/engine must not include models' 'the engine knows no networks'
fault sim/base/a.cpp '#include "models/g.hpp"' 'sim/base must not include models' 'base includes no one'
fault models/g.hpp '#include <google/protobuf/message.h>' 'third-party' 'Protobuf in a public header'
fault models/g.hpp '#include "models/onnx.pb.h"' 'third-party' 'generated messages in a public header'
fault models/g.hpp '#include <nlohmann/json.hpp>' 'third-party' 'JSON in a public header'
fault models/g.hpp '#include <Eigen/Dense>' 'third-party' 'Eigen in a public header'
fault models/g.hpp '#include "models/hidden.hpp"' 'private header' 'a public header includes a private one'
fault models/g.cpp '#include "g.hpp"' 'from the root' 'an include that does not start at the root'
fault models/g.cpp '#include "models/absent.hpp"' 'no such file' 'an include of nothing'
new_tree
for i in $(seq 601); do echo; done >>"$tree/models/g.cpp"
expect 0 'warning: models/g.cpp: 603 lines' 'a file that is long brings a warning, no fault'
new_tree
for i in $(seq 41); do touch "$tree/sim/engine/part$i.cpp"; done
expect 0 'warning: sim/engine: 43 sources' 'a folder that is full brings a warning, no fault'
fault models/g.cpp '#include <cudnn.h>' 'CUDA' 'a CUDA header outside its leaves'
fault models/g.cpp '#include <iostream>' 'only tools' 'a library that prints'
fault models/g.cpp 'auto v = std::getenv("HOME");' 'only tools' 'a library that reads the environment'
fault tools/t.cpp '#include "sim/engine/e.hpp"' 'tools must not include sim/engine' 'a command that simulates'
fault tools/t.cpp '#include "sim/cost/c.hpp"' 'tools must not include sim/cost' 'a command that prices kernels'
fault tools/t.cpp '#include "models/lowering/l.hpp"' \
  'tools/t.cpp:3: models/lowering/l.hpp: tools must not include models/lowering' 'a command that lowers a graph'
fault sim/job/j.cpp 'void slow(int by, LinkSpec& link);' 'sim/job/j.cpp:3: LinkSpec& link: .*const' \
  'a function that changes a spec'
fault sim/job/j.cpp 'void set(
    CostProfile& profile, int value);' 'sim/job/j.cpp:4: CostProfile& profile: .*const' \
  'a function that changes a profile, on two lines'
fault hwspecs/s.hpp 'void slow(CpuCatalog& cpus);' 'hwspecs/s.hpp:4: CpuCatalog& cpus: .*const' \
  'a catalog that a public function changes'

[ "$failed" -eq 0 ] && echo "check_layers: all as expected"
exit "$failed"
