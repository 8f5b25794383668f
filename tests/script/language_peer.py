#!/usr/bin/env python3
"""Loads sources in PyTorch, for language_test.py.

stdin: a line of JSON for each: {"source": text of code/__torch__.py, "arguments": null, or what to call the class M with}. stdout: a line
of JSON for each: {"taken": is it loaded, "said": PyTorch's message, "result": what the call returned}. Each is loaded by a child, because
some sources crash PyTorch or keep it for ever.
"""

import io
import json
import os
import select
import signal
import sys
import warnings
import zipfile

import torch

# An object of the class M without attributes, and an empty tuple.
OBJECT = b"\x80\x02c__torch__\nM\n)\x81}(ub."
CONSTANTS = b"\x80\x02)."
PATIENCE_S = 10


def load(source: str) -> torch.jit.ScriptModule:
    buffer = io.BytesIO()
    records = {"version": b"10\n", "constants.pkl": CONSTANTS, "data.pkl": OBJECT, "code/__torch__.py": source.encode()}
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in records.items():
            archive.writestr(f"a/{name}", data)
    buffer.seek(0)
    return torch.jit.load(buffer)


def answer(case: dict) -> dict:
    try:
        module = load(case["source"])
    except Exception as error:
        return {"taken": False, "said": str(error)[:500]}
    if case["arguments"] is None:
        return {"taken": True, "said": ""}
    try:
        return {"taken": True, "said": "", "result": repr(module(*case["arguments"]))}
    except Exception as error:
        return {"taken": True, "said": str(error)[:500], "result": "error"}


def in_child(case: dict) -> dict:
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(writable, json.dumps(answer(case)).encode())
        os._exit(0)
    os.close(writable)
    said = b""
    while select.select([readable], [], [], PATIENCE_S)[0] and (more := os.read(readable, 65536)):
        said += more
    os.close(readable)
    if not said:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(said) if said else {"taken": False, "said": "PyTorch crashed, or did not end"}


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(in_child(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
