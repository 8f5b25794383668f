#!/usr/bin/env bash
# usage: run.sh rust|go CHECK...
# CTest calls this script. It builds show_errors in that language, and runs CHECK with the path of
# the program. The script says so and exits with 77 if the language is not installed.
set -euo pipefail
: "${TENON_SOURCE_DIR:?}" "${TENON_BUILD_DIR:?}"

language="$1"
shift
case "$language" in
  rust)
    "$TENON_SOURCE_DIR/tests/languages/rust/run.sh" build tenon-errors
    program="$TENON_BUILD_DIR/cargo/debug/show_errors"
    ;;
  go)
    program="$TENON_BUILD_DIR/go/show_errors"
    "$TENON_SOURCE_DIR/tests/languages/go/build.sh" "$TENON_SOURCE_DIR/tests/languages/errors/go" \
      "$program"
    ;;
  *)
    echo "run.sh: no language $language" >&2
    exit 2
    ;;
esac
export LD_LIBRARY_PATH="$TENON_BUILD_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$@" "$program"
