#!/usr/bin/env bash
# usage: run.sh [PYTEST ARGUMENT...]
#
# Runs the tests of the command line with the Python that TENON_PYTHON names. Exit status 77 means
# that this Python is missing.
set -euo pipefail

skip() {
  echo "skipped: $*"
  exit 77
}

cd "$(dirname "${BASH_SOURCE[0]}")"
python="${TENON_PYTHON:-}"
[[ -n "$python" ]] || skip "TENON_PYTHON is not set (ctest sets it)"
"$python" -c '' 2>/dev/null || skip "uid $(id -u) cannot run $python, or it is not there"
export PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import pytest' 2>/dev/null || {
  echo "$python lacks pytest: tools/setup.sh puts it there" >&2
  exit 1
}
exec "$python" -m pytest -p no:cacheprovider -q -rs -W error -c /dev/null --rootdir . "$@"
