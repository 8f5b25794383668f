#!/usr/bin/env bash
# Runs its arguments as uid 65534, with a private TMPDIR and HOME, when the caller is root; else just runs them. Root is not held
# to the limits that users meet (fds in flight, map files, permissions), so tests that look for limits run this way too.
set -euo pipefail

if [[ "${1:-}" == "--help" || $# -eq 0 ]]; then
  echo "usage: $0 COMMAND [ARGUMENT...]"
  exit 0
fi
if [[ "$(id -u)" != 0 ]]; then
  exec "$@"
fi

readonly uid=65534
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
as_other=(setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs)

private="$(mktemp -d /tmp/tenon-unprivileged.XXXXXX)"
trap 'rm -rf "$private"' EXIT
chown "$uid:$uid" "$private"
chmod 700 "$private"
export HOME="$private" TMPDIR="$private" USER=nobody LOGNAME=nobody XDG_RUNTIME_DIR="$private"
unset XDG_CACHE_HOME XDG_CONFIG_HOME

wanted="${1}"
if [[ "$wanted" != */* ]]; then
  wanted="$here/CMakeLists.txt"
fi
if "${as_other[@]}" test -r "$here/CMakeLists.txt" && ! "${as_other[@]}" test -r "$wanted"; then
  echo "unprivileged.sh: uid $uid cannot read $wanted: skipped" >&2
  exit 77
fi
rc=0
"$here/tools/reachable.sh" --or-skip "${as_other[@]}" "$@" || rc=$?
exit "$rc"
