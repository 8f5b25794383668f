"""Named files between processes: deaths, sweeps and fork."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import tenon
from names import HEADER, OPEN, SEND, Child, count_of, gone, line, named, settled, tell, wait_until

# ---- other processes


def test_another_process(folder: str, child: Child) -> None:
    tensor = named(folder)
    handle = tensor.storage.share_filename()
    refused = child(SEND + "tenon.open_filename(sys.argv[1], 12)", handle.name)
    assert refused.wait(60) == 1
    assert count_of(handle.name) == 1
    process = child(OPEN, handle.name, 12)
    assert line(process) == "[1.0, 2.0, 3.0]"
    assert count_of(handle.name) == 2
    tensor.numpy()[1] = 5
    tell(process, "write 7")
    assert line(process) == "done"
    assert tensor.tolist() == [7, 5, 3]
    tell(process, "close")
    assert line(process) == "done"
    assert count_of(handle.name) == 1
    assert process.poll() is None


def test_unsealed_is_refused_with_the_way_out(folder: str, child: Child) -> None:
    handle = named_handle = named(folder, name="kept")
    name = named_handle.storage.share_filename().name
    program = (
        SEND
        + """
try: tenon.open_filename(sys.argv[1], 12)
except tenon.PermissionDenied as error: say(error.details["option"], error.details["path"])
"""
    )
    assert "UNSEALED" in (said := line(child(program, name))) and said.endswith(name)
    del handle, named_handle


def test_whoever_goes_last_removes_the_name(folder: str, child: Child) -> None:
    tensor = named(folder, name="last")
    process = child(OPEN, f"{folder}/last", 12)
    line(process)
    tensor.close()
    assert count_of(f"{folder}/last") == 1
    tell(process, "read")
    assert line(process) == "[1.0, 2.0, 3.0]"
    tell(process, "close")
    line(process)
    assert settled(folder) == []


@pytest.mark.parametrize("first", ["maker", "opener"])
def test_killed_holders(folder: str, child: Child, first: str) -> None:
    """One holder dies by SIGKILL. The other one keeps its bytes, and the name is removed when it
    lets go.
    """
    maker = child(
        SEND
        + """
array = __import__("numpy").arange(3.0, dtype="float32")
tensor = tenon.from_numpy(array, filename=tenon.Filename("shared", directory=sys.argv[1]))
say("made")
sys.stdin.readline(); say(tensor.tolist()); tensor.close(); say("closed"); sys.stdin.readline()
""",
        folder,
    )
    line(maker)
    opener = child(OPEN, f"{folder}/shared", 12)
    line(opener)
    dead, alive = (maker, opener) if first == "maker" else (opener, maker)
    dead.kill()
    dead.wait()
    assert os.listdir(folder) == ["shared"]
    tell(alive, "read")
    assert line(alive) == "[0.0, 1.0, 2.0]"
    if first == "maker":
        tell(alive, "close")
    line(alive)
    wait_until(lambda: os.listdir(folder) == [])


MAKE_AND_WAIT = (
    SEND
    + """
