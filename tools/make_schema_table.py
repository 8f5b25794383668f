#!/usr/bin/env python3
"""Makes impl/script/schema_table_data.cc: which operators each PyTorch has, and which arguments they take.

Run by hand when a new PyTorch is out. First, with the Python of each PyTorch:

    python3 tools/make_schema_table.py dump dumps/2.15.json

then, with any Python, over all dumps (a file's name says which PyTorch wrote it):

    python3 tools/make_schema_table.py merge dumps/*.json -o impl/script/schema_table_data.cc

The text that is deflated there:

    #versions 1.4 1.7 ...             oldest first; below, columns of these are letters, 'a' for the first
    aten::add                         an operator; its overloads follow
     Tensor a g self,other,*,alpha=   name ('' is written '-'), first and last PyTorch that has it, arguments
    .quantized.X                      a custom class below __torch__.torch.classes; its methods follow, in the same form

Of an argument: `name=` has a default, `name[` may take all that is left of the positional arguments as one list, `*` stands before those
that are given by keyword only, `...` at the end takes any number. Types are not there. An overload whose arguments changed has a line for
each form.
"""

import argparse
import importlib
import json
import re
import sys
import zlib
from pathlib import Path

# Those of other namespaces come from libraries that PyTorch does not have by itself, or only some builds of it have them.
NAMESPACES = {"_quantized", "aten", "mkldnn_prepacked", "prepacked", "prim", "quantization", "quantized", "sparse"}
CLASSES = "__torch__.torch.classes."


def split_arguments(text: str) -> tuple[str, ...]:
    """The arguments of a schema's text, `ns::name.overload(Type name=default, *, ...) -> ...`, as they stand there."""
    words: list[str] = []
    word, depth, quote, escaped = "", 0, "", False
    for char in text[text.index("(") + 1 :]:
        if escaped:
            escaped = False
        elif quote:
            escaped = char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]" and depth > 0:
            depth -= 1
        elif char == ")" or (char == "," and depth == 0):
            words.append(word.strip())
            word = ""
            if char == ")":
                break
            continue
        word += char
    return tuple(word for word in words if word)


def argument_text(word: str) -> str:
    if word in ("*", "..."):
        return word
    match = re.fullmatch(r"(?P<type>.*?) (?P<name>\w+)(?P<default>=.*)?", word, re.DOTALL)
    if match is None:
        raise ValueError(f"an argument that this tool cannot read: {word}")
    # A list of a type variable (t[]) or of so many items (int[2]) never takes the rest.
    kind = re.sub(r"\([a-z*][^(),]*\)", "", match["type"])  # without what it may alias
    takes_rest = kind.endswith("[]") and re.fullmatch(r"t\w*\[\]", kind) is None
    return match["name"] + ("[" if takes_rest else "") + ("=" if match["default"] is not None else "")


def arguments_text(schema: object) -> str:
    return ",".join(argument_text(word) for word in split_arguments(str(schema)))


def dump(path: Path) -> None:
    torch = importlib.import_module("torch")  # of the Python that is dumped

    schemas = set()
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.split("::")[0] in NAMESPACES:
            schemas.add((schema.name, schema.overload_name, arguments_text(schema)))
    for schema in getattr(torch._C, "_jit_get_custom_class_schemas", list)():
        owner = str(schema.arguments[0].type) if schema.arguments else ""
        if owner.startswith(CLASSES):
            rest = arguments_text(schema).split(",")[1:]
            schemas.add(("." + owner[len(CLASSES) :], schema.name, ",".join(rest)))
    path.write_text(json.dumps({"torch": torch.__version__, "schemas": sorted(schemas)}, indent=0))
    print(f"{path}: {len(schemas)} overloads of PyTorch {torch.__version__}")


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def merge(paths: list[Path]) -> bytes:
    dumps = sorted((path for path in paths), key=lambda path: version_key(path.stem))
    columns: dict[tuple[str, str, str], list[int]] = {}
    for number, path in enumerate(dumps):
        for name, overload, arguments in json.loads(path.read_text())["schemas"]:
            seen = columns.setdefault((name, overload or "-", arguments), [number, number])
            seen[1] = number
    lines = ["#versions " + " ".join(path.stem for path in dumps)]
    before = ""
    for (name, overload, arguments), (first, last) in sorted(columns.items()):
        if name != before:
            lines.append(name)
            before = name
        lines.append(f" {overload} {chr(97 + first)} {chr(97 + last)} {arguments}")
    return ("\n".join(lines) + "\n").encode()


def deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return compressor.compress(data) + compressor.flush()


def literal(data: bytes, width: int = 136) -> list[str]:
    """The bytes as the lines of a C string literal: printable ones stand as they are, others in octal, as short as what follows allows."""
    lines = []
    line = ""
    for i, byte in enumerate(data):
        char = chr(byte)
        if char in '"\\':
            word = "\\" + char
        elif char == "?":
            word = "\\?"  # no trigraphs
        elif 32 <= byte < 127:
            word = char
        else:
            after = data[i + 1] if i + 1 < len(data) else 0
            word = f"\\{byte:03o}" if chr(after) in "01234567" else f"\\{byte:o}"
        if len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line += word
    return [*lines, line]


def source(text: bytes, command: str) -> str:
    packed = deflate(text)
    body = "\n".join(f'    "{line}"' for line in literal(packed))
    return f"""// Generated by {command}
// Do not edit. What is in it: tools/make_schema_table.py.
// clang-format off
#include "script/schema_table_data.h"

namespace tenon::script {{

const size_t kSchemaTableNbytes = {len(text)};
const size_t kSchemaTableDeflatedNbytes = {len(packed)};
const char kSchemaTableDeflated[] =
{body};

}}  // namespace tenon::script
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("dump", help="what the PyTorch of this Python has")
    one.add_argument("path", type=Path)
    all_of = commands.add_parser("merge", help="the generated source file, of several dumps")
    all_of.add_argument("dumps", type=Path, nargs="+")
    all_of.add_argument("-o", "--output", type=Path, required=True)
    all_of.add_argument("--text", type=Path, help="where the text goes before it is deflated, to be looked at")
    arguments = parser.parse_args()
    if arguments.command == "dump":
        dump(arguments.path)
        return 0
    text = merge(arguments.dumps)
    if arguments.text:
        arguments.text.write_bytes(text)
    names = " ".join(sorted((path.name for path in arguments.dumps), key=lambda name: version_key(name[:-5])))
    arguments.output.write_text(source(text, f"tools/make_schema_table.py merge {names} -o impl/script/schema_table_data.cc"))
    print(f"{arguments.output}: {text.count(b'' + chr(10).encode())} lines, {len(text)} bytes, {len(deflate(text))} deflated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
