#!/bin/sh
# Builds everything and runs every check. The last line is "N passed, N failed"; exit code 1 when any failed.
#   tools/test.sh          release build: include table, READMEs, words, format, headers alone, tests
#   tools/test.sh --asan   also the tests under address and undefined-behaviour sanitizers: not those that judge accuracy or
#                          run scripts, and not the checks that address sanitizer makes anyway (they double the compiler's
#                          time).
#   tools/test.sh --clang  the same as clang compiles it, its warnings errors; a minute of fuzzing; what uses threads under
#                          thread sanitizer
# CI is one of the latter two, with each test once, golden files apart, and without sanitizers for the planner, the commands (the
# program that is shown broken files has those of the release build) and uses after a scope: see tools/cmake/README.md.
set -eu
cd "$(dirname "$0")/.."
exec </dev/null

sanitize=${CI:+asan}
case "${1-}" in
  "") ;;
  --asan | --clang) sanitize=${1#--} ;;
  *) echo "usage: tools/test.sh [--asan | --clang]" >&2; exit 2 ;;
esac

passed=0
failed=0
jobs=$(nproc)
logs=$(mktemp -d)
log=$logs/log
beside=""
trap 'for id in $beside; do kill "$id" 2>/dev/null || true; done; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM

finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

# check WHAT COMMAND...: counts as one test.
check() {
  what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what"
  fi
}

# configure PRESET [OPTION...]: in CI all is new, and sources go a few at a time.
configure() { cmake --preset "$@" ${CI:+-DTRACECAST_UNITY=ON}; }

build_release() {
  configure release ${CI:+-DTRACECAST_BUILD_UNIT_TESTS=OFF} >"$log" || { cat "$log"; return 1; }
  cmake --build --preset release
}

# Beside all else, and where both want a core after it: whenever the rest waits for a disk, a browser or its last test.
build_sanitized() {
  configure "$sanitize" ${CI:+-DTRACECAST_SANITIZE_SCOPES=OFF -DTRACECAST_UPPER_FROM=build/release} &&
    exec nice -n 19 ninja -C "build/$sanitize" ${CI:+library_tests}
}

# What needs the commands of the release build, too.
finish_sanitized() { ended sanitized && cmake --build --preset "$sanitize"; }

build_threads() { configure tsan >"$log" && cmake --build --preset tsan --target race_test; }

# begin NAME COMMAND...: beside what follows. The command ends in `exec`, so that it ends with this script.
begin() {
  name=$1
  shift
  "$@" >"$logs/$name" 2>&1 &
  eval "$name=\$!"
  beside="$beside $!"
}

# ended NAME: waits for what was begun, and shows what it said when it failed.
ended() { eval "wait \"\$$1\"" || { cat "$logs/$1"; false; }; }

# need WHAT COMMAND...: a check after whose failure nothing more makes sense.
need() {
  check "$@"
  [ "$failed" -eq 0 ] || finish
}

# run_tests PRESET [CTEST OPTION...]: counts each test; a skipped one is neither passed nor failed.
run_tests() {
  preset=$1
  shift
  ctest --preset "$preset" --parallel "$jobs" "$@" >"$log" 2>&1 || true
  grep -v -E '^ *[0-9]+/[0-9]+ Test .* Passed |^ +Start ' "$log" || true
  summary=$(sed -n 's/.* \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log")
  if [ -z "$summary" ]; then
    failed=$((failed + 1))
    return
  fi
  skipped=$(grep -c '\*\*\*Skipped' "$log" || true)
  bad=${summary% *}
  failed=$((failed + bad))
  passed=$((passed + ${summary#* } - bad - skipped))
}

# Names the tracked files that `clang-format -i` would change.
format_is_clean() {
  changed=$(git ls-files -z -- '*.cpp' '*.hpp' | xargs -0 clang-format --dry-run -Werror 2>&1 |
    sed -n 's/:[0-9]*:[0-9]*: error: .*//p' | sort -u)
  [ -z "$changed" ] || { echo "not as clang-format -i leaves it:"; echo "$changed"; false; }
}

tools/setup.sh --compile
[ "$sanitize" != clang ] || tools/setup.sh --clang
begin setup tools/setup.sh
[ -z "$sanitize" ] || begin sanitized build_sanitized
need "release preset builds" build_release
ended setup
check "include table" tools/check_layers
check "READMEs" tools/check_readmes
check "words" tools/check_words
check "format" format_is_clean
check "each public header compiles alone" tools/check_headers
run_tests release
if [ -n "$sanitize" ]; then
  need "$sanitize preset builds" finish_sanitized
  # Of where memory was taken a line, not thirty: a tenth of these tests' time.
  ASAN_OPTIONS=${ASAN_OPTIONS-malloc_context_size=1}
  export ASAN_OPTIONS
  run_tests "$sanitize" --label-exclude 'slow|once'
fi
if [ "$sanitize" = clang ]; then
  check "clang-tidy, over what changed" tools/check_tidy
  check "a minute of fuzzing" tests/fuzz/run.sh --together 60
  need "tsan preset builds" build_threads
  run_tests tsan --label-regex '^race$' --tests-regex 'thread|search finds|cell is found'
fi
finish