count = int(sys.argv[2])
names = [tenon.Filename(directory=sys.argv[1]) for _ in range(count)]
tensors = [tenon.zeros(1 << 18, filename=name) for name in names]
arena = tenon.zeros(10)
arena.storage.share_filename(filename=tenon.Filename(directory=sys.argv[1], prefix="tenon-socket-"))
say("made"); sys.stdin.readline()
"""
)


def test_sweep(unwatched: str, child: Child) -> None:
    process = child(MAKE_AND_WAIT, unwatched, 3)
    line(process)
    assert tenon.sweep(unwatched) == tenon.Sweep(4, 0, 0, 0, 0)
    process.kill()
    process.wait()
    would = tenon.sweep(unwatched, dry_run=True)
    assert (would.live, would.in_flight, would.dead, would.unsure) == (
        0,
        0,
        4,
        0,
    ) and would.removed_nbytes >= 3 << 20
    assert len([name for name in os.listdir(unwatched) if not name.startswith(".")]) == 4
    assert tenon.sweep(unwatched) == would
    assert os.listdir(unwatched) == []
    assert tenon.sweep(unwatched) == tenon.Sweep(0, 0, 0, 0, 0)
    with pytest.raises(tenon.NotFound):
        tenon.sweep(f"{unwatched}/no")


def test_sweep_leaves_what_is_not_ours(folder: str) -> None:
    maker = subprocess.Popen(["true"])
    maker.wait()
    torch = f"torch_{maker.pid}_2_3"
    foreign = {
        torch: b"\1" + bytes(HEADER + 3),
        "tenon-not": b"\1" + bytes(HEADER + 3),
        "x": b"",
        "tenon-short": b"1",
    }
    for name, data in foreign.items():
        Path(folder, name).write_bytes(data)
    os.symlink("x", f"{folder}/tenon-link")
    assert tenon.sweep(folder).dead == 0
    assert sorted(os.listdir(folder)) == sorted([*foreign, "tenon-link"])
    # A sweep removes PyTorch's files only on request, and only once they are old.
    assert tenon.sweep(folder, torch=True).dead == 0
    assert tenon.sweep(folder, torch=True, dry_run=True, min_age=0).dead == 1
    assert os.path.exists(f"{folder}/{torch}")
    with open(f"{folder}/{torch}", "rb"):
        assert tenon.sweep(folder, torch=True, min_age=0).dead == 0
    assert tenon.sweep(folder, torch=True, min_age=0).dead == 1
    assert not os.path.exists(f"{folder}/{torch}")
    for name in os.listdir(folder):
        os.unlink(f"{folder}/{name}")


def test_a_live_peer_removes_what_a_killed_one_left(folder: str, child: Child) -> None:
    """No call of this process removes the names. The library's thread watches the directories in
    which this process has names.
    """
    ours = named(folder)
    process = child(MAKE_AND_WAIT, folder, 2)
    line(process)
    assert len([name for name in os.listdir(folder) if not name.startswith(".")]) == 4
    process.kill()
    process.wait()
    begin = time.monotonic()
    wait_until(lambda: len(os.listdir(folder)) == 1)
    # The promise is 0.1 s. A loaded machine gets more time.
    assert time.monotonic() - begin < 5
    tenon.sweep(folder)
    assert ours.tolist() == [1, 2, 3]


def test_fork(folder: str) -> None:
    tensor = named(folder, name="forked")
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(writer)
            os.read(reader, 1)
            # The parent has let go by now.
            tensor.numpy()[0] = 4
            assert tensor.tolist() == [4, 2, 3] and os.path.exists(f"{folder}/forked")
            assert (
                tenon.open_filename(f"{folder}/forked", 12, allow_unsealed=True) == tensor.storage
            )
            own = tenon.zeros(3, filename=tenon.Filename("own", directory=folder))
            own.close()
            gone(f"{folder}/own")
            assert os.listdir(folder) == ["forked"]
            tensor.close()
            code = 0
        finally:
            os._exit(code)
    os.close(reader)
    tensor.close()
    assert os.path.exists(f"{folder}/forked")
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    wait_until(lambda: tenon.sweep(folder).live == 0)
    assert settled(folder) == []


def test_a_forked_child_lends_by_socket(folder: str, child: Child) -> None:
    parents = tenon.from_numpy(np.arange(3, dtype=np.float32))
    name = parents.storage.share_filename(filename=tenon.Filename("parents", directory=folder))
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            own = tenon.from_numpy(np.arange(3, dtype=np.float32) + 5)
            os.write(
                writer,
                repr(
                    own.storage.share_filename(
                        filename=tenon.Filename("childs", directory=folder)
                    ).offset
                ).encode(),
            )
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    offset = int(os.read(reader, 100))
    os.close(reader)
    assert line(child(OPEN, f"{folder}/childs", 12, offset)) == "[5.0, 6.0, 7.0]"
    assert line(child(OPEN, name.name, 12, name.offset)) == "[0.0, 1.0, 2.0]"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    # This process watches the folder, so the dead name may be gone by now.
    with pytest.raises((tenon.PeerGone, tenon.NotFound)):
        tenon.open_filename(f"{folder}/childs", 12, offset)
    assert line(child(OPEN, name.name, 12, name.offset)) == "[0.0, 1.0, 2.0]"
    assert tenon.sweep(folder).dead <= 1
