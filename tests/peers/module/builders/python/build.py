"""usage: build.py STEPS FOLDER. It executes the steps of tests/peers/module/builders/README.md with
Tenon's Python package.
"""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path
from typing import Any

import tenon

_ESCAPED = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_NAMES = ("layout", "quantizer", "device")
_PARTS = ("indices", "plain_indices", "values", "scales", "zero_points")
_FLAGS = {
    "requires_grad": "requires_grad",
    "conj": "is_conj",
    "neg": "is_neg",
    "coalesced": "coalesced",
}


def unescaped(word: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPED[found[1]], word)


def float_of(word: str) -> float:
    (number,) = struct.unpack(">d", bytes.fromhex(word))
    return float(number)


def numbers_of(word: str) -> list[int] | None:
    return None if word == "-" else [int(number) for number in word.split(",") if number]


class Builder:
    """Holds the objects that the steps made. Each step is the method of its name, which gets its
    words.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.step_model("")

    def step_model(self, name: str) -> None:
        self._storages: list[tenon.Storage] = []
        self._values: list[tenon.Value] = []
        self._modules: list[tenon.Module] = []

    def _value(self, word: str) -> tenon.Value:
        return self._values[int(word)]

    def _value_or_none(self, word: str) -> tenon.Value | None:
        return None if word == "-" else self._value(word)

    def _items(self, words: tuple[str, ...]) -> list[tenon.Value]:
        return [self._value(word) for word in words]

    def _module(self, word: str) -> tenon.Module:
        return self._modules[int(word)]

    def _keep(self, source: Any, type: str = "") -> None:
        self._values.append(tenon.Value(source, type or None))

    def step_storage(self, data: str) -> None:
        self._storages.append(tenon.Storage.new_from(bytes.fromhex(data)))

    def step_tensor(
        self, storage: str, dtype: str, sizes: str, strides: str, offset: str, grad: str
    ) -> None:
        shape, steps = numbers_of(sizes) or [], numbers_of(strides)
        name = tenon.ScalarType(dtype).dtype
        over = self._storages[int(storage)]
        self._keep(
            tenon.Tensor.over(
                over, shape, name, strides=steps, offset=int(offset), requires_grad=bool(int(grad))
            )
        )

    def step_spec(self, *words: str) -> None:
        fields: dict[str, Any] = {}
        for name, word in zip(words[::2], words[1::2], strict=True):
            if name == "sizes":
                fields["shape"] = numbers_of(word)
            elif name == "strides":
                fields["strides"] = numbers_of(word)
            elif name == "storage":
                fields["storage"] = self._storages[int(word)]
            elif name == "scale":
                fields["scale"] = float_of(word)
            elif name in _PARTS:
                fields[name] = self._value(word)
            elif name in _FLAGS:
                fields[_FLAGS[name]] = bool(int(word))
            elif name in _NAMES or name == "scalar_type":
                fields[name] = word
            else:
                fields[name] = int(word)
        # The scalar type of a sparse tensor is that of its values, and is not read.
        self._keep(tenon.TensorSpec(**({"scalar_type": "float32"} | fields)))

    def step_none(self) -> None:
        self._keep(None)

    def step_bool(self, number: str) -> None:
        self._keep(bool(int(number)))

    def step_int(self, number: str) -> None:
        self._keep(int(number))

    def step_float(self, bits: str) -> None:
        self._keep(float_of(bits))

    def step_complex(self, real: str, imaginary: str) -> None:
        self._keep(complex(float_of(real), float_of(imaginary)))

    def step_str(self, text: str) -> None:
        self._keep(text)

    def step_device(self, name: str) -> None:
        self._keep(tenon.Device(name))

    def step_tuple(self, class_name: str, *items: str) -> None:
        self._keep(
            tenon.NamedTuple(class_name, self._items(items))
            if class_name
            else tuple(self._items(items))
        )

    def step_list(self, type: str, *items: str) -> None:
        self._keep(self._items(items), type)

    def step_dict(self, type: str, *words: str) -> None:
        self._keep(dict(zip(self._items(words[::2]), self._items(words[1::2]), strict=True)), type)

    def step_enum(self, class_name: str, value: str) -> None:
        self._keep(tenon.Enum(class_name, self._value(value)))

    def step_object(self, class_name: str, *words: str) -> None:
        self._keep(tenon.Object(class_name, zip(words[::2], self._items(words[1::2]), strict=True)))

    def step_opaque(self, class_name: str, state: str) -> None:
        self._keep(tenon.Object.opaque(class_name, self._value(state)))

    def step_module(self, class_name: str) -> None:
        self._modules.append(tenon.Module(class_name))

    def step_parameter(self, module: str, name: str, tensor: str) -> None:
        self._module(module).add_parameter(name, self._value_or_none(tensor))

    def step_buffer(self, module: str, name: str, tensor: str) -> None:
        self._module(module).add_buffer(name, self._value_or_none(tensor))

    def step_attribute(self, module: str, name: str, type: str, value: str) -> None:
        self._module(module).add_attribute(name, type or None, self._value(value))

    def step_constant(self, module: str, name: str, type: str, value: str) -> None:
        self._module(module).add_constant(name, type or None, self._value(value))

    def step_submodule(self, module: str, name: str, child: str, interface: str) -> None:
        self._module(module).add_submodule(name, self._module(child), interface or None)

    def step_define(self, module: str, source: str) -> None:
        self._module(module).define(source)

    def step_types(self, module: str, qualifier: str, source: str) -> None:
        self._module(module).define_types(qualifier, source)

    def step_before(self, module: str, *methods: str) -> None:
        self._module(module).set_hooks(before=methods)

    def step_after(self, module: str, *methods: str) -> None:
        self._module(module).set_hooks(after=methods)

    def step_traced(self, module: str, method: str, *inputs: str) -> None:
        self._module(module).set_traced_inputs(method, self._items(inputs))

    def step_extra(self, module: str, name: str, data: str) -> None:
        self._module(module).extra_files[name] = bytes.fromhex(data)

    def step_set(self, module: str, path: str, value: str) -> None:
        self._module(module)[path] = self._value_or_none(value)

    def step_state(self, module: str, path: str, value: str) -> None:
        self._module(module).state[path] = self._value_or_none(value)

    def step_replace(self, module: str, path: str, child: str) -> None:
        self._module(module)[path] = self._module(child)

    def step_remove(self, module: str, path: str) -> None:
        del self._module(module)[path]

    def step_load(self, module: str, *words: str) -> None:
        self._module(module).load(dict(zip(words[::2], self._items(words[1::2]), strict=True)))

    def step_export(self, module: str, name: str) -> None:
        tenon.export_module(self._module(module), self._folder / name)


def main() -> int:
    steps, folder = sys.argv[1:]
    builder = Builder(Path(folder))
    for number, line in enumerate(Path(steps).read_text(encoding="utf-8").split("\n")[:-1], 1):
        step, *words = map(unescaped, line.split("\t"))
        try:
            getattr(builder, f"step_{step}")(*words)
        except Exception as error:
            print(f"line {number}, {step}: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
