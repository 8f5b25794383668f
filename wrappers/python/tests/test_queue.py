"""Queues: values, waits and errors in one process, and the scenarios of queue_program.py in several
processes.
"""

from __future__ import annotations

import collections
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tenon
import tenon.pickle
from hypothesis import given
from hypothesis import strategies as st

PROGRAM = Path(__file__).with_name("queue_program.py")
METHODS = ("fork", "spawn", "forkserver")
EVERY_METHOD = (
    "values",
    "tensors_are_lent",
    "exactly_once",
    "tasks_in_processes",
    "exit_after_put",
    "grandchild",
    "queue_in_a_queue",
    "death_is_reported",
    "end_is_no_death",
    "pickled",
    "unknown_class",
)
ONCE = ("stopped_sender", "fork_while_threads_wait", "interrupts")


class Point(NamedTuple):
    x: Any
    y: Any


class Outer:
    class Inner(NamedTuple):
        value: int


OPENER = """
import sys, time, tenon
with tenon.Queue.open(sys.argv[1]) as q, tenon.Queue.open(sys.argv[2]) as replies:
    replies.put({"sum": sum(q.get(timeout=60).tolist())})
    while tenon.deposit.stats().messages:
        time.sleep(0.002)
"""


def serve_once(folder: str) -> None:
    """Serve a queue by name to another process, which gets a tensor and answers."""
    with tenon.Queue() as q, tenon.Queue() as replies:
        handle = q.serve(f"{folder}/queue")
        replies.serve(f"{folder}/replies")
        q.put(tenon.from_numpy([1.0, 2.0]))
        program = [sys.executable, "-B", "-c", OPENER, f"{folder}/queue", f"{folder}/replies"]
        with subprocess.Popen(program) as process:
            assert replies.get(timeout=60) == {"sum": 3.0}
            assert process.wait(60) == 0
        with tenon.Queue.open(handle) as other:
            other.put(1)
            assert q.get(timeout=60) == 1
        with pytest.raises(tenon.NotFound):
            tenon.Queue.open(f"{folder}/nothing")


@pytest.fixture(scope="module", autouse=True)
def the_depot(the_librarys_thread: None, watched: str) -> None:
    """Make the depot, from which another process fetches. Its fds stay from then on."""
    serve_once(watched)


@pytest.fixture
def q() -> Iterator[tenon.Queue]:
    with tenon.Queue() as made:
        yield made


def through(q: tenon.Queue, value: Any) -> Any:
    q.put(value, timeout=60)
    return q.get(timeout=60)


# ---- values

VALUES = [
    None,
    True,
    0,
    -(2**63),
    2**63,
    -(2**200),
    1 << 20_000,
    1.5,
    math.inf,
    2 + 3j,
    "",
    "text \0 é",
    "\ud800",
    b"",
    b"\0bytes",
    bytearray(b"bytes"),
    (),
    [],
    {},
    set(),
    [1, [2, [None, ()]]],
    {"a": {1: 2.5}, (1, "b"): b"c", None: True},
    {1, "b", (2, 3)},
    frozenset({1, 2}),
    collections.OrderedDict(b=1, a=2),
    Point(1, [Point("a", 2)]),
    {Point(1, 2): Outer.Inner(3)},
    tenon.NamedTuple("package.Class", (1, 2)),
    {"value": 1, "__tenon_notes__": []},
    {"__tenon_notes__": [(0, ("array",))]},
    {"value": 1},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values(q: tenon.Queue, value: Any) -> None:
    back = through(q, value)
    assert type(back) is type(value) and back == value


def test_types_inside_of_values(q: tenon.Queue) -> None:
    point, inner = through(q, [Point(frozenset({1}), bytearray(b"a")), Outer.Inner(2)])
    assert type(point) is Point and type(inner) is Outer.Inner
    assert type(point.x) is frozenset and type(point.y) is bytearray


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary()
)
KEYS = st.none() | st.integers(2, 2**70) | st.text() | st.binary()
NESTED = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
        | st.tuples(inner, inner).map(lambda pair: Point(*pair))
    ),
)


@given(NESTED)
def test_nested_values(value: Any) -> None:
    with tenon.Queue(members=1, capacity=2) as q:
        assert repr(through(q, value)) == repr(value) or through(q, value) == value


