"""usage: matrix.py [--cuda] [LANGUAGE...]

Runs every producer with every consumer by every strategy, and the variants (README.md).
TENON_BUILD_DIR/matrix/LANGUAGE.json names the programs. The report goes to
TENON_BUILD_DIR/matrix/report.md and report.json. The exit code is 1 if a cell failed, or lacks an
outcome or a reason.

--cuda: runs only the strategies that need CUDA, on the fake driver. The report goes to matrix/cuda.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import account
import cells
import composite_cells
import object_cells
from programs import Failed, Language, NotApplicable, Program
from report import ABSENT, FAIL, NOT_APPLICABLE, OK, Report

LANGUAGES = ["c", "cpp", "python", "rust", "go", "torch-1.13", "torch-newest"]
FORK, PRODUCER_KILLED, CONSUMER_KILLED = (
    "consumer forks",
    "producer is killed",
    "consumer is killed",
)
PR_SET_CHILD_SUBREAPER = 36


class Matrix:
    def __init__(
        self,
        languages: list[Language],
        environment: dict[str, str],
        folder: Path,
        names: account.Names,
        own: dict[str, dict[str, str]],
    ) -> None:
        """own: variables that the programs of a role have in addition."""
        self.own = own
        self.languages, self.environment, self.folder, self.names = (
            languages,
            environment,
            folder,
            names,
        )
        parts = [
            *cells.STRATEGIES,
            *composite_cells.COMPOSITES,
            *object_cells.ROWS,
            FORK,
            PRODUCER_KILLED,
            CONSUMER_KILLED,
        ]
        self.report = Report([language.name for language in languages], parts)
        self.present = [language for language in languages if not language.absent]
        self.all: list[Program] = []
        # All programs start at once, because some take seconds to begin. The second producers stay
        # alive when the first ones are killed.
        self.produce = self.start("produce")
        self.consume = self.start("consume")
        self.produce_2 = self.start("produce-2")
        for producer in languages:
            for consumer in languages:
                absent = [language for language in (producer, consumer) if language.absent]
                if absent:
                    for part in self.report.parts:
                        self.report.put(
                            part,
                            producer.name,
                            consumer.name,
                            ABSENT,
                            f"{absent[0].name}: {absent[0].absent}",
                        )

    def start(self, role: str) -> dict[str, Program]:
        environment = {**self.environment, **self.own.get(role.split("-")[0], {})}
        programs = {
            language.name: Program(language, role, environment, self.folder)
            for language in self.present
        }
        self.all += programs.values()
        self.names.torch_pids |= {
            program.pid for program in programs.values() if program.language.is_torch
        }
        return programs

    def cell(
        self, part: str, producer: Program, consumer: Program, act: Callable[[], None]
    ) -> bool:
        """Run an act that belongs to a cell, and note its outcome. Return whether it succeeded."""
        return self.cells_of([part], producer, consumer, act)

    def cells_of(
        self, parts: Sequence[str], producer: Program, consumer: Program, act: Callable[[], None]
    ) -> bool:
        """Run an act that belongs to the cells of several parts, in the same way."""
        outcome, reason = OK, ""
        try:
            act()
        except NotApplicable as why:
            outcome, reason = NOT_APPLICABLE, str(why)
        except (Failed, account.Leak, OSError) as error:
            outcome, reason = FAIL, f"{producer.language.name} to {consumer.language.name}: {error}"
            print(f"FAIL {', '.join(parts)}: {reason}", flush=True)
        for part in parts:
            self.report.put(part, producer.language.name, consumer.language.name, outcome, reason)
        return outcome == OK

    def whole(self, what: str, act: Callable[[], None]) -> None:
        """Run an act that belongs to no cell, and note its outcome."""
        try:
            act()
            self.report.add(what, OK)
        except (Failed, account.Leak, OSError) as error:
            self.report.add(what, FAIL, str(error))

    def run(self) -> None:
        for program in self.all:
            if not program.role.startswith("consume"):
                program.ask("listen", program.path)
        for producer in self.produce.values():
            for consumer in self.consume.values():
                for strategy in cells.STRATEGIES:
                    self.cell(
                        strategy,
                        producer,
                        consumer,
                        lambda p=producer, c=consumer, s=strategy: cells.run(p, c, s, self.names),
                    )  # type: ignore[misc]
                self.composites(producer, consumer)
                for row in object_cells.ROWS:
                    self.cell(
                        row,
                        producer,
                        consumer,
                        lambda p=producer, c=consumer: object_cells.run(p, c, self.names),
                    )  # type: ignore[misc]
                self.cell(FORK, producer, consumer, lambda p=producer, c=consumer: cells.fork(p, c))  # type: ignore[misc]
        for program in (*self.produce.values(), *self.consume.values()):
            self.whole(
                f"{program.name} holds nothing after all cells",
                lambda p=program: cells.holds_nothing(p),
            )  # type: ignore[misc]
        for producer in self.produce.values():
            self.kill(PRODUCER_KILLED, producer, list(self.consume.values()))
        for consumer in self.consume.values():
            self.kill(CONSUMER_KILLED, consumer, list(self.produce_2.values()))
        for program in self.produce_2.values():
            self.whole(f"{program.name} ends in order", program.quit)
        self.whole("no process and no name is left", self.nothing_is_left)

    def composites(self, producer: Program, consumer: Program) -> None:
        """Send all layouts in one message. If the message fails, the cell of each layout fails."""

        def row(part: str, act: Callable[[], None]) -> None:
            self.cell(part, producer, consumer, act)

        if composite_cells.COMPOSITES:
            self.cells_of(
                list(composite_cells.COMPOSITES),
                producer,
                consumer,
                lambda: composite_cells.run_composites(producer, consumer, self.names, row),
            )

    def kill(self, part: str, victim: Program, survivors: list[Program]) -> None:
        """Kill a program that shares something with each survivor, by every strategy."""
        held: list[tuple[Program, list[cells.Lend], list[int]]] = []

        def pair(survivor: Program) -> tuple[Program, Program]:
            return (victim, survivor) if part == PRODUCER_KILLED else (survivor, victim)

        def lend(survivor: Program) -> None:
            with cells.Pair(*pair(survivor)) as both:
                held.append((survivor, *cells.lend_by_all(both)))

        for survivor in survivors:
            self.cell(part, *pair(survivor), lambda s=survivor: lend(s))  # type: ignore[misc]
        victim.kill()
        for survivor, lends, connections in held:
            self.cell(
                part,
                *pair(survivor),
                lambda s=survivor, x=lends, c=connections: cells.after_the_end(s, victim, x, c),
            )  # type: ignore[misc]
            self.cell(part, *pair(survivor), lambda s=survivor: cells.holds_nothing(s))  # type: ignore[misc]
        # Tenon's names go with their last holder. PyTorch's own go with its manager.
        self.whole(
            f"{victim.name} is killed: no name of Tenon's is left",
            lambda: account.until("names are left", self.names.of_tenon),
        )

    def nothing_is_left(self) -> None:
        """Managers end a while after their last client. They are this process's children now."""

        def processes() -> list[str]:
            left = account.descendants(os.getpid())
            for pid in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            return [f"{pid} {account.command(pid)}" for pid in left]

        account.until("processes are left", processes)
        account.until("names are left", self.names.all)
        account.until(
            "files of counters are left",
            lambda: [path for program in self.all for path in program.counters if path.exists()],
        )

    def close(self) -> None:
        """Kill all processes and remove all names of this run, whatever went wrong."""
        for program in self.all:
            program.close()
        for pid in account.descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        counters = {path for program in self.all for path in program.counters}
        for path in {*account.SHM.glob(f"{self.names.prefix}*"), *counters}:
            path.unlink(missing_ok=True)


