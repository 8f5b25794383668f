"""Runs programs of the tests in one PyTorch, which this process imports only once.

torches.py starts one server for each PyTorch that a test uses. Each line on standard input is a
request in JSON, and each line on standard output is the exit status of its program. A child of
fork runs the program, so that a crash or a switch of PyTorch does not reach the next program.

An import of PyTorch takes two to three seconds of CPU time, and such a fork takes 0.03 seconds.
Python 3.9 is enough for this file.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import sys
import traceback
import types
import warnings

# torches.py asks for this program, which has no file.
TRY_SCRIPT = "try_script"


def try_script() -> None:
    """Exit with 3 if torch.jit refuses. Any other failure means that PyTorch is broken."""
    import io

    import torch

    try:
        archive = io.BytesIO()
        torch.jit.save(torch.jit.script(torch.nn.ReLU()), archive)
        archive.seek(0)
        torch.jit.load(archive)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(3)


def run_program(arguments: list[str], path: list[str]) -> None:
    """Run the program as the interpreter does: a file, or "-c" and its text."""
    program, *rest = arguments
    if program == TRY_SCRIPT:
        try_script()
        return
    sys.argv = [program, *rest]
    if program == "-c":
        text = sys.argv.pop(1)
        sys.path[0:1] = ["", *path]
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(text, "<string>", "exec"), main.__dict__)
        return
    sys.path[0:1] = [os.path.dirname(os.path.abspath(program)), *path]
    runpy.run_path(program, run_name="__main__")


def exit_status(arguments: list[str], path: list[str]) -> int:
    """Run the program, and return the exit status that the interpreter would have."""
    try:
        run_program(arguments, path)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve(request: dict) -> None:
    """Runs the program of a request in this process, a child of the server, and ends it."""
    for descriptor, file in enumerate(request["files"]):
        opened = os.open(file, os.O_WRONLY | os.O_APPEND if descriptor else os.O_RDONLY)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(request["cwd"])
    gc.enable()
    status = 1
    try:
        status = exit_status(request["arguments"], request["path"])
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)
    finally:
        # A normal exit of the interpreter would free PyTorch, which takes 0.2 seconds.
        os._exit(status & 0xFF)


def main() -> None:
    # The programs must not read requests, and must not write answers.
    requests = os.fdopen(os.dup(0), "rb", 0)
    answers = os.dup(1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    gc.disable()
    import torch  # noqa: F401 (each program imports it again, at no cost)

    # A collection in a child would look at all objects of PyTorch, and copy their pages.
    gc.freeze()
    for line in iter(requests.readline, b""):
        child = os.fork()
        if child == 0:
            requests.close()
            os.close(answers)
            serve(json.loads(line))
        _, status = os.waitpid(child, 0)
        ended = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        os.write(answers, f"{ended}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main()
