#!/bin/sh
# A first-time reader's path: every command of README.md in its order, in one shell, from the root of this clone, where
# tools/quickstart.sh was run already; not tools/test.sh. Prints each one's wall time and exit code, and what one printed that
# failed; the last line counts. Writes the pages that the commands name into the root.
cd "$(dirname "$0")/../.." || exit 2
listed=$(mktemp)
log=$(mktemp)
trap 'rm -f "$listed" "$log"' EXIT

# Lines that begin with four blanks, or in a block of code with a dollar; what stands behind " #" is a remark.
awk '/^```/ { code = !code; next }
  code ? /^\$ / : /^    [^ ]/ { sub(/^(\$|   ) /, ""); sub(/ +# .*/, ""); print }' README.md |
  grep -v -E '^tools/(quickstart|test)\.sh' >"$listed"

count=0
failed=0
while IFS= read -r command <&3; do
  start=$(date +%s)
  status=0
  eval "$command" </dev/null >"$log" 2>&1 || status=$?
  echo "readme_path: $(($(date +%s) - start)) s, exit code $status: $command"
  count=$((count + 1))
  if [ "$status" -ne 0 ]; then
    failed=$((failed + 1))
    cat "$log"
  fi
done 3<"$listed"
echo "readme_path: $count commands, $failed failed"
[ "$failed" -eq 0 ] && [ "$count" -ge 10 ]
