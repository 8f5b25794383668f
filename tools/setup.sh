#!/usr/bin/env bash
# usage: tools/setup.sh [--peers none|debian|all] [--help]
#
# Installs what Tenon's build and tests need and this machine lacks: Debian packages (by apt-get, as
# root or with sudo), and a Python environment in build/venv. --peers debian, which tools/test uses,
# adds Debian's PyTorch. --peers all adds the newest PyTorch from PyPI as well (5.4 GB, in
# build/venv-torch). A second run finds everything done and returns at once.
#
# tools/test, tools/bench and tools/demo source this file for its functions.
set -Eeuo pipefail
trap 'echo "error: ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >&2' ERR

TENON_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
TENON_BUILD="$TENON_ROOT/build"
# The Debian packages with which the library, the programs and the wheel are built.
TENON_BUILD_PACKAGES=(g++ cmake ninja-build libdeflate-dev libflatbuffers-dev flatbuffers-compiler
  libcli11-dev nlohmann-json3-dev python3 python3-venv python3-dev ca-certificates)
# Tests that run as another uid must be able to read what is built.
umask 022
# With this variable ccache serves objects to other build folders with the same options. The tests
# of packages compile the library many times.
export CCACHE_NOHASHDIR=1

tenon_step() { printf '\n[%4ds] %s\n' "$SECONDS" "$*"; }

tenon_die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# tenon_quietly LOG COMMAND...: runs the command, and shows its output only if the command fails.
tenon_quietly() {
  local log="$1" rc=0
  shift
  "$@" >"$log" 2>&1 || rc=$?
  if [[ $rc != 0 ]]; then
    tail -n 200 "$log" >&2
    tenon_die "failed ($rc): $* (all of its output: $log)"
  fi
}

# tenon_try COMMAND...: runs a command that needs the network, up to three times.
tenon_try() {
  local rc try
  for try in 1 2 3; do
    rc=0
    "$@" || rc=$?
    if [[ $rc == 0 || $try == 3 ]]; then return "$rc"; fi
    echo "failed ($rc): $*: once more in 10 seconds"
    sleep 10
  done
}

