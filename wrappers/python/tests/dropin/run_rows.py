"""Runs a program whose rows write their outcomes down, for reference.py and vllm_queue.py. Each of
them starts itself again as that program, in a Python that has PyTorch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

_RESULTS = "TENON_ROW_RESULTS"
"""The environment variable with the path of the file of outcomes."""


def note(row: str, outcome: str, why: str | None = None) -> None:
    """Write down, in the program, what became of a row. The outcome "begun" comes before the row's
    own one.
    """
    fields = {"row": row, "outcome": outcome} | ({} if why is None else {"why": why})
    with open(os.environ[_RESULTS], "a") as results:
        results.write(json.dumps(fields) + "\n")


def run_rows(
    command: list[str], folder: str, environment: dict[str, str], seconds: float
) -> list[dict[str, str]]:
    """Run the program in a folder, and return the last note of each row. A row that only began has
    failed. The program's output goes to stderr at its end, so that a process which the program
    leaves behind does not keep the caller's stderr open.
    """
    results = Path(folder, "results")
    results.touch()
    with open(Path(folder, "output"), "w+") as output:
        process = subprocess.Popen(
            command,
            env={**environment, _RESULTS: str(results)},
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(seconds)
            end = f"the process ended with status {process.returncode}"
        except subprocess.TimeoutExpired:
            end = f"not done after {seconds:.0f} s"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        sys.stderr.write(output.read())
    notes: dict[str, dict[str, str]] = {}
    for line in results.read_text().splitlines():
        found = json.loads(line)
        notes[found["row"]] = found
    for found in notes.values():
        if found["outcome"] == "begun":
            found.update(outcome="failed", why=end)
    return list(notes.values())
