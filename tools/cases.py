#!/usr/bin/env python3
"""Runs the failing cases that users and attackers brought, and says for each whether it is mended.

usage: tools/cases.py [FOLDER] [NAME...]

FOLDER is where the cases lie (../shared/cases beside the checkout, by default). NAME chooses cases
by a part of their names. The Python that runs this script must be able to import tenon, and the
program `tenon` must be on the PATH. A case that imports torch runs with the Python that
TENON_TORCH_NEWEST names, or is left out.

Each case has a limit of time and a rule about what it prints. Exit status: 0 if every case that ran
prints what is wanted, 1 if one does not, 2 if nothing could be run.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Case:
    """One case: what to run, how long it may take, and what its output must and must not have."""

    file: str
    arguments: list[str] = field(default_factory=list)
    seconds: float = 20
    has: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    torch: bool = False
    memory: int = 0  # bytes: the limit of a memory cgroup, 0 for none

    @property
    def name(self) -> str:
        return " ".join([self.file.rpartition("/")[2], *self.arguments])


CASES = [
    Case(
        "03_out_of_memory_beside_own_cache.py",
        has=["same arena ok", "isolated ok", "named file ok", "after it: ok"],
        memory=300 << 20,
    ),
    Case(
        "04_int_of_an_element.py",
        has=[r"TypeError: int\(\) takes a tensor of one element"],
        lacks=["ASCII", "could not convert", "invalid literal"],
    ),
    Case("06_div_of_numbers.py", has=["(?s)exported.*exported"], lacks=["Error"]),
    Case("07_verify_of_lost_weights.sh", has=["ConstantMKLDNNTensor"], lacks=["good", "or newer"]),
    Case("11_extra_file_names.sh", has=["warning|skipped|extra"], lacks=["CORRUPT", "Error"]),
    Case("12_requires_grad_lost.py", has=["array: True", "load: True"], lacks=["False"]),
    Case(
        "13_import_from_pipe.sh",
        has=["standard input: good", "modules"],
        lacks=["Error", "usage", "cannot", "not a regular file"],
    ),
    Case(
        "14_messages_of_verify.sh",
        has=["flatbuffer", "LFS", "html|web page", "gzip"],
        lacks=["its end is missing"],
    ),
    Case(
        "21_module_with_state.py", has=["__getstate__|__setstate__"], lacks=["import_module.*line"]
    ),
    Case(
        "attacks/a01_forgotten_flood.py",
        ["42000", "30000"],
        60,
        has=[r"\d\.\d s$"],
        lacks=[r"after \d\d+\.\d s"],
    ),
    Case(
        "attacks/a03_address_space.py",
        seconds=60,
        has=["mmap of .* still works", "a thread can be started", "victim can allocate"],
        lacks=["fails", "cannot start"],
    ),
    Case(
        "attacks/a08_lease_hang.py",
        ["memfd"],
        10,
        has=["holds a file lease"],
        lacks=[r"^\d\d+\.\d s"],
    ),
    Case(
        "attacks/a08_lease_hang.py",
        ["shm"],
        10,
        has=["holds a file lease"],
        lacks=[r"^\d\d+\.\d s"],
    ),
    Case(
        "attacks/a09_zero_nonce.py",
        has=[r"\[7\. 7\. 7\. 7\.\]|permission|denied"],
        lacks=[r"now \[42"],
    ),
    Case("attacks/a11_name_clients.py", seconds=40, has=["in 0 of"]),
    Case("attacks/a13_tuple.py", ["20"], 10, has=["CPU: "], lacks=[r": \d{2,}\.\d+ s CPU"]),
    Case("attacks/a13_tuple.py", ["200"], 10, has=["CPU: "], lacks=[r": \d{2,}\.\d+ s CPU"]),
    Case(
        "attacks/a14_type_equals.py",
        ["1000", "250", "60"],
        20,
        has=["CPU: "],
        lacks=[r" \d{2,}\.\d+ s CPU"],
    ),
    Case(
        "attacks/a17_paths.py",
        ["15", "4000"],
        20,
        has=[r"peak \d+ MiB"],
        lacks=[r"peak \d{4,} MiB"],
    ),
]


def in_memory_cgroup(limit: int, command: list[str]) -> tuple[list[str], Path | None]:
    """The command that runs `command` inside a memory cgroup of `limit` bytes, and the cgroup's
    folder.

    The folder is None if this process cannot make a cgroup. Then the command is returned unchanged.
    """
    name = f"tenon-case-{os.getpid()}"
    for root, file in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max"),
    ):
        folder = Path(root) / name
        try:
            folder.mkdir()
            (folder / file).write_text(str(limit))
        except OSError:
            if folder.is_dir():
                folder.rmdir()
            continue
        return ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh", *command], folder
    return command, None


def run(case: Case, folder: Path) -> tuple[str, str]:
    """Runs one case. Returns the verdict (ok, WRONG, left out) and what the case printed."""
    path = folder / case.file
    if not path.is_file():
        return "left out", f"{path} is not there"
    python = os.environ.get("TENON_TORCH_NEWEST", "") if case.torch else sys.executable
    if not python:
        return "left out", "TENON_TORCH_NEWEST does not name a Python that has PyTorch"
    command = ["bash", str(path)] if path.suffix == ".sh" else [python, str(path)]
    command += case.arguments
    group = None
    if case.memory:
        command, group = in_memory_cgroup(case.memory, command)
        if group is None:
            return "left out", "no memory cgroup can be made here (it needs root)"
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            # The shell cases call `python`: the interpreter of this script has to be the first one.
            path_first = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            done = subprocess.run(
                command,
                check=False,
                cwd=scratch,
                env=os.environ | {"PATH": path_first},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=case.seconds,
            )
    except subprocess.TimeoutExpired as error:
        so_far = (error.stdout or b"").decode(errors="replace")
        return "WRONG", f"{so_far}\nstill running after its {case.seconds:.0f} s"
    finally:
        if group is not None:
            group.rmdir()
    printed = f"{done.stdout.strip()}\n({time.monotonic() - begin:.1f} s)"
    assert case.has, f"{case.name} has no rule that its own failure would break"
    wrong = [
        f"wanted: {rule}" for rule in case.has if not re.search(rule, done.stdout, re.M | re.I)
    ]
    wrong += [
        f"not wanted: {rule}" for rule in case.lacks if re.search(rule, done.stdout, re.M | re.I)
    ]
    if done.returncode < 0:
        wrong.append(f"ended by signal {-done.returncode}")
    return ("WRONG" if wrong else "ok"), "\n".join([printed, *wrong])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = Path(__file__).resolve().parents[2] / "shared" / "cases"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help=f"default: {default}")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only cases with this in their names"
    )
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"cases.py: {options.folder} is no folder: name the one in which the cases lie")
        return 2
    counts = {"ok": 0, "WRONG": 0, "left out": 0}
    for case in CASES:
        if options.names and not any(part in case.name for part in options.names):
            continue
        verdict, printed = run(case, options.folder.resolve())
        counts[verdict] += 1
        print(f"--- {case.name}: {verdict}\n{printed}\n", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if counts["WRONG"]:
        return 1
    return 0 if counts["ok"] else 2


if __name__ == "__main__":
    sys.exit(main())
