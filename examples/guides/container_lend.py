"""Two containers share one directory. The lender listens on a socket in it.

usage: container_lend.py [lend SOCKET | borrow SOCKET]    without arguments both, to try it
"""

import os
import socket
import sys
import tempfile

import tenon


def lend(listener: socket.socket) -> None:
    end, _ = listener.accept()
    with tenon.Connection(end, adopt=True) as borrower, tenon.Arena(64 << 20) as arena:
        borrower.send({"weights": arena.full(1 << 20, 42)})
        borrower.recv()  # the borrower is done
        print("lent to process", borrower.peer().pid, file=sys.stderr)


def borrow(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(path)
        lender = tenon.Connection(end)
        print(lender.recv()["weights"].numpy()[-1])  # prints: 42.0
        lender.send(user_bytes=b"done")


folder = tempfile.TemporaryDirectory()
role, path = sys.argv[1:] or ("both", f"{folder.name}/socket")
if role != "borrow":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)  # the mode and the group of this file say who may connect
    listener.listen()
    if role == "lend" or os.fork() == 0:
        lend(listener)
        os._exit(0)
if role != "lend":
    borrow(path)
