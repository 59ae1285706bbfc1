#!/bin/sh
# Does a stranger get through the README? Makes a minimal Debian 12 root, clones the committed tree into it and runs
# tools/quickstart.sh, then tools/test.sh there; prints the wall time of each. Needs root and debootstrap.
#   tests/install/fresh_root.sh [--readme] [FOLDER]   FOLDER, which must not exist, keeps the root; default: a temporary one
#   --readme   in place of tools/test.sh, the README's other commands in their order (readme_path.sh), then what README and
#              manual show (manual_test.py); pages that were written are opened in this machine's Chromium
# DEBIAN_MIRROR names another package mirror. apt's proxy and date settings and added certificates of this machine carry over.
# Measured data are copied beside the clone when they stand beside this one, but not for --readme: a stranger has none.
set -eu
all=yes
[ "${1-}" != --readme ] || { all=; shift; }
source=$(cd "$(dirname "$0")/../.." && pwd)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
[ "$(id -u)" -eq 0 ] || { echo "fresh_root: must be root" >&2; exit 2; }

if [ $# -gt 0 ]; then
  [ ! -e "$1" ] || { echo "fresh_root: $1 exists" >&2; exit 2; }
  mkdir -p "$1"
  root=$(cd "$1" && pwd)
else
  root=$(mktemp -d)
  trap 'rm -rf --one-file-system "$root"' EXIT
fi

# timed WHAT COMMAND...: the command's exit status, and its wall time to stdout.
timed() {
  what=$1
  shift
  start=$(date +%s)
  status=0
  "$@" || status=$?
  echo "fresh_root: $what: $(($(date +%s) - start)) s, exit code $status"
  return "$status"
}

# inside COMMAND...: in the root, with /proc and terminals, in a clean environment; the mounts go with the process.
inside() {
  unshare --mount --propagation private sh -c '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount -t devpts devpts "$root/dev/pts"
    exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 ${CI_INSIDE:+CI=1} "$@"' \
    inside "$root" sh -c 'cd /root/tracecast && exec "$@"' run "$@" </dev/null
}

log=$(mktemp)
timed "debootstrap" debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1 ||
  { cat "$log" >&2; exit 1; }
tail -n 1 "$log"
rm "$log"
apt-config dump | grep -E '^Acquire::(https?|Check-|Retries)' >"$root/etc/apt/apt.conf.d/90host" || true
cp -L /etc/resolv.conf "$root/etc/resolv.conf"

git clone -q "$source" "$root/root/tracecast"
if [ -d /usr/local/share/ca-certificates ]; then
  mkdir -p "$root/usr/local/share"
  cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
fi
CI_INSIDE=
if [ -n "$all" ] && [ -d "$source/../shared" ]; then
  cp -rL "$source/../shared" "$root/root/shared"
  CI_INSIDE=${CI-}
fi
export CI_INSIDE

timed "tools/quickstart.sh" inside tools/quickstart.sh
timed "program needs only the C library" inside sh -c '
  ldd build/release/bin/tracecast
  ! ldd build/release/bin/tracecast | grep -v -E "linux-vdso|libc\.so|libm\.so|ld-linux"'
if [ -n "$all" ]; then
  timed "tools/test.sh" inside tools/test.sh
  exit
fi

failed=0
timed "README's commands" inside tests/install/readme_path.sh || failed=1
timed "what README and manual show" inside env CI=1 python3 tests/tools/manual_test.py build/release/bin/tracecast . || failed=1

# A page's script writes its sections; without it there are none.
opened() {
  chromium --headless --no-sandbox --disable-gpu --user-data-dir="$root/tmp/chromium" --dump-dom "file://$1" 2>/dev/null | grep -q "<section"
}
for page in "$root"/root/tracecast/*.html; do
  command -v chromium >/dev/null || break
  timed "page $(basename "$page") opens" opened "$page" || failed=1
done
exit "$failed"
