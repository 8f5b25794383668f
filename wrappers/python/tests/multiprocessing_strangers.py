"""Scenarios: strangers connect to the socket from which receivers fetch deposits."""

from __future__ import annotations

import os
import socket
import struct
import time
from multiprocessing.reduction import ForkingPickler

import tenon
import tenon.multiprocessing
from multiprocessing_kit import fds, lend, same
from tenon.deposit import Deposit

HELLO, THINGS = 1, 2


def socket_path():
    """The path of this process's depot socket, which a deposit's head contains
    (docs/format/deposit.md).
    """
    with Deposit() as deposit:
        head = deposit.head
        deposit.withdraw()
    (nbytes,) = struct.unpack_from("<I", head, 56)
    return head[64 : 64 + nbytes]


def visit(path):
    visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    visitor.connect(path)
    visitor.settimeout(30)
    return visitor


def request(kind, *things):
    return (
        b"TnD1"
        + struct.pack("<3I", kind, len(things), 0)
        + b"".join(struct.pack("<2IQ", *thing) for thing in things)
    )


def another_user(context):
    data = bytes(ForkingPickler.dumps(lend([1])))
    path = socket_path()
    os.chmod(path, 0o666)
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            # A stranger that hangs up before the refusal must not end the thread that serves the
            # others.
            for _ in range(200):
                visit(path).close()
            try:
                ForkingPickler.loads(data)
            except tenon.PermissionDenied as error:
                code = 0 if "its own user" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # The stranger's visits have not lost the message.
    same(ForkingPickler.loads(data), [1])


def strangers_speak(context):
    """Garbage, unknown numbers, silence and aborted visits change nothing."""
    data = bytes(ForkingPickler.dumps([lend([1]), lend([2], isolated=True)]))
    path = socket_path()
    before = fds()
    silent = [visit(path)]
    thing = (0, 1, 1)
    garbage = (
        b"x",
        b"y" * 5000,
        request(0),
        request(3),
        request(HELLO) + b"z",
        request(THINGS, thing)[:-1],
        b"TnD2" + request(HELLO)[4:],
    )
    for words, code in (*((each, 1) for each in garbage), (request(THINGS, (9, 1, 999)), 3)):
        visitor = visit(path)
        visitor.send(words)
        answer = visitor.recv(100)
        assert len(answer) == 32 and struct.unpack_from("<i", answer, 4)[0] == code, (words, answer)
        assert visitor.recv(100) == b""
        silent.append(visitor)
    # One visitor introduces itself and leaves before the answer. Another leaves after the answer.
    visit(path).send(request(HELLO))
    visitor = visit(path)
    visitor.send(request(HELLO))
    packet, rights, _, _ = visitor.recvmsg(100, 1000)
    assert struct.unpack_from("<i", packet, 4)[0] == 0 and len(rights[0][2]) == 16, (packet, rights)
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
            # The child can open three more fds. A socket and the four fds of the first answer need
            # five.
            resource.setrlimit(resource.RLIMIT_NOFILE, (fds() + 3, fds() + 3))
            try:
                ForkingPickler.loads(data)
            except tenon.ResourceExhausted as error:
                code = 0 if error.details["limit"] == "RLIMIT_NOFILE" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # The child never claimed the message, so the message is not lost.
    assert [t.item() for t in ForkingPickler.loads(data)] == list(range(40))
