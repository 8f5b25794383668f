#!/usr/bin/env python3
"""Prints every schema of this PyTorch for schema_test.py, in the form of tenon::script::show(). The
text is made from PyTorch's description of each argument.

First comes a line with the version. An operator's schemas stand in the order in which PyTorch tries
them. A PyTorch that no longer describes its schemas gets the line with the version alone.
"""

from typing import Any

import torch

NAMESPACES = {
    "_quantized",
    "aten",
    "mkldnn_prepacked",
    "prepacked",
    "prim",
    "quantization",
    "quantized",
    "sparse",
}


def default(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value + '"'
    if isinstance(value, float):
        return repr(value).removesuffix("0") if repr(value).endswith(".0") else repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(default(item) for item in value) + "]"
    return repr(value)


def show(schema: Any) -> str:
    words = []
    for argument in schema.arguments:
        if argument.kwarg_only and "*" not in words:
            words.append("*")
        text = str(argument.type)
        if argument.N:
            text += f":{argument.N}"
        text += " " + argument.name
        if argument.alias_info is not None and argument.alias_info.is_write:
            text += "!"
        if argument.has_default_value():
            text += "=" + default(argument.default_value)
        words.append(text)
    if "...)" in str(schema):
        words.append("...")
    returns = (
        "..."
        if str(schema).endswith("-> ...")
        else ", ".join(str(one.type) for one in schema.returns)
    )
    name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
    return f"{name}({', '.join(words)}) -> ({returns})"


def main() -> None:
    print(torch.__version__)
    if not hasattr(torch._C, "_jit_get_all_schemas"):
        return
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    for name in sorted(names):
        if name.split("::")[0] in NAMESPACES:
            for schema in torch._C._jit_get_schemas_for_operator(name):
                print(show(schema).replace("\n", "\\n"))


main()
