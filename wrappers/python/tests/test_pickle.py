"""tenon.pickle: object graphs and their storages, in one process and over a connection."""

from __future__ import annotations

import datetime
import gc
import os
import pickle
import random
import socket
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tenon
import tenon.pickle
from tenon._native import ffi, lib
from tenon.error import call

SEED = int(os.environ.get("TENON_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)


@pytest.fixture
def pair() -> Iterator[tuple[tenon.Connection, tenon.Connection]]:
    left, right = tenon.pair()
    with left, right:
        yield left, right


def graph() -> dict[str, Any]:
    """A graph with one value of each kind in the safe subset, and three tensors over one
    storage.
    """
    whole = tenon.from_numpy(np.arange(12, dtype="float32").reshape(3, 4))
    numbers = [0, -1, 255, 65536, 10**30, 1.5, 1 + 2j, True, None, range(3), slice(1, 2)]
    texts = ["", "äöü", "x" * 300, b"bytes", bytearray(b"array")]
    return {
        "whole": whole,
        "row": whole[1],
        "storage": whole.storage,
        "values": [numbers, texts, (1, (2,)), {3}, frozenset({4}), OrderedDict(a=1)],
    }


def test_storages_stand_once_and_are_not_copied() -> None:
    sent = graph()
    data, storages, dtypes = tenon.pickle.dumps(sent)
    assert storages == [sent["whole"].storage] and dtypes == ["float32"]
    got = tenon.pickle.loads(data, storages, dtypes)
    assert got["values"] == sent["values"]
    assert got["whole"].tolist() == sent["whole"].tolist() and got["row"].tolist() == [4, 5, 6, 7]
    got["row"].numpy()[0] = 40
    assert sent["whole"].numpy()[1, 0] == 40 and got["storage"] == sent["storage"]
    assert tenon.pickle.loads(data, storages, allow=[])["values"] == sent["values"]


def test_views_and_flags_arrive() -> None:
    weight = tenon.zeros((4, 6), requires_grad=True)
    sent = [
        tenon.Tensor.over(weight.storage, (2, 3), strides=(6, 2), offset=1, is_parameter=True),
        weight,
        tenon.zeros((0, 3)),
    ]
    first, second, empty = tenon.pickle.loads(*tenon.pickle.dumps(sent))
    assert (first.shape, first.strides, first.offset, first.is_parameter) == (
        (2, 3),
        (6, 2),
        1,
        True,
    )
    assert second.requires_grad and second.storage == first.storage and empty.shape == (0, 3)


class Claims:
    """An object whose pickle says that it is a composite, with any state."""

    def __init__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return tenon.pickle._composite, self.state


def test_composites(pair: tuple[tenon.Connection, tenon.Connection]) -> None:
    left, right = pair
    values = tenon.zeros(3, requires_grad=True)
    sparse = tenon.SparseTensor.csr(
        np.array([0, 2, 2, 3]), np.array([0, 3, 1]), values, (3, 4), requires_grad=True
    )
    left.send_object([sparse, values, tenon.MetaTensor.of((2, 3), "int8", offset=1)])
    got, same, meta = right.recv_object()  # the allow-list is empty
    assert (
        repr(got) == repr(sparse) and got.requires_grad and got.plain_indices.tolist() == [0, 3, 1]
    )
    assert got.values.storage == same.storage == values.storage
    assert (meta.shape, meta.dtype, meta.strides, meta.offset) == ((2, 3), "int8", (3, 1), 1)
    for state in (
        ("sparse_csr", {"values": 7}, (3, 4), None, 0, None, {}),
        ("sparse_csr", {"other": values}, (3, 4), None, 0, None, {}),
        ("no layout", {}, None, None, 0, None, {}),
        ("meta", {}, (3,), (1,), 0, "int8", {"struct_size": 1}),
        ("meta", {}, (3,), (1,), 0, "int8", {"axis": 1 << 70}),
    ):
        data, storages, _ = tenon.pickle.dumps(Claims(state))
        with pytest.raises(tenon.Corrupt):
            tenon.pickle.loads(data, storages, allow=[])


def test_cycles() -> None:
    sent: list[Any] = [tenon.zeros((2,))]
    sent.append({"again": sent})
    for allow in (None, ()):
        got = tenon.pickle.loads(*tenon.pickle.dumps(sent), allow=allow)
        assert got[1]["again"] is got and got[0].shape == (2,)


def test_another_thread_gets_the_same_storages() -> None:
    sent = graph()
    split = tenon.pickle.dumps(sent)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(tenon.pickle.loads(*split)))
    thread.start()
    thread.join()
    assert got[0]["whole"].storage == sent["whole"].storage


def test_plain_pickle_says_what_loads_it() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"tenon\.pickle\.loads"):
        pickle.loads(tenon.pickle.dumps(graph()).data)


