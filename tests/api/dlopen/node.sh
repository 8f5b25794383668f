#!/usr/bin/env bash
# usage: node.sh. Installs the FFI package that node/package-lock.json names into the build folder,
#        once, and runs lend.mjs with it.
# Exit status 77 means that node or npm is missing. If both exist, a package that cannot be fetched
# is a failure.
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
  # The package has its library built, so its scripts need not run. The network may fail, so there
  # are three tries.
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
