#!/usr/bin/env bash
# Runs one example. It must exit with 0 and print a line that contains each of the given texts. If
# TENON_EXAMPLE_LINES is set, the file TENON_EXAMPLE_SOURCE must not be longer than that.
#   check_example.sh PROGRAM TEXT...
set -euo pipefail

if [[ -n "${TENON_EXAMPLE_LINES:-}" ]]; then
  lines=$(wc -l <"$TENON_EXAMPLE_SOURCE")
  ((lines <= TENON_EXAMPLE_LINES)) ||
    { echo "$TENON_EXAMPLE_SOURCE has $lines lines, $TENON_EXAMPLE_LINES are allowed" >&2; exit 1; }
fi
program=$1
shift
output=$("$program")
printf '%s\n' "$output"
for text in "$@"; do
  grep -qF -- "$text" <<<"$output" || { echo "not printed: $text" >&2; exit 1; }
done