def test_tensors(q: tenon.Queue) -> None:
    whole = tenon.from_numpy(np.arange(12, dtype="int32").reshape(3, 4))
    frozen = tenon.from_numpy([1.5], mode="frozen")
    before = tenon.stats().bytes_copied
    back = through(q, {"all": whole, "views": (whole[1], whole[:, ::2]), "frozen": frozen})
    assert tenon.stats().bytes_copied == before
    assert back["all"].storage == whole.storage == back["views"][1].storage
    assert back["views"][0].tolist() == [4, 5, 6, 7]
    assert back["views"][1].tolist() == [[0, 2], [4, 6], [8, 10]]
    assert back["frozen"].read_only and back["frozen"].tolist() == [1.5]
    back["all"].numpy()[0, 0] = 7
    assert whole.numpy()[0, 0] == 7


def test_three_hundred_tensors(q: tenon.Queue) -> None:
    tensors = [tenon.from_numpy(np.full(4, i, "int32")) for i in range(300)]
    back = through(q, tensors)
    assert [tensor.tolist() for tensor in back] == [[i] * 4 for i in range(300)]


def test_composites(q: tenon.Queue) -> None:
    indices = tenon.from_numpy(np.array([[0, 2]]))
    sparse = tenon.SparseTensor.coo(indices, tenon.from_numpy([1.0, 2.0]), (4,))
    (back,) = through(q, [sparse])
    assert isinstance(back, tenon.SparseTensor) and back.check() is not None
    assert back.shape == (4,)


ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(10)[::-2],
    np.zeros((0, 3)),
    np.array(5, "uint8"),
    np.array([True, False]),
    np.array([1 + 2j]),
    np.array([1, 2], ">i4"),
    np.array([1.5], "float16"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype} {array.shape}")
def test_numpy_arrays_are_copied(q: tenon.Queue, array: Any) -> None:
    (back,) = through(q, [array])
    assert type(back) is np.ndarray and back.dtype == array.dtype.newbyteorder("=")
    assert back.shape == array.shape and np.array_equal(back, array) and back.flags.writeable
    assert not np.shares_memory(back, array)


@pytest.mark.parametrize(
    "kind", [np.float32, np.float64, np.longdouble, np.int8, np.bool_, np.complex64]
)
def test_numpy_scalars(q: tenon.Queue, kind: Any) -> None:
    back = through(q, kind(1))
    assert type(back) is kind and back == kind(1)


def test_a_value_in_two_places_becomes_two(q: tenon.Queue) -> None:
    twice = [1]
    first, second = through(q, [twice, twice])
    assert first == second == [1] and first is not second


REFUSED = [
    (object(), "object"),
    (print, "builtin_function_or_method"),
    (range(3), "range"),
    (collections.defaultdict(int), "collections.defaultdict"),
    (type("Text", (str,), {})("x"), "Text"),
    (type("Pair", (tuple,), {})((1, 2)), "Pair"),
    (np.array(["a"]), "<U1"),
    (np.array([None]), "object"),
    (np.array([1]).view(np.matrix), "numpy.matrix"),
    (np.datetime64("2026-01-01"), "numpy.datetime64"),
]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(("value", "name"), REFUSED, ids=lambda value: str(value)[:20])
def test_other_types_are_refused(q: tenon.Queue, value: Any, name: str) -> None:
    with pytest.raises(TypeError, match="pickled=True") as refused:
        q.put([1, {"a": value}])
    assert name in str(refused.value)
    assert q.empty() and through(q, 1) == 1


def test_values_that_cannot_be_lent(q: tenon.Queue) -> None:
    with pytest.raises(tenon.Unsupported, match="private memory"):
        q.put(tenon.zeros(3, private=True))
    closed = tenon.zeros(3)
    closed.close()
    with pytest.raises(ValueError, match="already closed"):
        q.put([closed])
    assert q.empty()


def test_nesting(q: tenon.Queue) -> None:
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(ValueError, match="contains itself"):
        q.put(itself)
    deep: Any = 1
    for _ in range(198):
        deep = [deep]
    assert through(q, deep) == deep
    with pytest.raises(ValueError, match="deeper than 199"):
        q.put([deep])


