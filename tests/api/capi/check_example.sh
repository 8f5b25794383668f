#!/usr/bin/env bash
# Runs one example. It must exit with 0 and print a line that contains each of the given texts. With
# --max-lines its source must not be longer than that.
#   check_example.sh [--max-lines N SOURCE] PROGRAM TEXT...
set -euo pipefail

if [[ $1 == --max-lines ]]; then
  lines=$(wc -l <"$3")
  ((lines <= $2)) || { echo "$3 has $lines lines, $2 are allowed" >&2; exit 1; }
  shift 3
fi
program=$1
shift
output=$("$program")
printf '%s\n' "$output"
for text in "$@"; do
  grep -qF -- "$text" <<<"$output" || { echo "not printed: $text" >&2; exit 1; }
done
