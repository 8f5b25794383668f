#!/usr/bin/env python3
"""Makes impl/modules/script/schema_table_data.cc: the operators of each PyTorch with their
arguments' types and defaults.

Run this by hand when a new PyTorch is out. First, with the Python of each PyTorch that can be had:

    python3 tools/make_schema_table.py dump dumps/2.15.json

then, with any Python, over the present table and the dumps (a file's name says which PyTorch wrote
it):

    python3 tools/make_schema_table.py merge --table impl/modules/script/schema_table_data.cc \\
        dumps/*.json -o impl/modules/script/schema_table_data.cc

A version without a dump keeps what the present table says of it. A version with a dump keeps the
custom classes that another build of it had. The versions 1.13 and the newest are the two ends:
their operators have types. So have those of 1.8, 1.9 and 1.10, for whose lite interpreters bytecode
is lowered; where a call of an operator is the same in a later version, the later version's types
stand for both. Operators of other versions serve the check of versions alone, and have no types.

The text that is deflated there:

    #versions 1.4 1.7 ...             oldest first; below, columns of these are letters, 'a' for the
                                      first
    aten::add 1,0,2                   an operator; its overloads follow, in the order in which the
                                      newest PyTorch tries them. The numbers, if there are any, are
                                      the lines that 1.13 has, in the order in which 1.13 tries
                                      them.
     Tensor d g Tensor self,Tensor other,*,Scalar alpha=1>Tensor
                                      name ('' is written '-'), first and last PyTorch that has it,
                                      arguments, '>', what it returns
     Scalar a c self,other,*,alpha=   an overload without types has no '>'
    .quantized.X                      a custom class below __torch__.torch.classes; its methods
                                      follow, without types

An argument without a type is written `name=` if it has a default, and `name[` if it may take all
positional arguments that are left as one list. In both forms `*` stands before the arguments that
are given by keyword only, and `...` takes any number. A type is written as PyTorch writes it, with
its aliases but without spaces, and SymInt is int. An overload whose text changed has a line for
each form that some version with types has.
"""

import argparse
import importlib
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any

# Operators of other namespaces come from libraries that PyTorch does not include, or that only some
# builds of PyTorch include.
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
CLASSES = "__torch__.torch.classes."
OLDEST_TYPED = "1.13"
LOWERED = (
    "1.8",
    "1.9",
    "1.10",
)  # versions whose schemas have types too, for calls that differ from those of the two ends

Line = tuple[str, str, str]  # name, overload, text


def scan_arguments(text: str) -> tuple[tuple[str, ...], str]:
    """The arguments in a schema's text, `ns::name.overload(Type name=default, *, ...) -> ...`, and
    the text behind them.
    """
    words: list[str] = []
    word, depth, quote, escaped = "", 0, "", False
    end = text.index("(")
    for char in text[end + 1 :]:
        end += 1
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
    return tuple(word for word in words if word), text[end + 1 :]


def split_arguments(text: str) -> tuple[str, ...]:
    return scan_arguments(text)[0]


def split_argument(word: str) -> tuple[str, str, str]:
    """Splits `Type name=default` into the type, the name, and "=default" or nothing."""
    match = re.fullmatch(r"(?P<type>.*?) (?P<name>\w+)(?P<default>=.*)?", word, re.DOTALL)
    if match is None:
        raise ValueError(f"an argument that this tool cannot read: {word}")
    return match["type"], match["name"], match["default"] or ""


def type_text(kind: str) -> str:
    return re.sub(r"\bSym(Int|Bool|Float)\b", lambda match: match[1].lower(), kind).replace(" ", "")


def typed_argument(word: str) -> str:
    if word in ("*", "..."):
        return word
    kind, name, default = split_argument(word)
    return (
        f"{type_text(kind)}"
        f" {name}{default if default.startswith('=' + chr(34)) else default.replace(' ', '')}"
    )


def untyped_argument(word: str) -> str:
    if word in ("*", "..."):
        return word
    kind, name, default = split_argument(word)
    # A list of a type variable (t[]) or of a fixed length (int[2]) never takes the rest of the
    # arguments.
    kind = re.sub(r"\([a-z*][^(),]*\)", "", kind)  # without the aliases
    takes_rest = kind.endswith("[]") and re.fullmatch(r"t\w*\[\]", kind) is None
    return name + ("[" if takes_rest else "") + ("=" if default else "")


def returns_text(schema: Any) -> str:
    """The text behind `->`, without the names of results: "Tensor,Tensor", "" for none, "(str,t)"
    for one tuple, or "...".
    """
    words = scan_arguments(str(schema))[1].removeprefix(" -> ")
    if words in ("...", "(...)"):  # the latter before PyTorch 1.13
        return "..."
    results = (
        split_arguments(words) if words.startswith("(") and len(schema.returns) != 1 else (words,)
    )
    is_tuple = len(schema.returns) == 1 and schema.returns[0].type.kind() == "TupleType"
    if len(schema.returns) == 1 and words.startswith("((" if is_tuple else "("):
        results = (words[1:-1],)  # before PyTorch 1.13 one result stands in parentheses too
    results = tuple(re.sub(r" \w+$", "", result) for result in results)
    if len(results) != len(schema.returns):
        raise ValueError(f"results that this tool cannot read: {schema}")
    return ",".join(type_text(result) for result in results)


