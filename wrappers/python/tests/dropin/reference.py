"""Runs PyTorch's own test of torch.multiprocessing on the drop-in: python reference.py [--python
PYTHON] [--how HOW] [ROW…].

The file is test/test_multiprocessing.py of PyTorch 1.13.1. It is not in this repository: apt
fetches Debian's source package, and the file stays in build/reference (--cache, or
TENON_REFERENCE). The file needs PyPI's expecttest: if PYTHON has none, pip puts it into that
folder. All else that the file imports is PYTHON's own PyTorch. PYTHON must find tenon (PYTHONPATH).

The file names no strategy but "file_system". Its rows named fd run under the strategy that is
current, and fs_sharing() puts that one back. So the file needs no change: its fd rows are rows of
"tenon", and its fs rows are rows of PyTorch's "file_system" beside it. --how says how the drop-in
gets into the process:

install  the default: tenon.torch.install() is called first, and children of spawn get the strategy
         from their parent alone.
import   a copy of the file is run in which `import torch.multiprocessing` reads `import
         tenon.torch.multiprocessing`.
plain    not at all, for comparison: the rows run under PyTorch's "file_descriptor".

The program prints a line for each row: ok, skipped (why), expected (why) or failed. The exit status
is 1 if a row failed that EXPECTED does not have, or if a row of EXPECTED passed, and 2 if the file
cannot be had.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from run_rows import note, run_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    import unittest
    from typing import Any

VERSION = "1.13.1"
MEMBER = "test/test_multiprocessing.py"
SHA256 = "b1e907298eca9f110897b036e9aff4f6a8576a37737d0fb5dab01761ea891f52"
ROWS = 37

EXPECTED: dict[str, str] = {}
"""Rows that must fail under the drop-in, and why.

A row that passes again has to leave this table.
"""

_REPOSITORY = Path(__file__).resolve().parents[4]
_PLAIN = "import torch.multiprocessing as mp\n"


class Unavailable(Exception):
    """The file cannot be had or run here."""


# ---- fetching the file


def _sources(folder: Path) -> None:
    """Write apt sources for source packages: the machine's own sources, of the other type."""
    apt = Path("/etc/apt")
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        text = path.read_text()
        if path.suffix == ".sources":
            text = re.sub(r"(?m)^Types:.*$", "Types: deb-src", text)
        else:
            text = re.sub(r"(?m)^deb(?=[ \t])", "deb-src", text)
        (folder / path.name).write_text(text)


def _download(folder: Path) -> Path:
    """Fetch the tarball of PyTorch's sources by apt, with lists and caches of this program's
    own.
    """
    for name in ("sources", "state/lists/partial", "cache/archives/partial", "package"):
        (folder / name).mkdir(parents=True)
    _sources(folder / "sources")
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": folder / "sources",
        "Dir::State": folder / "state",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    output = ""
    try:
        for command in (["update"], ["source", "--download-only", "--only-source", "pytorch"]):
            # Both commands may fail in part: a source may have no source packages, or the tarball
            # of Debian's patches may be gone. Only the fetched files decide.
            done = subprocess.run(
                [*apt, *command],
                cwd=folder / "package",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
                check=False,
            )
            output += done.stdout
    except FileNotFoundError:
        raise Unavailable(
            "apt-get is not installed: put test_multiprocessing.py into the folder of --cache by"
            " hand"
        ) from None
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"apt does not answer: {error}") from None
    found = sorted((folder / "package").glob(f"pytorch_{VERSION}*.orig.tar.*"))
    if not found:
        raise Unavailable(
            f"apt has no sources of PyTorch {VERSION}, which Debian bookworm has:\n{output}"
        )
    return found[0]


