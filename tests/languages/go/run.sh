#!/usr/bin/env bash
# usage: run.sh CASE. Called by CTest, which sets CMAKE and CC beside the variables of env.sh.
set -euo pipefail
# shellcheck source=tests/languages/go/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

wrapper="$TENON_SOURCE_DIR/wrappers/go"
examples="$TENON_SOURCE_DIR/examples/go"
work="$(mktemp -d "${TMPDIR:-/tmp}/tenon-go.XXXXXX")"
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

tests() {
  cd "$wrapper"
  go test -count=1 -timeout 400s "$@" ./...
}

modules=("$wrapper" "$examples"
  "$TENON_SOURCE_DIR"/tests/languages/{vectors,matrix,errors}/go
  "$TENON_SOURCE_DIR"/tests/{process/cuda,bench,peers/module/builders}/go)

vet() {
  local folder
  for folder in "${modules[@]}"; do
    (cd "$folder" && go vet ./...)
  done
}

# A build with other tags runs cgo again. So vet with tags runs just before the tests with these
# tags, which then reuse the output of cgo.
vet_debug() { (cd "$wrapper" && go vet -tags tenon_debug ./...); }

# Runs the tests under build tags that vet() has already checked.
vetted_tests() { tests -vet=off "$@"; }

case_vet() {
  local unformatted
  unformatted="$(gofmt -l "${modules[@]}" "$TENON_SOURCE_DIR/examples/start/go")"
  [[ -z "$unformatted" ]] || fail "gofmt would change: $unformatted"
  vet
  cd "$wrapper"
  [[ ! -e go.sum ]] || fail "the wrapper needs nothing but the standard library"
}

# Runs the tests with the oldest Go that go.mod promises. The installed Go fetches that Go as a
# module and keeps it.
case_minimum() {
  local least root
  least="go$(awk '$1 == "go" { print $2 }' "$wrapper/go.mod")"
  [[ "$least" == *.*.* ]] || least+=.0
  root="$(GOTOOLCHAIN="$least" GOPROXY="$go_proxy" GOFLAGS=-modcacherw \
    GOMODCACHE="$TENON_BUILD_DIR/go/toolchains" go env GOROOT 2>"$work/log")" ||
    skip "$least cannot be fetched: $(tail -n 1 "$work/log")"
  export PATH="$root/bin:$PATH"
  [[ "$(go env GOVERSION)" == "$least" ]] ||
    fail "the Go in $root says that it is $(go env GOVERSION), not $least"
  vet
  vet_debug
  vetted_tests
  echo "ok: $least"
}

case_test() { vetted_tests; }

