#!/usr/bin/env bash
# usage: tests/gpu/run_test.sh BUILD. What run.sh makes of a machine that lacks something, on the
#        fake driver that it takes for a real one.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="$1"
work="$(mktemp -d "${TMPDIR:-/tmp}/tenon-gpu-run-XXXXXX")"
trap 'rm -rf "$work"' EXIT

# expect STATUS TEXT ARGUMENT...: how run.sh ends, and what it says.
expect() {
  local status="$1" text="$2" rc=0
  shift 2
  "$here/run.sh" --hidden "$@" >"$work/log" 2>&1 || rc=$?
  if [[ "$rc" != "$status" ]] || ! grep -qF "$text" "$work/log"; then
    echo "FAIL: run.sh --hidden $*: exit status $rc, not $status, or it does not say: $text" >&2
    cat "$work/log" >&2
    exit 1
  fi
  echo "ok: $*"
}

# A Python that has PyTorch and nothing else.
cat >"$work/python" <<'END'
#!/usr/bin/env bash
[[ "$*" == *"import torch;"* ]] && exit 0
echo "ModuleNotFoundError: No module named 'tenon'" >&2
exit 1
END
chmod +x "$work/python"
TENON_TORCH="$work/python" TENON_TORCH_NEWEST="" \
  expect 1 "has PyTorch, but not Tenon" --build "$build" torch

# A build of which the driver and the rules are all that there is.
mkdir -p "$work/build/tests/fake_cuda"
ln -s "$build"/tests/fake_cuda/{fake_cuda_rules,driver-hidden} "$work/build/tests/fake_cuda/"
expect 77 "there is no tests/cuda/cuda_share_tests in the build" --build "$work/build" share
expect 1 "there is no tests/cuda/cuda_share_tests in the build" --build "$work/build" --strict share

# No driver at all.
rm "$work/build/tests/fake_cuda/driver-hidden"
if [[ ! -e /dev/nvidiactl ]]; then expect 77 "no driver here" --build "$work/build"; fi

# The table of each call is added to the file of those before it.
expect 0 "errors | passed" --build "$build" --out "$work/out" errors
expect 0 "driver | passed" --build "$build" --out "$work/out" driver
[[ "$(grep -cE '^[|] (errors|driver) [|] passed' "$work/out/results.md")" == 2 ]]
