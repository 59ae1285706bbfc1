#!/bin/sh
# pip_test.sh PYTHON BUILD_FOLDER PROGRAM: installs the Python module of a build with pip in a virtual environment, and compares it with
# the command. Exit code 77: there is no venv or pip. Nothing is fetched.
set -eu
python=$1 build=$2 program=$3
"$python" -c 'import ensurepip, setuptools, wheel, numpy' 2>/dev/null || { echo "[skipped] no venv, setuptools or numpy"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder" tools/python/build tools/python/tracecast.egg-info' EXIT
"$python" -m venv --system-site-packages "$folder/venv"
TRACECAST_BUILD_DIR=$build "$folder/venv/bin/pip" install --quiet --no-index --no-build-isolation ./tools/python
cd "$folder"  # the installed package, no other
OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" "$OLDPWD/tests/tools/python_test.py" "$program" "$OLDPWD"
"$folder/venv/bin/python" -c 'import sys, tracecast; sys.exit(not tracecast.__file__.startswith(sys.prefix))'
