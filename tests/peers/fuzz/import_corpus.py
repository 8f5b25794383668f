"""Makes an input of the fuzz target `import` from a module archive.

usage: import_corpus.py ARCHIVE INPUT [WORD...]

A word is an option of the target: "compile" makes new bytecode. The debug tables of code
(*.debug_pkl) are left out, because they contain paths of the machine that wrote the archive.
"""

import sys
import zipfile
from pathlib import Path


def main() -> None:
    archive, made, *words = sys.argv[1:]
    parts = [" ".join(words).encode()]
    with zipfile.ZipFile(archive) as records:
        for record in records.namelist():
            _, _, name = record.partition("/")
            if not name.endswith(".debug_pkl") and not name.startswith(".data/"):
                parts.append(b"@@" + name.encode() + b"\n" + records.read(record))
    Path(made).write_bytes(b"\n".join(parts))


if __name__ == "__main__":
    main()
