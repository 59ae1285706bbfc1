#!/bin/sh
# tools/check_headers finds a header that forgets an include, wherever it stands, and none in a clean tree.
# Run from the root of the source tree.
set -eu
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# new_tree: stem.hpp, which others include and which is therefore parsed once; far.hpp, which includes it by way of near.hpp;
# apart.hpp, which does not.
new_tree() {
  rm -rf "$tree"
  mkdir -p "$tree/box"
  users=$(for i in $(seq 9); do printf ' user%s.hpp' "$i"; done)
  echo "tracecast_library(box SOURCES a.cpp HEADERS stem.hpp near.hpp far.hpp apart.hpp$users)" >"$tree/box/CMakeLists.txt"
  printf '#pragma once\n#include <cstdint>\n#include <initializer_list>\nusing Names = std::initializer_list<std::int32_t>;\n' >"$tree/box/stem.hpp"
  printf '#pragma once\n#include "box/stem.hpp"\nNames near();\n' >"$tree/box/near.hpp"
  printf '#pragma once\n#include "box/near.hpp"\nNames far();\n' >"$tree/box/far.hpp"
  printf '#pragma once\nint apart();\n' >"$tree/box/apart.hpp"
  for user in $users; do printf '#pragma once\n#include "box/stem.hpp"\nNames of(int);\n' >"$tree/box/$user"; done
}

# expect CODE PATTERN WHAT: the check ends with CODE and says PATTERN.
expect() {
  code=0
  output=$(tools/check_headers "$tree" 2>&1) || code=$?
  if [ "$code" -ne "$1" ] || ! printf '%s\n' "$output" | grep -q "$2"; then
    printf 'FAILED: %s\n  wanted exit code %s and "%s", got %s and\n%s\n' "$3" "$1" "$2" "$code" "$output"
    failed=$((failed + 1))
  fi
}

# fault FILE LINE WHAT: the clean tree and one line more in one header, which is then the only one named.
fault() {
  new_tree
  echo "$2" >>"$tree/$1"
  expect 1 "^$1: does not compile alone" "$3"
  others=$(printf '%s\n' "$output" | grep 'does not compile alone' | grep -v "^$1:" || true)
  [ -z "$others" ] || [ "$1" = box/stem.hpp ] || [ "$1" = box/near.hpp ] || {
    printf 'FAILED: %s\n  others were named:\n%s\n' "$3" "$others"; failed=$((failed + 1)); }
}

new_tree
expect 0 '' 'a clean tree'
fault box/apart.hpp 'std::int32_t name();' 'a header apart uses what only the stem includes'
fault box/apart.hpp 'Names near();' 'a header apart uses a name of the stem'
fault box/user4.hpp 'std::map<int, int> map();' 'a header uses a standard header that nobody includes'
fault box/far.hpp 'inline int call() { return apart(); }' 'a header uses a name of one beside it'
fault box/stem.hpp 'std::map<int, int> map();' 'the stem itself lacks an include'
fault box/near.hpp 'std::map<int, int> map();' 'a header between lacks an include'
fault box/user1.hpp '#include "box/absent.hpp"' 'an include of nothing'

[ "$failed" -eq 0 ] && echo "check_headers: all as expected"
exit "$failed"
