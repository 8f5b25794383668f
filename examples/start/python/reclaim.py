"""Kills a borrower and uses its memory again. usage: reclaim.py BORROWER..."""

import socket
import subprocess
import sys

import tenon

ours, theirs = socket.socketpair()
borrower = subprocess.Popen(sys.argv[1:], stdin=theirs.fileno())
theirs.close()

connection = tenon.Connection(ours, adopt=True)
arena = tenon.Arena(4 << 20)  # room for one tensor of 4 MiB
connection.send({"weights": arena.zeros(1 << 20)})
connection.recv()  # the borrower is done, and still holds the tensor
try:
    arena.empty(1 << 20)
except tenon.ResourceExhausted as error:
    print("lender: no room.", error.details["holders"])

borrower.kill()
arena.empty(1 << 20, timeout=10)  # waits until there is room
print("lender: the borrower was killed, and its memory is free")
borrower.wait()
