# Shared by the tests of packages; sourced. Each test works in an empty folder, $work, which is
# removed at its end.
# shellcheck shell=bash
set -euo pipefail

: "${TENON_SOURCE_DIR:?}" "${TENON_BUILD_DIR:?}" "${TENON_PYTHON:?}"
work="$(mktemp -d "${TMPDIR:-/tmp}/tenon-packages.XXXXXX")"
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

# shellcheck source=tests/packages/functions.sh
source "$(dirname "${BASH_SOURCE[0]}")/functions.sh"

# The library is compiled once, for the wheel of tools/setup.sh. The packages reuse its objects.
# shellcheck source=tests/packages/objects.sh
source "$(dirname "${BASH_SOURCE[0]}")/objects.sh"
share_objects
count_objects "$work/ccache.log"
# Ninja starts fewer processes, and all of these builds use the same generator.
if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
export CMAKE_BUILD_PARALLEL_LEVEL=2

# copy_repository FOLDER: copies what a user would have in a clone: the committed files, and new
# files that git does not ignore.
copy_repository() {
  mkdir -p "$1"
  if git -C "$TENON_SOURCE_DIR" rev-parse --git-dir >/dev/null 2>&1; then
    (cd "$TENON_SOURCE_DIR" && git ls-files -z --cached --others --exclude-standard |
      while IFS= read -r -d '' file; do
        if [[ -e "$file" || -L "$file" ]]; then printf '%s\0' "$file"; fi
      done | tar --null -T - -c) | tar -x -C "$1"
  else
    tar -C "$TENON_SOURCE_DIR" --exclude ./build --exclude ./.git -c . | tar -x -C "$1"
  fi
}

# block FILE N [LANGUAGE]: prints code block number N (from 1) of a README. With LANGUAGE it counts
# the blocks with a fence of that language, and without it the indented blocks.
block() {
  local text
  if [[ -n "${3:-}" ]]; then
    text="$(awk -v want="$2" -v fence="\`\`\`$3" '
      $0 == fence { inside = 1; n++; next }
      /^```/ { inside = 0 }
      inside && n == want' "$1")"
  else
    text="$(awk -v want="$2" '
      /^    / { if (!inside) n++; inside = 1; if (n == want) print substr($0, 5); next }
      /^$/ { if (inside && n == want) print ""; next }
      { inside = 0 }' "$1")"
  fi
  [[ -n "$text" ]] || fail "$1 has no block $2 of ${3:-indented} code"
  printf '%s\n' "$text"
}

version() {
  sed -n 's/^project(tenon VERSION \([0-9.]*\).*/\1/p' "$TENON_SOURCE_DIR/CMakeLists.txt"
}
