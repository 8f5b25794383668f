"""Names that are sockets, messages in flight, other users, and the manager."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tenon
from names import OPEN, SEND, Child, count_of, gone, line, named, settled, tell, wait_until

# ---- sockets


def test_many_tensors_meet_under_one_name(child: Child) -> None:
    tensors = [tenon.from_numpy(np.full(3, i, np.float32)) for i in range(20)]
    handles = [tensor.storage.share_filename() for tensor in tensors]
    assert (
        len({handle.name for handle in handles}) == 1
        and len({handle.offset for handle in handles}) == 20
    )
    process = child(OPEN, handles[7].name, 12, handles[7].offset)
    assert line(process) == "[7.0, 7.0, 7.0]"
    tell(process, "write 1")
    line(process)
    assert tensors[7].tolist() == [1, 7, 7]
    name = handles[0].name
    del tensors
    tenon.trim()
    gone(f"/dev/shm{name}")
    with pytest.raises(tenon.NotFound):
        tenon.open_filename(name, 12, handles[0].offset)
    # The borrower keeps the memory after the name is gone.
    tell(process, "read")
    assert line(process) == "[1.0, 7.0, 7.0]"


@pytest.mark.parametrize("mode", ["lender_writes", "frozen"])
def test_read_only_by_name(child: Child, folder: str, mode: str) -> None:
    tensor = tenon.from_numpy(np.arange(3, dtype=np.float32), mode=mode)  # type: ignore[arg-type]
    handle = tensor.storage.share_filename(filename=tenon.Filename("weights", directory=folder))
    program = (
        SEND
        + """
storage = tenon.open_filename(sys.argv[1], 12, int(sys.argv[2]))
try: storage.data[0] = 1
except TypeError: say(storage.mode, storage.read_only, storage.is_sealed)
try: tenon.open_filename(sys.argv[1], 12, int(sys.argv[2]), access="writable")
except tenon.PermissionDenied: say("refused")
"""
    )
    process = child(program, handle.name, handle.offset)
    assert line(process) == f"{mode} True True"
    assert line(process) == "refused"


def test_the_lender_is_gone(folder: str, child: Child) -> None:
    process = child(
        SEND
        + """
