"""tenon.Publisher and tenon.Subscriber. tests/api/capi/publish.c tests the library's rules."""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tenon


class Point(NamedTuple):
    x: Any
    y: Any


def pair(publisher: tenon.Publisher, **options: Any) -> tenon.Subscriber:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:  # this closes only what nobody has taken
        publisher.add(ours)
        return tenon.Subscriber(theirs, **options)


def test_a_loop_ends_with_the_publisher() -> None:
    tensor = tenon.from_numpy(np.arange(10))

    def end_after(notes: list[bytes], publisher: tenon.Publisher) -> None:
        if len(notes) == 3:
            publisher.close()

    async def loop(publisher: tenon.Publisher, subscriber: tenon.Subscriber) -> list[bytes]:
        notes = []
        async for message in subscriber:
            with message:
                notes.append(bytes(message.user_bytes))
            end_after(notes, publisher)
        return notes

    for is_async in (False, True):
        publisher = tenon.Publisher()
        with pair(publisher) as subscriber:
            for note in (b"1", b"2", b"3"):
                publisher.send(tensor, user_bytes=note)
            notes = []
            if is_async:
                notes = asyncio.run(loop(publisher, subscriber))
            else:
                for message in subscriber:
                    with message:
                        notes.append(bytes(message.user_bytes))
                    end_after(notes, publisher)
            assert notes == [b"1", b"2", b"3"]
            assert list(subscriber) == []


def test_each_message_to_each_subscriber(folder: str) -> None:
    path = f"{folder}/publisher"
    tensor = tenon.from_numpy(np.arange(1000))
    with tenon.Publisher() as publisher:
        publisher.listen(path)
        publisher.send({"before": tensor})
        publisher.send({"latest": tensor}, user_bytes=b"note")
        subscribers = [
            tenon.Subscriber.connect(path, timeout=60),
            pair(publisher),
            tenon.Subscriber.connect(path, same_user=True),
        ]
        publisher.send(tenon.Message([tensor, tensor]))
        for each in subscribers:
            with each.recv(timeout=60) as message:
                assert message["latest"].tolist() == tensor.tolist()
                assert message["latest"].storage == tensor.storage  # not copied
                assert message.user_bytes == b"note"
            with each.recv() as message:
                assert len(message) == 2
            with pytest.raises(tenon.WouldBlock):
                each.recv(timeout=0)
            with pytest.raises(tenon.Timeout):
                each.recv(timeout=0.01)
            assert each.stats() == (2, 0, os.getpid(), os.geteuid())
        assert publisher.stats() == (3, 0, 3, 0)
        assert repr(publisher) == "<tenon.Publisher with 3 subscribers>"
        assert repr(subscribers[0]) == f"<tenon.Subscriber of process {os.getpid()}>"
        infos = publisher.subscribers()
        assert [each.state for each in infos] == ["here"] * 3
        info = infos[0]
        assert (info.pid, info.uid) == (os.getpid(), os.geteuid())
        assert (info.waiting, info.published, info.dropped) == (0, 2, 0)
        subscribers.pop().close()
        publisher.send()
        assert len(publisher.subscribers()) == 2
        assert os.path.exists(path)
    assert not os.path.exists(path)
    for each in subscribers:
        each.recv().close()
        with pytest.raises(tenon.PeerGone) as error:
            each.recv()
        assert error.value.details["pid"] == str(os.getpid())
        each.close()


def test_values() -> None:
    value = {
        "point": Point(1, [2.5, None, "text"]),
        "array": np.arange(6).reshape(2, 3),
        "tensor": tenon.from_numpy(np.ones(3)),
        (1, 2): {b"bytes", 2**70},
    }
    with tenon.Publisher() as publisher, pair(publisher) as subscriber:
        publisher.publish(value)
        received = subscriber.get(timeout=60)
        assert received["point"] == value["point"] and type(received["point"]) is Point
        assert (received["array"] == value["array"]).all()
        assert received["tensor"].storage == value["tensor"].storage
        assert received[1, 2] == value[1, 2]
        with pytest.raises(tenon.Timeout):
            subscriber.get(timeout=0.01)
        with pytest.raises(tenon.WouldBlock):
            subscriber.get(timeout=0)
        with pytest.raises(TypeError, match="cannot go through"):
            publisher.publish(object())
        publisher.send([tenon.from_numpy([1.0])])
        publisher.publish("next")
        with pytest.raises(tenon.Corrupt):
            subscriber.get()
        assert subscriber.get() == "next"
        with pytest.raises(ValueError, match="is negative"):
            subscriber.get(timeout=-1)


def test_policy_block() -> None:
    with tenon.Publisher(2) as publisher, pair(publisher) as subscriber:
        publisher.publish(1)
        publisher.publish(2)
        for call in (
            lambda: publisher.publish(3, timeout=0.01),
            lambda: publisher.send(timeout=0.01),
        ):
            with pytest.raises(tenon.Timeout) as error:
                call()
            assert error.value.details["pid"] == str(os.getpid())
        with pytest.raises(tenon.WouldBlock):
            publisher.publish(3, timeout=0)
        cancel = tenon.Cancel()
        threading.Timer(0.05, cancel.trigger).start()
        with pytest.raises(tenon.Cancelled):
            publisher.send(cancel=cancel)
        thread = threading.Timer(0.05, subscriber.get)
        thread.start()
        publisher.publish(3)
        thread.join()
        assert [subscriber.get(), subscriber.get()] == [2, 3]
        with pytest.raises(tenon.NotFound):
            publisher.remove(os.getpid() + 1)
        publisher.publish(4)
        publisher.remove(os.getpid())
        assert publisher.subscribers() == []
        assert subscriber.get() == 4
        with pytest.raises(tenon.PeerGone):
            subscriber.get()


