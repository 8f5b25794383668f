#!/usr/bin/env bash
# usage: env.sh LANGUAGE...
#
# Prints the environment that a reader has after the installation of python, c, rust or go, as `env
# -0` does. snippets_test.py runs the commands of a page in this environment. Exit status 77, with a
# reason, means that a toolchain is missing.
set -euo pipefail
: "${TENON_SOURCE_DIR:?}" "${TENON_BUILD_DIR:?}"
# fd 3 keeps the standard output for the environment. All other output is for people and goes to
# standard error.
exec 3>&1 1>&2

skip() {
  echo "skipped: $*"
  exit 77
}

need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# Puts the first Python that has Tenon and numpy on the PATH. The Pythons with PyTorch come first.
with_python() {
  local each has='import sys, importlib.util as u
sys.exit(not (u.find_spec("tenon") and u.find_spec("numpy")))'
  for each in "${TENON_TORCH_DEBIAN:-}" "${TENON_TORCH_NEWEST:-}" "${TENON_PYTHON:-}"; do
    if [[ -n "$each" ]] && "$each" -B -c "$has"; then
      PATH="$(dirname "$each"):$PATH"
      export PATH PYTHONDONTWRITEBYTECODE=1
      return
    fi
  done
  skip "no Python here has the packages tenon and numpy"
}

# Installs Tenon, and gives the compilers of this build the names cc and c++.
with_c() {
  need pkg-config
  local folder="$TENON_BUILD_DIR/docs" libdir
  mkdir -p "$folder/bin"
  exec 9>"$folder/lock"
  flock 9
  "${CMAKE:-cmake}" --install "$TENON_BUILD_DIR" --prefix "$folder/prefix" >/dev/null
  ln -sfn "$(command -v "${CC:-cc}")" "$folder/bin/cc"
  ln -sfn "$(command -v "${CXX:-c++}")" "$folder/bin/c++"
  exec 9>&-
  libdir="$(dirname "$(find "$folder/prefix" -name libtenon.so)")"
  export PKG_CONFIG_PATH="$libdir/pkgconfig" CMAKE_PREFIX_PATH="$folder/prefix"
  export LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export PATH="$folder/bin:$PATH:$folder/prefix/bin"
  unset CC CXX
  if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
}

# Lets cargo find the crates that the tests of the wrapper compiled.
with_rust() {
  need cargo
  # shellcheck source=tests/languages/rust/env.sh
  source "$TENON_SOURCE_DIR/tests/languages/rust/env.sh"
}

with_go() {
  # shellcheck source=tests/languages/go/env.sh
  source "$TENON_SOURCE_DIR/tests/languages/go/env.sh"
}

for language; do "with_$language"; done
env -0 >&3
