"""Lends the weights of a real model to the borrower in Go, as tools/demo.py does to its borrowers.
usage: share_weights.py PROGRAM
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import demo
import tenon

weights = demo.load(demo.model_file())
first = next(iter(weights.values()))
expected = float(sum(tensor.numpy().sum(dtype="float64") for tensor in weights.values()))
before = float(first.numpy().reshape(-1)[7])
borrower = demo.Borrower("Go program", [sys.argv[1], "FD"], {})
borrower.wait_until_ready()
microseconds = borrower.lend(weights)
demo.check(int(borrower.answers["bytes_copied"]) == 0, "nothing is copied there")
for added in range(2):
    total = float(borrower.ask("sum")["sum"])
    demo.check(
        abs(total - expected - added) <= 1e-3,
        f"it reads the same weights ({total} and not {expected + added})",
    )
    borrower.ask("add 7")
demo.check(abs(float(first.numpy().reshape(-1)[7]) - before - 2) < 1e-5, "its writes are seen here")
borrower.end()
del first, weights
tenon.trim()
demo.check(tenon.stats().segments == 0, "no segment is left")
print(f"lent a model's weights in {microseconds:.0f} µs, and they were read and written in place")
