"""The programs of the matrix as the driver sees them: a line each for command and answer."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 60.0
# The first answer comes after the imports. On a busy machine that reads PyTorch from a cold disk,
# the imports may take over a minute.
START_SECONDS = 300.0
NO_TOOLCHAIN = 77


class Failed(Exception):
    """A program answered with an error, or did not answer."""

    def __init__(self, text: str, status: str = "") -> None:
        super().__init__(text)
        self.status = status


class NotApplicable(Exception):
    """The program's language cannot do that."""


# The PyTorch that a word of a command means: the environment variable that names its Python, and
# the Python if the variable is not set.
TORCH = {
    "@torch-1.13@": ("TENON_TORCH_DEBIAN", "/usr/bin/python3"),
    "@torch-newest@": ("TENON_TORCH_NEWEST", ""),
}
TORCH_VERSION = """
import importlib.util, pathlib, runpy
version = pathlib.Path(importlib.util.find_spec("torch").origin).with_name("version.py")
print(runpy.run_path(str(version))["__version__"])
"""


def with_places(environment: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """A language's own variables replace the run's. LD_LIBRARY_PATH has the folders of both."""
    both = {**environment, **own}
    places = [each["LD_LIBRARY_PATH"] for each in (own, environment) if each.get("LD_LIBRARY_PATH")]
    return {**both, "LD_LIBRARY_PATH": ":".join(places)} if places else both


class Absent(Exception):
    """The reason why this machine lacks a language."""


def torch_python(word: str) -> tuple[str, str]:
    """The Python of a word, and the version of its PyTorch."""
    variable, otherwise = TORCH[word]
    python = os.environ.get(variable) or otherwise
    if not python:
        raise Absent(f"{variable} is not set")
    if not os.access(python, os.X_OK):
        raise Absent(f"uid {os.getuid()} cannot run {python}, or it is not there")
    done = subprocess.run(
        [python, "-c", TORCH_VERSION], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Absent(f"{python} has no PyTorch")
    return python, done.stdout.strip()


class Language:
    """How the programs of a language are started. `absent` has the reason if they cannot be."""

    def __init__(self, name: str, how: dict[str, Any]) -> None:
        self.name, self.how, self.absent, self.version = name, how, "", ""
        self.is_torch = name.startswith("torch")

    @classmethod
    def read(cls, name: str, folder: Path, environment: dict[str, str]) -> Language:
        """Read the file that the language's CMakeLists.txt wrote. Build the programs if the file
        says how.
        """
        path = folder / f"{name}.json"
        if not path.exists():
            raise SystemExit(
                f"FAIL {name}: there is no {path}: has tests/languages/matrix/{name} a"
                " CMakeLists.txt?"
            )
        language = cls(name, json.loads(path.read_text()))
        try:
            language._find_torch()
            language._build(environment)
        except Absent as why:
            language.absent = str(why)
        return language

    def _find_torch(self) -> None:
        for role in ("produce", "consume"):
            if self.how[role][0] in TORCH:
                self.how[role][0], self.version = torch_python(self.how[role][0])

    def _build(self, environment: dict[str, str]) -> None:
        command = self.how.get("build")
        if not command:
            return
        environment = with_places(environment, self.how.get("environment", {}))
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(done.stdout, end="")
        if done.returncode == NO_TOOLCHAIN:
            raise Absent((done.stdout.strip().splitlines() or ["no reason given"])[-1])
        if done.returncode:
            raise SystemExit(f"FAIL {self.name}: the build ended with {done.returncode}")


class Program:
    """One running program. Every call is one command and its answer."""

    def __init__(
        self, language: Language, role: str, environment: dict[str, str], folder: Path
    ) -> None:
        self.language, self.role = language, role
        self.name = f"{language.name} {role}"
        self.path = folder / f"{language.name}-{role}.sock"
        self.log = (folder / f"{language.name}-{role}.log").open("w+b")
        command = language.how[role.split("-")[0]]
        environment = with_places(environment, language.how.get("environment", {}))
        try:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                bufsize=0,
            )
        except OSError as error:
            raise SystemExit(
                f"FAIL {language.name}: {command[0]} cannot be started: {error.strerror}"
            ) from None
        self.pid = self.process.pid
        self.rest = b""
        self.ready = False
        # The files of counters by which this program lends device memory until it ends. `lost`
        # counts the storages that it lent by a counter to killed programs.
        self.counters: set[Path] = set()
        self.lost = 0

    def _line(self, seconds: float = ANSWER_SECONDS) -> str:
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self.rest:
            if not select.select(
                [self.process.stdout], [], [], max(0.0, deadline - time.monotonic())
            )[0]:
                raise Failed(f"{self.name} does not answer; {self.errors()}")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise Failed(f"{self.name} ended with {self.process.wait()}; {self.errors()}")
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def errors(self) -> str:
        self.log.seek(0)
        return "stderr: " + " | ".join(
            self.log.read().decode(errors="replace").strip().splitlines()[-5:]
        )

    def begin(self, *words: object) -> None:
        """Write a command; end() reads its answer."""
        if not self.ready:
            greeting = self._line(START_SECONDS)
            if greeting != "ready":
                raise Failed(f"{self.name} begins with {greeting!r}; {self.errors()}")
            self.ready = True
        assert self.process.stdin is not None
        try:
            self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        except BrokenPipeError:
            raise Failed(f"{self.name} ended with {self.process.wait()}; {self.errors()}") from None

    def end(self) -> list[str]:
        line = self._line()
        word, _, rest = line.partition(" ")
        if word == "ok":
            return rest.split(" ") if rest else []
        if word == "skip" and rest:
            raise NotApplicable(rest)
        status, _, text = rest.partition(" ")
        if word != "error" or not text.strip():
            raise Failed(f"{self.name} answers {line!r}")
        raise Failed(f"{self.name}: {status}: {text}", status)

    def ask(self, *words: object) -> list[str]:
        self.begin(*words)
        return self.end()

    def refuses(self, status: str, *words: object, naming: str = "") -> None:
        """Check that the command fails with that status, and that the error's text contains
        `naming`.
        """
        try:
            answer = self.ask(*words)
        except Failed as error:
            if error.status == status and naming in str(error):
                return
            raise
        raise Failed(f"{self.name}: {words[0]} gives {answer} and not {status}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def quit(self) -> None:
        """End the program in order. Its exit code must be 0."""
        self.ask("quit")
        code = self.process.wait(ANSWER_SECONDS)
        if code:
            raise Failed(f"{self.name} ended with {code}; {self.errors()}")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                stream.close()
