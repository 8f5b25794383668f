"""Programs and examples leave no resource open that Python's development mode warns about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"

PROGRAMS = {
    "multiprocessing_alone": "import multiprocessing, tenon",
    "connection": (
        """
import tenon
left, right = tenon.pair()
left.send(tenon.zeros(3))
assert right.recv()[0].shape == (3,)
"""
    ),
    "queue": (
        """
import multiprocessing, tenon
def work(inbox, outbox):
    tensor = inbox.get()
    tensor.numpy()[0] = 1
    outbox.put(tensor)
context = multiprocessing.get_context("fork")
inbox, outbox = context.Queue(), context.Queue()
process = context.Process(target=work, args=(inbox, outbox))
process.start()
inbox.put(tenon.zeros(3))
assert outbox.get()[0].item() == 1
process.join()
"""
    ),
    "nobody_fetches": (
        """
import multiprocessing, tenon
queue = multiprocessing.get_context("fork").Queue()
queue.put(tenon.zeros(3))
queue.cancel_join_thread()
"""
    ),
    "fork": (
        """
import multiprocessing, os, tenon
if os.fork() == 0:
    raise SystemExit
os.wait()
"""
    ),
    "archive": (
        """
import io, tenon
module = tenon.Module("M")
module.add_parameter("w", tenon.zeros(3))
target = io.BytesIO()
tenon.export_module(module, target)
assert tenon.import_module(target.getvalue())["w"].shape == (3,)
"""
    ),
}


def complaints(arguments: list[str]) -> list[str]:
    # A destructor cannot raise its warning. Python prints it as an ignored exception.
    command = [sys.executable, "-B", "-X", "dev", "-W", "error::ResourceWarning", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return [
        line
        for line in done.stderr.splitlines()
        if "ResourceWarning" in line or "Exception ignored" in line
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    assert complaints(["-c", PROGRAMS[name]]) == []


@pytest.mark.parametrize(
    "name",
    [
        "arena_and_leases",
        "lend_and_modify",
        "queue_of_tensors",
        "read_only_lend",
        "sparse_features",
        "weak_cache",
    ],
)
def test_examples(name: str) -> None:
    assert complaints([str(EXAMPLES / f"{name}.py")]) == []
