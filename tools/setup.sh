#!/bin/sh
# Installs what building and testing need on Debian 12 or later: as root, or through sudo.
# Does nothing, and needs neither root nor network, when everything is there.
#   tools/setup.sh           building and testing: also a browser, for the report pages
#   tools/setup.sh --build   building the program alone
#   tools/setup.sh --compile building the tests as well, not yet what runs them
#   tools/setup.sh --python  building the program and the Python module
#   tools/setup.sh --clang   also clang, for its warnings, its sanitizers and fuzzing
#   tools/setup.sh --torch   also PyTorch and torchvision, for the test of modules (a gigabyte)
#   tools/setup.sh --reference  also Doxygen, for the reference of the public headers
set -eu

build="g++ cmake ninja-build ccache git ca-certificates
  libprotobuf-dev protobuf-compiler libboost-graph-dev libeigen3-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev zlib1g-dev libminizip-dev libsqlite3-dev libmd-dev
  coinor-libcbc-dev libbz2-dev gfortran"
headers="python3 pybind11-dev python3-dev"
python="python3-numpy python3-setuptools python3-wheel python3-pip python3-venv"
compile="doctest-dev $headers"
tests="clang-format $python openmpi-bin"
clang="clang-14 libclang-rt-14-dev clang-tidy-14 llvm-14 lld-14"

# Programs that count however they came: a newer node is as good as Debian's.
command -v node >/dev/null && command -v npm >/dev/null || build="$build nodejs npm"
command -v chromium >/dev/null || tests="$tests chromium"

wanted="$build $compile $tests"
case "${1-}" in
  "") ;;
  --build) wanted="$build" ;;
  --compile) wanted="$build $compile" ;;
  --python) wanted="$build $headers $python" ;;
  --clang) wanted="$wanted $clang" ;;
  --torch) wanted="$wanted python3-torch python3-torchvision" ;;
  --reference) wanted="$wanted doxygen" ;;
  *) echo "usage: tools/setup.sh [--build | --compile | --python | --clang | --torch | --reference]" >&2; exit 2 ;;
esac

missing=""
for package in $wanted; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: need root or sudo to install:$missing" >&2; exit 1; }
  as_root="sudo"
fi
echo "setup: installing, which takes minutes:$missing" >&2
$as_root apt-get -qq update </dev/null
# shellcheck disable=SC2086  # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing \
  </dev/null >/dev/null
