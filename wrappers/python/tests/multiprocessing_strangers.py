"""Scenarios: others speak to the socket from which messages are fetched."""

from __future__ import annotations

import os
import socket
import time
from multiprocessing.reduction import ForkingPickler

import tenon
import tenon.multiprocessing
from multiprocessing_kit import fds, lend, same


def another_user(context):
    data = bytes(ForkingPickler.dumps(lend([1])))
    address = tenon.multiprocessing._get_lender().address
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            # Who hangs up before the refusal must not end the thread that serves the others.
            for _ in range(200):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
                    visitor.connect(address)
            try:
                ForkingPickler.loads(data)
            except tenon.PermissionDenied as error:
                code = 0 if "another user" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # And nothing was lost by it.
    same(ForkingPickler.loads(data), [1])


def strangers_speak(context):
    """Wrong keys, garbage, silence and half a visit change nothing."""
    data = bytes(ForkingPickler.dumps([lend([1]), lend([2], isolated=True)]))
    address = tenon.multiprocessing._get_lender().address
    before = fds()
    silent = []
    for request in (b"", b"x", b"y" * 5000, b"TnF1" + bytes(16), b"TnF1" + bytes(17), b"TnF2" + bytes(16)):
        visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        visitor.connect(address)
        if request:
            visitor.send(request)
            visitor.settimeout(30)
            answer = visitor.recv(100)
            assert len(answer) == 16 and answer[4] == 1, answer
        silent.append(visitor)
    # One that asks rightly and goes before it says that it has the fds: the message can be fetched again.
    lender = tenon.multiprocessing._get_lender()
    (key,) = lender.server.parcels
    visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    visitor.connect(address)
    visitor.send(b"TnF1" + key)
    packet, rights, _, _ = visitor.recvmsg(100, 1000)
    assert len(packet) == 16 and len(rights[0][2]) == 8
    for number in memoryview(rights[0][2]).cast("i"):
        os.close(number)
    visitor.close()
    child = os.fork()
    if not child:
        code = 1
        try:
            for visitor in silent:
                visitor.close()
            a, b = ForkingPickler.loads(data)
            same(a, [1])
            same(b, [2])
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for visitor in silent:
        visitor.close()
    deadline = time.monotonic() + 30
    while (fds() > before or tenon.multiprocessing.unfetched()[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fds() <= before, (fds(), before)
    assert tenon.multiprocessing.unfetched() == (0, 0)


def no_room_for_fds(context):
    import resource

    data = bytes(ForkingPickler.dumps([lend([i], isolated=True) for i in range(40)]))
    child = os.fork()
    if not child:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (fds() + 10, fds() + 10))
            try:
                ForkingPickler.loads(data)
            except tenon.ResourceExhausted as error:
                code = 0 if error.details["limit"] == "RLIMIT_NOFILE" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # It did not say that it has them, so nothing was lost.
    assert [t.item() for t in ForkingPickler.loads(data)] == list(range(40))
