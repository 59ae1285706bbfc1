#!/bin/sh
# tools/check_words counts words in names and in prose, refuses more of them, and takes fewer over.
# Run from the root of the source tree.
set -eu
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# expect CODE PATTERN WHAT [FLAG]: the check ends with CODE and says PATTERN.
expect() {
  git -C "$tree" add -A
  code=0
  output=$(tools/check_words ${4-} "$tree" 2>&1) || code=$?
  if [ "$code" -ne "$1" ] || ! printf '%s\n' "$output" | grep -q "$2"; then
    printf 'FAILED: %s\n  wanted exit code %s and "%s", got %s and\n%s\n' "$3" "$1" "$2" "$code" "$output"
    failed=$((failed + 1))
  fi
}

git -C "$tree" init -q
mkdir "$tree/tools"
printf 'word,better,where,but,most\nproducts?,GEMM,names,cross_product,2\nlone,single,text,,1\n' >"$tree/tools/words.csv"
printf 'int product_of; int TensorProducts; int cross_product_of;\n// a product in a comment\n' >"$tree/a.cpp"
echo 'A lone word, and alone is another.' >"$tree/README.md"
expect 0 '3 uses left, 0 faults' 'names by their parts, comments and longer words left out'
echo 'int last_product;' >>"$tree/a.cpp"
expect 1 'products?: 3 in names, at most 2: say GEMM' 'a name more'
printf 'int product_of;\n' >"$tree/a.cpp"
expect 0 '2 uses left' 'a name less is taken over' --write
echo 'int last_product;' >>"$tree/a.cpp"
expect 1 'products?: 2 in names, at most 1' 'what was taken over holds'
printf 'int a;\n' >"$tree/a.cpp"
echo 'Lone.' >>"$tree/README.md"
expect 1 'lone: 2 in text, at most 1: say single' 'a word of the prose more'

[ "$failed" -eq 0 ] && echo 'check_words: all as expected'
[ "$failed" -eq 0 ]
