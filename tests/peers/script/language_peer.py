#!/usr/bin/env python3
"""Loads sources in PyTorch for language_test.py.

stdin: a line of JSON for each: {"source": text of code/__torch__.py, "arguments": null, or the
arguments with which the class M is called}. stdout: a line of JSON for each: {"taken": whether it
was loaded, "said": PyTorch's message, "result": the result of the call}. A child loads the sources,
because some crash PyTorch or never end. The next source then gets a new child. A child for each
source would take most of the test's time.
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
    records = {
        "version": b"10\n",
        "constants.pkl": CONSTANTS,
        "data.pkl": OBJECT,
        "code/__torch__.py": source.encode(),
    }
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


class Child:
    """A child that answers cases one after the other, until one of them ends it."""

    def __init__(self) -> None:
        from_parent, self.writable = os.pipe()
        self.readable, to_parent = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.writable)
            os.close(self.readable)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(from_parent) as cases:
                for line in cases:
                    os.write(to_parent, (json.dumps(answer(json.loads(line))) + "\n").encode())
            os._exit(0)
        os.close(from_parent)
        os.close(to_parent)

    def ask(self, line: str) -> dict | None:
        """Returns the answer, or None if the child crashed or did not end. Then the child is
        gone.
        """
        os.write(self.writable, line.encode())
        said = b""
        while not said.endswith(b"\n"):
            if not select.select([self.readable], [], [], PATIENCE_S)[0] or not (
                more := os.read(self.readable, 65536)
            ):
                self.end()
                return None
            said += more
        return json.loads(said)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.readable)
        os.close(self.writable)
        os.waitpid(self.pid, 0)


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    child = Child()
    for line in sys.stdin:
        said = child.ask(line)
        if said is None:
            child = Child()
        print(
            json.dumps(said or {"taken": False, "said": "PyTorch crashed, or did not end"}),
            flush=True,
        )
    child.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
