#!/usr/bin/env bash
# usage: tools/reachable.sh [--or-skip] COMMAND [ARGUMENT...]
#
# Runs COMMAND so that every user can reach this checkout. Some tests of root become another user
# and start programs of the build. If the checkout lies in a folder that is closed to others, such
# as /root, COMMAND runs in a mount namespace of its own: an open folder with the same entries takes
# the place of the closed one. Files that COMMAND adds directly to that folder are lost. Where that
# is not possible, COMMAND runs after a warning, or with --or-skip the exit status is 77.
set -euo pipefail

if [[ "${1:-}" == "--help" || $# == 0 ]]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
or_skip=""
if [[ "$1" == "--or-skip" ]]; then
  or_skip=yes
  shift
fi
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [[ "$(id -u)" != 0 ]] || "${as_other[@]}" test -r "$here/CMakeLists.txt"; then exec "$@"; fi

closed=/
while IFS= read -r -d / part; do
  closed="${closed%/}/$part"
  "${as_other[@]}" test -x "$closed" || break
done < <(printf '%s/' "${here#/}")
if [[ "$closed" == "$here" ]] || ! unshare --mount true 2>/dev/null; then
  echo "warning: other users cannot reach $here, because $closed is closed to them. Tests that" >&2
  echo "become another user cannot run. Clone into a folder that is open to all, such as /srv." >&2
  if [[ -n "$or_skip" ]]; then exit 77; fi
  exec "$@"
fi
# These folders of caches outlive COMMAND only if they are there before.
if [[ "$closed" == "${HOME:-}" ]]; then mkdir -p "$HOME"/{.cache,.cargo,.npm,go}; fi
# shellcheck disable=SC2016  # the inner shell expands it
exec unshare --mount --propagation private bash -euc '
  closed="$1" where="$PWD"; shift
  hold="$(mktemp -d)"
  mount --rbind "$closed" "$hold"
  mount -t tmpfs -o mode=755 tmpfs "$closed"
  shopt -s dotglob nullglob
  for entry in "$hold"/*; do
    there="$closed/${entry##*/}"
    if [[ -L "$entry" ]]; then
      cp -a "$entry" "$there"
    elif [[ -d "$entry" ]]; then
      mkdir "$there" && mount --rbind "$entry" "$there"
    elif [[ -f "$entry" ]]; then
      : >"$there" && mount --bind "$entry" "$there"
    fi
  done
  umount -l "$hold" && rmdir "$hold"
  cd "$where"
  exec "$@"' bash "$closed" "$@"
