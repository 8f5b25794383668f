#!/usr/bin/env bash
# usage: tests/process/gpu/run.sh [--build DIR] [--fake | --hidden] [--quick] [--strict] [--out DIR]
#        [STEP...]
#        tests/process/gpu/run.sh [--build DIR] --pack FILE [--with DIR]
#
# Tests Tenon on a machine with an NVIDIA GPU and its driver; see docs/guides/cuda.md. It installs
# and fetches nothing. --build: where Tenon is built, build/dev by default. --fake: runs on the
# driver of tests/support/fake_cuda, to show that the suite works; this proves nothing about CUDA.
# --hidden: runs on the fake driver that the suite takes for a real one. --quick: fewer rounds.
# --strict: a step fails if a program of the build or a Python for it is missing. --out: keeps the
# logs there, and adds the table to results.md in that folder. --pack: makes an archive (.tar.gz, at
# most 64 MB) to carry to such a machine and unpack; this program is in its tests/process/gpu.
# --with: adds the Python packages in DIR.
#
# The suite uses one GPU, the first unless CUDA_VISIBLE_DEVICES names another. It searches
# TENON_TORCH, python3 and usual places for a Python with PyTorch, and COMPUTE_SANITIZER, PATH and
# /usr/local/cuda for compute-sanitizer. Exit status 1: something failed. 77: nothing could run.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../../.." && pwd)"
build="$root/build/dev" pack="" with="" fake="" quick="" strict="" out=""
wanted=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --build | --pack | --with | --out)
      [[ $# -ge 2 ]] || {
        echo "$1 wants a value; see --help" >&2
        exit 2
      }
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --fake) fake=13 ;;
    --hidden) fake=hidden ;;
    --quick) quick=yes ;;
    --strict) strict=yes ;;
    --help | -h)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    -*)
      echo "tests/process/gpu/run.sh: unknown option $1; see --help" >&2
      exit 2
      ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
[[ -d "$build" ]] || {
  echo "tests/process/gpu/run.sh: there is no folder $build: build Tenon with its tests, or name" \
    "its build by --build" >&2
  exit 2
}
build="$(cd "$build" && pwd)"
if [[ -n "$pack" ]]; then exec "$here/pack.sh" "$build" "$pack" "$with"; fi

# ---- what this machine has

label="" work="$out"
if [[ -n "$fake" ]]; then label="FAKE "; fi
if [[ -z "$work" ]]; then
  work="$(mktemp -d "${TMPDIR:-/tmp}/tenon-gpu-XXXXXX")"
  trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
work="$(cd "$work" && pwd)"
export PYTHONDONTWRITEBYTECODE=1
driver_path="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [[ -n "$fake" ]]; then
  driver_path="$build/tests/support/fake_cuda/driver-$fake:$driver_path"
else
  # The suite tests one GPU. Some tests name a second one, which must be absent.
  export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"
fi
export LD_LIBRARY_PATH="$driver_path"
more=()
if [[ -n "$quick" ]]; then
  more=(--quick)
  export RULES_KILLS=10
fi

# The Python package: the packed one, or one made from the build, or else an installed wheel.
package="$build/gpu/python"
if [[ ! -f "$root/packed" ]]; then
  if ! told="$("$here/package.sh" "$build" \
    "${TENON_PYTHON:-$root/build/venv/bin/python3}" "$package" 2>&1)"; then
    echo "the Python package was not made: $(tail -n 1 <<<"$told")"
    package=""
  fi
fi