def test_an_object_goes_to_another_process() -> None:
    left_socket, right_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sent = graph()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            end = tenon.Connection(right_socket, adopt=True)
            got = end.recv_object(timeout=60)
            got["whole"].numpy()[...] = 7
            end.send_object(["done", got["whole"], datetime.date(2026, 1, 2)])
            code = 0
        finally:
            os._exit(code)
    right_socket.close()
    with tenon.Connection(left_socket, adopt=True) as left:
        left.send_object(sent)
        text, back, day = left.recv_object(allow=[datetime.date], timeout=60)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert text == "done" and day == datetime.date(2026, 1, 2)
    assert back.storage.same_memory(sent["whole"].storage) and (sent["whole"].numpy() == 7).all()


def test_what_is_not_allowed_is_not_called(pair: tuple[tenon.Connection, tenon.Connection]) -> None:
    left, right = pair
    called = "/".join([os.environ.get("TMPDIR", "/tmp"), f"tenon-called-{os.getpid()}"])

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (called,)

    left.send_object([Evil()])
    with pytest.raises(
        tenon.PermissionDenied, match=r"\.mkdir, which is not on the allow-list"
    ) as caught:
        right.recv_object(timeout=60)
    assert caught.value.details["field"].endswith(".mkdir") and not os.path.exists(called)
    left.send_object({"date": datetime.date(2026, 1, 2)})
    with pytest.raises(tenon.PermissionDenied, match=r"datetime\.date"):
        right.recv_object(allow=["datetime.time"], timeout=60)
    left.send_object({"date": datetime.date(2026, 1, 2)})
    assert right.recv_object(allow=["datetime.date"], timeout=60) == {
        "date": datetime.date(2026, 1, 2)
    }
    left.send_object(Evil())
    right.recv_object(allow=None, timeout=60)
    os.rmdir(called)
    for wrong in ([3], ["date"]):
        with pytest.raises((TypeError, ValueError), match="allow-list"):
            tenon.pickle.loads(b"N.", [], allow=wrong)


def test_a_message_without_an_object(pair: tuple[tenon.Connection, tenon.Connection]) -> None:
    left, right = pair
    data, storages, _ = tenon.pickle.dumps(graph())
    whole = [tenon.Tensor.over(storage, (storage.nbytes,), "uint8") for storage in storages]
    head = b"tenonobj" + (1).to_bytes(4, "little")
    cases: tuple[tuple[list[tenon.Tensor], bytes, type[Exception], str], ...] = (
        (whole, b"", tenon.Corrupt, r"receive with recv\(\)"),
        (
            whole,
            b"tenonobj" + (3).to_bytes(4, "little") + bytes(4) + data,
            tenon.Incompatible,
            "version 3",
        ),
        (
            whole,
            head + (2).to_bytes(4, "little") + data,
            tenon.Corrupt,
            "has 2 storages, and the message 1 tensors",
        ),
        ([], head + bytes(4) + data, tenon.Corrupt, "names storage 0, and 0 came with it"),
        (
            [whole[0][:8]],
            head + (1).to_bytes(4, "little") + data,
            tenon.Corrupt,
            "no storage of Tenon's",
        ),
    )
    for tensors, user_bytes, kind, text in cases:
        left.send(tensors, user_bytes=user_bytes)
        with pytest.raises(kind, match=text):
            right.recv_object(timeout=60)
    left.send(whole, user_bytes=head + (1).to_bytes(4, "little") + data)
    assert right.recv_object(timeout=60)["row"].shape == (4,)