def schema_text(schema: object) -> str:
    return (
        ",".join(typed_argument(word) for word in split_arguments(str(schema)))
        + ">"
        + returns_text(schema)
    )


def is_typed(text: str) -> bool:
    return ">" in text


def untyped(text: str) -> str:
    """The text without types."""
    if not is_typed(text):
        return text
    return ",".join(
        untyped_argument(word) for word in split_arguments("(" + text[: text.rindex(">")] + ")")
    )


def dump(path: Path) -> None:
    torch = importlib.import_module("torch")  # the PyTorch of the Python that is dumped

    schemas = [
        (schema.name, schema.overload_name or "-", schema_text(schema))
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.split("::")[0] in NAMESPACES
    ]
    methods = set()
    for schema in getattr(torch._C, "_jit_get_custom_class_schemas", list)():
        owner = str(schema.arguments[0].type) if schema.arguments else ""
        if owner.startswith(CLASSES):
            words = [untyped_argument(word) for word in split_arguments(str(schema))]
            methods.add(("." + owner[len(CLASSES) :], schema.name, ",".join(words[1:])))
    path.write_text(
        json.dumps({"torch": torch.__version__, "schemas": schemas + sorted(methods)}, indent=0)
    )
    print(
        f"{path}: {len(schemas)} overloads and {len(methods)} methods of PyTorch"
        f" {torch.__version__}"
    )


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def inflate_source(path: Path) -> str:
    """The text in a file that source() wrote."""
    literals = re.findall(r'^    "(.*)";?$', path.read_text(), re.MULTILINE)
    unescape = re.compile(r"\\([0-7]{1,3}|.)")
    data = unescape.sub(
        lambda match: chr(int(match[1], 8)) if match[1][0] in "01234567" else match[1],
        "".join(literals),
    )
    return zlib.decompress(data.encode("latin-1"), -15).decode()


def read_table(path: Path) -> dict[str, list[Line]]:
    """The lines that a table has for each version, in that version's order."""
    lines = inflate_source(path).splitlines()
    versions = lines[0].split(" ")[1:]
    found: dict[str, list[Line]] = {version: [] for version in versions}
    at = 1
    while at < len(lines):
        name, _, order = lines[at].partition(" ")
        end = at + 1
        while end < len(lines) and lines[end].startswith(" "):
            end += 1
        words = [line[1:].split(" ", 3) for line in lines[at + 1 : end]]
        for number, version in enumerate(versions):
            has = [
                i
                for i, (_, first, last, _) in enumerate(words)
                if first <= chr(97 + number) <= last
            ]
            if order and version == OLDEST_TYPED:
                has = [int(i) for i in order.split(",")]
            found[version] += [(name, words[i][0], words[i][3]) for i in has]
        at = end
    return found


