#!/bin/sh
# tools/check_readmes finds each kind of fault in a tree that has just that one, and none in a clean tree.
# Run from the root of the source tree.
set -eu
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# new_tree: a clean tree of one box with a sub-folder, notes and tests.
new_tree() {
  rm -rf "$tree"
  mkdir -p "$tree/box/part" "$tree/box/data" "$tree/box/notes" "$tree/models/leaf" "$tree/tests/models/leaf" \
    "$tree/tests/golden/one_case"
  printf 'tracecast_library(box\n  SOURCES a.cpp part/b.cpp\n  HEADERS a.hpp part/b.hpp  # all\n  DEPS base)\n' \
    >"$tree/box/CMakeLists.txt"
  touch "$tree/box/a.hpp" "$tree/box/a.cpp" "$tree/box/hidden.hpp" "$tree/box/part/b.hpp" "$tree/box/part/b.cpp" \
    "$tree/box/data/one.textproto" "$tree/models/leaf/l.cpp" "$tree/tests/models/leaf/l_test.cpp" \
    "$tree/tests/golden/one_case/command"
  echo '# 0001: Why a is a. As notes/0002 has it.' >"$tree/box/notes/0001-why-a.md"
  echo '# Why b is b: 0001' >"$tree/box/notes/0002-why-b.md"
  cat >"$tree/box/README.md" <<'END'
# box

    tracecast predict job.md       # a file of the user's

| file | holds |
| --- | --- |
| `a.{hpp,cpp}` | what `data/` says, `name.space` and `--flags`; `data/NAME.textproto` alike |
| `part/`, `b.*` | the rest (`notes/0001`, `notes/0002-why-b.md`; tests: `x_test.cpp`) |
END
  echo 'Boxes: `box`, `models`; `tests`. Why: `box/notes/0001`.' >"$tree/README.md"
  echo 'In `leaf/` is `l.cpp`.' >"$tree/models/README.md"
  echo 'Mirrors the sources; cases in `golden`.' >"$tree/tests/README.md"
  echo 'See models/leaf.' >"$tree/tests/golden/README.md"
}

# expect CODE PATTERN WHAT: the check ends with CODE and says PATTERN.
expect() {
  code=0
  output=$(tools/check_readmes "$tree" 2>&1) || code=$?
  if [ "$code" -ne "$1" ] || ! printf '%s\n' "$output" | grep -q -e "$2"; then
    printf 'FAILED: %s\n  wanted exit code %s and "%s", got %s and\n%s\n' "$3" "$1" "$2" "$code" "$output"
    failed=$((failed + 1))
  fi
}

# without FILE TEXT PATTERN WHAT: a clean tree whose FILE lacks TEXT.
without() {
  new_tree
  sed -i "s|$2||" "$tree/$1"
  expect 1 "$3" "$4"
}

# more FILE LINE PATTERN WHAT: a clean tree with LINE added to FILE.
more() {
  new_tree
  printf '%s\n' "$2" >>"$tree/$1"
  expect 1 "$3" "$4"
}

new_tree
expect 0 ' 5 READMEs, 0 faults' 'a clean tree has no faults'
rm "$tree/models/README.md"
expect 1 'models/leaf: no README.md' 'a folder that no README describes'
without README.md '`box`' 'README.md: does not name `box`' 'a box that the README of the root leaves out'
without box/README.md '`part/`, ' 'box/README.md: does not name `box/part`' 'a sub-folder that goes without a line'
without box/README.md '`data/`' 'does not name `box/data`' 'a folder of data that goes without a line'
without box/README.md '`a.{hpp,cpp}`' 'does not name `box/a.hpp`' 'a public header that goes without a line'
without box/README.md '`b.\*`' 'does not name `box/part/b.hpp`' 'a public header in a sub-folder'
without box/README.md '`notes/0001`' 'does not name `box/notes/0001-why-a.md`' 'a note that goes without a line'
more box/README.md 'See `gone.hpp`.' 'box/README.md:9: `gone.hpp`: nothing of that name' 'a file that is gone'
more box/README.md '| `gone` | no more |' 'box/README.md:9: `gone`: nothing of that name' 'a row about files that are gone'
more box/README.md 'See `part/a.hpp`.' '`part/a.hpp`: nothing' 'a file in the wrong folder'
more box/a.cpp '// Source: box/notes/0003.' 'box/a.cpp:1: box/notes/0003: no such note' 'a note that is gone'
more tests/models/leaf/l_test.cpp '// box/notes/0001-why.md' 'box/notes/0001-why: no such note' 'a note by another name'
more box/part/b.cpp '// notes/0007' 'notes/0007: no such note' 'a bare reference to the notes of the folder above'
more box/notes/0002-other.md '# Another one' 'box/notes/0002-why-b.md: has the number of' 'two notes of one number'
more box/notes/second.md '# Another one' 'a note is called NNNN-what.md' 'a note without a number'
new_tree
yes 'twenty | words' | head -n 899 >>"$tree/box/notes/0002-why-b.md"
expect 0 'warning: box/notes/0002-why-b.md: 1803 words' 'a long note brings a warning, no fault'
new_tree
echo '# 0002: Why a is a' >"$tree/box/notes/0001-why-a.md"
expect 1 'box/notes/0001-why-a.md:1: the title says 0002' 'a note whose title has another number'

[ "$failed" -eq 0 ] && echo "check_readmes: all as expected"
exit "$failed"