# Runs the tests of CUDA on the driver that the caller's LD_LIBRARY_PATH names, as
# tests/process/cuda and tests/process/gpu set it. The tests in tests/process/cuda/go run too,
# because they need C's memory.
case_cuda() {
  export LD_LIBRARY_PATH="$LD_LIBRARY_PATH${go_library_path:+:$go_library_path}"
  cd "$wrapper"
  go test -count=1 -timeout 400s -run CUDA .
  # The fake driver lies in the build folder. With it, these tests use the standard library that
  # go.race compiled. The race detector was never tried beside a real driver.
  local race=()
  if [[ "$go_library_path" == "$TENON_BUILD_DIR"/* ]]; then race=(-race); fi
  cd "$TENON_SOURCE_DIR/tests/process/cuda/go"
  GOEXPERIMENT=cgocheck2 go test "${race[@]}" -count=1 -timeout 400s ./...
}

# Also uses the strictest check of the Go memory that C sees. That check and the race detector each
# compile the whole standard library again, so one program has both.
case_race() { GOEXPERIMENT=cgocheck2 vetted_tests -race; }

case_gogc() { GOGC=1 vetted_tests; }

# These tests have one processor. With two, runtime.GC often loops until a sweeper that the kernel
# has paused goes on, and that loop took nine tenths of the CPU time here.
case_debug() {
  vet_debug
  GOMAXPROCS=1 vetted_tests -short -tags tenon_debug
}

# Only the archive can be found, so the program must not need libtenon.so.
case_static() {
  [[ -f "$TENON_BUILD_DIR/libtenon_internal.a" ]] ||
    skip "libtenon_internal.a is not built (the target tenon_internal)"
  local prefix="$TENON_BUILD_DIR/go/static"
  "$CMAKE" --install "$TENON_BUILD_DIR" --prefix "$prefix" --component dev >/dev/null
  "$CMAKE" --install "$TENON_BUILD_DIR" --prefix "$prefix" --component static >/dev/null
  find "$prefix" -name 'libtenon.so*' -delete
  find "$prefix" -name tenon.pc -delete
  PKG_CONFIG_PATH="$(dirname "$(find "$prefix" -name tenon-static.pc)")"
  unset LD_LIBRARY_PATH
  tests -tags tenon_static
  cd "$examples"
  go build -tags tenon_static -o "$work/program" ./weak_cache
  if readelf -d "$work/program" | grep 'NEEDED.*tenon'; then
    fail "the program needs libtenon.so"
  fi
  # The output goes through a file. grep -q does not read to the end, so a pipe would kill the
  # program while it writes.
  "$work/program" >"$work/log"
  grep -q 'the same storage: yes' "$work/log" || fail "the program printed: $(cat "$work/log")"
}

# A header of another ABI must not compile, and a library of another ABI must be refused.
case_abi() {
  cp -r "$go_prefix" "$work/prefix"
  sed -i 's/^#define TENON_ABI_VERSION .*/#define TENON_ABI_VERSION 999/' \
    "$work/prefix/include/tenon/version.h"
  cd "$wrapper"
  if GOFLAGS="$(go_flags_for "$work/prefix")" \
    PKG_CONFIG_PATH="$(dirname "$(find "$work/prefix" -name tenon.pc)")" \
    go build . 2>"$work/log"; then
    fail "a header of ABI 999 compiled"
  fi
  grep -q 'error.*this Go wrapper is for ABI 1' "$work/log" ||
    fail "not the wrapper's own words: $(cat "$work/log")"
  cd "$examples"
  go build -o "$work/program" ./weak_cache
  echo 'unsigned tenon_abi_version(void) { return 999; }' |
    "$CC" -shared -fPIC -x c - -o "$work/other.so"
  if LD_PRELOAD="$work/other.so" "$work/program" >"$work/log" 2>&1; then
    fail "a library of ABI 999 was used"
  fi
  grep -q 'the loaded libtenon has ABI 999, and this program was built for ABI 1' "$work/log" ||
    fail "not the wrapper's own words: $(cat "$work/log")"
}

case_share_weights() {
  local has='import importlib.util as u, sys
sys.exit(not (u.find_spec("tenon") and u.find_spec("silero_vad")))'
  "${TENON_PYTHON:-python3}" -c "$has" ||
    skip "the Python packages tenon and silero-vad are not installed"
  cd "$examples"
  go build -o "$work/share_weights" ./share_weights
  "${TENON_PYTHON:-python3}" -B "$TENON_SOURCE_DIR/tests/languages/go/share_weights.py" \
    "$work/share_weights"
}

# find_workers EXAMPLE: adds the commands of an example in the other languages to `workers`, as far
# as this build has them.
find_workers() {
  local name
  python="${TENON_PYTHON:-python3}"
  "$python" -c 'import tenon, numpy' 2>/dev/null ||
    skip "the Python packages tenon and numpy are not installed"
  workers+=("$python -B $TENON_SOURCE_DIR/examples/python/$1.py")
  for name in c cpp; do
    name="$TENON_BUILD_DIR/examples/$name/$1"
    if [[ -x "$name" ]]; then workers+=("$name"); fi
  done
  if bash "$TENON_SOURCE_DIR/tests/languages/rust/run.sh" build tenon-examples; then
    workers+=("$TENON_BUILD_DIR/cargo/debug/$1")
  elif (($? != 77)); then
    fail "the worker in Rust"
  fi
}

case_weights_workers() {
  local python workers=("$work/weights_once")
  find_workers weights_once
  cd "$examples"
  go build -o "$work/weights_once" ./weights_once
  LD_LIBRARY_PATH="$TENON_BUILD_DIR:$LD_LIBRARY_PATH" "$python" -B \
    "$TENON_SOURCE_DIR/tests/languages/examples/weights_once_test.py" "${workers[@]}"
}

case_inference_workers() {
  local python workers=("/proc/self/exe work")
  find_workers inference_worker
  cd "$examples"
  go build -o "$work/inference_server" ./inference_server
  "$python" -B "$TENON_SOURCE_DIR/tests/languages/examples/inference_server_test.py" \
    "$work/inference_server" "${workers[@]}"
}

# case_example NAME TEXT...: an example must print the texts.
case_example() {
  cd "$examples"
  go build -o "$work/$1" "./$1"
  bash "$TENON_SOURCE_DIR/tests/api/capi/check_example.sh" "$work/$1" "${@:2}"
}

# case_module_example NAME: an example that writes or reads archives. Real PyTorch runs what the
# example writes.
case_module_example() {
  cd "$examples"
  go build -o "$work/$1" "./$1"
  "${TENON_PYTHON:-python3}" -B "$TENON_SOURCE_DIR/tests/languages/examples/modules_test.py" \
    "$1" "$work/$1"
}

case_cuda_weights() {
  cd "$examples"
  go build -o "$work/cuda_weights" ./cuda_weights
  "${TENON_PYTHON:-python3}" -B "$TENON_SOURCE_DIR/tests/languages/examples/cuda_weights_test.py" \
    "$work/cuda_weights"
}

"case_${1:?}" "${@:2}"