def test_a_pickle_larger_than_the_user_bytes_goes_as_a_tensor(
    pair: tuple[tenon.Connection, tenon.Connection],
) -> None:
    left, right = pair
    weight = tenon.zeros((4,), "float32")
    sent = {f"{number} {'x' * 100}": weight for number in range(1000)}
    left.send_object(sent)
    got = right.recv_object()
    assert list(got) == list(sent) and len({each.storage for each in got.values()}) == 1
    left.send_object(sent)
    with right.recv() as message:
        assert len(message) == 2 and len(message.user_bytes) == 16
        left.send(message.tensors[:1], user_bytes=message.user_bytes)
    with pytest.raises(tenon.Corrupt, match="the object has 1 storages, and the message 1 tensors"):
        right.recv_object()


# ---- objects that no Python makes or reads: the C library as the wrappers of other languages use
# it


def through_c(connection: tenon.Connection) -> None:
    """Receive a message, read its object in C, make the object anew and send it."""
    with connection.recv() as message:
        own = ffi.new("tenon_object **")
        call(lib.tenon_object_new_from_message, message._own(), own)
    try:
        count = lib.tenon_object_count(own[0])
        nodes = ffi.new("tenon_object_node[]", count)
        nodes[0].struct_size = ffi.sizeof("tenon_object_node")
        call(lib.tenon_object_get_nodes, own[0], 0, nodes, count)
        again = ffi.new("tenon_object **")
        call(lib.tenon_object_new, nodes, count, again)
        sent = ffi.new("tenon_message **")
        call(lib.tenon_message_new_from_object, again[0], ffi.NULL, sent)
        call(lib.tenon_send, connection._own(), sent[0], ffi.NULL)
        lib.tenon_message_release(sent[0])
        lib.tenon_object_release(again[0])
    finally:
        lib.tenon_object_release(own[0])


def test_the_c_library_reads_and_writes_objects(
    pair: tuple[tenon.Connection, tenon.Connection],
) -> None:
    left, right = pair
    whole = tenon.from_numpy(np.arange(12, dtype="float32").reshape(3, 4))
    numbers = [
        0,
        -1,
        255,
        256,
        65536,
        -(2**31) - 1,
        2**63 - 1,
        -(2**63),
        1.5,
        float("inf"),
        1 + 2j,
        True,
        False,
        None,
    ]
    texts = ["", "äöü", "x" * 300, "\0", b"", b"bytes", b"x" * 300]
    containers = [
        (),
        [],
        {},
        set(),
        (1,),
        (1, (2, [3])),
        {3, (4, "five")},
        {None: 1, 1.5: {"a": []}, (1, b"k"): ()},
    ]
    composites = [
        tenon.SparseTensor.csr([0, 1, 2], [1, 0], np.array([5, 6], "float32"), (2, 2)),
        tenon.JaggedTensor.of(np.arange(6.0), [0, 2, 6]),
        tenon.QuantizedTensor.per_tensor(np.arange(6, dtype="int8"), 0.5, 3),
        tenon.QuantizedTensor.per_channel(np.ones((2, 3), "int8"), [0.5, 0.25], [0, 1], 0),
        tenon.NestedTensor.of(np.arange(5.0), [[2], [3]], [[1], [1]], [0, 2]),
        tenon.MetaTensor.of((2, 3), "bfloat16", offset=4),
    ]
    sent = {
        "numbers": numbers,
        "texts": texts,
        "containers": containers,
        "whole": whole,
        "row": whole[1],
        "composites": composites,
    }
    left.send_object(sent)
    through_c(right)
    got = left.recv_object()
    assert {key: got[key] for key in ("numbers", "texts", "containers")} == {
        key: sent[key] for key in ("numbers", "texts", "containers")
    }
    assert [type(each) for each in got["numbers"]] == [type(each) for each in numbers]
    got["row"].numpy()[0] = 40
    assert (
        whole.numpy()[1, 0] == 40
        and got["whole"].storage == whole.storage
        and got["whole"].shape == (3, 4)
    )
    for before, after in zip(composites, got["composites"], strict=True):
        assert (type(before), before.layout, before.shape, before.dtype) == (
            type(after),
            after.layout,
            after.shape,
            after.dtype,
        )
        old, new = before._state(), after._state()
        assert old[2:] == new[2:] and {key: part.tolist() for key, part in old[1].items()} == {
            key: part.tolist() for key, part in new[1].items()
        }


