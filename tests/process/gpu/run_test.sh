#!/usr/bin/env bash
# usage: tests/process/gpu/run_test.sh BUILD
#
# Tests how run.sh handles a machine that lacks something, on the fake driver that it takes for a
# real one.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="$1"
work="$(mktemp -d "${TMPDIR:-/tmp}/tenon-gpu-run-XXXXXX")"
trap 'rm -rf "$work"' EXIT

# expect STATUS TEXT ARGUMENT...: runs run.sh, and checks its exit status and its output.
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

# A Python that has PyTorch but not Tenon.
cat >"$work/python" <<'END'
#!/usr/bin/env bash
[[ "$*" == *"import torch;"* ]] && exit 0
echo "ModuleNotFoundError: No module named 'tenon'" >&2
exit 1
END
chmod +x "$work/python"
TENON_TORCH="$work/python" TENON_TORCH_NEWEST="" \
  expect 1 "has PyTorch, but not Tenon" --build "$build" torch

# A build that has only the driver and the rules.
mkdir -p "$work/build/tests/support/fake_cuda"
ln -s "$build"/tests/support/fake_cuda/{fake_cuda_rules,driver-hidden} \
  "$work/build/tests/support/fake_cuda/"
expect 77 "there is no tests/process/cuda/cuda_device_tests in the build" \
  --build "$work/build" share
expect 1 "there is no tests/process/cuda/cuda_device_tests in the build" \
  --build "$work/build" --strict share

# A machine without a driver.
rm "$work/build/tests/support/fake_cuda/driver-hidden"
if [[ ! -e /dev/nvidiactl ]]; then expect 77 "no driver here" --build "$work/build"; fi

# Each call adds its table to the results of earlier calls.
expect 0 "errors | passed" --build "$build" --out "$work/out" errors
expect 0 "driver | passed" --build "$build" --out "$work/out" driver
[[ "$(grep -cE '^[|] (errors|driver) [|] passed' "$work/out/results.md")" == 2 ]]
