"""The size of libtenon.so, stripped, as a package would carry it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from python_pair import print_row


def main() -> None:
    library = Path(os.environ["TENON_BUILD_DIR"]) / "libtenon.so"
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "libtenon.so"
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, library.resolve()], check=True)
        print_row(
            "libtenon.so, stripped",
            "MB",
            "",
            {"of": "ours", "at_most": 3.5},
            [stripped.stat().st_size / 1e6],
            [],
        )


if __name__ == "__main__":
    main()