def runs(numbers: set[int]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for number in sorted(numbers):
        out[-1:] = (
            [(out[-1][0], number)]
            if out and out[-1][1] == number - 1
            else [*out[-1:], (number, number)]
        )
    return out


def call_form(text: str) -> str:
    """The form of a call of the operator: the arguments with types and defaults, and the number of
    results.

    Versions before 1.13 write ScalarType, Layout and MemoryFormat as int, and the default of a list
    of equal numbers as one number.
    """
    if not is_typed(text):
        return text
    words, results = text.rsplit(">", 1)
    words = re.sub(r"\([a-z*!|>-]+\)", "", words)
    words = re.sub(r"\b(ScalarType|Layout|MemoryFormat)\b", "int", words)
    words = re.sub(r"(\w+\[\d\] \w+)=\[([^,\]]+)(?:,\2)*\]", r"\1=\2", words)
    count = len(split_arguments(f"({results})"))
    return f"{words}>{'...' if results == '...' else count}"


def spans(
    versions: list[str], columns: dict[Line, set[int]], texts: dict[str, dict[Line, str]]
) -> dict[str, list[tuple[str, int, int, str]]]:
    """The lines of each operator: overload, first and last column, text. They have no order yet."""
    out: dict[str, list[tuple[str, int, int, str]]] = {}
    ends = [versions.index(OLDEST_TYPED), len(versions) - 1]
    typed = [number for number, version in enumerate(versions) if version in LOWERED] + ends
    for key, numbers in columns.items():
        name, overload, bare = key
        lines = out.setdefault(name, [])
        for first, last in runs(numbers):
            # The newest form comes first. A column without types takes the form of the next older
            # column with types, if there is one.
            end, shown = last, None
            for number in sorted(
                (number for number in typed if first <= number <= last), reverse=True
            ):
                text = texts[versions[number]][key]
                if shown is None:
                    shown = text
                elif text != shown and (number in ends or call_form(text) != call_form(shown)):
                    lines.append((overload, number + 1, end, shown))
                    end, shown = number, text
            lines.append((overload, first, end, shown or bare))
    return out


def ordered(
    lines: list[tuple[str, int, int, str]],
    ends: tuple[int, int],
    orders: list[list[tuple[str, str]]],
) -> tuple[list[tuple[str, int, int, str]], list[int]]:
    """The lines in the newest PyTorch's order, and the order of 1.13's as indices, empty if it is
    the same.
    """
    old, new = (
        sorted(
            (line for line in lines if line[1] <= end <= line[2]),
            key=lambda line: order.index((line[0], line[3])),
        )
        for end, order in zip(ends, orders, strict=True)
    )
    out = list(new)
    before = -1
    for line in old:
        if line not in out:
            out.insert(before + 1, line)
        before = out.index(line)
    in_old = [out.index(line) for line in old]
    out += sorted(line for line in lines if line not in out)
    return out, in_old if in_old != sorted(in_old) else []


def merge(table: "Path | None", paths: list[Path]) -> bytes:
    found = read_table(table) if table else {}
    for path in paths:
        lines = [tuple(line) for line in json.loads(path.read_text())["schemas"]]
        # Another build of the same version may have more custom classes, such as those of CUDA.
        kept = [
            line
            for line in found.get(path.stem, [])
            if line[0].startswith(".") and line not in lines
        ]
        found[path.stem] = lines + kept
    versions = sorted(found, key=version_key)
    columns: dict[Line, set[int]] = {}
    texts: dict[str, dict[Line, str]] = {version: {} for version in versions}
    orders: dict[str, dict[str, list[tuple[str, str]]]] = {version: {} for version in versions}
    for number, version in enumerate(versions):
        for name, overload, text in found[version]:
            key = (name, overload, untyped(text))
            columns.setdefault(key, set()).add(number)
            texts[version][key] = text
            orders[version].setdefault(name, []).append((overload, text))
            if (
                version in (*LOWERED, OLDEST_TYPED, versions[-1])
                and not name.startswith(".")
                and not is_typed(text)
            ):
                raise ValueError(f"{name}.{overload} of PyTorch {version} has no types: dump it")
    out = ["#versions " + " ".join(versions)]
    ends = (versions.index(OLDEST_TYPED), len(versions) - 1)
    order: list[int]
    for name, lines in sorted(spans(versions, columns, texts).items()):
        if name.startswith("."):
            rows, order = sorted(lines), []
        else:
            rows, order = ordered(
                lines, ends, [orders[versions[end]].get(name, []) for end in ends]
            )
        out.append(name + (" " + ",".join(map(str, order)) if order else ""))
        out += [
            f" {overload} {chr(97 + first)} {chr(97 + last)} {text}"
            for overload, first, last, text in rows
        ]
    return ("\n".join(out) + "\n").encode()


def deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return compressor.compress(data) + compressor.flush()


def literal(data: bytes, width: int = 92) -> list[str]:
    """The bytes as the lines of a C string literal.

    Printable bytes stay as they are. Others become octal escapes, as short as the next byte allows.
    """
    lines = []
    line = ""
    for i, byte in enumerate(data):
        char = chr(byte)
        if char in '"\\':
            word = "\\" + char
        elif char == "?":
            word = "\\?"  # an escape here prevents trigraphs
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


def source(text: bytes, made_from: str) -> str:
    packed = deflate(text)
    body = "\n".join(f'    "{line}"' for line in literal(packed))
    return f"""// Generated by tools/make_schema_table.py, which says what is in it. Do not edit.
// {made_from}
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("dump", help="what the PyTorch of this Python has")
    one.add_argument("path", type=Path)
    all_of = commands.add_parser("merge", help="the generated source file, of several dumps")
    all_of.add_argument("dumps", type=Path, nargs="*")
    all_of.add_argument(
        "--table", type=Path, help="the present table, for the versions that have no dump"
    )
    all_of.add_argument("-o", "--output", type=Path, required=True)
    all_of.add_argument(
        "--text", type=Path, help="where the text goes before it is deflated, to be looked at"
    )
    arguments = parser.parse_args()
    if arguments.command == "dump":
        dump(arguments.path)
        return 0
    text = merge(arguments.table, arguments.dumps)
    if arguments.text:
        arguments.text.write_bytes(text)
    names = " ".join(
        sorted((path.name for path in arguments.dumps), key=lambda name: version_key(name[:-5]))
    )
    before = "Made from the table before it" if arguments.table else "Made without a table"
    made_from = f"{before}, and from the dumps: {names or 'none'}."
    arguments.output.write_text(source(text, made_from))
    print(
        f"{arguments.output}: {text.count(bytes([10]))} lines, {len(text)} bytes,"
        f" {len(deflate(text))} deflated"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
