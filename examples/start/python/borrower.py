"""Reads a borrowed tensor and writes to it. Its standard input is a socket to the lender."""

import contextlib

import tenon

lender = tenon.Connection(0)
weights = lender.recv()["weights"].numpy()
print("borrower: the first weight is", weights[0])
try:
    weights[0] = 42
except ValueError as error:
    print("borrower: cannot write:", error)
lender.send()  # the borrower is done
with contextlib.suppress(tenon.PeerGone):
    lender.recv()  # waits until the lender closes the connection
