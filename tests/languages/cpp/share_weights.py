"""Lends the weights of a real model to the borrower in C++, as tools/demo.py does for its
borrowers.

usage: share_weights.py PROGRAM
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import demo
import tenon

weights = demo.load(demo.model_file())
first = next(iter(weights.values()))
before = float(first.numpy().reshape(-1)[3])
borrower = demo.Borrower("C++ program", [sys.argv[1], "FD"], {})
borrower.wait_until_ready()
microseconds = borrower.lend(weights)
demo.check(int(borrower.answers["bytes_copied"]) == 0, "nothing is copied there")
expected = float(sum(tensor.numpy().sum(dtype="float64") for tensor in weights.values()))
total = float(borrower.ask("sum")["sum"])
demo.check(
    abs(total - expected) <= 1e-6 * max(1.0, abs(expected)),
    f"it reads the same weights ({total} and not {expected})",
)
borrower.ask("add 3")
demo.check(float(first.numpy().reshape(-1)[3]) == before + 1, "its write is seen here")
borrower.end()
del first, weights
tenon.trim()
demo.check(tenon.stats().segments == 0, "no segment is left")
print(f"lent a model's weights in {microseconds:.0f} µs, and they were read and written in place")