def fetch(cache: Path) -> Path:
    """Return the test file in the cache. Fetch it first if it is not there."""
    path = cache / Path(MEMBER).name
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
            part = Path(folder, "part")
            with tarfile.open(_download(Path(folder)), "r|*") as archive:
                for member in archive:
                    if member.isfile() and member.name.split("/", 1)[-1] == MEMBER:
                        content = archive.extractfile(member)
                        assert content is not None
                        part.write_bytes(content.read())
                        break
                else:
                    raise Unavailable(f"the sources have no {MEMBER}")
            os.replace(part, path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise Unavailable(
            f"{path} is not the file of PyTorch {VERSION}: remove it, and it is fetched again"
        )
    return path


def _packages(python: str, cache: Path) -> list[str]:
    """The folder with expecttest, or an empty list if Python has expecttest itself."""
    if not subprocess.run(
        [python, "-c", "import expecttest"], stderr=subprocess.DEVNULL, check=False
    ).returncode:
        return []
    folder = cache / "packages"
    if not (folder / "expecttest").exists():
        pip = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "-q",
            "install",
            "--no-deps",
            "--target",
            str(folder),
            "expecttest",
        ]
        done = subprocess.run(
            pip,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise Unavailable(f"{python} has no expecttest, and pip did not get it:\n{done.stdout}")
    return [str(folder)]


# ---- in the process that runs the file


def _name(test: unittest.TestCase) -> str:
    return str(getattr(test, "_testMethodName", test))


def _result_class(strategy: str) -> type[unittest.TextTestResult]:
    import unittest

    class Rows(unittest.TextTestResult):
        def startTest(self, test: unittest.TestCase) -> None:
            import torch.multiprocessing

            super().startTest(test)
            current = torch.multiprocessing.get_sharing_strategy()
            assert current == strategy, f"{_name(test)} begins under {current}"
            note(_name(test), "begun")

        def addSuccess(self, test: unittest.TestCase) -> None:
            super().addSuccess(test)
            note(_name(test), "ok")

        def addSkip(self, test: unittest.TestCase, reason: str) -> None:
            super().addSkip(test, reason)
            note(_name(test), "skipped", why=reason)

        def addFailure(self, test: unittest.TestCase, err: Any) -> None:
            super().addFailure(test, err)
            note(_name(test), "failed", why=str(err[1]))

        def addError(self, test: unittest.TestCase, err: Any) -> None:
            super().addError(test, err)
            note(_name(test), "failed", why=f"{err[0].__name__}: {err[1]}")

    return Rows


def run_here(how: str, file: str, rows: list[str]) -> None:
    """Run the file as the main module of this process.

    Children of spawn find it as they would if Python had been given the file.
    """
    import types
    import unittest

    if how == "install":
        import tenon.torch

        tenon.torch.install()
    unittest.TextTestRunner.resultclass = _result_class(
        "file_descriptor" if how == "plain" else "tenon"
    )
    sys.argv = [file, *(f"TestMultiprocessing.{row}" for row in rows)]
    sys.path[0] = str(Path(file).parent)
    main = types.ModuleType("__main__")
    main.__file__ = file
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(compile(Path(file).read_text(), file, "exec"), main.__dict__)


# ---- in the process that was called


def _judge(found: dict[str, str], how: str) -> bool:
    """Print a row's line. Return whether the outcome is the expected one."""
    row, outcome, why = found["row"], found["outcome"], " ".join(found.get("why", "").split())
    expected = EXPECTED.get(row) if how != "plain" else None
    good = outcome != "failed"
    if expected and outcome == "failed":
        outcome, why, good = "expected", expected, True
    elif expected and outcome == "ok":
        outcome, why, good = "failed", f"it passes, and EXPECTED says: {expected}", False
    print(f"{outcome:8} {row}" + (f" ({why[:200]})" if why else ""), flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run PyTorch's test_multiprocessing.py on the drop-in."
    )
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        help="such as test_fd_sharing; all of them if none is named",
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the Python that has PyTorch and finds tenon"
    )
    parser.add_argument(
        "--how",
        choices=("install", "import", "plain"),
        default="install",
        help="how the drop-in gets there",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=os.environ.get("TENON_REFERENCE") or _REPOSITORY / "build" / "reference",
    )
    parser.add_argument("--seconds", type=float, default=300, help="how long the rows may take")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_here(options.how, options.run, options.rows)
        return 0
    cache = options.cache.resolve()
    try:
        file = fetch(cache)
        packages = _packages(options.python, cache)
        with tempfile.TemporaryDirectory(prefix="tenon-reference-") as folder:
            if options.how == "import":
                text = file.read_text()
                if text.count(_PLAIN) != 1:
                    raise Unavailable(f"{file} does not import torch.multiprocessing once")
                file = Path(shutil.copy(file, folder))
                file.write_text(text.replace(_PLAIN, _PLAIN.replace("torch", "tenon.torch", 1)))
            path = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *packages]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
            # This variable marks PyTorch's own CI. There the file writes its results as XML with a
            # package that is not installed here.
            environment.pop("CI", None)
            command = [options.python, __file__, "--run", str(file), "--how", options.how]
            notes = run_rows([*command, *options.rows], folder, environment, options.seconds)
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2
    good = [_judge(found, options.how) for found in notes]
    wanted = len(options.rows) or ROWS
    if len(good) != wanted:
        print(f"failed   {len(good)} rows of {wanted} were run")
    return 0 if all(good) and len(good) == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
