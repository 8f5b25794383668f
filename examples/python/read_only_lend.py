"""Lends a tensor that the borrower can read. The kernel refuses every write of the borrower."""

import os
import socket

import tenon

ours, theirs = socket.socketpair()
if os.fork() == 0:  # the borrower
    tensor = tenon.Connection(theirs, adopt=True).recv()["weight"]
    try:
        tensor.numpy()[0] = 1
    except ValueError as error:
        print("the borrower got:", error, flush=True)
    os._exit(0)

theirs.close()
weight = tenon.zeros((1000,), "float32", mode="lender_writes")
weight.numpy()[0] = 42
tenon.Connection(ours, adopt=True).send({"weight": weight})
os.wait()
print("the lender still has", weight.numpy()[0])
