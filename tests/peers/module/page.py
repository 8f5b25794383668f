"""The page TENON_BUILD_DIR/modules/modules.md: for each model, the result of its archives in real
PyTorch.

Each test puts its results for one column of a table: {model: {"result": "ok", "left out" or
"failed", "why": [text]}}. Then the page is written anew. A test that did not run has nothing on the
page.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# The parts in the order of the page, each with its heading and what its columns mean.
PARTS = {
    "built": ("Built by hand", "Run by PyTorch, which computes the same with its own layers."),
    "languages": (
        "Built by hand, in each language",
        "The archives of a program in that language are C's, to the byte.",
    ),
    "rewritten": (
        "Written by PyTorch",
        (
            "Imported and exported again: the PyTorch that wrote them → the one that ran both. An"
            " empty cell: the writer has no such model."
        ),
    ),
    "versions": (
        "Of older versions",
        "Operators that meant something else then; imported and exported again, as above.",
    ),
    "fixtures": (
        "Written by old PyTorch",
        "Imported and exported again; they return what they returned in the old one.",
    ),
    "packages": (
        "Written by PyTorch, in one package",
        (
            "Imported and written into a package of torch.package: the PyTorch that wrote them →"
            " the one that ran both."
        ),
    ),
    "silero": ("silero-vad", "Of version 3; imported and exported again."),
}
_WORDS = {"ok": "ok", "left out": "n/a", "failed": "FAIL"}

Results = dict[str, dict[str, Any]]


@contextmanager
def _kept() -> Iterator[dict[str, dict[str, Results]]]:
    """Yields the results so far, to be changed. The page is written at the end. One test at a time
    holds the file.
    """
    folder = Path(os.environ["TENON_BUILD_DIR"], "modules")
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = folder / "results.json"
        kept: dict[str, dict[str, Results]] = json.loads(path.read_text()) if path.exists() else {}
        yield kept
        path.write_text(json.dumps(kept, indent=1) + "\n")
        (folder / "modules.md").write_text(text(kept), encoding="utf-8")


def clear(part: str, column: str | None = None) -> None:
    """Removes the results of an earlier run. A test calls this at its beginning."""
    with _kept() as kept:
        if column is None:
            kept.pop(part, None)
        else:
            kept.get(part, {}).pop(column, None)


def put(part: str, column: str, results: Results) -> None:
    assert part in PARTS, part
    with _kept() as kept:
        kept.setdefault(part, {})[column] = results


def text(kept: dict[str, dict[str, Results]]) -> str:
    reasons: list[str] = []
    tables: list[str] = []
    counts = dict.fromkeys(_WORDS, 0)
    for part, (heading, columns_are) in PARTS.items():
        columns = dict(sorted(kept.get(part, {}).items()))
        if not columns:
            continue
        rows = [["model", *columns]]
        for model in dict.fromkeys(model for results in columns.values() for model in results):
            rows.append([model])
            for results in columns.values():
                cell = results.get(model)
                if cell is not None:
                    counts[cell["result"]] += 1
                rows[-1].append(_cell(cell, reasons))
        tables += [f"## {heading}", "", columns_are, "", *_aligned(rows), ""]
    head = ", ".join(f"{count} {_WORDS[result]}" for result, count in counts.items())
    notes = (
        ["## Reasons", "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)), ""]
        if reasons
        else []
    )
    return "\n".join(["# Module archives in real PyTorch", "", f"{head}.", "", *tables, *notes])


def _cell(cell: dict[str, Any] | None, reasons: list[str]) -> str:
    if cell is None:
        return ""
    reason = " ".join("; ".join(cell["why"]).split())[:500]
    if not reason:
        return _WORDS[cell["result"]]
    if reason not in reasons:
        reasons.append(reason)
    return f"{_WORDS[cell['result']]} [{reasons.index(reason) + 1}]"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]
