"""Runs vLLM's own test of its message queue on tenon.integrations.vllm, and on vLLM's own file:
python vllm_queue.py [--python PYTHON] [--on tenon|vllm|both] [ROW…].

The files are those of vLLM 0.33.0 (commit 4ba787ec9). They are not in this repository: pip fetches
vLLM's source package from PyPI, of which three files are taken and nothing is installed. They stay
in build/reference/vllm (--cache, or TENON_REFERENCE). pip also puts there what the test imports
(multiprocess, dill, pytest), and pyzmq for vLLM's own queue. All else that the files import from
vLLM is in vllm_stubs.py. PYTHON must have PyTorch and numpy, and find tenon (PYTHONPATH).

The program prints a line for each row:

ok       It passed.
skipped  The machine lacks what the row needs.
other    The row does not concern Tenon, and was not run.
theirs   Such a row failed on vLLM's own file. That is no failure here.
failed   It failed.

The exit status is 1 if a row failed, or if a row of OTHER does not exist. It is 77 if the files
cannot be had.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from run_rows import note, run_rows

VERSION = "0.33.0"
TEST = "tests/distributed/test_shm_broadcast.py"
RING = "vllm/distributed/device_communicators/shm_broadcast.py"
ARENA = "vllm/distributed/device_communicators/shm_tensor_arena.py"
FILES = {
    TEST: "f389855187185ea4ebf016cdf151bad5d1450b731b9ee932fc30bff92221ff48",
    RING: "7f253343529f09de0a6b2365d7719ac03a532756fd2439cef7983fbb3e834563",
    ARENA: "8e17943281b9d981e1320089b731cb307b054368bdddff83518e35c84357c4b0",
}
"""The files, and the SHA-256 of each."""
PACKAGES = [
    "multiprocess",
    "dill",
    "pyzmq",
    "pytest",
    "iniconfig",
    "pluggy",
    "packaging",
    "pygments",
]

_RING = "it looks into vLLM's ring, which Tenon does not have"
_ARENA = "it looks into vLLM's arena, which Tenon does not have"
_SPACE = "it tests the check for free space in /dev/shm, where Tenon puts nothing"
_WAITS = "it counts the calls by which vLLM's reader polls. Tenon's reader sleeps in the library"
_COUNTS = "it counts calls of vLLM's ZMQ socket, or buffers below vLLM's threshold of 1 MiB"
OTHER: dict[str, str] = {
    "test_message_queue_idle_wake": _WAITS,
    "test_message_queue_busy_to_idle": _WAITS,
    "test_tensor_broadcast": _COUNTS,
    "test_broadcast_retains_values_after_ring_reuse[inline-*]": _COUNTS,
    "test_broadcast_retains_values_after_ring_reuse[overflow-*]": _COUNTS,
    "test_reader_timeout_caps_indefinite_waits[*]": _WAITS,
    "test_reader_rechecks_shm_after_idle_wait_timeout_without_notify": _RING,
    "test_busy_reader_consumes_write_notifications": _RING,
    "test_acquire_read_releases_slot_when_reader_raises": _RING,
    "test_check_shm_free_space_*": _SPACE,
    "test_shm_ring_buffer_creation_checks_free_space": _SPACE,
    "test_shm_tensor_arena_creation_checks_free_space": _SPACE,
    "test_remote_subscribe_addr_unique_concurrent_writers": "Tenon has no readers elsewhere",
    "test_arena_*": _ARENA,
    "test_tensor_arena_registry_is_weak_and_survives_shutdown": _ARENA,
    "test_create_from_handle_tolerates_arena_attach_failure": _ARENA,
}
"""Rows that do not concern Tenon, and why.

Where there is such a behaviour, vllm_rows.py (tensors of PyTorch) and test_vllm.py test it in rows
of the same name.
"""

_HERE = Path(__file__).resolve().parent
_REPOSITORY = _HERE.parents[3]
# pip asks the build backend for the package's name. This one runs nothing of vLLM.
_BACKEND = f"""
import os


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    name = "vllm-{VERSION}.dist-info"
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: vllm\\nVersion: {VERSION}\\n")
    return name
"""


class Unavailable(Exception):
    """The files cannot be had here."""


# ---- fetching


def pip(python: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"pip does not answer: {error}") from None
    if done.returncode:
        raise Unavailable(f"pip {' '.join(arguments)}:\n{done.stdout}")


def fetch(python: str, cache: Path) -> Path:
    """The folder with vLLM's files. Fetch them first if they are not there."""
    folder = cache / f"vllm-{VERSION}"
    if not all((folder / name).exists() for name in FILES):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as part:
            backend = Path(part, "backend", "setuptools")
            backend.mkdir(parents=True)
            (backend / "__init__.py").touch()
            (backend / "build_meta.py").write_text(_BACKEND)
            pip(
                python,
                "download",
                "--no-deps",
                "--no-build-isolation",
                "--no-binary=vllm",
                f"--dest={part}",
                f"vllm=={VERSION}",
                environment={"PYTHONPATH": str(backend.parent)},
            )
            with tarfile.open(Path(part, f"vllm-{VERSION}.tar.gz")) as archive:
                for name in FILES:
                    try:
                        content = archive.extractfile(f"vllm-{VERSION}/{name}")
                    except KeyError:
                        raise Unavailable(f"vLLM's source package has no {name}") from None
                    assert content is not None
                    path = Path(part, "files", name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content.read())
            for name in FILES:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(part, "files", name), folder / name)
    for name, digest in FILES.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise Unavailable(
                f"{folder / name} is not the file of vLLM {VERSION}: remove it, and it is fetched"
                " again"
            )
    return folder


