# Lets builds of the library without debug information share their objects. tools/setup.sh sources
# this file for the wheel, which compiles first on a clean machine. So do the tests of packages.
# shellcheck shell=bash
#
# ccache knows a file by its paths, and each package is built in another folder: from a clone, an
# sdist, a crate, or as a subproject, and in the unity files that CMake writes into the build
# folder. preprocess.sh leaves the paths out of what ccache hashes. The compiler's name, the options
# that are not for the preprocessor, and the preprocessed text must still be equal.
_tenon_objects="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# share_objects: exports variables that make CMake and cargo builds below the caller share their
# objects.
share_objects() {
  export CC="${CC:-cc}" CXX="${CXX:-c++}" CMAKE_BUILD_TYPE=Release
  command -v ccache >/dev/null || return 0
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  # The direct mode finds headers by paths in the preprocessor's output, which has no paths here.
  export CCACHE_NODIRECT=1 CCACHE_PREFIX_CPP="$_tenon_objects/preprocess.sh"
  # The cmake crate sets LC_ALL. The language of warnings does not change an object.
  export CCACHE_SLOPPINESS=locale
  unset CCACHE_BASEDIR
}

# count_objects LOG: makes ccache write its statistics to LOG from now on, for report_objects.
count_objects() { export CCACHE_STATSLOG="$1"; }

# report_objects WHAT: prints how many objects were compiled anew and how many came from the cache.
report_objects() {
  local hits misses
  if ! command -v ccache >/dev/null; then
    echo "$1: there is no ccache, so everything was compiled"
    return
  fi
  hits="$(grep -cxE '(direct|preprocessed)_cache_hit' "$CCACHE_STATSLOG" || true)"
  misses="$(grep -cx 'cache_miss' "$CCACHE_STATSLOG" || true)"
  echo "$1: $misses objects compiled, $hits from the compiler's cache"
}