# find_python MODULES [CHECK]: finds a Python that has all modules and passes the check. Sets
# `found`, and `found_path`, the PYTHONPATH that it needs. Sets `lacks` if there is none.
find_python() {
  local modules="$1" check="${2:-pass}" python path said
  found="" found_path="" lacks=""
  for python in "${TENON_TORCH:-}" "${TENON_PYTHON:-}" "$root/build/venv/bin/python3" \
    "$(command -v python3 || true)" /opt/conda/bin/python /opt/venv/bin/python \
    /usr/local/bin/python3 /usr/bin/python3 "${TENON_TORCH_NEWEST:-}" \
    "$(command -v python3.14 || true)" "$(command -v python3.13 || true)" \
    "$(command -v python3.12 || true)" "$(command -v python3.11 || true)"; do
    [[ -n "$python" && -x "$python" ]] || continue
    # The Python's own modules come before the packed ones, which fit one version of Python.
    for path in ${package:+"$package"} "" ${package:+"$package:$package/../python_more"}; do
      if said="$(cd / && PYTHONPATH="$path" "$python" -c "import $modules; $check" 2>&1)"; then
        found="$python" found_path="$path"
        return 0
      fi
      # The modules are present, so another path would not change the check.
      if [[ "$said" == *AssertionError* ]]; then break; fi
    done
    if [[ "$lacks" != *"$python says"* ]]; then lacks+="; $python says $(tail -n 1 <<<"$said")"; fi
  done
  lacks="no Python here has all of $modules$lacks"
  return 1
}

# ---- steps

table=() failed=0 passed=0 skipped=0

