from __future__ import annotations

import gc
import os
import select
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon

KINDS = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]

BORROWER = """
import sys, tenon
with tenon.Connection(int(sys.argv[1]), adopt=True, ring="ring" in sys.argv) as connection:
    while True:
        try:
            message = connection.recv()
        except tenon.PeerGone:
            break
        for tensor in message:
            if not tensor.read_only:
                tensor.numpy()[...] += 1
        seen = [(t.shape, t.dtype, t.read_only, t.tolist()) for t in message]
        connection.send([], user_bytes=repr(seen).encode())
"""


LENDER = """
import sys, time, numpy, tenon
with tenon.Connection(int(sys.argv[1]), adopt=True) as connection:
    connection.send(tenon.from_numpy(numpy.arange(6, dtype="float32")))
    time.sleep(600)
"""


def connected(kind: int) -> tuple[tenon.Connection, tenon.Connection]:
    left, right = socket.socketpair(socket.AF_UNIX, kind)
    return tenon.Connection(left, adopt=True), tenon.Connection(right, adopt=True)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_another_process_writes_in_place(child: Any, kind: int, ring: bool) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    process = child(BORROWER, theirs.fileno(), *["ring"] * ring, fds=(theirs.fileno(),))
    theirs.close()
    tensor = tenon.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    frozen = tenon.from_numpy(np.array([True, False]), mode="frozen")
    lender_writes = tenon.from_numpy(np.array([1, 2]), mode="lender_writes")
    before = tenon.stats().bytes_copied
    with tenon.Connection(ours, adopt=True, ring=ring) as connection:
        connection.send([tensor[:, ::2], frozen, lender_writes], timeout=60)
        reply = connection.recv(timeout=60).user_bytes.decode()
        lender_writes.numpy()[0] = 5
        connection.send(lender_writes)
        assert "[5, 2]" in connection.recv(timeout=60).user_bytes.decode()
    assert reply == repr(
        [
            ((2, 2), "float32", False, [[1.0, 3.0], [4.0, 6.0]]),
            ((2,), "bool", True, [True, False]),
            ((2,), "int64", True, [1, 2]),
        ]
    )
    assert tensor.tolist() == [[1.0, 1.0, 3.0], [4.0, 4.0, 6.0]]
    assert tenon.stats().bytes_copied == before
    assert process.wait(60) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_lists_dicts_and_names(kind: int) -> None:
    left, right = connected(kind)
    with left, right:
        tensors = [tenon.zeros((i,), "int32") for i in range(300)]
        left.send(tensors, [f"layer.{i}" for i in range(300)], b"meta")
        message = right.recv()
        assert (
            len(message) == 300
            and message["layer.7"].shape == (7,)
            and message.user_bytes == b"meta"
        )
        right.send({"back": message[299]})
        assert left.recv()["back"].storage == tensors[299].storage


@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand(kind: int) -> None:
    left, right = connected(kind)
    with left, right:
        tensor = tenon.zeros(10_000, "int32")
        tensor.numpy()[...] = range(10_000)
        thread = threading.Thread(
            target=left.send, args=([tensor[i : i + 1] for i in range(10_000)],)
        )
        thread.start()
        message = right.recv(timeout=60)
        thread.join()
        assert [t.item() for t in message] == list(range(10_000))


def test_a_message_object_is_sent_once() -> None:
    left, right = tenon.pair()
    with left, right:
        message = tenon.Message([tenon.zeros(3)], ["x"], b"u")
        left.send(message)
        assert right.recv().names == ["x"]
        with pytest.raises(tenon.WouldBlock):
            right.recv(timeout=0)
        with pytest.raises(TypeError):
            left.send(message, ["y"])


