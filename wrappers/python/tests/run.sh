#!/usr/bin/env bash
# usage: run.sh python|multiprocessing|spawn|names|cuda|pickle|interop|interop_names|dropin [PYTEST
#        ARGUMENT...]
#
# Runs the tests of the Python package with the Python that TENON_PYTHON names, in which the wheel
# is installed. 77: it is not there.
#
# multiprocessing   tenon.multiprocessing with fds, and the start methods fork and forkserver
# spawn             the start method spawn, with fds and with names
# names             files and sockets with names, and tenon.multiprocessing with them
# cuda              device memory, on the fake driver
# pickle            tenon.pickle
# interop_names     PyTorch, with files that have names
# dropin            tenon.torch.multiprocessing in place of PyTorch's own
# interop           the rest of PyTorch
# python            everything else
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
kind="${1:-}"
python="${TENON_PYTHON:-}"
known_kinds='python|multiprocessing|spawn|names|cuda|pickle|interop|interop_names|dropin'
[[ "$kind" =~ ^($known_kinds)$ ]] || {
  sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
}
shift

skip() {
  echo "skipped: $*"
  exit 77
}

[[ -n "$python" ]] || skip "TENON_PYTHON is not set (tools/test sets it)"
[[ -x "$python" ]] || skip "uid $(id -u) cannot run $python, or it is not there"
export PYTHONDONTWRITEBYTECODE=1
# Python must not run in a folder that has a module of the same name.
cd "$here"
"$python" -c '' 2>/dev/null || skip "uid $(id -u) cannot run $python"
"$python" -c 'import pytest, hypothesis, numpy, tenon' || {
  echo "$python lacks Tenon's wheel or what its tests need: tools/setup.sh and tools/test put" \
    "them there" >&2
  exit 1
}
if [[ "$kind" == interop* || "$kind" == dropin ]]; then
  files=()
  for file in "$here"/interop/test_*.py; do
    belongs=interop
    case "${file##*/}" in
      test_torch_by_filename.py) belongs=interop_names ;;
      test_dropin.py) belongs=dropin ;;
    esac
    if [[ "$kind" == "$belongs" ]]; then files+=("$file"); fi
  done
  found=""
  # An import would take seconds, so PyTorch is only looked up.
  look="import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
  for peer in "${TENON_TORCH_DEBIAN:-/usr/bin/python3}" "${TENON_TORCH_NEWEST:-}"; do
    if [[ -n "$peer" ]] && "$peer" -c "$look" 2>/dev/null; then found=yes; fi
  done
  [[ -n "$found" ]] || skip "no PyTorch that uid $(id -u) can run: neither TENON_TORCH_DEBIAN" \
    "(or /usr/bin/python3) nor TENON_TORCH_NEWEST"
  exec "$python" -m pytest -rs -c "$here/../pyproject.toml" --rootdir "$here/.." "${files[@]}" "$@"
fi

# The name of a test file decides its kinds. Files of no other kind belong to `python`.
files=()
for file in "$here"/test_*.py; do
  case "${file##*/}" in
    test_multiprocessing.py) kinds="multiprocessing spawn names" ;;
    test_by_filename*.py) kinds=names ;;
    test_pickle.py) kinds=pickle ;;
    test_cuda*.py | test_by_cuda.py) kinds=cuda ;;
    *) kinds=python ;;
  esac
  if [[ " $kinds " == *" $kind "* ]]; then files+=("$file"); fi
done
case "$kind" in
  multiprocessing) set -- -k "not by_name and not spawn" "$@" ;;
  spawn) set -- -k spawn "$@" ;;
  names) set -- -k "by_filename or (by_name and not spawn)" "$@" ;;
esac
exec "$python" -m pytest -rs -c "$here/../pyproject.toml" --rootdir "$here/.." "${files[@]}" "$@"
