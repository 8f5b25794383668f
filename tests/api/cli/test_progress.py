"""The progress bar of tenon export for a long file, and the files that an interrupt leaves.

slow_disk.c makes time pass only when something is written.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import signal
import struct
import subprocess
import termios
import zipfile
from pathlib import Path

import pytest
from conftest import SOURCE, TENON, wait_until

GOLDEN = SOURCE / "tests/peers/golden/module/1.12.1/net.pt"
SLOW_DISK = os.environ["TENON_CLI_SLOW_DISK"]
ERASE = "\r\x1b[K"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive whose export takes more than 10 writes."""
    path = tmp_path_factory.mktemp("large") / "large.pt"
    with zipfile.ZipFile(GOLDEN) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        folder = old.namelist()[0].split("/")[0]
        new.writestr(f"{folder}/extra/noise", random.Random(1).randbytes(5 << 19))
    return path


class Export:
    """tenon export with a terminal as its standard error."""

    def __init__(
        self, *arguments: object, columns: int = 80, environment: dict[str, str] | None = None
    ) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        variables = {
            "LD_PRELOAD": SLOW_DISK,
            "TENON_SLOW_DISK_MS": "200",
            "TERM": "xterm",
            **(environment or {}),
        }
        command = [TENON, "export", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=variables
        )
        os.close(theirs)

    def finish(self) -> tuple[int, str, str]:
        """Return the exit code, the standard output, and the text on the terminal."""
        shown = b""
        while True:
            try:
                shown += os.read(self.ours, 65536)
            except OSError:  # EIO: the process has ended
                break
        os.close(self.ours)
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said.decode(), shown.decode()


def percents(bars: list[str]) -> list[int]:
    return [int(found[1]) for bar in bars if (found := re.search(r" (\d+)% ", bar))]


def test_a_long_write_shows_how_far_it_is(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    code, said, shown = Export(large, out).finish()
    assert code == 0 and f"{out}: written: " in said
    first, *bars, rest = shown.split(ERASE)
    # The line of the bar is empty at the end.
    assert (first, rest) == ("", "")
    assert all(bar.startswith("[") and len(bar) < 80 and " of about 2.5 MiB" in bar for bar in bars)
    # Every write takes 200 ms. A bar is drawn at most every 100 ms, and not before 500 ms.
    found = percents(bars)
    assert found == sorted(found) and len(found) >= 5 and found[0] <= 40 and found[-1] >= 90
    assert all(
        round(bar.count("#") * 5, -1) in range(percent - 10, percent + 11)
        for bar, percent in zip(bars, found, strict=True)
    )
    # The other forms of a small module take one write or a few.
    forms: list[list[object]] = [["--flatbuffer", GOLDEN, out], ["--package", GOLDEN, out]]
    for arguments in forms:
        code, _, shown = Export(*arguments, environment={"TENON_SLOW_DISK_MS": "600"}).finish()
        assert code == 0 and " of about " in shown and shown.endswith(ERASE)


def test_a_narrow_terminal_gets_less(large: Path, tmp_path: Path) -> None:
    for columns in (40, 12):
        _, _, shown = Export(large, tmp_path / "out.pt", columns=columns).finish()
        bars = [bar for bar in shown.split(ERASE) if bar]
        assert bars and all("%" in bar and len(bar) < columns for bar in bars), bars


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [([], {"TENON_SLOW_DISK_MS": "0"}), (["--json"], {}), ([], {"TERM": "dumb"})],
    ids=["quick", "json", "dumb"],
)
def test_no_bar(
    large: Path, tmp_path: Path, arguments: list[str], environment: dict[str, str]
) -> None:
    code, said, shown = Export(
        large, tmp_path / "out.pt", *arguments, environment=environment
    ).finish()
    assert (code, shown) == (0, "")
    if arguments:
        assert json.loads(said)["ok"] is True


def test_no_bar_without_a_terminal(large: Path, tmp_path: Path) -> None:
    environment = {"LD_PRELOAD": SLOW_DISK, "TENON_SLOW_DISK_MS": "200", "TERM": "xterm"}
    done = subprocess.run(
        [TENON, "export", large, tmp_path / "out.pt"],
        capture_output=True,
        env=environment,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("named", [False, True], ids=["nameless", "named"])
def test_an_interrupt_leaves_no_file_behind(
    large: Path, tmp_path: Path, sent: signal.Signals, named: bool
) -> None:
    """A file without a name is not possible on every file system, so both ways are tested."""
    out = tmp_path / "out.pt"
    out.write_bytes(b"old")
    export = Export(
        large,
        out,
        environment={"TENON_SLOW_DISK_HALT": "6"}
        | ({"TENON_SLOW_DISK_NAMED": "1"} if named else {}),
    )
    shown = b""
    while b"%" not in shown:
        shown += os.read(export.ours, 65536)
    names = {path.name.rpartition("-")[0] for path in tmp_path.iterdir() if path != out}
    assert names == ({".tenon-export"} if named else set())
    export.process.send_signal(sent)
    code, said, rest = export.finish()
    assert (code, said) == (-sent, "")
    assert (shown.decode() + rest).endswith(ERASE)
    assert list(tmp_path.iterdir()) == [out] and out.read_bytes() == b"old"


def test_an_ignored_interrupt_is_none(large: Path, tmp_path: Path) -> None:
    out, go = tmp_path / "folder/out.pt", tmp_path / "go"
    out.parent.mkdir()
    environment = {
        "LD_PRELOAD": SLOW_DISK,
        "TENON_SLOW_DISK_HALT": "3",
        "TENON_SLOW_DISK_GO": str(go),
        "TENON_SLOW_DISK_NAMED": "1",
    }
    command = [
        "bash",
        "-c",
        'trap "" HUP; exec env "$@"',
        "-",
        *(f"{name}={value}" for name, value in environment.items()),
    ]
    process = subprocess.Popen([*command, TENON, "export", large, out], stdout=subprocess.DEVNULL)
    wait_until(
        lambda: any(path.stat().st_size > 0 for path in out.parent.iterdir()), "no write is done"
    )
    process.send_signal(signal.SIGHUP)
    go.touch()
    assert process.wait(60) == 0 and out.stat().st_size > large.stat().st_size / 2
