#!/bin/sh
# pip_test.sh PYTHON BUILD_FOLDER PROGRAM: installs the Python module of a build with pip in a virtual environment, and compares it with
# the command: by the README's own line, with another Python first on the path. Exit code 77: there is no venv or pip. Nothing is fetched.
set -eu
python=$1 build=$2 program=$3
"$python" -c 'import ensurepip, setuptools, wheel, numpy' 2>/dev/null || { echo "[skipped] no venv, setuptools or numpy"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder" tools/python/build tools/python/tracecast.egg-info' EXIT
line=$(sed -n 's/^    \(.* -m venv .* install .*\)$/\1/p' README.md)
grep -qxF "    $line" tools/manual/python.md || { echo "tools/manual/python.md: not the README's line: $line"; exit 1; }
mkdir "$folder/other"
printf '#!/bin/sh\necho "pip_test: another Python than the one that has the packages" >&2\nexit 1\n' >"$folder/other/python3"
chmod +x "$folder/other/python3"
line=$(echo "$line" | sed "s|build/venv|$folder/venv|g; s|pip install|pip install --quiet --no-index|")
(export PATH="$folder/other:$PATH" TRACECAST_BUILD_DIR="$build"; eval "$line")
cd "$folder"  # the installed package, no other
OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" "$OLDPWD/tests/tools/python_test.py" "$program" "$OLDPWD"
"$folder/venv/bin/python" -c 'import sys, tracecast; sys.exit(not tracecast.__file__.startswith(sys.prefix))'
