#!/usr/bin/env bash
# usage: node.sh. Installs the FFI package that node/package-lock.json names into the build folder,
#        once, and runs lend.mjs with it.
# Without node or npm: exit code 77. With them, a package that cannot be had is a failure.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
for tool in node npm; do
  command -v "$tool" >/dev/null || {
    echo "skipped: $tool is not installed"
    exit 77
  }
done
place="${TENON_BUILD_DIR:?}/dlopen_node"
if ! cmp -s "$here/node/package-lock.json" "$place/installed.json"; then
  rm -rf "$place"
  mkdir -p "$place"
  cp "$here/node/package.json" "$here/node/package-lock.json" "$place"
  # What it would run is not needed: the package brings its library built. Three times, if need be,
  # for it comes over a network.
  for try in 1 2 3; do
    if (cd "$place" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
      break
    fi
    if [[ $try == 3 ]]; then exit 1; fi
    sleep 10
  done
  cp "$here/node/package-lock.json" "$place/installed.json"
fi
export TENON_NODE_MODULES="$place"
exec node "$here/lend.mjs"
