"""tenon.torch.multiprocessing in place of torch.multiprocessing, in real PyTorch processes.

The programs lie in ../dropin. Each program runs once for each PyTorch, and each row that it prints
is a test here.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import Peer  # type: ignore[import-not-found]

PROGRAMS = Path(__file__).parents[1] / "dropin"
CONTAINERS = [
    name.replace("_", " ")
    for name in re.findall(
        r"^def check_(\w+)", (PROGRAMS / "containers.py").read_text(), re.MULTILINE
    )
]
SECONDS = 600
Lines = tuple[
    dict[str, str], str
]  # of a program's rows by name, and what it wrote to standard error


def rows_of(program: str) -> list[str]:
    return re.findall(r"^@(?:bare_)?row\ndef (\w+)", (PROGRAMS / program).read_text(), re.MULTILINE)


def run(peer: Peer, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [peer.python, "-B", str(PROGRAMS / name), *arguments]
    return subprocess.run(
        command, env=peer.environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )


def run_rows(peer: Peer, program: str) -> Lines:
    done = run(peer, program)
    return {line.split()[1]: line for line in done.stdout.splitlines()}, done.stderr


def check_row(lines: Lines, name: str) -> None:
    line = lines[0].get(name, "missing")
    if line.startswith("lacking"):
        pytest.skip(line)
    assert line.startswith("ok "), f"{line}\n{lines[1]}"


@pytest.fixture(scope="session")
def rows(peer: Peer) -> Lines:
    return run_rows(peer, "rows.py")


@pytest.fixture(scope="session")
def split_rows(peer: Peer) -> Lines:
    return run_rows(peer, "split_rows.py")


@pytest.fixture(scope="session")
def put_rows(peer: Peer) -> Lines:
    return run_rows(peer, "put_rows.py")


@pytest.mark.parametrize("name", rows_of("rows.py"))
def test_row(rows: Lines, name: str) -> None:
    check_row(rows, name)


@pytest.mark.parametrize("name", rows_of("put_rows.py"))
def test_row_of_put(put_rows: Lines, name: str) -> None:
    check_row(put_rows, name)


@pytest.mark.parametrize("name", rows_of("split_rows.py"))
def test_split(split_rows: Lines, name: str) -> None:
    check_row(split_rows, name)


@pytest.fixture(scope="session")
def containers(peer: Peer) -> tuple[str, str]:
    done = run(peer, "containers.py")
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", CONTAINERS)
def test_container(containers: tuple[str, str], name: str) -> None:
    output, errors = containers
    assert f"{name}: good\n" in output, errors


def test_reference(peer: Peer) -> None:
    """PyTorch 1.13.1's own test_multiprocessing.py, which Debian's source package has."""
    done = subprocess.run(
        ["python3", "-B", str(PROGRAMS / "reference.py"), "--python", peer.python],
        env=peer.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workers_of_a_loader_are_killed(peer: Peer) -> None:
    done = run(peer, "loader_storm.py", "--kills", os.environ.get("TENON_LOADER_KILLS", "30"))
    assert done.returncode == 0, done.stdout + done.stderr
