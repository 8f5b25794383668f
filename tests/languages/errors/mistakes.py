"""Makes the mistakes of docs/guides/errors.md. Each function has the id that the page gives it.

A function raises the error of the page. errors_test.py runs each function in a child process.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import tenon

NOBODY = 65534
MISTAKES: dict[str, Callable[[], object]] = {}


class CannotBeMade(Exception):
    """This machine or this user cannot make the mistake."""


def mistake(function: Callable[[], object]) -> Callable[[], object]:
    MISTAKES[function.__name__] = function
    return function


def take_all_fds() -> list[int]:
    """Lowers the limit of open files, and uses up all fds."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    fds: list[int] = []
    try:
        while True:
            fds.append(os.dup(0))
    except OSError:
        return fds


def without_fds(call: Callable[[], object]) -> None:
    """Calls with no fd left. Closes the fds afterwards, because Python's traceback may need one."""
    fds = take_all_fds()
    try:
        call()
    finally:
        for fd in fds:
            os.close(fd)


def in_child(work: Callable[[], bytes], *, killed: bool = False) -> bytes:
    """Runs `work` in a child process. Returns what `work` gives, after the child has ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, work())
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    return data


def need_root() -> None:
    if os.geteuid() != 0:
        raise CannotBeMade("only root can act as another user")


def pickled() -> bytes:
    """Returns what multiprocessing writes into its pipes for a tensor."""
    return bytes(ForkingPickler.dumps(tenon.zeros((2,))))


# ---- limits


@mistake
def fds_receive() -> None:
    lender, borrower = tenon.pair()
    lender.send([tenon.zeros((2,), isolated=True)])
    without_fds(borrower.recv)


@mistake
def fds_share() -> None:
    storage = tenon.Storage.new(8)
    without_fds(storage.share_fd)


@mistake
def shm_full() -> None:
    tenon.zeros((1 << 44,), "uint8", filename=tenon.Filename(prefix="tenon-errors-"))


@mistake
def memory() -> None:
    tenon.zeros((1 << 44,), "uint8")


@mistake
def arena_full() -> None:
    arena = tenon.Arena(1 << 20)
    lender, borrower = tenon.pair()
    child = os.fork()
    if child == 0:
        # The child closes its copy of the lender's socket, and makes its own connection over the
        # other socket, because a connection belongs to the process that made it.
        os.close(lender.fileno())
        end = tenon.Connection(socket.socket(fileno=os.dup(borrower.fileno())))
        kept = end.recv()
        end.send([], user_bytes=b"it is here")
        signal.pause()
        del kept
    try:
        lender.send({"batch": arena.empty((600_000,), "uint8")})
        lender.recv()
        arena.empty((600_000,), "uint8")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@mistake
def over_limit() -> None:
    left, right = socket.socketpair()
    lender = tenon.Connection(left, adopt=True)
    borrower = tenon.Connection(right, adopt=True, max_message_nbytes=1000)
    lender.send([], user_bytes=bytes(4000))
    borrower.recv()


# ---- memory of other processes


@mistake
def unsealed() -> None:
    with tempfile.TemporaryFile(dir="/dev/shm") as file:  # unsealed, as PyTorch's memory is
        file.truncate(4096)
        tenon.open_fd(file.fileno(), 4096)


@mistake
def claimed() -> None:
    with tenon.zeros((4,), isolated=True).storage.share_fd() as handle:
        tenon.open_fd(handle.fd, 1 << 20)


@mistake
def other_user() -> None:
    need_root()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        os.setuid(NOBODY)
        left, right = socket.socketpair()  # the kernel records the maker
        socket.send_fds(theirs, [b"x"], [left.fileno()])
        signal.pause()
        right.close()
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    try:
        tenon.Connection(fds[0], same_user=True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@mistake
def other_user_name() -> None:
    need_root()
    kept = tenon.zeros((4,), filename=tenon.Filename(prefix="tenon-errors-"))
    name = kept.storage.share_filename().name
    os.setuid(NOBODY)
    child = os.fork()  # because this process already holds the memory
    if child == 0:
        raise_as_this_process(lambda: tenon.open_filename(name, 16, allow_unsealed=True))
    take_over(child)


@mistake
def name_missing() -> None:
    tenon.open_filename("/tenon-no-such-name", 16)


@mistake
def name_taken() -> None:
    name = tenon.Filename(f"tenon-errors-{os.getpid()}")
    kept = tenon.zeros((4,), filename=name)
    try:
        tenon.zeros((4,), filename=name)
    finally:
        kept.close()


@mistake
def name_slash() -> None:
    tenon.open_filename("weights", 16)


@mistake
def read_only() -> None:
    kept = tenon.zeros((4,), mode="lender_writes", isolated=True)
    with kept.storage.share_fd() as handle:
        tenon.open_fd(handle).write(b"1234")


@mistake
def private() -> None:
    lender, _ = tenon.pair()
    lender.send([tenon.zeros((4,), private=True)])


# ---- tensors


@mistake
def dtype() -> None:
    tenon.zeros((2,), "float31")


@mistake
def shape() -> None:
    tenon.Tensor.over(tenon.Storage.new(4096), (2000,), "float32")


@mistake
def outside() -> None:
    tenon.Storage.new(4096).write(b"12345678", 4092)


# ---- connections


@mistake
def closed() -> None:
    lender, _ = tenon.pair()
    lender.close()
    lender.send([tenon.zeros((2,))])


@mistake
def peer_gone() -> None:
    lender, borrower = tenon.pair()
    lender.close()
    borrower.recv()


@mistake
def forked() -> None:
    lender, _ = tenon.pair()
    child = os.fork()
    if child == 0:
        raise_as_this_process(lambda: lender.send([tenon.zeros((2,))]))
    take_over(child)


@mistake
def not_tensor() -> None:
    lender, _ = tenon.pair()
    lender.send({"step": 3})  # type: ignore[arg-type]


@mistake
def timeout() -> None:
    _, borrower = tenon.pair()
    borrower.recv(timeout=0.01)


@mistake
def user_bytes() -> None:
    lender, _ = tenon.pair()
    lender.send([], user_bytes=bytes(1 << 20))


@mistake
def tcp() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        tenon.Connection(client)


@mistake
def listening() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("")  # the kernel chooses a name, which is no file
        server.listen()
        tenon.Connection(server)


@mistake
def stranger() -> None:
    ours, theirs = socket.socketpair()
    theirs.send(b"GET / HTTP/1.1\r\n" * 100)
    tenon.Connection(ours).recv()


# ---- multiprocessing


@mistake
def plain_pickle() -> None:
    pickle.dumps(tenon.zeros((2,)))


@mistake
def sender_gone() -> None:
    pickle.loads(in_child(pickled, killed=True))


@mistake
def loaded_twice() -> None:
    data = pickled()
    kept = pickle.loads(data)
    pickle.loads(data)
    del kept


# ---- module archives


def import_bytes(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.pt")
        file.write_bytes(data)
        tenon.import_module(str(file))


@mistake
def not_archive() -> None:
    import_bytes(b"this is text\n" * 100)


@mistake
def torch_save() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # the records that torch.save writes for {}
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr("archive/version", "3\n")
    import_bytes(file.getvalue())


@mistake
def cut_archive() -> None:
    module = tenon.Module("Weight")
    module.add_buffer("weight", tenon.zeros((1000,)))
    file = io.BytesIO()
    tenon.export_module(module, file)
    import_bytes(file.getvalue()[:2000])


# ---- the machine


@mistake
def cuda() -> None:
    if tenon.cuda_available():
        raise CannotBeMade("there is CUDA here")
    try:
        tenon.require_cuda()
    except tenon.Unsupported as error:
        if "no CUDA driver" not in str(error):
            raise CannotBeMade(str(error)) from None
        raise


@mistake
def no_library() -> None:
    package = Path(tenon.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            package,
            Path(folder, "tenon"),
            ignore=shutil.ignore_patterns("libtenon.so*", "*.pyc", "bin"),
        )
        variables = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        variables["PYTHONPATH"] = folder
        program = "try:\n import tenon\nexcept ImportError as error:\n print(error)"
        python = [sys.executable, "-B", "-c", program]
        text = subprocess.run(
            python, env=variables, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    if not text:
        raise CannotBeMade("another libtenon.so.1 is installed")
    raise ImportError(text.strip())


# ---- errors of a child process


def raise_as_this_process(call: Callable[[], object]) -> None:
    """Reports the error of a call and ends the process. A child of a mistake calls this."""
    from errors_test import report

    report(call)


def take_over(child: int) -> None:
    """Waits for the child and ends the process. The parent of such a child reports nothing."""
    os.waitpid(child, 0)
    os._exit(0)
