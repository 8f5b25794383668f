#!/usr/bin/env python3
"""Loads programs in PyTorch for check_test.py, and says which ones torch.jit.load takes.

stdin: a line of JSON for each program: {"archive": path, "code": {record: text}}, where `code` has
the records of that archive that get another text. Without "archive": {"method": source of a class M
without attributes}. stdout: a line of JSON for each: null, or PyTorch's message.
"""

import io
import json
import sys
import warnings
import zipfile

import torch

EMPTY_OBJECT = b"\x80\x02c__torch__\nM\n)\x81}(ub."
EMPTY_TUPLE = b"\x80\x02)."


def records_of(case: dict, cache: dict) -> dict:
    if "archive" not in case:
        code = case["method"].encode()
        return {
            "a/version": b"10\n",
            "a/constants.pkl": EMPTY_TUPLE,
            "a/data.pkl": EMPTY_OBJECT,
            "a/code/__torch__.py": code,
        }
    path = case["archive"]
    if path not in cache:
        cache.clear()
        with zipfile.ZipFile(path) as archive:
            cache[path] = {
                name: archive.read(name)
                for name in archive.namelist()
                if not name.endswith(".debug_pkl")
            }
    records = dict(cache[path])
    records.update({name: text.encode() for name, text in case["code"].items()})
    return records


def load(records: dict) -> "str | None":
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    buffer.seek(0)
    try:
        torch.jit.load(buffer)
    except Exception as error:
        return str(error) or repr(error)
    return None


def main() -> int:
    warnings.simplefilter("ignore")
    cache: dict = {}
    for line in sys.stdin:
        print(json.dumps(load(records_of(json.loads(line), cache))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
