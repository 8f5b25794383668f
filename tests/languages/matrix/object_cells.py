"""The cells of objects (README.md, "Objects")."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from typing import Any

import account
from cells import Pair, Tensor, compare, gives_back, pattern, same
from composite_cells import Composite, composites
from programs import NotApplicable, Program

# The list is empty in a run without objects.
ROWS = ["object"]
CONTAINERS = {tuple: "t", list: "l", set: "S", dict: "d"}
# The words of a node between its slashes. Only tensors have more than one.
FIELDS = ("value", "storage", "dtype", "sizes", "strides", "offset", "elements")
# The pickle of this object has more bytes than a message's user bytes can have.
LARGE = {"text": "".join(chr(97 + i % 26) for i in range(70_000))}
# The dict {"a": datetime.date(2026, 1, 31)}. Only Python can send it.
DATE = "d1;s61;D"


class Lent:
    """A tensor of an object, over a storage that other tensors can share."""

    def __init__(self, tensor: Tensor, storage: bytearray) -> None:
        self.tensor, self.storage = tensor, storage

    @property
    def values(self) -> bytes:
        return self.tensor.content(bytes(self.storage))

    def write(self, seed: int) -> None:
        """Note that a program wrote the elements."""
        written, size = self.tensor.written(seed), self.tensor.itemsize
        for index, place in enumerate(self.tensor.places):
            self.storage[place : place + size] = written[index * size :][:size]


Part = Lent | Composite
Keys = dict[Part, int]


def everything(whole: Part, column: Part, alone: Part, coo: Part) -> dict[Any, Any]:
    """Make an object that has every kind of value. Its sets have one item, because Python may order
    more in any way.
    """
    return {
        "whole": whole,
        "numbers": [
            None,
            True,
            False,
            0,
            -1,
            (1 << 63) - 1,
            -(1 << 63),
            0.1,
            -0.0,
            math.inf,
            -math.inf,
            math.nan,
            complex(-0.5, math.inf),
        ],
        "texts": ["", "ascii", "äöü € 漢字 🙂", "semi;colon / new\nline\0", b"", bytes(range(256))],
        "empty": ((), [], set(), {}),
        "nested": [(1, (2, [3, {"four": {5}}])), {(6, "seven")}],
        7: column,
        None: "none",
        False: 0.5,
        -2.5: b"float",
        b"bytes": [alone],
        (1, ("two", b"three")): {"coo": coo},
        "": "no characters",
    }


def real(number: float) -> str:
    return struct.pack(">d", number).hex()


def nodes_of(value: Any, say: Callable[[Part], str]) -> list[str]:
    """The nodes of a value and of everything inside it. say(part) gives the node of a tensor or
    composite.
    """
    if value is None or isinstance(value, bool):
        return [{None: "N", True: "T", False: "F"}[value]]
    if isinstance(value, int):
        return [f"i{value}"]
    if isinstance(value, float):
        return [f"f{real(value)}"]
    if isinstance(value, complex):
        return [f"c{real(value.real)},{real(value.imag)}"]
    if isinstance(value, str):
        return [f"s{value.encode().hex() or '-'}"]
    if isinstance(value, bytes):
        return [f"b{value.hex() or '-'}"]
    if isinstance(value, Part):
        return [say(value)]
    inside = itertools.chain(*value.items()) if isinstance(value, dict) else value
    return [
        f"{CONTAINERS[type(value)]}{len(value)}",
        *(node for each in inside for node in nodes_of(each, say)),
    ]


def told(value: Any, keys: Keys) -> str:
    """The word of an object for its sender, which holds its tensors and composites by keys."""
    return ";".join(
        nodes_of(value, lambda part: f"{'x' if isinstance(part, Lent) else 'k'}{keys[part]}")
    )


def same_object(receiver: Program, word: str, value: Any, keys: Keys) -> None:
    """Compare the receiver's word for an object with what was sent.

    The receiver gives the number of each storage. Two tensors must have the same number exactly if
    they share their storage, so numbers are replaced by their rank.
    """
    numbers: dict[str, int] = {}
    storages: dict[int, int] = {}

    def wanted_of(part: Part) -> str:
        if isinstance(part, Composite):
            return f"k{keys[part]}"
        rank = storages.setdefault(id(part.storage), len(storages))
        return "/".join([f"x{keys[part]}", str(rank), *part.tensor.words, part.values.hex()])

    said, wanted = word.split(";"), nodes_of(value, wanted_of)
    for index, (got, node) in enumerate(zip(said, wanted, strict=False)):
        words = got.split("/")
        if len(words) > 1:
            words[1] = str(numbers.setdefault(words[1], len(numbers)))
        for name, one, other in itertools.zip_longest(FIELDS, words, node.split("/"), fillvalue=""):
            same(f"{receiver.name}: {name} of node {index}", one, other)
    same(f"{receiver.name}: how many nodes the object has", len(said), len(wanted))


class Exchange:
    """The objects of one producer and one consumer. Both hold their parts until drop()."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.producer, self.consumer = pair.programs
        self.held: list[tuple[Program, Keys]] = []
        self.connection = pair.connect("tenon")
        shared, own = (bytearray(pattern(seed, nbytes)) for seed, nbytes in ((3, 48), (5, 40)))
        self.whole = Lent(Tensor("0:32:1", (3, 4), (4, 1), 0, 48), shared)
        self.column = Lent(Tensor("0:32:1", (3,), (4,), 1, 48), shared)
        self.alone = Lent(Tensor("2:64:1", (2, 2), (1, 2), 1, 40), own)
        self.coo = composites()["coo"]
        self.parts: list[Part] = [self.whole, self.column, self.alone, self.coo]
        self.value = everything(*self.parts)
        self.keys = self.new_keys(self.producer)
        for lent, seed in ((self.whole, 3), (self.alone, 5)):
            self.producer.ask(
                "tensor", self.keys[lent], len(lent.storage), seed, *lent.tensor.words
            )
        self.producer.ask(
            "view", self.keys[self.column], self.keys[self.whole], *self.column.tensor.words
        )
        self.producer.ask("compose", self.keys[self.coo], *self.coo.words())

    def new_keys(self, holder: Program) -> Keys:
        keys = {part: self.pair.key() for part in self.parts}
        self.held.append((holder, keys))
        return keys

    def travel(self, sender: Program, keys: Keys, receiver: Program) -> Keys:
        """Send the object, compare it, and return the receiver's keys of its parts."""
        sender.ask("send_object", self.connection, told(self.value, keys))
        received = self.new_keys(receiver)
        (word,) = receiver.ask("recv_object", self.connection, *received.values())
        same_object(receiver, word, self.value, received)
        self.coo.same(receiver, receiver.ask("composite", received[self.coo]))
        return received

    def write(
        self, writer: Program, key: int, part: Part, seed: int, reader: Program, keys: Keys
    ) -> None:
        """One program writes a part.

        The other one must see the change in all parts over its storage.
        """
        writer.ask("write", key, seed)
        part.write(seed)
        for each in self.parts:
            compare(
                reader, f"what {writer.name} wrote", reader.ask("read", keys[each])[0], each.values
            )

    def refuse(self) -> None:
        """Python names a class, which every receiver must refuse. The connection must still work
        afterwards.
        """
        if self.producer.language.name != "python":
            return
        self.producer.ask("send_object", self.connection, DATE)
        status = "PERMISSION" if self.consumer.language.name == "python" else "UNSUPPORTED"
        self.consumer.refuses(status, "recv_object", self.connection, naming="datetime.date")

    def send_large(self) -> None:
        self.producer.ask("send_object", self.connection, told(LARGE, {}))
        (word,) = self.consumer.ask("recv_object", self.connection)
        same_object(self.consumer, word, LARGE, {})

    def run(self) -> None:
        there = self.travel(self.producer, self.keys, self.consumer)
        for seed, part in enumerate(self.parts, 61):
            self.write(self.consumer, there[part], part, seed, self.producer, self.keys)
        self.refuse()
        self.send_large()
        back = self.travel(self.consumer, there, self.producer)
        self.write(self.producer, back[self.whole], self.whole, 97, self.consumer, there)

    def drop(self) -> None:
        for holder, keys in reversed(self.held):
            for key in keys.values():
                holder.ask("drop", key)
        for program in (self.consumer, self.producer):
            program.ask("close", self.connection)


def run(producer: Program, consumer: Program, names: account.Names) -> None:
    """Run one cell. Any failure is raised."""
    if producer.language.is_torch or consumer.language.is_torch:
        raise NotApplicable(
            "PyTorch has no Tenon connection; its objects are in the tests of tenon.torch"
        )

    def warm_up(pair: Pair) -> None:
        exchange = Exchange(pair)
        there = exchange.travel(producer, exchange.keys, consumer)
        exchange.travel(consumer, there, producer)
        exchange.drop()

    def act(pair: Pair) -> None:
        exchange = Exchange(pair)
        exchange.run()
        exchange.drop()

    gives_back(producer, consumer, names, warm_up, act)
