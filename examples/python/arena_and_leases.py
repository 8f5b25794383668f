"""An arena that two workers borrow from.

One of them is killed, and what it had comes back by itself; the other one reads on.
"""

import os
import signal
import socket

import numpy
import tenon

TENSORS, ELEMENTS = 8, 1 << 18
NBYTES = ELEMENTS * 4


def work(lender: tenon.Connection) -> None:
    weights = lender.recv()
    lender.send([])
    lender.recv()  # one worker is killed in here
    print("a worker still reads", weights[TENSORS - 1].numpy()[-1], flush=True)
    # the leases end with the message, its tensors, and their arrays


def start() -> tuple[int, tenon.Connection]:
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        ours.close()
        work(tenon.Connection(theirs, adopt=True))
        os._exit(0)
    theirs.close()
    return process, tenon.Connection(ours, adopt=True)


def print_holders() -> None:
    for each in tenon.lease_holders():
        print(f"process {each.pid} holds {each.leases} leases of {each.nbytes} bytes")


workers = [start(), start()]
with tenon.Arena(2 * TENSORS * NBYTES) as arena:
    # What is born in the arena is let go of as soon as it is sent: it is the worker's leases that
    # keep its memory.
    for _, connection in workers:
        copies = [
            arena.tensor(numpy.arange(ELEMENTS, dtype="float32")) for _ in range(TENSORS // 2)
        ]
        connection.send(copies + [arena.full(ELEMENTS, 42) for _ in range(TENSORS // 2)])
        del copies
        connection.recv()  # it has them
    print_holders()
    try:
        arena.empty(ELEMENTS)
    except tenon.ResourceExhausted as error:
        print("full:", error)

    os.kill(workers[0][0], signal.SIGKILL)
    tensor = arena.empty(ELEMENTS, timeout=10)  # until there is room
    print("one worker was killed, and there is room")
    print_holders()
    workers[1][1].send([])
    _, status = os.waitpid(workers[1][0], 0)
    now = arena.stats()
    print(now.blocks_lent, "blocks are lent,", now.bytes_live, "bytes are in use", flush=True)
    os.waitpid(workers[0][0], 0)
    if status != 0:
        raise SystemExit("a worker failed")
