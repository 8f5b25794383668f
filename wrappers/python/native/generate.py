"""Writes the C source of tenon._cffi from Tenon's own headers. The preprocessor expands the
headers, and cffi parses the result.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cffi

# cffi knows the types of these two headers by itself. It cannot read the real headers.
STUBS = ("stddef.h", "stdint.h")

# The functions that the library calls. tenon/archive.py and tenon/shared_weights.py define them.
CALLBACKS = """
extern "Python" void tenon_python_progress(void *, uint64_t, uint64_t);
extern "Python" int64_t tenon_python_write(void *, const void *, size_t);
extern "Python" tenon_status tenon_python_extra_files(void *, const tenon_module *,
                                                      const tenon_file **, size_t *);
"""


def preprocess(compiler: str, includes: list[str], *more: str) -> str:
    with tempfile.TemporaryDirectory() as stubs:
        for name in STUBS:
            Path(stubs, name).write_text("")
        folders = [f"-I{path}" for path in (stubs, *includes)]
        command = [compiler, "-E", "-P", "-nostdinc", *folders, *more, "-x", "c", "-"]
        return subprocess.check_output(command, input="#include <tenon/tenon.h>\n", text=True)


def numeric_macros(compiler: str, includes: list[str]) -> list[str]:
    lines = preprocess(compiler, includes, "-dM").splitlines()
    return sorted(
        f"#define {match[1]} ..."
        for line in lines
        if (match := re.match(r"#define (TENON_[A-Z_]+) [0-9]+$", line))
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument(
        "--include", action="append", default=[], help="a folder that holds tenon/*.h"
    )
    parser.add_argument("output")
    arguments = parser.parse_args()

    ffi = cffi.FFI()
    ffi.cdef(preprocess(arguments.compiler, arguments.include))
    ffi.cdef("\n".join(numeric_macros(arguments.compiler, arguments.include)))
    ffi.cdef(CALLBACKS)
    # These structs are only named here. DLPack's header defines them, and this module does not need
    # it.
    ffi.set_source("tenon._cffi", "#include <tenon/tenon.h>\n", py_limited_api=True)
    ffi.emit_c_code(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
