#!/usr/bin/env bash
# usage: run.sh test|cuda|clippy|fmt|docs|msrv|bindings|miri|build PACKAGE|bench [--smoke]|example
#        NAME TEXT...|module_example NAME|cuda_weights|share_weights
#
# Runs one part of the Rust wrapper's tests against the library in TENON_BUILD_DIR. Everything that
# cargo makes goes there too. Exit status 77, with a reason, means that a tool is missing.
set -euo pipefail

source_dir="${TENON_SOURCE_DIR:?is set by CTest}"
build_dir="${TENON_BUILD_DIR:?is set by CTest}"
manifest="$source_dir/wrappers/rust/Cargo.toml"

skip() {
  echo "skipped: $1"
  exit 77
}

command -v cargo >/dev/null ||
  skip "there is no cargo (rustup, or Debian's rustc-web and cargo-web)"

# shellcheck source=tests/languages/rust/env.sh
source "$source_dir/tests/languages/rust/env.sh"
export TENON_MANAGER="$build_dir/tenon-manager"

with_cargo() {
  local command="$1"
  shift
  cargo "$command" --quiet --locked --manifest-path "$manifest" "$@"
}

build_examples() {
  with_cargo build -p tenon-examples
}

features=libtenon/half,libtenon/ndarray,libtenon/tokio
case "$1" in
  test)
    with_cargo test -p libtenon-sys -p libtenon --features "$features" \
      --no-fail-fast
    ;;
  cuda)
    # The environment names the driver (tests/process/cuda).
    with_cargo test -p libtenon --features "$features" \
      --test by_cuda --test cuda_arena --test cuda_event --test cuda_pinned
    ;;
  clippy)
    cargo clippy --version >/dev/null 2>&1 || skip "there is no cargo-clippy"
    with_cargo clippy --workspace --all-targets --features "$features" \
      -- -D warnings
    with_cargo clippy --workspace --all-targets -- -D warnings
    ;;
  fmt)
    cargo fmt --version >/dev/null 2>&1 || skip "there is no rustfmt"
    cargo fmt --all --manifest-path "$manifest" --check
    rustfmt --check --edition 2021 --config max_width=100 "$source_dir"/examples/start/rust/*.rs
    ;;
  docs)
    RUSTDOCFLAGS="-D warnings" with_cargo doc -p libtenon --no-deps --features half,ndarray,tokio
    ;;
  msrv)
    cargo +1.78.0 --version >/dev/null 2>&1 ||
      skip "there is no Rust 1.78, the oldest that is promised (rustup toolchain install 1.78.0)"
    export CARGO_TARGET_DIR="$build_dir/cargo-1.78"
    cargo +1.78.0 check --quiet --locked --manifest-path "$manifest" --workspace --all-targets \
      --features "$features"
    ;;
  bindings)
    # bindgen finds libclang by itself, if it is installed.
    compgen -G '/usr/lib/llvm-*/lib/libclang[.-][s0-9]*' >/dev/null ||
      compgen -G '/usr/lib/*/libclang[.-][s0-9]*' >/dev/null ||
      [[ -n "${LIBCLANG_PATH:-}" ]] || skip "there is no libclang for bindgen"
    with_cargo test -p libtenon-sys --features bindgen --test bindings
    ;;
  miri)
    cargo +nightly miri --version >/dev/null 2>&1 ||
      skip "there is no miri (rustup component add miri rust-src --toolchain nightly)"
    # Miri runs no foreign code, so it can run only the tests whose names begin with pure_.
    export CARGO_TARGET_DIR="$build_dir/cargo-miri"
    output="$(cargo +nightly miri test --locked --manifest-path "$manifest" -p libtenon \
      --features half --lib pure_ 2>&1)" || {
      printf '%s\n' "$output"
      exit 1
    }
    printf '%s\n' "$output"
    grep -qE 'test result: ok\. [1-9][0-9]* passed' <<<"$output"
    ;;
  build)
    # Builds the programs of tests/languages/{vectors,matrix,errors} and of
    # tests/peers/module/builders.
    with_cargo build -p "$2"
    ;;
  bench)
    # The benchmark is built with optimisation. Its rows go to stdout, as those of tests/bench do.
    shift
    with_cargo build --release -p tenon-bench
    exec "$CARGO_TARGET_DIR/release/wrapper_rust" "$@"
    ;;
  example)
    build_examples
    name="$2"
    shift 2
    exec bash "$source_dir/tests/api/capi/check_example.sh" "$CARGO_TARGET_DIR/debug/$name" "$@"
    ;;
  module_example)
    build_examples
    exec "${TENON_PYTHON:-python3}" -B "$source_dir/tests/languages/examples/modules_test.py" \
      "$2" "$CARGO_TARGET_DIR/debug/$2"
    ;;
  cuda_weights)
    build_examples
    exec "${TENON_PYTHON:-python3}" -B "$source_dir/tests/languages/examples/cuda_weights_test.py" \
      "$CARGO_TARGET_DIR/debug/cuda_weights"
    ;;
  share_weights)
    python="${TENON_PYTHON:-python3}"
    find_model='import importlib.util as u
print(u.find_spec("silero_vad").submodule_search_locations[0])'
    model="$("$python" -c "$find_model" 2>/dev/null)" ||
      skip "there is no model: the PyPI package silero-vad is not installed"
    model+=/data/silero_vad_16k.safetensors
    build_examples
    lender="$CARGO_TARGET_DIR/debug/share_weights"
    "$lender" lend "$model"
    if [[ -x "$build_dir/examples/c/share_weights" ]]; then
      "$lender" lend "$model" "$build_dir/examples/c/share_weights" FD
    fi
    if "$python" -c 'import tenon, numpy' 2>/dev/null; then
      "$lender" lend "$model" "$python" -B "$source_dir/examples/python/share_weights.py" FD numpy
    fi
    ;;
  *)
    echo "run.sh: no part $1" >&2
    exit 2
    ;;
esac
