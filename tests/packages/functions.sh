# shellcheck shell=bash
# What the tests of packages and of an installed tree do all the time; sourced. $work is a folder
# of the test.
: "${work:?}"

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

skip() {
  echo "skipped: $*"
  exit 77
}

# need PROGRAM: skips the test if the program is missing.
need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# logged COMMAND...: prints the output only if the command fails.
logged() {
  "$@" >"$work/log" 2>&1 || fail "$*: $(tail -n 60 "$work/log")"
}

expect_output() {
  local wanted="$1" got
  shift
  got="$("$@")" || fail "$* returned $?"
  [[ "$got" == "$wanted" ]] || fail "$* printed '$got', not '$wanted'"
}
