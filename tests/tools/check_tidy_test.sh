#!/bin/sh
# tools/check_tidy looks at what changed, names the file and the line, and refuses. Run from the root of the source tree.
set -eu
command -v clang-tidy-14 >/dev/null || command -v clang-tidy >/dev/null || { echo "[skipped] no clang-tidy"; exit 77; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# expect CODE PATTERN WHAT [FILE]: the check ends with CODE and says PATTERN.
expect() {
  code=0
  output=$("$tree/tools/check_tidy" ${4-} 2>&1) || code=$?
  if [ "$code" -ne "$1" ] || ! printf '%s\n' "$output" | grep -q "$2"; then
    printf 'FAILED: %s\n  wanted exit code %s and "%s", got %s and\n%s\n' "$3" "$1" "$2" "$code" "$output"
    failed=$((failed + 1))
  fi
}

commit() { git -C "$tree" add -A && git -C "$tree" -c user.name=t -c user.email=t@t commit -q -m t; }

mkdir "$tree/tools" "$tree/sim"
cp tools/check_tidy "$tree/tools/"
cp .clang-tidy "$tree/"
git -C "$tree" init -q
printf 'int good() { return 1; }\n' >"$tree/sim/good.cpp"
commit
printf 'struct Base { virtual ~Base() = default; virtual int f() { return 0; } };\nstruct Derived : Base { virtual int f() { return 1; } };\n' \
  >"$tree/sim/bad.cpp"
commit
expect 1 'bad.cpp:2:.*modernize-use-override' 'what the last commit changed is looked at'
expect 0 '1 sources, 0 with findings' 'a file that is named, and no other' sim/good.cpp
printf 'int good() { return 2; }\n' >"$tree/sim/good.cpp"
commit
expect 0 '1 sources, 0 with findings' 'what an earlier commit changed is not looked at again'

[ "$failed" -eq 0 ] && echo 'check_tidy: all as expected'
[ "$failed" -eq 0 ]
