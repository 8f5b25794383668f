#!/usr/bin/env bash
# usage: header.sh
#
# Checks that each generated header in impl/modules/flatbuffer is what flatc makes of its schema.
set -euo pipefail
: "${TENON_SOURCE_DIR:?}"

if ! flatc --version 2>/dev/null | grep -qF 2.0.8; then
  echo "skipped: there is no flatc 2.0.8, of which the header is"
  exit 77
fi
made="$(mktemp -d)"
trap 'rm -rf "$made"' EXIT
"$TENON_SOURCE_DIR/tools/make_flatbuffer_header.sh" "$made"
for header in "$made"/*_generated.h; do
  committed="$TENON_SOURCE_DIR/impl/modules/flatbuffer/$(basename "$header")"
  if ! diff "$committed" "$header"; then
    echo "$committed is not of its schema: run tools/make_flatbuffer_header.sh" >&2
    exit 1
  fi
done
