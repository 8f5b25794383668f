#!/usr/bin/env bash
# usage: build.sh FOLDER OUTPUT: builds the Go program in FOLDER, a module of its own, against Tenon
#        of TENON_BUILD_DIR.
set -euo pipefail
# shellcheck source=tests/languages/go/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$1"
go build -o "$2" .
