"""Python's start with `import tenon`, against a bare start.

Each sample is a whole process from fork to exit, and the two sides alternate. The goal is on the
difference of a pair.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row


def main() -> None:
    load_tenon()

    def start(code: str) -> Any:
        return lambda: lambda: subprocess.run([sys.executable, "-c", code], check=True)

    samples = interleave(2 if SMOKE else 40, start("import tenon"), start("pass"))
    ours, theirs = ([second * 1e3 for second in each] for each in samples)
    print_row(
        "python -c 'import tenon'",
        "ms",
        "python -c pass",
        {"of": "ours-theirs", "at_most": 30},
        ours,
        theirs,
    )


if __name__ == "__main__":
    main()
