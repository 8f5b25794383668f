"""Words of the driver's lines that need Tenon's names."""

from __future__ import annotations

CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
DTYPES = {name: code for code, name in CODES.items()}


def dtype_name(word: str) -> str:
    code, bits, lanes = map(int, word.split(":"))
    assert lanes == 1
    return f"{CODES[code]}{bits}"


def dtype_word(name: str) -> str:
    kind = name.rstrip("0123456789")
    return f"{DTYPES[kind]}:{name.removeprefix(kind)}:1"
