"""A borrower lends on and is killed. The next borrower reads on, and its lease still holds."""

import os
import signal
import socket

import tenon

a_to_b, b_to_a = socket.socketpair()
b_to_c, c_to_b = socket.socketpair()
a_to_c, c_to_a = socket.socketpair()

b = os.fork()
if b == 0:  # borrows from A and lends to C
    batch = tenon.Connection(b_to_a).recv()["batch"]
    tenon.Connection(b_to_c).send({"batch": batch})
    signal.pause()
c = os.fork()
if c == 0:  # borrows from B
    batch = tenon.Connection(c_to_b).recv()["batch"]
    lender = tenon.Connection(c_to_a)
    lender.send(user_bytes=b"have it")
    lender.recv()
    print("C reads", batch.numpy()[0], flush=True)  # prints: C reads 42.0
    del batch
    os._exit(0)

with tenon.Arena(1 << 20) as arena:
    tenon.Connection(a_to_b).send({"batch": arena.full(1000, 42)})
    to_c = tenon.Connection(a_to_c)
    to_c.recv(timeout=60)
    os.kill(b, signal.SIGKILL)
    os.waitpid(b, 0)
    print(arena.stats().blocks_lent)  # prints: 1
    to_c.send()
    os.waitpid(c, 0)
    arena.empty(1 << 18, timeout=60)  # all of the arena: there is room as soon as C is gone
    print(arena.stats().blocks_lent)  # prints: 0
