"""A PyTorch process that does what it is told over a socket: python peer.py FD.

A request is JSON {"code": ...} with fds beside it. The code sees torch, fds (the received fds) and
kept (a list that stays), and may set value and out_fds. The reply is {"value": ...} or {"error":
..., "kind": ...} with out_fds beside it. The process does not import Tenon unless the code does.
"""

from __future__ import annotations

import gc
import json
import socket
import sys
from typing import Any

import torch


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    kept: list[Any] = []
    # Each test asks for collections. They need not look at the objects of PyTorch.
    gc.collect()
    gc.freeze()
    while True:
        data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 8)
        if not data:
            return
        scope: dict[str, Any] = {
            "torch": torch,
            "fds": fds,
            "kept": kept,
            "value": None,
            "out_fds": [],
        }
        reply: dict[str, Any]
        try:
            exec(json.loads(data)["code"], scope)
            reply = {"value": scope["value"]}
        except Exception as error:
            reply = {"error": str(error), "kind": [base.__name__ for base in type(error).__mro__]}
        out_fds = scope.pop("out_fds")
        del scope
        socket.send_fds(connection, [json.dumps(reply).encode()], out_fds)


main()