def test_the_c_library_simplifies_what_other_languages_lack(
    pair: tuple[tenon.Connection, tenon.Connection],
) -> None:
    left, right = pair
    shared = ["one list"]
    ordered: Any = OrderedDict(a=1)
    ordered.note = "lost"
    left.send_object(
        {
            "array": bytearray(b"a"),
            "frozen": frozenset({4}),
            "ordered": ordered,
            "twice": [shared, shared],
        }
    )
    through_c(right)
    got = left.recv_object()
    assert got == {
        "array": b"a",
        "frozen": {4},
        "ordered": {"a": 1},
        "twice": [["one list"], ["one list"]],
    }
    assert (
        type(got["frozen"]) is set
        and type(got["ordered"]) is dict
        and got["twice"][0] is not got["twice"][1]
    )


def test_the_c_library_refuses_by_name(pair: tuple[tenon.Connection, tenon.Connection]) -> None:
    left, right = pair
    cycle: list[Any] = []
    cycle.append(cycle)
    doubled: list[Any] = []
    for _ in range(40):
        doubled = [doubled, doubled]
    deep: list[Any] = []
    for _ in range(201):
        deep = [deep]
    refused = [
        (datetime.date(2026, 1, 2), tenon.Unsupported, "datetime.date"),
        (os.getpid, tenon.Unsupported, "posix.getpid"),
        (2**64, tenon.Unsupported, "an integer of 9 bytes"),
        (cycle, tenon.Unsupported, "a list contains itself"),
        (doubled, tenon.ResourceExhausted, "uses values again and again"),
        (deep, tenon.ResourceExhausted, "nested deeper than 200"),
        ("\udc80", tenon.Unsupported, "a text is not UTF-8"),
        ({frozenset({1}): 2}, tenon.Unsupported, "a frozenset is a key"),
        ({tenon.zeros((2,)): 1}, tenon.Unsupported, "a tensor is a key"),
    ]
    for sent, kind, text in refused:
        left.send_object(sent)
        with pytest.raises(kind, match=text):
            through_c(right)


def test_hostile_pickles() -> None:
    cases = {
        b"\x80\x05Nr\xff\xff\xff\x7f.": "opcode LONG_BINPUT",
        b"\x80\x05)" + b"\x85" * 1000 + b".": "nested deeper than 200",
        b"\x80\x05cos\nsystem\n.": "opcode GLOBAL",
        b"\x80\x05\x97.": "opcode NEXT_BUFFER",
        b"\x80\x05h\x00.": "not there yet",
        b"\x80\x05)": "byte",
        b"": "byte 0",
    }
    for data, text in cases.items():
        with pytest.raises(tenon.Corrupt, match=text):
            tenon.pickle.loads(data, [], allow=[])


