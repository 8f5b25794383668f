"""A borrower drops the memory that it borrowed when the lender dies."""

import os
import select
import signal
import socket

import tenon

ours, theirs = socket.socketpair()
lender = os.fork()
if lender == 0:
    ours.close()
    tenon.Connection(theirs).send({"weights": tenon.from_numpy([42.0])})
    signal.pause()
theirs.close()

connection = tenon.Connection(ours, on_lender_gone="drop")
weights = connection.recv()["weights"]
array = weights.numpy()
os.kill(lender, signal.SIGKILL)
os.waitpid(lender, 0)
select.select([connection.gone_fileno()], [], [], 60)  # readable once the memory was dropped
try:
    weights.numpy()
except tenon.PeerGone as error:
    print(error.code)  # prints: PEER_GONE
print(array[0])  # prints: 42.0
