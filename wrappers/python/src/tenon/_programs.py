"""The command line `tenon`: replaces this process by the program in the package."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tenon")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"tenon: this build of the package has no command line: {program}: {error.strerror}"
        )


if __name__ == "__main__":
    main()