# record STEP OUTCOME PASSED FAILED SKIPPED SECONDS NOTE
record() {
  local counts="$3 passed, $4 failed, $5 skipped, $6 s" note="${7:-}"
  if [[ "$2" == skipped && "$3" == 0 ]]; then counts=""; fi
  echo "-- ${label}$1: $2${note:+: $note}${counts:+ ($counts)}"
  table+=("| $1 | $2 | $3 | $4 | $5 | $6 | ${note//|/ } |")
  case "$2" in
    passed) passed=$((passed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
}

is_wanted() {
  local name
  if [[ ${#wanted[@]} == 0 ]]; then return 0; fi
  for name in "${wanted[@]}"; do
    if [[ "$1" == "$name" || "$1" == "$name"-* ]]; then return 0; fi
  done
  return 1
}

count() { grep -cE "$1" "$2" || true; }

# step NAME TITLE COMMAND...: runs a step. Exit status 0: passed. 77: skipped. Any other: failed.
step() {
  local name="$1" title="$2" log rc=0 from ok bad left note=""
  shift 2
  is_wanted "$name" || return 0
  log="$work/$name.log"
  echo "== ${label}$name: $title"
  from="$SECONDS"
  export FAKE_CUDA_WORLD="$work/world"
  mkdir -p "$FAKE_CUDA_WORLD"
  timeout -k 10 "$limit" "$@" </dev/null >"$log" 2>&1 || rc=$?
  rm -rf "$FAKE_CUDA_WORLD"
  ok="$(count '^(\[       OK \]|ok  |passed |test result: ok)' "$log")"
  bad="$(count '^(\[  FAILED  \] .*ms\)|FAIL )|^FAILED ' "$log")"
  left="$(count '^(\[  SKIPPED \] .*ms\)|skip +[a-z]|skipped [a-z])' "$log")"
  # Prints why tests were left out and, below, where something failed.
  grep -E 'not on a real driver|^skip |^skipped' "$log" | sort | uniq -c |
    sed 's/^ *1 /   /' || true
  case "$rc" in
    0) record "$name" passed "$ok" "$bad" "$left" "$((SECONDS - from))" ;;
    77)
      record "$name" skipped "$ok" "$bad" "$left" "$((SECONDS - from))" \
        "$(grep -E '^skipped' "$log" | tail -n 1 | sed 's/^skipped: //' || true)"
      ;;
    *)
      grep -E '^FAILED|^FAIL |FAILED  \]|Failure|: pid [0-9]+|Error|error:|^panic: |^SIG[A-Z]+: ' \
        "$log" | head -n 40 || true
      tail -n 15 "$log"
      note="exit status $rc"
      if [[ "$rc" == 124 || "$rc" == 137 ]]; then note="not over after $limit s"; fi
      record "$name" FAILED "$ok" "$bad" "$left" "$((SECONDS - from))" "$note"
      ;;
  esac
}

# skip_step NAME TITLE WHY
skip_step() {
  is_wanted "$1" || return 0
  echo "== ${label}$1: $2"
  record "$1" skipped 0 0 0 0 "$3"
}

# fail_step NAME TITLE WHY
fail_step() {
  is_wanted "$1" || return 0
  echo "== ${label}$1: $2"
  record "$1" FAILED 0 0 0 0 "$3"
}

# lack_step NAME TITLE WHY: reports a step whose needs should have been present.
lack_step() {
  if [[ -n "$strict" ]]; then fail_step "$@"; else skip_step "$@"; fi
}

# find_torch: as find_python, for a Python whose PyTorch has CUDA. Sets `torch_lacks_tenon` if such
# a PyTorch exists, but none has Tenon beside it.
torch_searched="" torch_found="" torch_found_path="" torch_lacks="" torch_lacks_tenon=""
find_torch() {
  local check="assert torch.cuda.is_available(), 'its PyTorch has no CUDA here'"
  if [[ -z "$torch_searched" ]]; then
    torch_searched=yes
    if find_python "torch, tenon" "$check"; then
      torch_found="$found" torch_found_path="$found_path"
    else
      torch_lacks="$lacks"
      if find_python "torch" "$check"; then
        torch_lacks_tenon="$found has PyTorch, but not Tenon: $torch_lacks"
      fi
    fi
  fi
  found="$torch_found" found_path="$torch_found_path" lacks="$torch_lacks"
  [[ -n "$found" ]]
}

# lack_torch NAME TITLE: reports a step for which no Python has both PyTorch and Tenon.
lack_torch() {
  if [[ -n "$torch_lacks_tenon" ]]; then
    fail_step "$@" "$torch_lacks_tenon"
  else
    lack_step "$@" "$torch_lacks"
  fi
}

# program NAME TITLE FILE ARGUMENT...: runs a program of the build as a step, if it exists.
program() {
  local name="$1" title="$2" file="$3"
  shift 3
  if [[ -x "$build/$file" ]]; then
    step "$name" "$title" "$build/$file" "$@"
  else
    lack_step "$name" "$title" "there is no $file in the build"
  fi
}

# suite NAME TITLE KIND TOPIC: runs one file of one of the test programs in tests/process/cuda.
suite() { program "$1" "$2" "tests/process/cuda/cuda_$3_tests" "--file=$4_test.cc"; }

limit=600
date="$(date -u '+%Y-%m-%d %H:%M UTC')"
# answer PROGRAM ARGUMENT...: returns the program's output, in a new world of the fake.
answer() {
  export FAKE_CUDA_WORLD="$work/world"
  mkdir -p "$FAKE_CUDA_WORLD"
  if [[ -x "$1" ]]; then timeout 60 "$@" 2>&1 || true; fi
  rm -rf "$FAKE_CUDA_WORLD"
}
said="$(answer "$build/tests/support/fake_cuda/fake_cuda_rules" versions | tail -n 1)"
said="${said%%;*}"
if [[ -z "$fake" && "$said" == *"the fake"* ]]; then
  echo "tests/process/gpu/run.sh: LD_LIBRARY_PATH leads to the driver of tests/support/fake_cuda:" \
    "take it away, or say --fake" >&2
  exit 2
fi
doctor="$(answer "$build/cli/tenon" doctor | grep -E '\bCUDA\b' | head -n 1 | tr -s ' ' || true)"
machine="$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader \
  2>/dev/null | paste -sd ';' || true)"
if [[ -n "$fake" ]]; then
  machine="FAKE: tests/support/fake_cuda plays the driver ($fake), no GPU is used"
fi
echo "machine: ${machine:-nvidia-smi says nothing}"
echo "driver:  ${said:-no answer}"
echo "tenon:   ${doctor:-tenon doctor says nothing}"
if [[ "$said" == skipped:* ]]; then
  echo "skipped: no driver here: $said"
  exit 77
fi

program rules "the rules of the driver that Tenon relies on" tests/support/fake_cuda/fake_cuda_rules
suite driver "the driver is found and started once" cuda driver
suite errors "what the driver's errors become" cuda error
suite available "whether CUDA can be used, as a user asks" available available
suite fork "children of fork" cuda fork
suite share "device memory lent between processes" device share
suite refused "device memory that is not lent" device share_refused
suite back "when device memory goes back, and when not" device give_back
suite protocol "PyTorch's protocol, call by call" internal torch
suite transport "memory that PyTorch's handle cannot lead to" device transport
suite pieces "what the driver says of memory that cannot be lent" device pieces
suite segment "PyTorch's expandable segments, call by call" device torch_segment
suite event "events as objects" internal event
suite archive "modules in device memory, written and read" module archive
TENON_SOURCE_DIR="$root" suite weights "one copy of weights for all processes" weights weights
suite connection "device memory in messages, under leases" channel connection
suite hostile "messages that no library would send" channel connection_hostile
suite turns "what a connection does with device memory" channel connection_rules
suite composite "composites whose parts are in device memory" channel composite
suite arena "arenas of device memory" channel arena
suite arena-memory "of what an arena is made" channel arena_memory
suite pinned "pinned host memory" internal pinned
program example "an archive's weights lent to a worker, in C" \
  examples/c/cuda_weights "$root/tests/peers/golden/module/2.2.0/net.pt"
suite kernel "a kernel on memory that was lent" channel kernel
TENON_TEST_HAS_CUDA=1 program cpp "the C++ wrapper" tests/languages/cpp/cpp_test \
  '--gtest_filter=Cuda.*:CudaArena.*:CudaEvent.*:CudaPinned.*'
for wrapper in rust go; do
  if [[ "$fake" == 13 ]]; then
    skip_step "$wrapper" "the $wrapper wrapper" "ctest has it on the fake driver, as cuda.$wrapper"
  elif [[ ! -x "$root/tests/languages/$wrapper/run.sh" ]] ||
    ! command -v "${wrapper/rust/cargo}" >/dev/null; then
    skip_step "$wrapper" "the $wrapper wrapper" \
      "its tests are built by ${wrapper/rust/cargo}, in a checkout"
  else
    TENON_TEST_HAS_CUDA=1 TENON_SOURCE_DIR="$root" TENON_BUILD_DIR="$build" \
      step "$wrapper" "the $wrapper wrapper" "$root/tests/languages/$wrapper/run.sh" cuda
  fi
done

# Looks for a Python only if the step is wanted, because each try takes a second.
if ! is_wanted python; then
  :
elif find_python "tenon, pytest, numpy"; then
  # shellcheck disable=SC2016  # expanded by the inner shell
  PYTHONPATH="$found_path" step python "the Python wrapper, with $found" bash -c '
    rc=0
    for each in :{lends,waits,items,empties,refuses_the_host,interface,streams,ordered} \
      :{recorded,archives,errors,weights_once} \
      _arena:{sends,comes_home,full,refused} _composite:sends \
      _event:{orders,travels,waits,errors} _pinned:{lends,errors} _transport:{sends,refused}; do
      file="$1/cuda${each%:*}_programs.py" name="${each#*:}"
      if "$0" -B "$file" "$name"; then
        echo "passed ${file##*/} $name"
      else
        echo "FAILED ${file##*/} $name"
        rc=1
      fi
    done
    exit "$rc"' "$found" "$root/wrappers/python/tests"
else
  lack_step python "the Python wrapper" "$lacks"
fi

limit=3600
if ! is_wanted tenon; then
  :
elif find_python "tenon"; then
  PYTHONPATH="$found_path" step tenon "Tenon to Tenon from Python, with $found" \
    "$found" -B "$here/torch_suite.py" --raw "${more[@]}"
else
  lack_step tenon "Tenon to Tenon from Python" "$lacks"
fi
if [[ "$fake" == 13 || (-n "$fake" && -z "${TENON_TORCH:-}") ]]; then
  skip_step torch "PyTorch and Tenon, both ways" "PyTorch does not run on the fake driver"
elif is_wanted torch && find_torch; then
  PYTHONPATH="$found_path" step torch "PyTorch and Tenon, both ways, with $found" \
    "$found" -B "$here/torch_suite.py" "${more[@]}"
else
  lack_torch torch "PyTorch and Tenon, both ways"
fi

sanitizer="${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || true)}"
for place in /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer /opt/cuda/bin; do
  if [[ -z "$sanitizer" && -x "$place/compute-sanitizer" ]]; then
    sanitizer="$place/compute-sanitizer"
  fi
done
if [[ -n "$fake" ]]; then
  skip_step sanitizer "compute-sanitizer" "it wants a real driver"
elif [[ -z "$sanitizer" ]]; then
  skip_step sanitizer "compute-sanitizer" \
    "there is none in PATH, /usr/local/cuda nor COMPUTE_SANITIZER"
else
  # These tests cause errors of the API on purpose, but no errors of memory.
  check=("$sanitizer" --tool memcheck --report-api-errors no --target-processes all
    --error-exitcode 9)
  export TENON_TEST_PATIENCE=20
  for name in device_tests:share internal_tests:torch channel_tests:kernel; do
    program="$build/tests/process/cuda/cuda_${name%:*}" topic="${name#*:}"
    step "sanitizer-${topic/torch/protocol}" "compute-sanitizer: cuda_$topic" \
      "${check[@]}" "$program" "--file=${topic}_test.cc"
  done
  if is_wanted sanitizer-torch && find_torch; then
    PYTHONPATH="$found_path" TENON_TEST_COMPUTE_SANITIZER=1 \
      step sanitizer-torch "compute-sanitizer: PyTorch, simple and views" "${check[@]}" \
      "$found" -B "$here/torch_suite.py" --quick simple views
  else
    lack_torch sanitizer-torch "compute-sanitizer: PyTorch"
  fi
  unset TENON_TEST_PATIENCE
fi

if [[ -n "$fake" ]] || ! is_wanted bench || ! find_torch; then more+=(--raw); fi
if ! is_wanted bench; then
  :
elif [[ "${more[*]}" != *--raw* ]] || find_python "tenon"; then
  PYTHONPATH="$found_path" step bench "time of a share and an open, with $found" \
    "$found" -B "$here/bench.py" "${more[@]}"
  if [[ -f "$work/bench.log" ]]; then cat "$work/bench.log"; fi
else
  lack_step bench "time of a share and an open" "$lacks"
fi

# ---- the table

total=$((passed + failed + skipped))
if [[ $total == 0 ]]; then
  echo "tests/process/gpu/run.sh: no step is called ${wanted[*]}" >&2
  exit 2
fi
{
  echo
  echo "## ${label}Tenon's CUDA suite, $date"
  echo
  echo "Machine: ${machine:-unknown}  "
  echo "Driver: ${said##*$'\n'}  "
  echo "Tenon: ${doctor:-unknown}"
  echo
  echo "| step | outcome | passed | failed | skipped | s | |"
  echo "|---|---|---|---|---|---|---|"
  printf '%s\n' "${table[@]}"
  echo
  echo "${label}$total steps: $passed passed, $failed FAILED, $skipped skipped"
} | tee -a "$work/results.md"
if [[ $failed -gt 0 ]]; then exit 1; fi
if [[ $passed == 0 ]]; then exit 77; fi