def test_policy_drop_oldest() -> None:
    with tenon.Publisher(4, policy="drop_oldest") as publisher, pair(publisher) as subscriber:
        for number in range(10):
            publisher.publish(number)
        assert [subscriber.get(timeout=0) for _ in range(4)] == [6, 7, 8, 9]
        assert subscriber.stats().dropped == 6 == publisher.stats().dropped
        assert publisher.subscribers()[0].dropped == 6


def test_policy_error() -> None:
    with tenon.Publisher(2, policy="error") as publisher, pair(publisher) as subscriber:
        publisher.publish(1)
        publisher.publish(2)
        with pytest.raises(tenon.ResourceExhausted) as error:
            publisher.publish(3)
        assert error.value.details["limit"] == "capacity"
        assert [subscriber.get(), subscriber.get()] == [1, 2]


def test_keep_latest_not() -> None:
    with tenon.Publisher(keep_latest=False) as publisher:
        publisher.publish("early")
        with pair(publisher) as subscriber:
            publisher.publish("late")
            assert subscriber.get() == "late"


def test_polling() -> None:
    with tenon.Publisher() as publisher, pair(publisher) as subscriber:
        with pytest.raises(tenon.WouldBlock):
            subscriber.recv(timeout=0)
        assert not select.select([subscriber], [], [], 0)[0]
        publisher.publish(1)
        assert select.select([subscriber], [], [], 60)[0]
        assert subscriber.get(timeout=0) == 1


def test_tasks_wait_for_values() -> None:
    async def both(publisher: tenon.Publisher, subscriber: tenon.Subscriber) -> list[Any]:
        waiting = asyncio.create_task(subscriber.get_async())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(subscriber.recv_async(), 0.01)
        assert not waiting.done()
        for number in range(3):
            publisher.publish(number)
        values = [await asyncio.wait_for(waiting, 60)]
        values.append(await subscriber.get_async())
        with await subscriber.recv_async() as message:
            assert len(message) == 0
        return values

    with tenon.Publisher() as publisher, pair(publisher) as subscriber:
        assert asyncio.run(both(publisher, subscriber)) == [0, 1]


PROGRAM = """
import sys, tenon
with tenon.Subscriber.connect(sys.argv[1], timeout=60) as subscriber:
    while (value := subscriber.get(timeout=60)) != "end":
        print(value, flush=True)
    if len(sys.argv) > 2:
        import signal; signal.pause()
"""


def test_processes(folder: str, child: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Subscribers in other processes. One is killed, and one leaves in order."""
    path = f"{folder}/publisher"
    with tenon.Publisher() as publisher:
        publisher.listen(path, mode=0o600)
        children = [
            subprocess.Popen(
                [sys.executable, "-B", "-c", PROGRAM, path, *more], stdout=subprocess.PIPE
            )
            for more in ([], ["stay"])
        ]
        while len(publisher.subscribers()) < 2:
            time.sleep(0.01)
        publisher.publish("hello")
        for each in children:
            assert each.stdout is not None and each.stdout.readline() == b"hello\n"
        publisher.publish("end")
        assert children[0].wait(60) == 0
        children[1].send_signal(signal.SIGKILL)
        children[1].wait()
        with pytest.raises(tenon.PeerGone) as error:
            while True:
                publisher.publish("again")
                time.sleep(0.01)
        assert error.value.details["pid"] == str(children[1].pid)
        publisher.publish("nobody")
        assert publisher.stats()[2:] == (0, 1)
        for each in children:
            assert each.stdout is not None
            each.stdout.close()


def test_errors(folder: str) -> None:
    for arguments in ({"capacity": 0}, {"max_subscribers": 0}, {"policy": "wait"}):
        with pytest.raises(ValueError, match=r"0 has no room|is not one of block"):
            tenon.Publisher(**arguments)  # type: ignore[arg-type]
    for arguments in ({"capacity": 3}, {"slot_nbytes": 100}):
        with pytest.raises(tenon.InvalidArgument):
            tenon.Publisher(**arguments)
    with pytest.raises(tenon.NotFound):
        tenon.Subscriber.connect(f"{folder}/nobody")
    with tenon.Publisher() as publisher, tenon.Publisher() as other:
        publisher.listen(f"{folder}/one")
        with pytest.raises(tenon.PermissionDenied):
            other.listen(f"{folder}/one")
    with tenon.Publisher(max_subscribers=1) as publisher:
        with pair(publisher), pytest.raises(tenon.ResourceExhausted) as error:
            pair(publisher)
        assert error.value.details["limit"] == "subscribers"
        with pytest.raises(TypeError, match="has its own names"):
            publisher.send(tenon.Message(), ["name"])
        with pytest.raises(TypeError, match="no pickled form"):
            pickle.dumps(publisher)
    with pytest.raises(ValueError, match="already closed"):
        publisher.send()