# tenon_clock: sets TENON_WALL_MS, and TENON_CPU_MS, the CPU time of all children so far.
tenon_clock() {
  local text minutes seconds word
  TENON_WALL_MS=$((${EPOCHREALTIME/[.,]/} / 1000))
  TENON_CPU_MS=0
  mkdir -p "$TENON_BUILD"
  # This does not use $(times), because a subshell has no children.
  times >"$TENON_BUILD/clock"
  text="$(tail -n 1 "$TENON_BUILD/clock")"
  for word in $text; do
    minutes="${word%m*}"
    seconds="${word#*m}"
    seconds="${seconds%s}"
    TENON_CPU_MS=$((TENON_CPU_MS + minutes * 60000 + 10#${seconds/[.,]/}))
  done
}

# tenon_timed WHAT COMMAND...: runs the command and adds a line to build/steps.txt: the milliseconds
# that the command took, the milliseconds of CPU time, and WHAT.
tenon_timed() {
  local what="$1" wall cpu
  shift
  tenon_clock
  wall="$TENON_WALL_MS" cpu="$TENON_CPU_MS"
  "$@"
  tenon_clock
  printf '%d %d %s\n' $((TENON_WALL_MS - wall)) $((TENON_CPU_MS - cpu)) "$what" \
    >>"$TENON_BUILD/steps.txt"
}

tenon_has_package() { [[ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]]; }

tenon_apt() {
  local prefix=()
  if [[ "$(id -u)" != 0 ]]; then
    command -v sudo >/dev/null || tenon_die "not root and no sudo: please install $*"
    prefix=(sudo)
  fi
  "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -y "$@"
}

# tenon_packages NAME...: installs the packages that are missing. A package whose name has a `?` in
# front is left out if the distribution lacks it.
tenon_packages() {
  local name missing=() wanted=()
  for name in "$@"; do
    tenon_has_package "${name#\?}" || missing+=("$name")
  done
  if [[ ${#missing[@]} == 0 ]]; then return; fi
  command -v apt-get >/dev/null ||
    tenon_die "this is no Debian or Ubuntu: please install what they call ${missing[*]#\?}"
  mkdir -p "$TENON_BUILD"
  if [[ -z "${TENON_APT_UPDATED:-}" ]]; then
    tenon_step "apt-get update"
    tenon_quietly "$TENON_BUILD/apt.log" tenon_try tenon_apt update
    TENON_APT_UPDATED=yes
  fi
  for name in "${missing[@]}"; do
    if [[ "$name" == \?* ]] && ! apt-cache show "${name#\?}" >/dev/null 2>&1; then
      echo "         ${name#\?} does not exist here: going on without"
    else
      wanted+=("${name#\?}")
    fi
  done
  if [[ ${#wanted[@]} == 0 ]]; then return; fi
  tenon_step "apt-get install ${wanted[*]}"
  tenon_quietly "$TENON_BUILD/apt.log" \
    tenon_try tenon_apt install --no-install-recommends "${wanted[@]}"
}

# tenon_find_python: prints a Python of version 3.11 or newer. /usr/bin/python3 comes first, because
# unprivileged tests cannot reach a Python in a home folder.
tenon_find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      command -v "$candidate"
      return
    fi
  done
  tenon_die "Python 3.11 or newer is needed"
}

# tenon_venv NAME COMMENT KEY COMMAND...: calls COMMAND with the folder build/NAME, which COMMAND
# must make. Nothing happens if that folder was made with the same KEY.
tenon_venv() {
  local folder="$TENON_BUILD/$1" comment="$2" key="$3"
  shift 3
  if [[ "$(cat "$folder/tenon-key" 2>/dev/null)" == "$key" ]] &&
    "$folder/bin/python3" -c '' 2>/dev/null; then return; fi
  tenon_step "$comment"
  rm -rf "$folder"
  "$@" "$folder"
  echo "$key" >"$folder/tenon-key"
}

tenon_pip() {
  local folder="$1"
  shift
  tenon_quietly "$TENON_BUILD/pip-${folder##*/}.log" tenon_try "$folder/bin/python3" \
    -m pip install --disable-pip-version-check --no-input --retries 5 "$@"
}

# tenon_later COMMAND...: runs the command in the background until tenon_wait. Large Python
# environments are fetched in this way while the compiler works.
TENON_LATER=()
tenon_later() {
  # Job control gives the command a process group, which ends with this script.
  set -m
  "$@" &
  set +m
  TENON_LATER+=($!)
  trap 'kill -- "${TENON_LATER[@]/#/-}" 2>/dev/null || true' EXIT
}

# tenon_wait: waits for all commands of tenon_later. A failed command has printed its own error.
tenon_wait() {
  local process failed=no
  for process in "${TENON_LATER[@]}"; do wait "$process" || failed=yes; done
  TENON_LATER=()
  trap - EXIT
  if [[ $failed == yes ]]; then tenon_die "what was set up beside the build failed: see above"; fi
}

# tenon_pip_model FOLDER: installs the model whose files are the demo's input, without the PyTorch
# that the package asks for. Nothing runs the model's code.
tenon_pip_model() { tenon_pip "$1" --no-deps 'silero-vad>=5.1,<7'; }

# tenon_requirements NAME...: prints a hash of these files in tools.
tenon_requirements() {
  local name
  for name in "$@"; do cat "$TENON_ROOT/tools/$name"; done | sha256sum
}

tenon_make_main_venv() {
  "$TENON_SYSTEM_PYTHON" -m venv "$1"
  tenon_pip "$1" -r "$TENON_ROOT/tools/requirements.txt"
  tenon_pip_model "$1"
}

tenon_make_debian_torch_venv() { "$TENON_SYSTEM_PYTHON" -m venv --system-site-packages "$1"; }

tenon_make_newest_torch_venv() {
  "$TENON_SYSTEM_PYTHON" -m venv "$1"
  tenon_pip "$1" --no-cache-dir torch numpy
}

# tenon_is_at_least VERSION LEAST: compares versions of numbers and dots. An empty VERSION is less
# than all others.
tenon_is_at_least() {
  [[ -n "$1" && "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

tenon_cargo_version() { cargo --version 2>/dev/null | cut -d ' ' -f 2; }
tenon_go_version() { GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed 's/^go//'; }

# tenon_languages: installs Rust, Go and Node, for the wrappers and the tests, from Debian unless
# this machine has versions that are new enough. A test that lacks one of them says so.
tenon_languages() {
  local packages=()
  tenon_is_at_least "$(tenon_cargo_version)" 1.78 || packages+=('?cargo-web' '?rustc-web')
  command -v node >/dev/null && command -v npm >/dev/null || packages+=('?nodejs' '?npm')
  tenon_is_at_least "$(tenon_go_version)" 1.24 || packages+=(golang-go)
  tenon_packages "${packages[@]}"
  # Debian 13 has a Rust that is new enough under its plain name.
  tenon_is_at_least "$(tenon_cargo_version)" 1.78 || tenon_packages '?cargo' '?rustc'
  tenon_is_at_least "$(tenon_go_version)" 1.24 || tenon_newer_go
}

# tenon_newer_go: fetches a newer Go as a module. Debian 12's Go is too old to fetch one by itself.
tenon_newer_go() {
  local module=golang.org/toolchain@v0.0.1-go1.24.11.linux-amd64 folder="$TENON_BUILD/go"
  if [[ ! -x "$folder/bin/go" ]]; then
    [[ "$(dpkg --print-architecture)" == amd64 ]] || tenon_die "Go 1.24 or newer is needed"
    tenon_step "Go 1.24 in build/go"
    rm -rf "$folder" "$TENON_BUILD/go-modules"
    (cd "$TENON_BUILD" && GOMODCACHE="$TENON_BUILD/go-modules" GOFLAGS=-modcacherw \
      tenon_quietly "$TENON_BUILD/go.log" tenon_try go mod download "$module")
    # The files of a Go module are not executable.
    chmod +x "$TENON_BUILD/go-modules/$module"/{bin,pkg/tool/linux_amd64}/*
    mv "$TENON_BUILD/go-modules/$module" "$folder"
    rm -rf "$TENON_BUILD/go-modules"
  fi
  export PATH="$folder/bin:$PATH"
}

tenon_make_docs_venv() {
  "$TENON_SYSTEM_PYTHON" -m venv "$1"
  tenon_pip "$1" -r "$TENON_ROOT/tools/docs-requirements.txt"
}

# tenon_setup_docs: installs what tools/docs needs to build the site. tenon_wait waits for it.
tenon_setup_docs() {
  tenon_packages doxygen groff
  TENON_SYSTEM_PYTHON="$(tenon_find_python)"
  tenon_later tenon_venv venv-docs "Python environment in build/venv-docs" \
    "$("$TENON_SYSTEM_PYTHON" --version) $(tenon_requirements docs-requirements.txt)" \
    tenon_make_docs_venv
}

# tenon_setup PEERS [tests|bench]: installs everything up to the point where CMake can run. The
# benchmarks need no clang, no lints, and nothing that only tests use. tenon_setup exports
# TENON_PYTHON, TENON_TORCH_DEBIAN and TENON_TORCH_NEWEST. The last two name Pythons with such a
# PyTorch. tenon_wheel puts Tenon's package into all of them. TENON_HEADERS tells CMake where
# headers from PyPI are. The newest PyTorch is there after tenon_wait.
tenon_setup() {
  local peers="$1" kind="${2:-tests}" packages version headers
  packages=("${TENON_BUILD_PACKAGES[@]}" ccache make pkg-config binutils util-linux libgtest-dev
    '?mold' '?lld-19') # they link in a fraction of the time, and CMake takes what is there
  if [[ "$kind" == tests ]]; then
    packages+=(abigail-tools shellcheck groff man-db bash-completion doxygen '?spin' '?relacy-dev'
      '?chromium' # looks at the site of tools/docs
      '?gdb' # for the stacks of a test that hangs
      '?clang-19' '?clang-tidy-19' '?clang-format-19' '?libclang-rt-19-dev'
      '?clang-16') # the oldest that is promised (43 MB), for a test
  fi
  if [[ "$peers" != none ]]; then packages+=('?python3-torch'); fi
  tenon_packages "${packages[@]}"
  # An older distribution lacks clang 19, so its newest clang is installed.
  if [[ "$kind" == tests ]] && ! tenon_has_package clang-19; then
    tenon_packages clang clang-tidy clang-format lld
  fi

  mkdir -p "$TENON_BUILD"
  TENON_SYSTEM_PYTHON="$(tenon_find_python)"
  version="$("$TENON_SYSTEM_PYTHON" --version)"
  tenon_venv venv "Python environment in build/venv" \
    "$version $(tenon_requirements requirements.txt demo-requirements.txt)" tenon_make_main_venv
  export TENON_PYTHON="$TENON_BUILD/venv/bin/python3"
  TENON_PYTHONS=("$TENON_PYTHON")
  headers="$("$TENON_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  export TENON_DLPACK_INCLUDE_DIR="$headers/tvm_ffi/include"
  # CMake gets these places at each configuration, because the cache of an older build folder may
  # name one that is gone.
  TENON_HEADERS=(-DTENON_DLPACK_INCLUDE_DIR="$TENON_DLPACK_INCLUDE_DIR")
  # NVIDIA's package exists only for two kinds of machine.
  if [[ -d "$headers/nvidia/cu13/include" ]]; then
    TENON_HEADERS+=(-DTENON_CUDA_INCLUDE_DIR="$headers/nvidia/cu13/include")
  fi

  unset TENON_TORCH_DEBIAN
  if [[ "$peers" != none ]] && tenon_has_package python3-torch; then
    tenon_venv venv-torch-debian \
      "Python environment with Debian's PyTorch in build/venv-torch-debian" \
      "$version $(dpkg-query -W -f='${Version}' python3-torch)" tenon_make_debian_torch_venv
    export TENON_TORCH_DEBIAN="$TENON_BUILD/venv-torch-debian/bin/python3"
    TENON_PYTHONS+=("$TENON_TORCH_DEBIAN")
  fi
  if [[ "$peers" == all ]]; then
    tenon_later tenon_venv venv-torch \
      "Python environment with PyPI's newest PyTorch in build/venv-torch (5.4 GB)" \
      "$version" tenon_make_newest_torch_venv
    export TENON_TORCH_NEWEST="$TENON_BUILD/venv-torch/bin/python3"
    TENON_PYTHONS+=("$TENON_TORCH_NEWEST")
  fi
}

# tenon_build PRESET [TARGET...]
tenon_build() {
  local preset="$1" targets=()
  shift
  if [[ $# != 0 ]]; then targets=(--target "$@"); fi
  set -- "$preset"
  tenon_step "configure and build: preset $1"
  cd "$TENON_ROOT"
  tenon_quietly "$TENON_BUILD/configure-$1.log" cmake --preset "$1" "${TENON_HEADERS[@]}"
  tenon_quietly "$TENON_BUILD/build-$1.log" cmake --build --preset "$1" "${targets[@]}"
}

# tenon_wheel_key: prints a hash of the Python's version and of the wheel's sources.
tenon_wheel_key() {
  {
    "$TENON_PYTHON" --version
    cd "$TENON_ROOT"
    find CMakeLists.txt cmake impl capi manager cli wrappers/python \
      \( -name __pycache__ -o -name '*.egg-info' -o -name '.*_cache' -o -name build \) -prune -o \
      -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum
  } | sha256sum | cut -c1-64
}

# tenon_wheel: builds the wheel of wrappers/python and installs it into every Python of
# TENON_PYTHONS, unless that was done with the same sources.
tenon_wheel() {
  local key python wheels
  if [[ ! -f "$TENON_ROOT/wrappers/python/pyproject.toml" ]]; then
    echo "         no wrappers/python here: going on without Tenon's Python package"
    return
  fi
  cd "$TENON_ROOT"
  key="$(tenon_wheel_key)"
  if [[ "$(cat "$TENON_BUILD/wheel/key" 2>/dev/null)" != "$key" ]]; then
    tenon_step "Python wheel of wrappers/python"
    # The build folder is removed too. An object from the compiler's cache names the headers of
    # another tree, so Ninja could miss a change.
    rm -rf "$TENON_BUILD/wheel" "$TENON_BUILD/python"
    mkdir -p "$TENON_BUILD/wheel"
    # build/venv has the build requirements already. share_objects gives all wheels and packages the
    # same options, so the packages that the tests make take this build's objects from the cache.
    (
      # shellcheck source=tests/packages/objects.sh
      source "$TENON_ROOT/tests/packages/objects.sh"
      share_objects
      PATH="$TENON_BUILD/venv/bin:$PATH" SKBUILD_BUILD_DIR="$TENON_BUILD/python" \
        tenon_quietly "$TENON_BUILD/wheel.log" "$TENON_PYTHON" -m pip wheel \
        --disable-pip-version-check --no-input --no-deps --no-build-isolation \
        --wheel-dir "$TENON_BUILD/wheel" "$TENON_ROOT/wrappers/python"
    )
    echo "$key" >"$TENON_BUILD/wheel/key"
  fi
  wheels=("$TENON_BUILD"/wheel/*.whl)
  tenon_wait
  for python in "${TENON_PYTHONS[@]}"; do
    if [[ "$(cat "${python%/bin/*}/tenon-wheel" 2>/dev/null)" == "$key" ]]; then continue; fi
    tenon_step "install the wheel for $python"
    tenon_pip "${python%/bin/*}" "${wheels[0]}"
    tenon_pip "${python%/bin/*}" --no-deps --force-reinstall "${wheels[0]}"
    echo "$key" >"${python%/bin/*}/tenon-wheel"
  done
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  peers=debian
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --help | -h)
        sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
      --peers)
        peers="${2:-}"
        shift
        ;;
      *) tenon_die "unknown argument '$1'; see --help" ;;
    esac
    shift
  done
  [[ "$peers" =~ ^(none|debian|all)$ ]] ||
    tenon_die "--peers takes none, debian or all, not '$peers'"
  tenon_setup "$peers"
  tenon_wait
  echo "ready: $TENON_PYTHON"
fi