def test_timeouts() -> None:
    left, right = tenon.pair()
    with left, right:
        with pytest.raises(tenon.WouldBlock) as blocked:
            left.recv(timeout=0)
        assert isinstance(blocked.value, BlockingIOError) and blocked.value.errno
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            left.recv(timeout=0.12)
        assert time.monotonic() - start >= 0.12
        with pytest.raises(ValueError):
            left.recv(timeout=-1)
        with pytest.raises(ValueError):
            left.recv(timeout=float("nan"))
        right.send(tenon.zeros(1))
        assert len(left.recv(timeout=1e300)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_send_that_timed_out_goes_on(kind: int) -> None:
    left, right = connected(kind)
    with left, right:
        tensor = tenon.zeros(1)
        sent = 0
        with pytest.raises(tenon.WouldBlock):
            while True:
                left.send(tensor, user_bytes=sent.to_bytes(4, "little") + bytes(60_000), timeout=0)
                sent += 1
        got = []
        with pytest.raises(tenon.WouldBlock):
            while True:
                got.append(int.from_bytes(right.recv(timeout=0).user_bytes[:4], "little"))
        left.flush(timeout=60)
        while len(got) <= sent:
            got.append(int.from_bytes(right.recv(timeout=60).user_bytes[:4], "little"))
        assert got == list(range(sent + 1))


def test_peer_gone() -> None:
    left, right = tenon.pair()
    with left:
        right.send({"last": tenon.zeros(2)})
        right.close()
        assert left.recv()["last"].shape == (2,)
        with pytest.raises(tenon.PeerGone) as gone:
            left.recv()
        assert (
            isinstance(gone.value, ConnectionError)
            and gone.value.errno
            and gone.value.code == "PEER_GONE"
        )
        with pytest.raises(ConnectionError):
            left.send(tenon.zeros(1))


@pytest.mark.parametrize("on_lender_gone", ["keep", "drop"])
def test_memory_of_a_killed_lender(child: Any, on_lender_gone: Any) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = child(LENDER, theirs.fileno(), fds=(theirs.fileno(),))
    theirs.close()
    with tenon.Connection(ours, adopt=True, on_lender_gone=on_lender_gone) as connection:
        tensor = connection.recv(timeout=60)[0]
        array = tensor.numpy()
        gone = connection.gone_fileno()
        assert select.select([gone], [], [], 0)[0] == []
        process.kill()
        assert select.select([gone], [], [], 60)[0] == [gone]
        assert array.tolist() == [0, 1, 2, 3, 4, 5]  # the holder of the bytes keeps them
        if on_lender_gone == "keep":
            assert tensor.tolist() == [0, 1, 2, 3, 4, 5]
        else:
            uses: list[Any] = [
                tensor.numpy,
                tensor.tolist,
                lambda: memoryview(tensor),
                lambda: memoryview(tensor.storage),
                tensor.__dlpack__,
                tensor[0].item,
                tensor.storage.share_fd,
                lambda: tenon.Message([tensor]),
            ]
            for use in uses:
                with pytest.raises(tenon.PeerGone, match="the lender of this storage is gone"):
                    use()
        with pytest.raises(tenon.PeerGone):
            connection.recv(timeout=60)


def test_on_lender_gone_is_one_of_two_words() -> None:
    with pytest.raises(ValueError, match="on_lender_gone 'close' is not one of keep, drop"):
        tenon.Connection(0, on_lender_gone="close")  # type: ignore[arg-type]


def test_peer_killed_while_we_wait(child: Any) -> None:
    ours, theirs = socket.socketpair()
    process = child(BORROWER, theirs.fileno(), fds=(theirs.fileno(),))
    theirs.close()
    with tenon.Connection(ours, adopt=True) as connection:
        connection.send(tenon.zeros(4))
        connection.recv(timeout=60)
        timer = threading.Timer(0.1, process.kill)
        timer.start()
        with pytest.raises(tenon.PeerGone):
            connection.recv(timeout=60)
        timer.join()
        assert process.wait(60) == -signal.SIGKILL


def test_cancel() -> None:
    left, right = tenon.pair()
    with left, right, tenon.Cancel() as cancel:
        timer = threading.Timer(0.05, cancel.trigger)
        timer.start()
        with pytest.raises(tenon.Cancelled):
            left.recv(cancel=cancel)
        timer.join()
        with pytest.raises(tenon.Cancelled):
            left.recv(cancel=cancel, timeout=10)
        cancel.reset()
        with pytest.raises(tenon.Timeout):
            left.recv(cancel=cancel, timeout=0.01)


def test_sockets_are_borrowed_or_adopted() -> None:
    left, right = socket.socketpair()
    connection = tenon.Connection(left)
    assert connection.fileno() == left.fileno()
    assert str(left.fileno()) in repr(connection)
    connection.close()
    left.send(b"mine still")
    assert right.recv(10) == b"mine still"
    adopted = tenon.Connection(left, adopt=True)
    assert left.fileno() == -1
    adopted.close()
    assert right.recv(10) == b""
    right.close()


def test_a_borrowed_socket_outlives_its_owner() -> None:
    left, right = socket.socketpair()
    connection, other = tenon.Connection(left), tenon.Connection(right)
    del left, right
    gc.collect()
    connection.send(tenon.zeros(1))
    assert len(other.recv()) == 1
    # A socket warns if nobody closes it.
    connection._socket.close()
    other._socket.close()


def test_wrong_sockets() -> None:
    read, write = os.pipe()
    datagram, other = socket.socketpair(type=socket.SOCK_DGRAM)
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as lonely, datagram, other:
        for wrong in (read, -1, 1 << 20, tcp, lonely, datagram):
            with pytest.raises((tenon.TenonError, OSError)):
                tenon.Connection(wrong)
    os.close(read)
    os.close(write)


def test_closed_says_so() -> None:
    left, right = tenon.pair()
    right.close()
    left.close()
    left.close()
    for use in (left.recv, lambda: left.send([]), left.fileno, left.flush):
        with pytest.raises(ValueError, match="already closed"):
            use()
    assert "closed" in repr(left)


def test_close_during_a_receive_in_another_thread() -> None:
    outcome: list[BaseException | int] = []

    def receive(connection: tenon.Connection) -> None:
        try:
            outcome.append(len(connection.recv()))
        except BaseException as error:
            outcome.append(error)

    # If close() comes before the thread has reached recv(), recv() fails with the error of a closed
    # connection.
    for pause in (0.05, 1, 20):
        outcome.clear()
        left, right = tenon.pair()
        thread = threading.Thread(target=receive, args=(left,))
        thread.start()
        time.sleep(pause)
        left.close()
        right.send([tenon.zeros(1)])
        thread.join()
        right.close()
        if "closed" not in str(outcome[0]):
            break
    assert outcome == [1]


def test_polling() -> None:
    left, right = tenon.pair()
    with left, right:
        assert select.select([left], [], [], 0)[0] == []
        right.send(tenon.zeros(1))
        assert select.select([left], [], [], 10)[0] == [left]
        left.recv(timeout=0)


def test_limits_of_the_receiver() -> None:
    left, right = socket.socketpair()
    with (
        tenon.Connection(left, adopt=True) as sender,
        tenon.Connection(right, adopt=True, max_tensors=2) as receiver,
    ):
        sender.send([tenon.zeros(1) for _ in range(3)])
        with pytest.raises(tenon.TenonError):
            receiver.recv()


def test_garbage_is_corrupt() -> None:
    left, right = socket.socketpair()
    with left, tenon.Connection(right, adopt=True) as receiver:
        left.send(b"GET / HTTP/1.1\r\n" * 100)
        with pytest.raises(tenon.Corrupt):
            receiver.recv(timeout=60)


def test_private_openings() -> None:
    left, right = socket.socketpair()
    with (
        tenon.Connection(left, adopt=True) as sender,
        tenon.Connection(right, adopt=True, private_copy=True) as receiver,
    ):
        tensor = tenon.zeros(3)
        sender.send(tensor)
        got = receiver.recv()[0]
        got.numpy()[0] = 1
        assert tensor.tolist() == [0, 0, 0] and not got.storage.is_shared


def test_threads_on_one_connection() -> None:
    left, right = tenon.pair()
    counts = [0] * 4

    def send(number: int) -> None:
        for _ in range(100):
            left.send(tenon.zeros(3), user_bytes=bytes([number]))

    def receive() -> None:
        for _ in range(200):
            counts[right.recv(timeout=60).user_bytes[0]] += 1

    with left, right:
        threads = [threading.Thread(target=send, args=(i,)) for i in range(4)] + [
            threading.Thread(target=receive) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts == [100] * 4


def test_the_gil_is_free_while_we_wait() -> None:
    left, right = tenon.pair()
    with left, right:
        ticks = 0
        done = threading.Event()

        def tick() -> None:
            nonlocal ticks
            while not done.is_set():
                ticks += 1
                time.sleep(0)

        thread = threading.Thread(target=tick)
        thread.start()
        while ticks == 0:
            time.sleep(0.001)
        # The ticks are compared with those during a sleep, which releases the GIL: how often the
        # thread runs depends on the machine's load.
        for _ in range(50):
            before = ticks
            time.sleep(0.1)
            in_sleep = ticks - before
            before = ticks
            with pytest.raises(tenon.Timeout):
                left.recv(timeout=0.1)
            in_recv = ticks - before
            if in_recv > in_sleep / 10:
                break
        done.set()
        thread.join()
    assert in_recv > in_sleep / 10


def test_the_peer_of_a_pair_made_it() -> None:
    left, right = tenon.pair()
    with left, right:
        assert left.peer() == right.peer() == tenon.Peer(os.getpid(), os.geteuid(), os.getegid())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs, tenon.Connection(ours, adopt=True, same_user=True) as connection:
        assert connection.peer().uid == os.geteuid()
    with pytest.raises(ValueError, match="closed"):
        connection.peer()


@pytest.mark.parametrize("group", [-1, 1 << 32])
def test_a_group_that_is_no_number(group: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, pytest.raises(ValueError, match="group"):
        tenon.Connection(ours, group=group)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_peer(tmp_path: Path) -> None:
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        # The other user enters by an fd, because the folder is closed to other users.
        place = os.open(address, os.O_PATH)
        os.chmod(address, 0o666)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.setgroups([65532, 65533])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as theirs:
                    theirs.connect(f"/proc/self/fd/{place}")
                    theirs.recv(1)
                code = 0
            finally:
                os._exit(code)
        os.close(place)
        ours = listener.accept()[0]
    with ours:
        for options in ({"same_user": True}, {"group": 65531}, {"same_user": True, "group": 65531}):
            with pytest.raises(tenon.PermissionDenied, match=f"pid {pid} of user 65534") as caught:
                tenon.Connection(ours, adopt=True, **options)  # type: ignore[arg-type]
            assert caught.value.details["uid"] == "65534" and caught.value.details["pid"] == str(
                pid
            )
        for options in ({}, {"group": 65533}, {"group": 65534, "same_user": True}):
            with tenon.Connection(ours, **options) as connection:  # type: ignore[arg-type]
                assert connection.peer() == tenon.Peer(pid, 65534, 65534)
    assert os.waitpid(pid, 0)[1] == 0