def test_damaged_pickles() -> None:
    """A load with an allow-list ends with an object or with one of Tenon's errors, whatever the
    bytes are.
    """
    data, storages, _ = tenon.pickle.dumps(graph())
    chance = random.Random(SEED)
    n_refused = 0
    for length in range(len(data)):
        with pytest.raises(tenon.Corrupt):
            tenon.pickle.loads(data[:length], storages, allow=[])
    for _ in range(4000):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged))
            if chance.random() < 0.5:
                damaged[at] = chance.randrange(256)
            else:
                damaged[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        try:
            tenon.pickle.loads(bytes(damaged), storages, allow=[])
        except tenon.TenonError:
            n_refused += 1
        except BaseException as error:
            raise AssertionError(f"TENON_TEST_SEED={SEED}: {bytes(damaged)!r}") from error
    assert n_refused > 1000


def test_value_that_crosses_its_frame() -> None:
    """CPython's unpickler raises MemoryError for such a bytearray, and destroys it while it is in
    use.
    """
    value = b"\x96" + (5).to_bytes(8, "little") + b"array"
    for inside in (10, 12):
        framed = b"\x80\x05\x95" + inside.to_bytes(8, "little") + value + b"."
        with pytest.raises(tenon.Corrupt, match="crosses the end of its frame"):
            tenon.pickle.loads(framed, [], allow=[])
    whole = b"\x80\x05\x95" + (15).to_bytes(8, "little") + value + b"."
    assert tenon.pickle.loads(whole, [], allow=[]) == b"array"
    with pytest.raises(tenon.Corrupt, match="a frame begins within another one"):
        tenon.pickle.loads(
            b"\x80\x05" + (b"\x95" + (20).to_bytes(8, "little")) * 2 + value + b".", [], allow=[]
        )


class Importer:
    """An importer that has one module, under a name that Python does not know."""

    def __init__(self, name: str) -> None:
        self.module = ModuleType(name)
        exec("class Thing:\n    pass\ndef twice(x):\n    return 2 * x", self.module.__dict__)
        self.module.Thing.__module__ = self.module.twice.__module__ = name

    def import_module(self, name: str) -> ModuleType:
        if name != self.module.__name__:
            raise ModuleNotFoundError(name)
        return self.module

    def get_name(self, thing: Any, name: str | None = None) -> tuple[str, str]:
        if thing.__module__ != self.module.__name__:
            raise LookupError(thing)
        return self.module.__name__, thing.__qualname__


def test_importers_find_classes_in_their_order() -> None:
    first, second = Importer("<package 0>.a"), Importer("<package 1>.b")
    thing = second.module.Thing()
    thing.tensor, thing.function, thing.day = (
        tenon.zeros((3,)),
        first.module.twice,
        datetime.date(2026, 1, 2),
    )
    split = tenon.pickle.dumps([thing, second.module.Thing], importer=[first, second])
    with pytest.raises(ModuleNotFoundError):
        tenon.pickle.loads(*split)
    got, kind = tenon.pickle.loads(*split, importer=[first, second])
    assert (
        type(got) is kind is second.module.Thing
        and got.function is first.module.twice
        and got.day == thing.day
    )
    assert got.tensor.storage == thing.tensor.storage
    with pytest.raises(tenon.PermissionDenied, match=r"<package 1>\.b\.Thing"):
        tenon.pickle.loads(*split, importer=[first, second], allow=[datetime.date])
    allow = [datetime.date, second.module.Thing, first.module.twice]
    assert tenon.pickle.loads(*split, importer=[first, second], allow=allow)[0].day == thing.day


class Hooked:
    made = 0

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __reduce_tenon__(self, importer: Any) -> tuple[Any, tuple[Any, ...]]:
        return Hooked._make, (self.tensor,)

    @staticmethod
    def _make(tensor: Any) -> Hooked:
        Hooked.made += 1
        return Hooked(tensor)


class Deployed:
    def __init__(self, value: object) -> None:
        self.value = value

    def __reduce_deploy__(self, importer: Any) -> tuple[Any, tuple[Any, ...]]:
        return Deployed._make, (self.value,)

    @staticmethod
    def _make(importer: Any, value: object) -> Deployed:
        return Deployed((importer, value))


def test_an_object_with_a_hook_is_made_once() -> None:
    tenon.pickle.clear()
    before, hooked = Hooked.made, Hooked(tenon.zeros((2,)))
    first, again = tenon.pickle.loads(*tenon.pickle.dumps([hooked, hooked]))
    assert first is again and first.tensor.storage == hooked.tensor.storage
    assert tenon.pickle.loads(*tenon.pickle.dumps(hooked)) is first and Hooked.made == before + 1
    # The pickler keeps each pickled object alive, so that no other object gets its address.
    kept = weakref.ref(hooked)
    del hooked
    gc.collect()
    assert kept() is not None
    tenon.pickle.clear()
    gc.collect()
    assert kept() is None
    importer = Importer("<package 2>")
    assert tenon.pickle.loads(
        *tenon.pickle.dumps(Deployed(5), importer=importer), importer=importer
    ).value == (importer, 5)
    for number in range(1100):
        tenon.pickle.dumps(Deployed(number))
    assert len(tenon.pickle._made._values) == 1024
    tenon.pickle.clear()


def test_a_sender_that_is_not_trusted_gets_no_kept_object() -> None:
    hooked = Hooked(tenon.zeros((2,)))
    split = tenon.pickle.dumps(hooked)
    own = tenon.pickle.loads(*split)
    allow = [f"{__name__}.Hooked", f"{__name__}.Hooked._make", "builtins.getattr"]
    assert tenon.pickle.loads(*split, allow=[Hooked, Hooked._make, *allow]) is not own
    tenon.pickle.clear()


def test_torch_is_not_imported() -> None:
    assert "torch" not in sys.modules
