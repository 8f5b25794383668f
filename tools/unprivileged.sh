#!/usr/bin/env bash
# usage: tools/unprivileged.sh [--or-as-root] COMMAND [ARGUMENT...]
#
# Runs COMMAND as uid 65534, with a private TMPDIR and HOME, when the caller is root; else just runs
# it. Root is not held to the limits that users meet (fds in flight, map files, permissions), so
# tests that look for limits run this way too. Where no other user can reach this checkout, the exit
# status is 77, and with --or-as-root COMMAND runs as root.
set -euo pipefail

if [[ "${1:-}" == "--help" || $# -eq 0 ]]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
or_as_root=""
if [[ "$1" == "--or-as-root" ]]; then
  or_as_root=yes
  shift
fi
if [[ "$(id -u)" != 0 ]]; then
  exec "$@"
fi

readonly uid=65534
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
as_other=(setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all
  --bounding-set=-all --no-new-privs)

wanted="${1}"
if [[ "$wanted" != */* ]]; then
  wanted="$here/CMakeLists.txt"
fi
why=""
if "${as_other[@]}" test -r "$here/CMakeLists.txt" && ! "${as_other[@]}" test -r "$wanted"; then
  why="uid $uid cannot read $wanted"
elif ! "$here/tools/reachable.sh" --or-skip "${as_other[@]}" true; then
  why="uid $uid cannot reach $here"
fi
if [[ -n "$why" && -n "$or_as_root" ]]; then
  echo "unprivileged.sh: $why: this runs as root" >&2
  exec "$@"
elif [[ -n "$why" ]]; then
  echo "unprivileged.sh: $why: skipped" >&2
  exit 77
fi

private="$(mktemp -d /tmp/tenon-unprivileged.XXXXXX)"
trap 'rm -rf "$private"' EXIT
chown "$uid:$uid" "$private"
chmod 700 "$private"
export HOME="$private" TMPDIR="$private" USER=nobody LOGNAME=nobody XDG_RUNTIME_DIR="$private"
unset XDG_CACHE_HOME XDG_CONFIG_HOME

rc=0
"$here/tools/reachable.sh" --or-skip "${as_other[@]}" "$@" || rc=$?
exit "$rc"
