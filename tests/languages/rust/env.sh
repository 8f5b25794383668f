# shellcheck shell=bash
# Sets what cargo needs to build and run against the library of this build; sourced. Everything that
# cargo makes goes to one folder, so that each crate is compiled once. CTest sets the variables on
# the next line.
: "${TENON_SOURCE_DIR:?}" "${TENON_BUILD_DIR:?}"

export CARGO_TARGET_DIR="$TENON_BUILD_DIR/cargo" CARGO_BUILD_JOBS=2 CARGO_TERM_COLOR=never
# Half of the folder would serve to rebuild parts of a crate, and a debugger that no test starts.
# With line tables alone a stack still has its lines.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only
export TENON_LIB_DIR="$TENON_BUILD_DIR"
export TENON_INCLUDE_DIR="$TENON_SOURCE_DIR/capi/include:$TENON_BUILD_DIR/include"
export LD_LIBRARY_PATH="$TENON_BUILD_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
