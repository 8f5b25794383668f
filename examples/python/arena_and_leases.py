"""Two workers borrow from one arena.

One worker is killed, and the blocks that it held come back to the lender. The other worker reads
on.
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
    lender.recv()  # meanwhile the lender kills one worker
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
    # The tensor is released as soon as it is sent. From then on the worker's leases keep its
    # memory.
    for _, connection in workers:
        copies = [
            arena.tensor(numpy.arange(ELEMENTS, dtype="float32")) for _ in range(TENSORS // 2)
        ]
        connection.send(copies + [arena.full(ELEMENTS, 42) for _ in range(TENSORS // 2)])
        del copies
        connection.recv()  # the worker has the tensors
    print_holders()
    try:
        arena.empty(ELEMENTS)
    except tenon.ResourceExhausted as error:
        print("full:", error)

    os.kill(workers[0][0], signal.SIGKILL)
    tensor = arena.empty(ELEMENTS, timeout=10)  # waits until there is room
    print("one worker was killed, and there is room")
    print_holders()
    workers[1][1].send([])
    _, status = os.waitpid(workers[1][0], 0)
    now = arena.stats()
    print(now.blocks_lent, "blocks are lent,", now.bytes_live, "bytes are in use", flush=True)
    os.waitpid(workers[0][0], 0)
    if status != 0:
        raise SystemExit("a worker failed")
