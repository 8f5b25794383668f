"""Shared by the programs in Python: the line protocol of README.md, and sockets."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

Words = list[str]
WAIT_SECONDS = 10.0
MOST_FDS = 253  # the kernel's limit


class Refused(Exception):
    """A call failed. The driver gets the name of the status."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class Skip(Exception):
    """This language cannot do that."""


def pattern(seed: int, nbytes: int) -> bytes:
    return bytes((seed * 31 + i * 7 + i // 256) & 255 for i in range(nbytes))


def numbers(word: str) -> tuple[int, ...]:
    return () if word == "-" else tuple(map(int, word.split(",")))


def word_of(values: Any) -> str:
    return ",".join(map(str, values)) or "-"


def hexadecimal(data: bytes) -> str:
    return data.hex() or "-"


def unhexed(word: str) -> bytes:
    return b"" if word == "-" else bytes.fromhex(word)


def send_fd(sock: socket.socket, fd: int) -> None:
    socket.send_fds(sock, [b"*"], [fd])


def receive_fds(sock: socket.socket) -> list[int]:
    sock.settimeout(WAIT_SECONDS)
    data, fds, _, _ = socket.recv_fds(sock, 1, MOST_FDS)
    if data != b"*":
        raise Refused("CORRUPT", f"{data!r} came")
    return fds


def receive_fd(sock: socket.socket) -> int:
    fds = receive_fds(sock)
    if len(fds) != 1:
        raise Refused("CORRUPT", f"{len(fds)} fds came")
    return fds[0]


def wait_for_end(sock: socket.socket) -> None:
    sock.settimeout(WAIT_SECONDS)
    try:
        if not sock.recv(1):
            raise Refused("PEER_GONE", "end of file")
    except ConnectionError as error:
        raise Refused("PEER_GONE", str(error)) from None
    except TimeoutError as error:
        raise Refused("TIMEOUT", str(error)) from None


class Server:
    """Commands are methods named do_<command> that take words and return what follows "ok"."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.connections: dict[str, Any] = {}
        self.listener: socket.socket | None = None

    def put(self, sock: socket.socket, kind: str) -> Any:
        """Return the object that is kept for a connection of that kind."""
        raise NotImplementedError

    def content(self, held: Any) -> bytes:
        raise NotImplementedError

    def status_of(self, error: Exception) -> str:
        """The name of the status that an error of the language carries."""
        return error.status if isinstance(error, Refused) else "OTHER"

    def do_listen(self, path: str) -> str:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(16)
        return ""

    def do_accept(self, number: str, kind: str) -> str:
        assert self.listener is not None
        self.listener.settimeout(WAIT_SECONDS)
        sock, _ = self.listener.accept()
        sock.settimeout(None)
        self.connections[number] = self.put(sock, kind)
        return ""

    def do_connect(self, number: str, kind: str, path: str) -> str:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(path)
        self.connections[number] = self.put(sock, kind)
        return ""

    def do_close(self, number: str) -> str:
        self.connections.pop(number).close()
        return ""

    def do_read(self, key: str) -> str:
        return hexadecimal(self.content(self.kept[key]))

    def do_drop(self, key: str) -> str:
        del self.kept[key]
        return ""

    def do_fork(self, key: str) -> str:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reader)
                with os.fdopen(writer, "wb") as pipe:
                    pipe.write(self.content(self.kept[key]))
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(child, 0)
        if status:
            raise Refused("OTHER", f"the child ended with {status:#x}")
        return hexadecimal(data)

    def do_settle(self) -> str:
        gc.collect()
        return "- - - -"

    def answer(self, words: Words) -> str:
        command: Callable[..., str] | None = getattr(self, f"do_{words[0]}", None)
        try:
            if command is None:
                raise Refused("OTHER", f"no command {words[0]}")
            return f"ok {command(*words[1:])}".rstrip()
        except Skip as why:
            return f"skip {why}"
        except Exception as error:
            return (
                f"error {self.status_of(error)} {type(error).__name__}:"
                f" {' '.join(str(error).split())}"
            )

    def serve(self) -> None:
        print("ready", flush=True)
        for line in sys.stdin:
            words = line.split()
            if words == ["quit"]:
                break
            print(self.answer(words), flush=True)
        self.kept.clear()
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()
        if self.listener is not None:
            self.listener.close()
        self.do_settle()
        print("ok", flush=True)
