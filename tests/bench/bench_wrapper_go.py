"""What the Go wrapper adds to its C calls; 300 x 4 KiB tensors received and viewed in Go.

The program is in go/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    build = Path(os.environ["TENON_BUILD_DIR"])
    program = build / "go" / "bench"
    environment = {
        **os.environ,
        "TENON_SOURCE_DIR": str(HERE.parents[1]),
        "LD_LIBRARY_PATH": str(build),
    }
    command = [str(HERE.parent / "languages/go/build.sh"), str(HERE / "go"), str(program)]
    built = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if built.returncode == 77:
        print(json.dumps({"left_out": built.stdout.strip()}))
        return 0
    if built.returncode != 0:
        sys.exit(built.stdout)
    return subprocess.run([str(program), *sys.argv[1:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