def test_a_list_that_changes(q: tenon.Queue) -> None:
    class Changing(dict[str, int]):
        pass

    values: list[Any] = [np.zeros(1), 1]
    original = tenon._queue_values.describe  # type: ignore[attr-defined]

    def describe(value: Any) -> Any:
        values.clear()
        return original(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenon.queue.describe", describe)
        with pytest.raises(RuntimeError, match="changed"):
            q.put(values)
        with pytest.raises(RuntimeError, match="described"):
            patch.setattr("tenon.queue.describe", lambda value: (value, ("note",), False))
            q.put(Changing())
    assert q.empty()


# ---- messages of hostile members

FORGED = [
    ({"value": 1, "__tenon_notes__": [1]}, "tuple"),
    ({"value": 1, "__tenon_notes__": [(0, 1)]}, "no note"),
    ({"value": 1, "__tenon_notes__": [(0, ())]}, "no note"),
    ({"value": 1, "__tenon_notes__": [(0, ("array",))]}, "no note of a int"),
    ({"value": 1, "__tenon_notes__": [(0, ([],))]}, "unhashable"),
    ({"value": 1, "__tenon_notes__": [("x", ("int",))]}, "integer"),
    ({"value": 1, "__tenon_notes__": [(5, ("int",))]}, "no value"),
    ({"value": 1, "__tenon_notes__": [(-1, ("int",))]}, "no value"),
    ({"value": (1,), "__tenon_notes__": [(0, ("NamedTuple", "os", "x"))]}, "fields"),
    ({"value": (1,), "__tenon_notes__": [(0, ("NamedTuple", 1, 2, 3))]}, "names"),
    ({"value": (1,), "__tenon_notes__": [(0, ("NamedTuple", "os", "x y", "f"))]}, "identifier"),
    ({"value": (1,), "__tenon_notes__": [(0, ("NamedTuple", "os", "x", "import"))]}, "keyword"),
    ({"value": {b"a": 1}, "__tenon_notes__": [(1, ("bytearray",))]}, "unhashable"),
    ({"value": b"\xff", "__tenon_notes__": [(0, ("str",))]}, "decode"),
    ({"value": b"a", "__tenon_notes__": [(0, ("scalar",))]}, "argument"),
    ({"value": b"a", "__tenon_notes__": [(0, ("scalar", "<f4"))]}, "no type"),
    ({"value": b"12345678", "__tenon_notes__": [(0, ("scalar", "O"))]}, "no type"),
    ({"value": b"12345678", "__tenon_notes__": [(0, ("scalar", "what"))]}, "what"),
]


@pytest.mark.parametrize(
    ("forged", "why"), FORGED, ids=[str(number) for number in range(len(FORGED))]
)
def test_forged_notes(q: tenon.Queue, forged: Any, why: str) -> None:
    tensors, user_bytes = tenon.pickle.message_of(forged, None)
    q.send(tensors, None, user_bytes)
    with pytest.raises(tenon.Corrupt, match=why):
        q.get(timeout=60)
    assert through(q, 1) == 1


@pytest.mark.parametrize(
    "note",
    [
        ("NamedTuple", "os", "stat_result", "f"),  # a class that is no NamedTuple
        ("NamedTuple", "os", "system", "f"),
        ("NamedTuple", "no.module", "Point", "f"),
        ("NamedTuple", __name__, "Point", "f"),  # other fields
        ("NamedTuple", __name__, "Outer.Inner.value", "f"),
    ],
)
def test_a_note_that_names_no_such_class(q: tenon.Queue, note: Any) -> None:
    forged = {"value": (1,), "__tenon_notes__": [(0, note)]}
    tensors, user_bytes = tenon.pickle.message_of(forged, None)
    q.send(tensors, None, user_bytes)
    back = q.get(timeout=60)
    assert type(back).__module__ == "tenon._queue_values" and back.f == 1


def test_a_pickle_is_not_run(q: tenon.Queue) -> None:
    tensors, user_bytes = tenon.pickle.message_of([Path("x")], None)
    q.send(tensors, None, user_bytes)
    with pytest.raises(tenon.Unsupported, match="pathlib"):
        q.get(timeout=60)
    q.send([tenon.zeros(1)])
    with pytest.raises(tenon.Corrupt, match="no object"):
        q.get(timeout=60)


# ---- waits


def test_full_and_empty() -> None:
    with tenon.Queue(members=2, capacity=2) as q:
        assert q.empty() and not q.full() and q.qsize() == 0
        for function, how in ((q.get_nowait, ()), (q.get, (False,)), (q.get, (True, 0))):
            with pytest.raises(queue.Empty):
                function(*how)
        q.put(1)
        q.put_nowait(2)
        assert q.full() and q.qsize() == 2 and not q.empty()
        for args in ((3, False), (3, True, 0), (3, True, -1)):
            with pytest.raises(queue.Full):
                q.put(*args)
        with pytest.raises(queue.Full):
            q.put_nowait(3)
        start = time.monotonic()
        with pytest.raises(queue.Full):
            q.put(3, timeout=0.12)
        assert time.monotonic() - start >= 0.12
        assert [q.get(), q.get_nowait()] == [1, 2] and q.empty() and not q.full()
        start = time.monotonic()
        with pytest.raises(queue.Empty):
            q.get(timeout=0.12)
        assert time.monotonic() - start >= 0.12
        with pytest.raises(ValueError):
            q.get(timeout=math.nan)
        q.put(4, timeout=1e300)
        assert q.get(timeout=1e300) == 4
        assert q.stats() == tenon.QueueStats(waiting=0, sent=3, received=3, lost=0)
        q.put(5)
        assert q.discard() == 1 and q.empty() and q.discard() == 0


@pytest.mark.parametrize("pickled", [False, True])
def test_many_values_in_one_call(pickled: bool) -> None:
    with tenon.Queue(members=2, capacity=4, pickled=pickled) as q:
        with pytest.raises(queue.Empty):
            q.get_many(3, False)
        with pytest.raises(queue.Empty):
            q.get_many(3, timeout=0.12)
        assert q.put_many([]) == 0
        assert q.put_many(range(6), False) == 4
        for how in ({"block": False}, {"timeout": 0.12}):
            with pytest.raises(queue.Full):
                q.put_many([7], **how)
        assert q.get_many(3) == [0, 1, 2]
        assert q.put_many(({"n": n} for n in range(9)), timeout=0.12) == 3
        assert q.get_many(99) == [3, {"n": 0}, {"n": 1}, {"n": 2}]
        got: list[Any] = []

        def receive() -> None:
            while len(got) < 500:
                got.extend(q.get_many(7, timeout=60))

        reader = threading.Thread(target=receive)
        reader.start()
        assert q.put_many([(n, tenon.zeros(2)) for n in range(500)]) == 500
        reader.join(60)
        assert [n for n, _ in got] == list(range(500))
        with pytest.raises(ValueError):
            q.get_many(0)


def test_an_error_behind_a_value_comes_next(q: tenon.Queue) -> None:
    with pytest.raises(TypeError):
        q.put_many([1, object()])
    assert q.empty()
    q.put(1)
    q.send(tenon.zeros(2), user_bytes=b"no value")
    q.put(2)
    assert q.get_many(9) == [1, 2]
    with pytest.raises(tenon.Corrupt):
        q.get()
    q.send(tenon.zeros(2), user_bytes=b"no value")
    q.send(tenon.zeros(2), user_bytes=b"no value")
    for _ in range(2):
        with pytest.raises(tenon.Corrupt):
            q.get_many(9)
    with pytest.raises(queue.Empty):
        q.get(False)


def test_waits_end_when_there_is_something() -> None:
    with tenon.Queue(members=2, capacity=2) as q, tenon.Queue.join(q.storage) as other:
        got: list[Any] = []
        reader = threading.Thread(target=lambda: got.append(other.get()))
        reader.start()
        time.sleep(0.1)
        q.put("first")
        reader.join(60)
        assert got == ["first"]
        q.put(1)
        q.put(2)
        writer = threading.Thread(target=q.put, args=(3,))
        writer.start()
        time.sleep(0.1)
        assert [other.get(timeout=60) for _ in range(3)] == [1, 2, 3]
        writer.join(60)


def test_ctrl_c_ends_a_wait() -> None:
    with tenon.Queue(members=1, capacity=2) as q:
        waits: list[Callable[[], Any]] = [
            q.get,
            lambda: q.get(timeout=60),
            q.recv,
            lambda: [q.put(i) for i in range(3)],
        ]
        for wait in waits:
            timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                wait()
            timer.join()
        assert [q.get(timeout=0), q.get(timeout=0)] == [0, 1] and q.empty()


def test_cancel() -> None:
    with tenon.Queue() as q, tenon.Cancel() as cancel:
        timer = threading.Timer(0.1, cancel.trigger)
        timer.start()
        with pytest.raises(tenon.Cancelled):
            q.recv(cancel=cancel)
        timer.join()


@pytest.mark.parametrize("end", ["close", "leave"])
def test_closing_ends_waits(end: str) -> None:
    q = tenon.Queue()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            q.get()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    getattr(q, end)()
    thread.join(60)
    assert [type(error) for error in raised] == [tenon.InvalidArgument]
    with pytest.raises(ValueError, match="closed" if end == "close" else "left"):
        q.get()
    q.close()
    assert q.closed and repr(q) == "<tenon.Queue, closed>"
    with pytest.raises(ValueError, match="already closed"):
        _ = q.storage


# ---- messages


def test_send_and_recv(q: tenon.Queue) -> None:
    tensor = tenon.zeros(3)
    q.send({"x": tensor}, user_bytes=b"meta", timeout=60)
    message = q.recv(timeout=60)
    assert message["x"].storage == tensor.storage and message.user_bytes == b"meta"
    again = tenon.Message([tensor], ["y"])
    q.send(again)
    q.send(again)
    assert [q.recv().names, q.recv().names] == [["y"], ["y"]]
    with pytest.raises(TypeError):
        q.send(again, ["z"])
    with pytest.raises(tenon.WouldBlock):
        q.recv(timeout=0)
    with pytest.raises(tenon.Timeout):
        q.recv(timeout=0.05)
    with pytest.raises(ValueError):
        q.recv(timeout=-1)


def test_a_value_is_an_object_of_other_languages(q: tenon.Queue) -> None:
    q.put({"step": 1, "x": [tenon.zeros(2)]})
    left, right = tenon.pair()
    with left, right:
        left.send(q.recv(timeout=60))
        assert right.recv_object(timeout=60)["step"] == 1
        left.send_object({"a": (1, 2)})
        q.send(right.recv(timeout=60))
    assert q.get(timeout=60) == {"a": (1, 2)}


def test_redelivery() -> None:
    with tenon.Queue(members=2, capacity=2, redeliver=True) as q:
        other = tenon.Queue.join(q.storage)
        q.send([], user_bytes=b"once")
        taken = other.recv(timeout=5)
        other.leave()
        again = q.recv(timeout=5)
        assert (taken.redelivered, again.redelivered) == (0, 1) and again.user_bytes == b"once"
        again.close()
        for value in range(5):  # get acknowledges
            q.put(value)
            assert q.get() == value
        assert q.empty()
        other.close()


# ---- members


def test_members(q: tenon.Queue) -> None:
    with tenon.Queue.join(q.storage) as other:
        q.put(1)
        assert q.members() == [
            tenon.QueueMember(0, "here", os.getpid(), os.geteuid(), 1, False, True),
            tenon.QueueMember(1, "here", os.getpid(), os.geteuid(), 0, False, False),
        ]
        assert other.get(timeout=60) == 1 and other.storage == q.storage
    assert [each.state for each in q.members()] == ["here", "left"]
    assert repr(q) == "<tenon.Queue of 32 members, 128 messages each>"


@pytest.mark.parametrize(
    "options",
    [
        {"members": 0},
        {"members": 257},
        {"capacity": 0},
        {"capacity": 3},
        {"slot_nbytes": 0},
        {"slot_nbytes": 100},
        {"members": -1},
        {"members": 1 << 32},
    ],
    ids=str,
)
def test_bad_options(options: Any) -> None:
    with pytest.raises(ValueError):
        tenon.Queue(**options)


def test_join_refuses_other_storages(q: tenon.Queue) -> None:
    with pytest.raises(tenon.Corrupt):
        tenon.Queue.join(tenon.Storage.new(8192, zeroed=True))
    with pytest.raises(tenon.InvalidArgument):
        tenon.Queue.join(tenon.Storage.new(8192, private=True))
    with (
        tenon.Queue(members=1) as small,
        pytest.raises(tenon.ResourceExhausted, match="1 members"),
    ):
        tenon.Queue.join(small.storage)


def test_join_over_a_connection(q: tenon.Queue) -> None:
    left, right = tenon.pair()
    with left, right:
        left.send(tenon.Tensor.over(q.storage, (q.storage.nbytes,), "uint8"))
        storage = right.recv(timeout=60)[0].storage
    with tenon.Queue.join(storage) as other:
        other.put(1)
        assert q.get(timeout=60) == 1


# ---- other processes


def test_plain_pickle_is_refused(q: tenon.Queue) -> None:
    with pytest.raises(TypeError, match=r"Queue\.join"):
        pickle.dumps(q)


def test_pickled_in_one_process() -> None:
    with tenon.Queue(capacity=2, pickled=True) as q:
        tensor = tenon.zeros(3)
        path, back = through(q, (Path("a"), tensor))
        assert path == Path("a") and back.storage == tensor.storage
        q.put(1)
        q.put(2)
        with pytest.raises(queue.Full):
            q.put(3, False)
        assert [q.get(), q.get(timeout=1)] == [1, 2]
        with pytest.raises(queue.Empty):
            q.get_nowait()
        with tenon.Queue.join(q.storage) as other:
            other.put(np.zeros(1))
            with pytest.raises(tenon.Incompatible, match="same option"):
                q.get(timeout=60)


def test_by_name(folder: str) -> None:
    serve_once(folder)


def run(scenario: str, method: str) -> None:
    done = subprocess.run(
        [sys.executable, "-B", PROGRAM, scenario, method],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0 and done.stdout == "", done.stdout


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scenario", EVERY_METHOD)
def test_every_method(scenario: str, method: str) -> None:
    run(scenario, method)


@pytest.mark.parametrize("scenario", ONCE)
def test_once(scenario: str) -> None:
    run(scenario, "fork")
