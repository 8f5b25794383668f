"""The outcome of every cell: as tables for a terminal and a file, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

OK, FAIL, NOT_APPLICABLE, ABSENT = "ok", "FAIL", "n/a", "absent"


class Report:
    def __init__(self, languages: list[str], parts: list[str]) -> None:
        self.languages, self.parts = languages, parts
        self.cells: dict[tuple[str, str, str], tuple[str, str]] = {}
        self.other: list[tuple[str, str, str]] = []

    def put(self, part: str, producer: str, consumer: str, outcome: str, reason: str = "") -> None:
        """Note the outcome of a cell. A failure is kept, and later outcomes do not replace it."""
        if self.cells.get((part, producer, consumer), (OK, ""))[0] != FAIL:
            self.cells[part, producer, consumer] = (outcome, reason)

    def add(self, what: str, outcome: str, reason: str = "") -> None:
        """Note an outcome that belongs to no cell, such as the end of a program or leftovers."""
        self.other.append((what, outcome, reason))

    def gaps(self) -> list[str]:
        """Cells without an outcome, and outcomes that need a reason and have none."""
        found = []
        for part in self.parts:
            for producer in self.languages:
                for consumer in self.languages:
                    outcome, reason = self.cells.get((part, producer, consumer), ("", ""))
                    if not outcome:
                        found.append(f"{part}: {producer} to {consumer} has no outcome")
                    elif outcome != OK and not reason:
                        found.append(
                            f"{part}: {producer} to {consumer} is {outcome} without a reason"
                        )
        return found

    def failures(self) -> list[str]:
        found = [
            f"{part}: {reason}"
            for (part, _, _), (outcome, reason) in self.cells.items()
            if outcome == FAIL
        ]
        return (
            found
            + [f"{what}: {reason}" for what, outcome, reason in self.other if outcome == FAIL]
            + self.gaps()
        )

    def counts(self) -> str:
        outcomes = [outcome for outcome, _ in self.cells.values()]
        return ", ".join(
            f"{outcomes.count(word)} {word}" for word in (OK, NOT_APPLICABLE, ABSENT, FAIL)
        )

    def tables(self) -> str:
        """The tables as Markdown that also reads well on a terminal: a row for each producer, a
        column for each consumer, and the reasons below.
        """
        reasons: list[str] = []
        lines = []
        for part in self.parts:
            rows = [["producer \\ consumer", *self.languages]]
            for producer in self.languages:
                row = [producer]
                for consumer in self.languages:
                    outcome, reason = self.cells.get((part, producer, consumer), ("?", ""))
                    if reason and reason not in reasons:
                        reasons.append(reason)
                    row.append(f"{outcome} [{reasons.index(reason) + 1}]" if reason else outcome)
                rows.append(row)
            lines += [f"## {part}", "", *_aligned(rows), ""]
        if self.other:
            lines += [
                "## At the end",
                "",
                *(
                    f"- {what}: {outcome}{f' ({reason})' if reason else ''}"
                    for what, outcome, reason in self.other
                ),
                "",
            ]
        if reasons:
            lines += [
                "## Reasons",
                "",
                *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)),
                "",
            ]
        return "\n".join(lines)

    def write(self, folder: Path, head: str) -> str:
        """Write report.md and report.json, and return the text."""
        folder.mkdir(parents=True, exist_ok=True)
        text = (
            f"# Every producer with every consumer\n\n{head}\n\n{self.counts()}\n\n{self.tables()}"
        )
        (folder / "report.md").write_text(text)
        cells = [
            {
                "part": part,
                "producer": producer,
                "consumer": consumer,
                "outcome": outcome,
                "reason": reason,
            }
            for (part, producer, consumer), (outcome, reason) in self.cells.items()
        ]
        other = [
            {"what": what, "outcome": outcome, "reason": reason}
            for what, outcome, reason in self.other
        ]
        (folder / "report.json").write_text(
            json.dumps({"head": head, "cells": cells, "other": other}, indent=1) + "\n"
        )
        return text


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]
