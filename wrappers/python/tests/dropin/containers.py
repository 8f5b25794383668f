"""Checks of tenon.torch.SharedList, SharedDict, SharedTensor and to_shared_dataset: python
containers.py [NAME…].

Each check is a function whose name begins with check_. The program prints a line for each check,
and stops at the first one that fails.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import gc
import io
import mmap
import multiprocessing
import os
import pickle
import random
import re
import signal
import sys
import zlib
from multiprocessing.reduction import ForkingPickler

import numpy
import tenon
import torch
from tenon.torch import _packed, _packed_format
from tenon.torch.containers import (
    SharedDict,
    SharedList,
    SharedTensor,
    shared_attributes,
    to_shared_dataset,
)
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

METHODS = ("fork", "spawn", "forkserver")
MIB = 1 << 20
Point = collections.namedtuple("Point", "x y")


def raises(kind: type[BaseException], call: Callable[[], Any], text: str = "") -> None:
    try:
        result = call()
    except kind as error:
        assert text in str(error), f"{error} does not say {text!r}"
        return
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same types throughout."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, numpy.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    return bool(one == other)


def texts(count: int) -> Iterator[str]:
    return (f"/data/train/{number % 1000:03}/{number:08}.jpg" for number in range(count))


# ---- lists

COLUMNS: list[tuple[str, list[Any]]] = [
    ("any", []),
    ("str", ["a", "", "é", "\U0001f600", "half \udc80 of a pair", "x" * 100_000]),
    ("bytes", [b"a", b"", b"\0" * 300]),
    ("int", [0, -1, 2**63 - 1, -(2**63)]),
    ("float", [0.5, -0.0, float("inf")]),
    ("tuple", [(f"{n}.jpg", n) for n in range(50)]),
    ("tuple", [(b"y" * n, True, 0.5, n, None, [n]) for n in range(50)]),
    ("dict", [{"path": str(n), "label": n, "box": (1.0, 2.0, 3.0, 4.0)} for n in range(50)]),
    ("array", [numpy.arange(6, dtype="<f4").reshape(2, 3) + n for n in range(40)]),
    ("array", [numpy.array(n, dtype=">i2") for n in range(40)]),
    ("array", [numpy.zeros((2, 0)), numpy.zeros((2, 0))]),
    ("array", [torch.arange(6).reshape(2, 3) + n for n in range(40)]),
    ("array", [torch.tensor(1.5, dtype=torch.bfloat16)] * 2),
    ("array", [torch.tensor([1 + 2j]).conj()] * 2),
    ("array", [torch.zeros(3, 0)] * 3),
    ("any", [2**63, 1, -(2**70), 2**200]),
    ("any", [None, True, False, 1, 127, 128, -128, -129, 2**31, -(2**31) - 1, 1.0, "a", b"b"]),
    ("any", [(), [], {}, [[[]]], ((1,), [2, (3,)]), {"a": {1: [None]}, (2, "b"): b""}]),
    (
        "any",
        [
            [1, 2, 3, 127],
            [1, 2, 3, 128],
            [1, 2, 3, 2**15],
            (1, 2, 3, 2**31),
            [1, 2, 3, 2**63],
            [1, 2, 3, True],
            (0.5,) * 4,
        ],
    ),
    ("any", [("x",) * 300, ["y"] * 300, {str(n): n for n in range(300)}, "z" * 300]),
    (
        "any",
        [{1, 2}, 1j, bytearray(b"x"), Point(1, 2), collections.OrderedDict(a=1), range(3), str],
    ),
    (
        "any",
        [numpy.float32(1.5), numpy.datetime64("2026-01-01"), numpy.str_("abc"), numpy.bool_(True)],
    ),
    (
        "any",
        [
            numpy.array(["a", "bcd"]),
            numpy.array([None, "x"]),
            numpy.zeros(2, "i4,f8"),
            numpy.arange(9)[::-2],
            numpy.array([]),
        ],
    ),
    (
        "any",
        [
            {"image": numpy.ones((2, 2)), "more": [torch.ones(2), torch.zeros(2, 2).T]},
            torch.ones(0),
            torch.tensor(True),
        ],
    ),
]


def check_items_come_out_as_they_went_in() -> None:
    for kind, items in COLUMNS:
        shared = SharedList(items)
        assert shared._packed.kind[0] == kind, (shared._packed.kind, items)
        assert len(shared) == len(items)
        assert same(list(shared), items), (list(shared), items)
        assert same([shared[n] for n in range(len(items))], items)
        assert shared == items, items


def check_random_items() -> None:
    chance = random.Random(7)

    def make(depth: int) -> Any:
        pick = chance.randrange(11 if depth else 7)
        if pick == 0:
            return None
        if pick == 1:
            return chance.random() < 0.5
        if pick == 2:
            return chance.randint(-(1 << chance.randrange(1, 90)), 1 << chance.randrange(1, 90))
        if pick == 3:
            return chance.random()
        if pick == 4:
            return "".join(map(chr, chance.choices(range(1, 0x3000), k=chance.randrange(300))))
        if pick == 5:
            return chance.randbytes(chance.randrange(300))
        if pick == 6:
            return numpy.frombuffer(chance.randbytes(24), chance.choice(["u1", "<i4", ">u8"]))
        parts = [make(depth - 1) for _ in range(chance.randrange(6))]
        if pick == 7:
            return parts
        if pick == 8:
            return tuple(parts)
        return {chance.choice(["a", "b", 3, (1,), b"x", 2.5]): part for part in parts}

    for _ in range(60):
        items = [make(4) for _ in range(chance.randrange(60))]
        assert same(list(SharedList(items)), items), items


def check_a_late_misfit_changes_the_kind() -> None:
    cases: list[tuple[list[Any], list[Any], str]] = [
        ([1] * 50_000, [2**64], "any"),
        ([1] * 50_000, [True], "any"),
        ([1.0] * 100, [1], "any"),
        (["a"] * 50_000, [None, "b"], "any"),
        ([b"a"] * 100, ["b"], "any"),
        ([("a", 1)] * 20_000, [("b", None), (3, 4)], "tuple"),
        ([("a", 1)] * 100, [("b",)], "any"),
        ([{"a": 1, "b": 2}] * 100, [{"b": 2, "a": 1}], "any"),
        ([numpy.zeros(3)] * 100, [numpy.zeros(4)], "any"),
        ([numpy.zeros(3)] * 100, [torch.zeros(3)], "any"),
        ([torch.zeros(3)] * 100, [torch.zeros(3, dtype=torch.int32)], "any"),
    ]
    for first, then, kind in cases:
        items = [*first, *then, *first]
        shared = SharedList(iter(items))
        assert shared._packed.kind[0] == kind, shared._packed.kind
        assert same(list(shared), items)


def check_an_object_without_a_tag_is_pickled_alone() -> None:
    itself: list[Any] = [1]
    itself.append(itself)
    deep: Any = "bottom"
    for _ in range(150):
        deep = [deep]
    shared = SharedList([itself, deep, 3])
    out = shared[0]
    assert out[1] is out and out[0] == 1
    level, out = 0, shared[1]
    while isinstance(out, list):
        level, (out,) = level + 1, out
    assert (level, out) == (150, "bottom")
    raises((pickle.PicklingError, AttributeError), lambda: SharedList([lambda: None]))  # type: ignore[arg-type]
    raises(TypeError, lambda: SharedList([SharedList([1])]), "pickled form")


def check_indices_and_slices() -> None:
    items = list(range(0, 1000, 10))
    shared = SharedList(items)
    for index in (0, 99, -1, -100, numpy.int64(7), True):
        assert shared[index] == items[index]
    for index in (100, -101, 1 << 70, -(1 << 70)):
        raises(IndexError, lambda index=index: shared[index], "out of range")
    raises(TypeError, lambda: shared["a"], "not str")
    for cut in (
        slice(None),
        slice(5, 50),
        slice(None, None, -3),
        slice(90, 10, -7),
        slice(200, 300),
        slice(-5, None),
    ):
        part = shared[cut]
        assert type(part) is SharedList and part == items[cut] and len(part) == len(items[cut])
        assert part[1:] == items[cut][1:]
        assert list(reversed(part)) == items[cut][::-1]
    raises(IndexError, lambda: shared[5:50][45])
    assert shared.index(50) == 5 and shared.count(50) == 1 and 50 in shared and 51 not in shared


def check_equality_and_repr() -> None:
    shared = SharedList(["a", "b", "c", "d"])
    assert (
        shared == ["a", "b", "c", "d"]
        and shared == SharedList("abcd")
        and shared[:2] == SharedList("ab")
    )
    assert (
        shared != ["a", "b", "c"]
        and shared != ["a", "b", "c", "e"]
        and shared != ("a", "b", "c", "d")
        and shared != "abcd"
    )
    assert SharedList([numpy.ones(3)]) != [numpy.zeros(3)] and SharedList([numpy.ones(3)]) != [
        numpy.ones(4)
    ]
    raises(TypeError, lambda: hash(shared))
    assert "4 items" in repr(shared) and "'c'" in repr(shared) and "'d'" not in repr(shared)
    assert "'a': 1" in repr(SharedDict({"a": 1}))


def check_arrays_that_come_out_can_be_written() -> None:
    large = _packed.COW_NBYTES
    cases: list[list[Any]] = [
        [numpy.zeros(4)] * 3,
        [torch.zeros(4)] * 3,
        [{"a": numpy.zeros(4), "b": torch.zeros(4)}] * 3,
        [numpy.zeros(large + 1, "u1")] * 3,
        [torch.zeros(large // 4 + 1)] * 3,
        [
            "misalign",
            {"a": numpy.zeros(large, "u1"), "b": torch.zeros(large // 8, dtype=torch.int64)},
        ],
    ]
    for items in cases:
        shared = SharedList(items)
        out = shared[1]
        parts = list(out.values()) if isinstance(out, dict) else [out]
        for part in parts:
            part += 1
            assert part.sum() == len(part)
        assert same(shared[1], items[1])
        del shared
        assert all(part.sum() == len(part) for part in parts)
    out = SharedList([{"a": "x", "b": torch.ones(large // 4)}] * 2)[1]
    assert out["b"].data_ptr() % 64 == 0


def _copied_kib(address: int) -> int:
    """How many KiB of the mapping at this address are private to this process, because the process
    wrote to those pages.
    """
    with open("/proc/self/smaps") as lines:
        for line in lines:
            bounds = re.match("([0-9a-f]+)-([0-9a-f]+) ", line)
            if bounds and int(bounds[1], 16) <= address < int(bounds[2], 16):
                return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
    raise AssertionError(f"nothing is mapped at {address:#x}")


def check_large_arrays_are_copied_by_page() -> None:
    nbytes = 64 * MIB
    for item in (numpy.ones(nbytes, "u1"), torch.ones(nbytes, dtype=torch.uint8)):
        shared = SharedList([item, item])
        out = shared[1]
        address = out.ctypes.data if isinstance(out, numpy.ndarray) else out.data_ptr()
        assert int(out[::4096].sum()) == nbytes // 4096
        copied = _copied_kib(address)
        assert copied == 0, f"a read of a large array copies {copied} KiB of it"
        out[:] = 2
        copied = _copied_kib(address)
        assert copied >= nbytes >> 10, f"{copied} KiB are written to"
        assert shared[1][5] == 1
        del out


def _high_water_kib() -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _pack_many(results: Any) -> None:
    before = _high_water_kib()
    shared = SharedList(texts(4_000_000))
    results.put((_high_water_kib() - before, shared.nbytes >> 10, shared[3_999_999]))


def check_packing_holds_no_second_copy() -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_pack_many, args=(results,))
    process.start()
    grown, packed, last = results.get(timeout=100)
    process.join()
    assert packed > 100 << 10 and last == "/data/train/999/03999999.jpg"
    assert grown < 32 << 10, f"packing {packed} KiB took {grown} KiB of other memory"


def check_the_kernel_refuses_writes() -> None:
    shared = SharedDict({"a": "b"})
    for storage in (
        shared._values._packed.data,
        shared._values._packed.offsets,
        shared._table,
        SharedTensor(torch.ones(5))._memory.storage,
    ):
        assert storage.mode == "frozen" and storage.read_only and storage.is_sealed
        assert storage.data.readonly
        with storage.share_fd() as handle:
            fd = handle.fd
            raises(PermissionError, lambda fd=fd: mmap.mmap(fd, 1))
            raises(OSError, lambda fd=fd: os.pwrite(fd, b"x", 0))
            raises(OSError, lambda fd=fd: os.ftruncate(fd, 0))


def check_corrupt_bytes_are_a_value_error() -> None:
    chance = random.Random(11)
    loads = pickle.loads

    def no_pickle(raw: Any) -> Any:
        raise pickle.UnpicklingError("a check does not unpickle random bytes")

    _packed_format.pickle.loads = no_pickle  # type: ignore[attr-defined]
    try:
        read = refused = 0
        for _, items in COLUMNS:
            if not items:
                continue
            packed = SharedList(items)._packed
            data, ends = (
                packed.data.read(),
                b"" if packed.offsets is None else packed.offsets.read(),
            )
            for _ in range(60):
                bad_data, bad_ends = bytearray(data), bytearray(ends)
                target = bad_ends if ends and chance.random() < 0.3 else bad_data
                for _ in range(chance.randrange(1, 4)):
                    if target:
                        target[chance.randrange(min(len(target), 4096))] = chance.choice(
                            [0, 1, 255, 128, chance.randrange(256)]
                        )
                offsets = tenon.Storage.new_from(bad_ends, mode="frozen") if ends else None
                mutant = _packed.Packed(
                    packed.kind,
                    packed.count,
                    tenon.Storage.new_from(bad_data, mode="frozen"),
                    offsets,
                )
                for index in range(min(packed.count, 50)):
                    try:
                        mutant.get(index)
                        read += 1
                    except ValueError:
                        refused += 1
        assert read > 1000 and refused > 1000, (read, refused)
    finally:
        _packed_format.pickle.loads = loads  # type: ignore[attr-defined]
    packed = SharedList(["abc", "def"])._packed

    def over(count: int, data: bytes, ends: list[int]) -> Any:
        raw = numpy.array(ends, "u8").tobytes()
        return _packed.Packed(
            ("str",),
            count,
            tenon.Storage.new_from(data, mode="frozen"),
            tenon.Storage.new_from(raw, mode="frozen"),
        )

    assert over(2, b"abcdef", [0, 3, 6]).get(1) == "def"
    raises(ValueError, lambda: over(3, b"abcdef", [0, 3, 6]), "corrupt")
    raises(ValueError, lambda: over(2, b"abcdef", [0, 3, 7]).get(1), "corrupt")
    raises(ValueError, lambda: over(2, b"abcdef", [0, 5, 4]).get(1), "corrupt")
    raises(ValueError, lambda: over(1, b"\xff\xff", [0, 2]).get(0))
    raises(
        ValueError,
        lambda: _packed.Packed(("int",), 2, tenon.Storage.new_from(bytes(15), mode="frozen"), None),
        "corrupt",
    )
    raises(ValueError, lambda: SharedList._over(packed, range(1, 3)), "corrupt")
    empty = tenon.Storage.new_from(bytes(8 * 4), mode="frozen")
    full = tenon.Storage.new_from(b"\xff" * 8 * 4, mode="frozen")
    assert "abc" not in SharedDict._over(packed, packed, empty, 0)
    raises(ValueError, lambda: SharedDict._over(packed, packed, full, 0)["abc"], "corrupt")
    raises(ValueError, lambda: SharedDict._over(packed, packed, empty, 2), "corrupt")


# ---- dictionaries


def check_dict_lookups() -> None:
    plain: dict[Any, Any] = {f"key {number}": number for number in range(20_000)}
    plain.update({number: f"value {number}" for number in range(-300, 20_000, 7)})
    plain.update({(number, "a", 0.5, None): (number,) for number in range(2000)})
    plain.update({number.to_bytes(3, "big"): [number] for number in range(2000)})
    plain.update({"": 0, b"": 1, (): 2, ((1,), (b"x", -5)): 3, 2**100: 4})
    shared = SharedDict(plain)
    assert (
        len(shared) == len(plain)
        and list(shared) == list(plain)
        and list(shared.values()) == list(plain.values())
    )
    assert list(shared.items()) == list(plain.items()) and list(reversed(shared)) == list(
        reversed(plain)
    )
    for key, value in plain.items():
        assert shared[key] == value and key in shared
    for key in ("key -1", 2, (1,), b"nothing", None, 0.25, (1, "a", 0.5), object()):
        assert key not in shared and shared.get(key) is None
        raises(KeyError, lambda key=key: shared[key])
    raises(TypeError, lambda: shared[[1]], "unhashable")
    assert (
        shared == plain
        and plain == shared
        and shared == SharedDict(plain)
        and shared != {}
        and shared != {**plain, "": 9}
    )
    assert SharedDict({}) == {} and "a" not in SharedDict()


def check_equal_keys_find_each_other() -> None:
    shared = SharedDict(
        {
            1: "int",
            (2.0, True): "tuple",
            "a": "str",
            Point(8, 9): "point",
            numpy.int64(77): "numpy",
            (0.5, 3): "half",
        }
    )
    for key in (1, 1.0, True, numpy.int64(1), numpy.float32(1)):
        assert shared[key] == "int", key
    for key in ((2, 1), (2.0, 1.0), (numpy.int32(2), True)):
        assert shared[key] == "tuple", key
    assert shared[numpy.str_("a")] == "str" and shared[(8, 9)] == "point" and shared[77] == "numpy"
    assert shared[numpy.float64(0.5), 3.0] == shared[numpy.float32(0.5), 3] == "half"


def check_keys_that_a_dict_cannot_have() -> None:
    for key in (None, 0.5, frozenset(), object(), Point):
        raises(
            TypeError,
            lambda key=key: SharedDict({key: 1}),
            "a key of a SharedDict is a str, int, bytes or tuple",
        )
    raises(TypeError, lambda: SharedDict({(frozenset(),): 1}), "a tuple that is a key")


def check_chosen_collisions_change_the_hash() -> None:
    from tenon.torch import containers

    slots, found, number = 1024, [], 0
    while len(found) < 400:
        text = str(number)
        if ((zlib.crc32(text.encode()) * containers._SPREAD) >> 32) & (slots - 1) < 2:
            found.append(text)
        number += 1
    shared = SharedDict({text: text for text in found})
    assert shared._table.nbytes == 8 * slots and shared._hash_number == 1
    assert all(shared[text] == text for text in found) and "x" not in shared
    assert SharedDict({str(number): 0 for number in range(10_000)})._hash_number == 0


# ---- tensors


def check_tensors() -> None:
    sources: list[Any] = [
        torch.arange(24).reshape(2, 3, 4),
        torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1),
        torch.rand(5).to(torch.bfloat16),
        torch.zeros(0, 3),
        torch.tensor([1 + 2j, 3]).conj(),
        numpy.arange(24, dtype="<i2").reshape(4, 6).T,
        numpy.array(["a", "bcd"]),
        numpy.array(["2026-01-01"], "datetime64[D]"),
        numpy.zeros((3, 0)),
        numpy.array([(1, 2.5)] * 3, "i4,f8"),
    ]
    for source in sources:
        shared = SharedTensor(source)
        assert (
            shared.shape == source.shape
            and shared.dtype == source.dtype
            and len(shared) == len(source)
            and shared.ndim == source.ndim
        )
        assert shared == source and shared == SharedTensor(source)
        back = shared.tensor() if isinstance(source, torch.Tensor) else shared.numpy()
        assert same(back, source), (back, source)
        for row, expected in zip(shared, source, strict=True):
            assert numpy.all(numpy.asarray(row == expected))
        assert "SharedTensor" in repr(shared)
    raises(TypeError, lambda: SharedTensor([1]), "torch tensor or a numpy array")
    raises(TypeError, lambda: SharedTensor(numpy.array([None])), "SharedList")
    raises(tenon.Unsupported, lambda: SharedTensor(torch.eye(3).to_sparse()), "strided")
    raises(TypeError, lambda: len(SharedTensor(torch.tensor(1))), "no length")
    assert SharedTensor(torch.ones(3, requires_grad=True)).tensor().requires_grad is False


def check_what_a_tensor_gives_can_be_written() -> None:
    for source in (torch.zeros(3, 4), numpy.zeros((3, 4), "f4")):
        shared = SharedTensor(source)
        for index in (
            0,
            -1,
            slice(None),
            (slice(None), 1),
            [0, 2],
            (1, slice(1, 3)),
            source[:, 0] == 0,
        ):
            out = shared[index]
            assert type(out) is type(source)
            out += 1
            assert (
                out.sum() == out.size
                if isinstance(out, numpy.ndarray)
                else out.sum() == out.numel()
            )
            assert shared == source, index
        for out in (shared.tensor(), shared.numpy(), shared.tensor()):
            assert out.sum() == 0
            out += 1
        assert shared == source
        source += 1
        assert shared != source
        raises(IndexError, lambda shared=shared: shared[3])
    assert (
        SharedTensor(torch.zeros(3, 4)).size(1) == 4
        and SharedTensor(numpy.zeros((3, 4))).size == 12
    )
    assert numpy.asarray(SharedTensor(numpy.arange(3))).tolist() == [0, 1, 2]


# ---- datasets


@dataclasses.dataclass(frozen=True)
class Index:
    rows: list[int]
    note: str


class Images(Dataset):  # type: ignore[type-arg]
    def __init__(self, count: int) -> None:
        self.samples = [(path, number % 10) for number, path in enumerate(texts(count))]
        self.imgs = self.samples
        self.by_path = {path: number for number, path in enumerate(texts(count))}
        self.pixels = numpy.arange(count * 16, dtype="f4").reshape(count, 16)
        self.targets = torch.arange(count)
        self.small = [1, 2, 3]
        self.index = Index(list(range(count)), "note")
        self.splits = {"train": list(range(count)), "names": ["a"]}
        self.objects = numpy.array([None] * count)
        self.generator = random.Random(1)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        path, label = self.samples[index]
        assert self.by_path[path] == index == self.index.rows[index] == self.splits["train"][index]
        row = self.pixels[index]
        row += 1
        return row, label, self.targets[index]


def check_dataset_attributes_are_shared() -> None:
    plain = Images(5000)
    before = dict(vars(plain))
    shared = to_shared_dataset(plain, threshold_bytes=10_000)
    assert type(shared) is Images and shared is not plain
    assert all(vars(plain)[name] is value for name, value in before.items()), (
        "the original was changed"
    )
    assert type(plain.splits["train"]) is list and type(plain.index.rows) is list
    kinds = {path: type(part).__name__ for path, part in shared_attributes(shared).items()}
    assert kinds == {
        "samples": "SharedList",
        "imgs": "SharedList",
        "by_path": "SharedDict",
        "pixels": "SharedTensor",
        "targets": "SharedTensor",
        "index.rows": "SharedList",
        "splits['train']": "SharedList",
    }, kinds
    assert (
        shared.samples is shared.imgs
        and shared.generator is plain.generator
        and shared.small is plain.small
    )
    assert not shared_attributes(plain)
    rows = plain.pixels.copy()
    for index in (0, 4999, 17, 17):
        row, label, target = shared[index]
        assert (row == rows[index] + 1).all() and label == index % 10 and target == index
    assert len(shared) == 5000
    small = to_shared_dataset(plain, threshold_bytes=1 << 30)
    assert small is not plain and not shared_attributes(small)
    raises(ValueError, lambda: to_shared_dataset(plain, threshold_bytes=-1))


def check_nested_datasets() -> None:
    plain = TensorDataset(torch.arange(40_000).reshape(10_000, 4), torch.arange(10_000))
    shared = to_shared_dataset(plain, threshold_bytes=10_000)
    assert list(shared_attributes(shared)) == ["tensors[0]", "tensors[1]"] and len(shared) == 10_000
    assert shared[7][0].tolist() == [28, 29, 30, 31] and shared[7][1] == 7
    both = to_shared_dataset(
        ConcatDataset([Subset(plain, range(10)), Subset(plain, list(range(9000))), plain]),
        threshold_bytes=10_000,
    )
    paths = list(shared_attributes(both))
    assert "datasets[0].dataset.tensors[0]" in paths and "datasets[1].indices" in paths, paths
    assert both[12][1] == 2 and both[9010 + 5][1] == 5 and len(both) == 19_010
    assert type(plain.tensors[0]) is torch.Tensor


class Awkward(Dataset):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.calls = [lambda: None for _ in range(1000)]
        self.keys = {float(number) + 0.5: number for number in range(1000)}
        self.ordered = collections.OrderedDict((str(number), number) for number in range(1000))
        self.learned = torch.nn.Parameter(torch.zeros(1000))
        self.words = [["w" * 50] * 500 for _ in range(20)]
        self.itself = [self]


def check_what_cannot_be_shared_stays() -> None:
    plain = Awkward()
    shared = to_shared_dataset(plain, threshold_bytes=1000)
    for name in ("calls", "keys", "ordered", "learned"):
        assert getattr(shared, name) is getattr(plain, name), name
    assert type(shared.words) is list and all(type(part) is SharedList for part in shared.words)


# ---- processes


def _look(items: Any, mapping: Any, tensor: Any, go: Any, results: Any, deeper: bool) -> None:
    try:
        assert go.wait(60)
        count = len(items)
        assert (
            items[0] == "/data/train/000/00000000.jpg"
            and items[-1] == f"/data/train/{(count - 1) % 1000:03}/{count - 1:08}.jpg"
        )
        assert all(mapping[path] == number for number, path in enumerate(items[:500]))
        assert tensor[5].tolist() == 5 and int(tensor.tensor().sum()) == 4950
        storage = items._packed.data
        assert storage.mode == "frozen" and storage.data.readonly
        out = tensor.tensor()
        out += 1
        if deeper:
            context = multiprocessing.get_context("spawn")
            process = context.Process(
                target=_look, args=(items, mapping, tensor, go, results, False)
            )
            process.start()
            process.join()
        results.put("good")
    except BaseException as error:
        results.put(repr(error))
        raise


def _start_and_forget(context: Any, go: Any, results: Any, workers: int) -> list[Any]:
    items = SharedList(texts(200_000))
    mapping = SharedDict({path: number for number, path in enumerate(texts(1000))})
    tensor = SharedTensor(torch.arange(100))
    processes = [
        context.Process(
            target=_look,
            args=(
                items,
                mapping,
                tensor,
                go,
                results,
                number == 0 and context.get_start_method() != "fork",
            ),
        )
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        # A Process keeps its arguments, under fork and under spawn. The references of this process
        # end here.
        process._args = ()
    return processes


def check_travel_to_processes() -> None:
    for method in METHODS:
        context = multiprocessing.get_context(method)
        go, results = context.Event(), context.Queue()
        processes = _start_and_forget(context, go, results, 4)
        gc.collect()
        go.set()
        for _ in range(5 if method != "fork" else 4):
            answer = results.get(timeout=60)
            assert answer == "good", (method, answer)
        for process in processes:
            process.join()
            assert process.exitcode == 0


def _relay(arrivals: Any, results: Any) -> None:
    items, part = arrivals.get(timeout=60)
    assert part == ["b", "c"] and items[:1] == ["a"]
    results.put((part, items))


def check_travel_through_queues() -> None:
    context = multiprocessing.get_context("spawn")
    arrivals, results = context.Queue(), context.Queue()
    process = context.Process(target=_relay, args=(arrivals, results))
    process.start()
    items = SharedList(["a", "b", "c"])
    arrivals.put((items, items[1:]))
    part, back = results.get(timeout=60)
    process.join()
    assert back == items and part == ["b", "c"]
    assert part._packed is back._packed, "a slice and its list travelled as two"


def check_pickles_are_small_and_plain_ones_refused() -> None:
    for thing in (
        SharedList(texts(10_000)),
        SharedDict({"a": 1}),
        SharedTensor(torch.zeros(10_000)),
        SharedList([])[:0],
    ):
        if len(thing):
            raises(TypeError, lambda thing=thing: pickle.dumps(thing), "multiprocessing Queue")
        target = io.BytesIO()
        ForkingPickler(target).dump(thing)
        assert target.tell() < 2000, target.tell()
        assert copy.copy(thing) is thing and copy.deepcopy(thing) is thing


def check_data_loader() -> None:
    plain = Images(3000)
    del plain.generator
    expected = [plain.pixels[index].copy() + 1 for index in range(3000)]
    shared = to_shared_dataset(plain, threshold_bytes=10_000)
    del plain
    for method in METHODS:
        loader: Any = DataLoader(
            shared, batch_size=500, num_workers=2, multiprocessing_context=method
        )
        for _ in range(2):
            at = 0
            for rows, labels, targets in loader:
                assert (rows.numpy() == numpy.stack(expected[at : at + len(rows)])).all(), (
                    method,
                    at,
                )
                assert labels[3] == (at + 3) % 10 and targets[3] == at + 3
                at += len(rows)
            assert at == 3000


def _private_kib() -> int:
    with open("/proc/self/smaps_rollup") as lines:
        return sum(
            int(line.split()[1])
            for line in lines
            if line.startswith(("Private_Clean", "Private_Dirty"))
        )


def _read_all(items: Any, results: Any) -> None:
    before = _private_kib()
    assert sum(map(len, items)) == 28 * len(items)
    results.put(_private_kib() - before)


def check_readers_have_no_memory_of_their_own() -> None:
    items = SharedList(texts(1_000_000))
    assert sum(map(len, items)) == 28_000_000
    for method in METHODS:
        context = multiprocessing.get_context(method)
        results = context.Queue()
        process = context.Process(target=_read_all, args=(items, results))
        process.start()
        grown = results.get(timeout=60)
        process.join()
        assert grown < 3 << 10, f"{method}: a reader of {items.nbytes >> 10} KiB took {grown} KiB"


def main() -> None:
    checks = {
        name.removeprefix("check_"): check
        for name, check in globals().items()
        if name.startswith("check_")
    }
    for name in sys.argv[1:] or checks:
        signal.alarm(120)
        checks[name]()
        print(f"{name.replace('_', ' ')}: good", flush=True)


if __name__ == "__main__":
    main()
