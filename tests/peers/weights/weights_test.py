#!/usr/bin/env python3
"""Starts torch_cases.py with the Python of the newest PyTorch. CTest runs this file.

Exit status 77 means that there is no such PyTorch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import SKIPPED, find_torches

python = find_torches().get("newest")
if python is None:
    print("skipped: TENON_TORCH_NEWEST has no PyTorch")
    sys.exit(SKIPPED)
cases = Path(__file__).resolve().parent / "torch_cases.py"
os.execv(python, [python, "-B", "-W", "ignore", str(cases), *sys.argv[1:]])
