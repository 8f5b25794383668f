#!/usr/bin/env bash
# usage: header.sh
#
# impl/flatbuffer/module_generated.h is what flatc makes of module.fbs.
set -euo pipefail
: "${TENON_SOURCE_DIR:?}"

if ! flatc --version 2>/dev/null | grep -qF 2.0.8; then
  echo "skipped: there is no flatc 2.0.8, of which the header is"
  exit 77
fi
made="$(mktemp)"
trap 'rm -f "$made"' EXIT
"$TENON_SOURCE_DIR/tools/make_flatbuffer_header.sh" "$made"
if ! diff "$TENON_SOURCE_DIR/impl/flatbuffer/module_generated.h" "$made"; then
  echo "impl/flatbuffer/module_generated.h is not of module.fbs: run tools/make_flatbuffer_header.sh" >&2
  exit 1
fi