def packages(python: str, cache: Path) -> Path:
    """The folder with the packages that the test imports."""
    version = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    folder = cache / f"packages-{version}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="packages-") as part:
            pip(python, "install", "--no-deps", f"--target={part}/all", *PACKAGES)
            try:
                os.replace(Path(part, "all"), folder)
            except OSError:
                if not folder.exists():  # another test was quicker
                    raise
    return folder


# ---- in the process that runs the rows


def row_of(node: str) -> str:
    """The name of a row. Rows of vllm_rows.py have "own" before it."""
    file, _, name = node.partition("::")
    return f"own::{name}" if file.endswith("vllm_rows.py") else name


def run_here(on: str, folder: Path, rows: list[str]) -> int:
    import pytest

    class Rows:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            row = row_of(report.nodeid)
            if report.outcome != "passed":
                note(row, report.outcome, str(report.longrepr)[-2000:])
            elif report.when == "call":
                note(row, "ok")

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            for item in items.copy():
                row = row_of(item.nodeid)
                why = other(row) if on == "tenon" else None
                if why is None:
                    note(row, "begun")
                else:
                    note(row, "other", why)
                    items.remove(item)

    arguments = ["-q", "--noconftest", "-c", os.devnull, "-p", "vllm_stubs", "--tb=short"]
    files = [folder / TEST]
    if on == "tenon":
        files.append(_HERE / "vllm_rows.py")
    selected = ["-k", " or ".join(rows)] if rows else []
    return int(pytest.main([*arguments, *selected, *map(str, files)], plugins=[Rows()]))


# ---- in the process that was called


def other(row: str) -> str | None:
    """Why a row does not concern Tenon."""
    return next((why for pattern, why in OTHER.items() if _matches(pattern, row)), None)


def run(
    python: str, on: str, folder: Path, libraries: Path, rows: list[str], seconds: float
) -> bool:
    with tempfile.TemporaryDirectory(prefix="tenon-vllm-test-") as scratch:
        stub = Path(scratch, "stubs", "vllm", "__init__.py")
        stub.parent.mkdir(parents=True)
        stub.write_text("import vllm_stubs\n\nvllm_stubs.install()\n")
        path = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        path += [str(libraries), str(_HERE), str(stub.parents[1])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "VLLM_QUEUE_FOLDER": str(folder) if on == "vllm" else "",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [python, "-B", __file__, "--run", "--on", on, "--cache", str(folder)]
        notes = run_rows([*command, *rows], scratch, environment, seconds)
    good = bool(notes)
    for found in notes:
        row, outcome = found["row"], found["outcome"]
        why = " ".join(found.get("why", "").split())[-300:]
        if on == "vllm" and outcome == "failed" and other(row) is not None:
            # A loaded machine breaks some of these rows, which depend on the time that ZMQ takes.
            outcome = "theirs"
        good = good and outcome != "failed"
        print(f"{on}: {outcome:8} {row}" + (f" ({why})" if why else ""), flush=True)
    if on == "tenon" and not rows:
        # A row that has another name in a later version must not be lost.
        names = [each["row"] for each in notes]
        patterns = {
            pattern for pattern in OTHER if not any(_matches(pattern, name) for name in names)
        }
        if patterns:
            print(f"{on}: failed   OTHER has rows that do not exist: {sorted(patterns)}")
            good = False
    return good


def _matches(pattern: str, row: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), row) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description="Run vLLM's test_shm_broadcast.py on Tenon.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all of them if none is named")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--on", choices=("tenon", "vllm", "both"), default="both")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--seconds", type=float, default=400, help="how long each may take")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run_here(options.on, options.cache, options.rows)
    reference = os.environ.get("TENON_REFERENCE") or _REPOSITORY / "build" / "reference"
    cache = (options.cache or Path(reference, "vllm")).resolve()
    if not options.python:
        print("skipped: TENON_TORCH_NEWEST is not set (tools/test --peers all sets it)")
        return 77
    look = "import torch, numpy"
    if subprocess.run(
        [options.python, "-c", look], stderr=subprocess.DEVNULL, check=False
    ).returncode:
        print(f"skipped: {options.python} has no PyTorch")
        return 77
    try:
        folder = fetch(options.python, cache)
        libraries = packages(options.python, cache)
    except Unavailable as error:
        print(f"skipped: {error}")
        return 77
    which = ("vllm", "tenon") if options.on == "both" else (options.on,)
    good = [
        run(options.python, on, folder, libraries, options.rows, options.seconds) for on in which
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
