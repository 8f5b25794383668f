"""A module as steps, one a line, which a program in each language executes. builders/README.md has
the grammar of the steps.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# The code by which struct packs one number. A complex number is packed as two.
_CODES = {
    "uint8": "B",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "bool": "?",
}
_CODES |= {
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "complex32": "e",
    "complex64": "f",
    "complex128": "d",
}

# The key and the value of an entry of a dict.
Entry = tuple[int, int]


def packed(dtype: str, numbers: Sequence[Any]) -> bytes:
    if dtype == "bfloat16":
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    if dtype.startswith("complex"):
        numbers = [
            part for number in numbers for part in (complex(number).real, complex(number).imag)
        ]
    return struct.pack(f"<{len(numbers)}{_CODES[dtype]}", *numbers)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\0", "\\0")


def _bits(number: float) -> str:
    return struct.pack(">d", number).hex()


class Steps:
    """A method that makes an object returns its number, by which later steps refer to it."""

    def __init__(self, name: str) -> None:
        self.lines: list[str] = []
        self._made = {"storage": 0, "value": 0, "module": 0}
        self._add("model", name)

    def _add(self, *words: Any) -> None:
        self.lines.append("\t".join(_escaped(str(word)) for word in words))

    def _make(self, kind: str, *words: Any) -> int:
        self._add(*words)
        self._made[kind] += 1
        return self._made[kind] - 1

    def _value(self, *words: Any) -> int:
        return self._make("value", *words)

    def storage(self, data: bytes) -> int:
        return self._make("storage", "storage", data.hex())

    def tensor(
        self,
        storage: int,
        dtype: str,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        offset: int = 0,
        grad: bool = False,
    ) -> int:
        """A tensor with a type of DLPack."""
        steps = "-" if strides is None else ",".join(map(str, strides))
        return self._value(
            "tensor", storage, dtype, ",".join(map(str, sizes)), steps, offset, int(grad)
        )

    def spec(self, **fields: Any) -> int:
        """Any tensor. The names are the fields of C's tenon_value_tensor_spec. requires_grad, conj,
        neg and coalesced are 0 or 1.
        """
        words: list[Any] = []
        for name, field in fields.items():
            if isinstance(field, float):
                field = _bits(field)
            words += [name, ",".join(map(str, field)) if isinstance(field, list | tuple) else field]
        return self._value("spec", *words)

    def of(self, value: Any) -> int:
        """None, a bool, a number or a text."""
        if value is None:
            return self._value("none")
        if isinstance(value, bool):
            return self._value("bool", int(value))
        if isinstance(value, int):
            return self._value("int", value)
        if isinstance(value, float):
            return self._value("float", _bits(value))
        if isinstance(value, complex):
            return self._value("complex", _bits(value.real), _bits(value.imag))
        assert isinstance(value, str)
        return self._value("str", value)

    def device(self, name: str) -> int:
        return self._value("device", name)

    def tuple(self, *items: int, name: str = "") -> int:
        """A tuple, or a NamedTuple if it has a name."""
        return self._value("tuple", name, *items)

    def list(self, type: str, *items: int) -> int:
        """A list. Without a type, it and a dict get the type that is declared where they are
        put.
        """
        return self._value("list", type, *items)

    def dict(self, type: str, *entries: Entry) -> int:
        return self._value("dict", type, *(word for entry in entries for word in entry))

    def enum(self, name: str, value: int) -> int:
        return self._value("enum", name, value)

    def object(self, name: str, **attributes: int) -> int:
        return self._value(
            "object", name, *(word for attribute in attributes.items() for word in attribute)
        )

    def opaque(self, name: str, state: int) -> int:
        return self._value("opaque", name, state)

    def module(self, name: str) -> int:
        return self._make("module", "module", name)

    def parameter(self, module: int, name: str, tensor: int | None) -> None:
        self._add("parameter", module, name, "-" if tensor is None else tensor)

    def buffer(self, module: int, name: str, tensor: int | None) -> None:
        self._add("buffer", module, name, "-" if tensor is None else tensor)

    def attribute(self, module: int, name: str, type: str, value: int) -> None:
        self._add("attribute", module, name, type, value)

    def constant(self, module: int, name: str, type: str, value: int) -> None:
        self._add("constant", module, name, type, value)

    def submodule(self, module: int, name: str, child: int, interface: str = "") -> None:
        self._add("submodule", module, name, child, interface)

    def define(self, module: int, source: str) -> None:
        self._add("define", module, source.lstrip("\n"))

    def types(self, module: int, qualifier: str, source: str) -> None:
        self._add("types", module, qualifier, source.lstrip("\n"))

    def before(self, module: int, *methods: str) -> None:
        self._add("before", module, *methods)

    def after(self, module: int, *methods: str) -> None:
        self._add("after", module, *methods)

    def traced(self, module: int, method: str, *inputs: int) -> None:
        self._add("traced", module, method, *inputs)

    def extra(self, module: int, name: str, data: bytes) -> None:
        self._add("extra", module, name, data.hex())

    def set(self, module: int, path: str, value: int | None) -> None:
        self._add("set", module, path, "-" if value is None else value)

    def state(self, module: int, path: str, value: int | None) -> None:
        self._add("state", module, path, "-" if value is None else value)

    def load(self, module: int, tensors: Mapping[str, int]) -> None:
        self._add("load", module, *(word for entry in tensors.items() for word in entry))

    def replace(self, module: int, path: str, child: int) -> None:
        self._add("replace", module, path, child)

    def remove(self, module: int, path: str) -> None:
        self._add("remove", module, path)

    def export(self, module: int, file: str) -> None:
        self._add("export", module, file)

    def floats(self, numbers: Sequence[float], sizes: Sequence[int], grad: bool = False) -> int:
        """A contiguous tensor of float32 with a storage of its own."""
        return self.tensor(self.storage(packed("float32", numbers)), "float32", sizes, grad=grad)

    def ramp(self, *sizes: int, first: float = 0.0, grad: bool = True) -> int:
        """Different floats: element i is (i % 17 - 8) / 16, plus `first`."""
        numel = 1
        for size in sizes:
            numel *= size
        return self.floats([first + (i % 17 - 8) / 16 for i in range(numel)], sizes, grad)


MODELS: dict[str, Callable[[Steps], int]] = {}


def model(build: Callable[[Steps], int]) -> Callable[[Steps], int]:
    """Registers a function that builds a module and returns the root. Its name is the model's."""
    MODELS[build.__name__] = build
    return build


def steps_of(name: str) -> list[str]:
    """Returns the lines of one model. The last line exports it to <name>.pt."""
    steps = Steps(name)
    steps.export(MODELS[name](steps), f"{name}.pt")
    return steps.lines