t = tenon.zeros(3)
h = t.storage.share_filename(filename=tenon.Filename("lent", directory=sys.argv[1])); say(h.offset)
sys.stdin.readline()
""",
        folder,
    )
    offset = int(line(process))
    opened = tenon.open_filename(f"{folder}/lent", 12, offset)
    process.kill()
    process.wait()
    assert opened.data == bytes(12)
    # This process watches the folder, so the dead name may be gone by now.
    with pytest.raises((tenon.PeerGone, tenon.NotFound)) as caught:
        # This process does not hold this range yet.
        tenon.open_filename(f"{folder}/lent", 4, offset)
    assert caught.value.details["path"] == f"{folder}/lent"
    opened.close()
    tenon.sweep(folder)


def test_a_lender_that_is_stopped(folder: str, child: Child) -> None:
    process = child(
        SEND + "t = tenon.zeros(3); t.storage.share_filename(filename=tenon.Filename('lent',"
        " directory=sys.argv[1])); say(1); sys.stdin.read()",
        folder,
    )
    line(process)
    process.send_signal(signal.SIGSTOP)
    wait_until(
        lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    )
    begin = time.monotonic()
    with pytest.raises(tenon.Timeout):
        tenon.open_filename(f"{folder}/lent", 12, timeout=0.3)
    assert 0.25 < time.monotonic() - begin < 10
    with tenon.Cancel() as cancel:
        timer = threading.Timer(0.2, cancel.trigger)
        timer.start()
        with pytest.raises(tenon.Cancelled):
            tenon.open_filename(f"{folder}/lent", 12, timeout=60, cancel=cancel)
        timer.join()
    # The timer sends Ctrl-C.
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        tenon.open_filename(f"{folder}/lent", 12, timeout=60)
    timer.join()
    process.kill()
    process.wait()
    tenon.sweep(folder)


def test_a_socket_that_speaks_something_else(folder: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{folder}/strange")
        listener.listen(5)
        visits: list[int] = []

        def answer() -> None:
            while select.select([listener], [], [], 30)[0]:
                connection = listener.accept()[0]
                with connection:
                    connection.recv(1000)
                    visits.append(1)
                    connection.send(b"HTTP/1.1 200 OK")
                if len(visits) == 1:
                    return

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(tenon.Corrupt) as caught:
            tenon.open_filename(f"{folder}/strange", 12)
        assert caught.value.details["path"] == f"{folder}/strange"
        thread.join()
    os.unlink(f"{folder}/strange")


# ---- messages in flight


def test_in_flight(folder: str, child: Child) -> None:
    tensor = named(folder, name="message")
    handle = tensor.storage.share_filename(in_flight=True)
    assert count_of(handle.name) == 2
    tenon.filename_incref(handle)
    assert count_of(handle.name) == 3
    tensor.close()
    assert count_of(handle.name) == 2 and tenon.sweep(folder, dry_run=True).dead == 0
    receive = (
        SEND
        + "s = tenon.open_filename(sys.argv[1], 12, allow_unsealed=True, decref=True); say(len(s));"
        " sys.stdin.readline()"
    )
    process = child(receive, handle.name)
    line(process)
    assert count_of(handle.name) == 2
    process.communicate()
    assert os.path.exists(handle.name) and count_of(handle.name) == 1
    tenon.filename_decref(handle)
    assert settled(folder) == []
    with pytest.raises(tenon.NotFound):
        tenon.filename_incref(handle)


def test_in_flight_of_a_process_that_ended(folder: str, child: Child) -> None:
    program = (
        SEND + "t = tenon.zeros(3, filename=tenon.Filename('m', directory=sys.argv[1]));"
        " t.storage.share_filename(in_flight=True); say(1); "
    )
    # After an orderly exit the message waits for its reader.
    process = child(program, folder)
    line(process)
    process.wait(60)
    assert tenon.sweep(folder).in_flight == 1
    storage = tenon.open_filename(f"{folder}/m", 12, allow_unsealed=True, decref=True)
    assert count_of(f"{folder}/m") == 1
    storage.close()
    assert settled(folder) == []
    # After SIGKILL the message's file is removed.
    process = child(program + "sys.stdin.readline()", folder)
    line(process)
    process.kill()
    process.wait()
    tenon.sweep(folder)
    assert settled(folder) == []


def test_unlink(folder: str) -> None:
    tensor = named(folder)
    handle = tensor.storage.share_filename()
    tenon.filename_unlink(handle.name)
    tenon.filename_unlink(handle.name)
    assert os.listdir(folder) == []
    tensor.numpy()[0] = 8
    assert tensor.tolist() == [8, 2, 3]
    with pytest.raises(tenon.NotFound):
        tenon.open_filename(handle, allow_unsealed=True)
    # A new file that takes the old name is not unlinked by the old tensor.
    other = named(folder, (4.0,), name=os.path.basename(handle.name))
    tensor.close()
    assert os.path.exists(handle.name) and other.tolist() == [4]


# ---- other users


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user(folder: str) -> None:
    closed, readable = named(folder, name="closed"), named(folder, name="readable", mode=0o644)
    frozen = tenon.from_numpy(np.arange(3.0), mode="frozen")
    offset = frozen.storage.share_filename(
        filename=tenon.Filename("socket", directory=folder)
    ).offset
    grouped = named(folder, name="grouped", mode=0o660, group=65533)
    for groups, expected in (([], "closed"), ([65533], "open")):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                for tensor in (closed, readable, frozen, grouped):
                    tensor.close()
                os.setgroups(groups)
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                for name in ("closed", "readable", "socket"):
                    try:
                        tenon.open_filename(
                            f"{folder}/{name}",
                            12,
                            offset if name == "socket" else 0,
                            allow_unsealed=True,
                        )
                    except tenon.PermissionDenied as error:
                        assert error.details["path"] == f"{folder}/{name}", error.details
                    else:
                        raise AssertionError(name)
                try:
                    tenon.open_filename(
                        f"{folder}/closed", 12, allow_unsealed=True, other_user=True
                    )
                    raise AssertionError("closed")
                except tenon.PermissionDenied:
                    pass
                storage = tenon.open_filename(
                    f"{folder}/readable", 12, allow_unsealed=True, other_user=True
                )
                assert storage.read_only and storage.read() == struct.pack("3f", 1, 2, 3)
                try:
                    storage = tenon.open_filename(
                        f"{folder}/grouped", 12, allow_unsealed=True, other_user=True
                    )
                    assert expected == "open" and not storage.read_only
                except tenon.PermissionDenied:
                    assert expected == "closed"
                storage.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert closed.tolist() == readable.tolist() == [1, 2, 3]
    del grouped


# ---- the manager


def is_empty(place: str) -> bool:
    """Whether the folder has no entries or does not exist: the manager may remove it at any
    time.
    """
    try:
        return not os.listdir(place)
    except FileNotFoundError:
        return True


@pytest.fixture
def no_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder in which no manager runs yet, for processes that the test starts. At the end of the
    test the folder must be empty again.
    """
    place = tempfile.mkdtemp(prefix="tenon-manager-")
    os.rmdir(place)
    monkeypatch.setenv("TENON_MANAGER_FOLDER", place)
    yield place
    wait_until(lambda: is_empty(place))
    with contextlib.suppress(FileNotFoundError):  # the manager may remove it, too
        os.rmdir(place)


def test_manager_start(child: Child, no_manager: str) -> None:
    program = (
        SEND + "path = tenon.manager_start(); assert path == tenon.manager_start(); say(path);"
        " sys.stdin.readline()"
    )
    first, second = child(program), child(program)
    path = line(first)
    assert path == line(second) and os.path.dirname(path) == no_manager
    assert (
        stat.S_ISSOCK(os.stat(path).st_mode)
        and os.stat(path).st_uid == os.geteuid()
        and len(os.fsencode(path)) < 108
    )
    first.communicate()
    third = child(program)
    assert line(third) == path
    second.communicate()
    third.communicate()


def test_no_manager_program(child: Child, no_manager: str) -> None:
    program = (
        SEND
        + """
for path in ("/nowhere/tenon-manager", "/bin/true", "/dev/null", ""):
    try: tenon.manager_start(path)
    except tenon.TenonError as error: say(error.code, error.details["path"])
"""
    )
    process = child(program)
    assert line(process) == "NOT_FOUND /nowhere/tenon-manager"
    assert line(process) == "PEER_GONE /bin/true"
    assert line(process) == "PERMISSION /dev/null"


def test_torch_asks_for_a_file() -> None:
    with pytest.raises(tenon.Unsupported):
        tenon.Storage.new(8).share_filename(torch=True)
