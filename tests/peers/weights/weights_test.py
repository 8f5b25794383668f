#!/usr/bin/env python3
"""Runs saved_cases.py and written_cases.py with each PyTorch, and torch_cases.py with the newest.
CTest runs this file.

Exit status 77 means that a PyTorch is missing, and that nothing failed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import SKIPPED, find_torches

torches = find_torches()
status = 0 if len(torches) == 2 else SKIPPED
for name, python in torches.items():
    for cases in ["saved_cases.py", "written_cases.py"] + ["torch_cases.py"] * (name == "newest"):
        print(f"{cases} with the PyTorch {name}", flush=True)
        file = Path(__file__).resolve().with_name(cases)
        done = subprocess.run([python, "-B", "-W", "ignore", str(file), *sys.argv[1:]], check=False)
        status = 1 if done.returncode != 0 else status
sys.exit(status)