def read_languages(names: list[str], environment: dict[str, str]) -> list[Language]:
    folder = Path(environment["TENON_BUILD_DIR"], "matrix")
    return [Language.read(name, folder, environment) for name in names]


def main() -> None:
    begin = time.monotonic()
    names, on_cuda = [word for word in sys.argv[1:] if word != "--cuda"], "--cuda" in sys.argv
    # A manager outlives its starter. It becomes a child of this process, which then sees its end.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
    build = Path(os.environ["TENON_BUILD_DIR"])
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tenon-matrix-") as directory,
    ):
        temporary, managers, sockets = (
            Path(folder, name) for name in ("tmp", "managers", "sockets")
        )
        for path in (temporary, managers, sockets):
            path.mkdir(mode=0o700)
        if on_cuda:
            cells.STRATEGIES[:] = cells.ON_CUDA
            composite_cells.COMPOSITES.clear()
            object_cells.ROWS.clear()
            os.environ["FAKE_CUDA_WORLD"] = str(Path(folder, "world"))
            Path(folder, "world").mkdir(mode=0o700)
            driver = str(build / "tests/support/fake_cuda/driver-13")
            os.environ["LD_LIBRARY_PATH"] = ":".join(
                filter(None, [driver, os.environ.get("LD_LIBRARY_PATH", "")])
            )
        prefix = f"{Path(directory).name}-"
        environment = {
            **os.environ,
            "TENON_MATRIX_PREFIX": prefix,
            "TENON_MATRIX_DIRECTORY": directory,
            "TENON_MANAGER": str(build / "tenon-manager"),
            "TENON_MANAGER_FOLDER": str(managers),
            "TMPDIR": str(temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        languages = read_languages(names or LANGUAGES, environment)
        names_of_run = account.Names(prefix, Path(directory), [temporary, managers])
        matrix = Matrix(
            languages, environment, sockets, names_of_run, cells.CUDA_ENVIRONMENT if on_cuda else {}
        )
        try:
            matrix.run()
        finally:
            matrix.close()
        pairs = len(matrix.present) ** 2
        versions = "".join(
            f" {language.name} is PyTorch {language.version}."
            for language in matrix.present
            if language.version
        )
        head = (
            f"{len(matrix.present)} of {len(languages)} languages, {pairs} pairs, in"
            f" {time.monotonic() - begin:.1f} s.{versions}"
        )
        print(matrix.report.write(build / "matrix" / ("cuda" if on_cuda else ""), head))
    failures = matrix.report.failures()
    if failures:
        sys.exit("FAIL\n  " + "\n  ".join(failures))


if __name__ == "__main__":
    main()
