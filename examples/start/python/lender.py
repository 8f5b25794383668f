"""Lends a tensor to another program. usage: lender.py shared|frozen BORROWER..."""

import socket
import subprocess
import sys

import numpy
import tenon

ours, theirs = socket.socketpair()
borrower = subprocess.Popen(sys.argv[2:], stdin=theirs.fileno())
theirs.close()

frozen = sys.argv[1] == "frozen"
ones = numpy.ones(1000, "float32")
weights = tenon.from_numpy(ones, mode="frozen" if frozen else "shared")
with tenon.Connection(ours, adopt=True) as connection:
    connection.send({"weights": weights})
    connection.recv()  # the borrower is done
    print("lender: the first weight is", weights.numpy()[0])
borrower.wait()
