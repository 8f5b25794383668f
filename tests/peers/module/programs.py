"""The programs of builders/: how they are built and run, and how their archives are compared."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import built_layers  # noqa: F401
import built_values  # noqa: F401
from built_steps import MODELS, steps_of

LANGUAGES = ["c", "cpp", "python", "rust", "go"]
NO_TOOLCHAIN = 77


class Program:
    """One program. TENON_BUILD_DIR/builders/<language>.json says how it is built and run."""

    def __init__(self, language: str) -> None:
        how: dict[str, Any] = json.loads(
            Path(os.environ["TENON_BUILD_DIR"], "builders", f"{language}.json").read_text()
        )
        self._build: list[str] = how["build"]
        self.words: list[str] = how["run"]
        self._environment = {**os.environ, **how["environment"]}

    def build(self) -> str:
        """Builds the program. Returns why this machine cannot, or an empty text."""
        if not self._build:
            return ""
        done = subprocess.run(
            self._build,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode == NO_TOOLCHAIN:
            return (done.stdout.strip().splitlines() or ["no reason given"])[-1]
        assert done.returncode == 0, done.stdout
        return ""

    def run(self, lines: list[str], folder: Path) -> str:
        """Executes the steps. Returns the program's complaints."""
        folder.mkdir(parents=True, exist_ok=True)
        steps = folder / "steps"
        steps.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        done = subprocess.run(
            [*self.words, steps, folder],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        steps.unlink()
        if done.returncode == 0 and done.stdout + done.stderr == "":
            return ""
        return f"exit status {done.returncode}: {done.stdout}{done.stderr}"


def all_steps() -> list[str]:
    return [line for name in MODELS for line in steps_of(name)]


def archives_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def differences(wanted: Path, found: Path) -> list[str]:
    """Returns the files that differ between the folders."""
    left, right = archives_of(wanted), archives_of(found)
    return [
        name for name in sorted(left.keys() | right.keys()) if left.get(name) != right.get(name)
    ]
