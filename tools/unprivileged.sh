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
if "${as_other[@]}" test -r "$wanted" -a -r "$here/CMakeLists.txt"; then
  rc=0
  "${as_other[@]}" "$@" || rc=$?
  exit "$rc"
fi

# The tree lies in a folder that is closed to others (a clone in /root is). Show it at the same path in a mount namespace of our
# own, where the closed folder is replaced by an open, empty one that holds nothing but the tree.
closed=/
while IFS= read -r -d / part; do
  closed="${closed%/}/$part"
  if ! "${as_other[@]}" test -x "$closed"; then
    break
  fi
done < <(printf '%s/' "${here#/}")
if [[ "$closed" == "$here" ]]; then
  echo "unprivileged.sh: $here itself is closed to uid $uid: chmod -R a+rX it" >&2
  exit 77
fi
if ! unshare --mount true 2>/dev/null; then
  echo "unprivileged.sh: uid $uid cannot reach $here ($closed is closed) and this machine allows no mount namespace: skipped" >&2
  exit 77
fi
mkdir "$private/tree"
rc=0
# shellcheck disable=SC2016  # expanded by the inner shell
unshare --mount --propagation private bash -euc '
  closed="$1" here="$2" hold="$3" where="$PWD"; shift 3
  mount --bind "$here" "$hold"
  mount -t tmpfs -o mode=755 tmpfs "$closed"
  mkdir -p "$here"
  mount --move "$hold" "$here"
  cd "$where" 2>/dev/null || cd "$here"
  exec "$@"' bash "$closed" "$here" "$private/tree" "${as_other[@]}" "$@" || rc=$?
exit "$rc"
