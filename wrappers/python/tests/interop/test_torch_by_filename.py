"""Storages travel by name between Tenon here and live PyTorch processes. PyTorch uses its private
calls, and nothing of Tenon's unless a test says so.

The PyTorch processes use PyTorch's own manager, or Tenon's if the tuple names it.
"""

from __future__ import annotations

import ast
import gc
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon
from conftest import Peer, PeerError  # type: ignore[import-not-found]
from tenon.torch import TorchFilename, share_filename
from views import UNTYPED, VIEWS  # type: ignore[import-not-found]

MADE = """
kept.append(t)
manager, name, nbytes = untyped(t)._share_filename_cpu_()
value = dict(manager=manager.decode(), name=name.decode(), nbytes=nbytes)
value.update(offset=t.storage_offset(), sizes=list(t.shape), strides=list(t.stride()))
"""

OPEN = """
storage = torch.UntypedStorage._new_shared_filename_cpu({0!r}, {1!r}, {2})
t = torch.empty(0, dtype=torch.{6}).set_(storage, {3}, {4}, {5})
kept.append(t)
value = t.tolist()
"""


@pytest.fixture(scope="module", autouse=True)
def started(peer: Peer) -> None:
    """Start PyTorch's manager in the peer and the library's thread here before fds are counted."""
    peer.run("import tenon.torch")
    made_by_torch(peer, "torch.ones(1)", "float32")
    opened_by_torch(peer, tenon.zeros(1, filename=tenon.Filename()))
    tenon.zeros(1, filename=tenon.Filename(directory="/tmp"))
    peer.let_go()
    gc.collect()


@pytest.fixture(autouse=True)
def seen(peer: Peer) -> Iterator[list[str]]:
    """The names that a test has met. At the end of the test all of them must be gone."""
    names.clear()
    yield names
    peer.end_started()
    peer.let_go()
    deadline = time.monotonic() + 30
    gc.collect()
    while left := [name for name in names if os.path.exists(f"/dev/shm{name}")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.005)


names: list[str] = []


def count_of(name: str) -> int:
    return int(struct.unpack("i", Path(f"/dev/shm{name}").read_bytes()[:4])[0])


def exists(name: str) -> bool:
    return os.path.exists(f"/dev/shm{name}")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def handle_of(spec: dict[str, Any]) -> tenon.FilenameHandle:
    names.append(spec["name"])
    return tenon.FilenameHandle.from_torch_tuple(
        spec["manager"].encode(), spec["name"].encode(), spec["nbytes"]
    )


def made_by_torch(peer: Peer, expression: str, dtype: str) -> tenon.Tensor:
    spec = peer.run(f"{UNTYPED}\nt = {expression}\n{MADE}")
    handle = handle_of(spec)
    with pytest.raises(tenon.PermissionDenied):
        tenon.open_filename(handle)
    storage = tenon.open_filename(handle, allow_unsealed=True)
    return tenon.Tensor.over(
        storage, spec["sizes"], dtype, strides=spec["strides"], offset=spec["offset"]
    )


def opened_by_torch(peer: Peer, tensor: tenon.Tensor) -> object:
    lent = share_filename(tensor)
    names.append(lent.name.decode())
    return peer.run(OPEN.format(*lent, tensor.dtype))


@pytest.mark.parametrize(
    ("expression", "dtype", "expected"), VIEWS, ids=[view[0] for view in VIEWS]
)
def test_file_made_by_torch(peer: Peer, expression: str, dtype: str, expected: np.ndarray) -> None:  # type: ignore[type-arg]
    before = tenon.stats().bytes_copied
    tensor = made_by_torch(peer, expression, dtype)
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert not tensor.storage.is_sealed and not tensor.read_only
    assert tenon.stats().bytes_copied == before


def test_bfloat16_made_by_torch(peer: Peer) -> None:
    tensor = made_by_torch(peer, "torch.tensor([1., 2.]).to(torch.bfloat16)", "bfloat16")
    assert tensor.view(dtype="uint16").tolist() == [0x3F80, 0x4000]


def test_writes_are_seen_both_ways(peer: Peer) -> None:
    tensor = made_by_torch(peer, "torch.zeros(4, 6)[1:, ::2]", "float32")
    tensor.numpy()[2, 1] = 5
    assert peer.run("value = kept[-1][2, 1].item()") == 5
    peer.run("kept[-1][0, 0] = 6")
    assert tensor[0, 0].item() == 6
    peer.let_go()
    assert tensor.tolist() == [[6, 0, 0], [0, 0, 0], [0, 5, 0]]


def test_the_last_removes_the_name_of_torchs_file(peer: Peer) -> None:
    for last in ("torch", "tenon"):
        tensor = made_by_torch(peer, "torch.ones(3)", "float32")
        name = names[-1]
        assert count_of(name) == 2
        if last == "torch":
            tensor.close()
            assert count_of(name) == 1 and exists(name)
            peer.let_go()
        else:
            peer.let_go()
            assert count_of(name) == 1 and tensor.tolist() == [1, 1, 1]
            tensor.close()
        wait_until(lambda name=name: not exists(name))  # type: ignore[misc]


def test_the_last_removes_the_name_of_tenons_file(peer: Peer) -> None:
    for last in ("torch", "tenon"):
        tensor = tenon.zeros(3, filename=tenon.Filename())
        assert opened_by_torch(peer, tensor) == [0, 0, 0]
        name = names[-1]
        assert count_of(name) == 2
        if last == "torch":
            tensor.close()
            assert count_of(name) == 1
            assert peer.run("value = kept[-1].sum().item()") == 0
            peer.let_go()
        else:
            peer.let_go()
            assert count_of(name) == 1
            tensor.close()
        wait_until(lambda name=name: not exists(name))  # type: ignore[misc]


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "bfloat16",
    ],
)
def test_file_made_by_tenon(peer: Peer, dtype: str) -> None:
    if dtype == "bfloat16":
        tensor = tenon.from_numpy(
            np.array([[0x3F80, 0x4000]], np.uint16), filename=tenon.Filename()
        ).view(dtype="bfloat16")
        assert opened_by_torch(peer, tensor) == [[1, 2]]
        return
    tensor = tenon.from_numpy(np.arange(12).reshape(3, 4).astype(dtype), filename=tenon.Filename())
    before = tenon.stats().bytes_copied
    assert opened_by_torch(peer, tensor) == tensor.tolist()
    assert opened_by_torch(peer, tensor[1:, ::2]) == tensor[1:, ::2].tolist()
    assert (
        opened_by_torch(peer, tensor.view(shape=(4, 3), strides=(1, 4)))
        == tensor.numpy().T.tolist()
    )
    assert tenon.stats().bytes_copied == before
    assert len(set(names)) == 1 and count_of(names[0]) == 4


def test_torch_writes_into_tenons_file(peer: Peer) -> None:
    tensor = tenon.zeros((3, 4), filename=tenon.Filename())
    opened_by_torch(peer, tensor[:, 1:])
    peer.run("kept[-1][2, 0] = 7")
    assert tensor[2, 1].item() == 7
    tensor.numpy()[0, 1] = 8
    assert peer.run("value = kept[-1][0, 0].item()") == 8
    tensor.close()
    assert peer.run("value = kept[-1].sum().item()") == 15


def test_empty(peer: Peer) -> None:
    tensor = tenon.zeros((0, 3), filename=tenon.Filename())
    assert opened_by_torch(peer, tensor) == []
    spec = peer.run(f"{UNTYPED}\nt = torch.empty(0)\n{MADE}")
    assert tenon.open_filename(handle_of(spec), allow_unsealed=True).nbytes == 0


def test_messages_in_flight(peer: Peer) -> None:
    tensor = tenon.zeros(3, filename=tenon.Filename())
    lent = share_filename(tensor, in_flight=True)
    name = lent.name.decode()
    names.append(name)
    assert lent.in_flight and count_of(name) == 2
    tensor.close()
    # No process holds the file now. The message in flight keeps it.
    assert exists(name) and count_of(name) == 1
    assert peer.run(OPEN.format(*lent, "float32") + "\nstorage._shared_decref()") == [0, 0, 0]
    assert count_of(name) == 1
    peer.let_go()
    wait_until(lambda: not exists(name))
    # The same message in the other direction.
    spec = peer.run(f"{UNTYPED}\nt = torch.ones(3)\n{MADE}\nuntyped(t)._shared_incref()")
    peer.let_go()
    handle = handle_of(spec)
    assert count_of(handle.name) == 1
    storage = tenon.open_filename(handle, allow_unsealed=True, decref=True)
    assert count_of(handle.name) == 1 and struct.unpack("3f", storage.data) == (1, 1, 1)
    storage.close()
    wait_until(lambda: not exists(handle.name))


def test_same_storage_by_name_and_by_fd(peer: Peer) -> None:
    tensor = tenon.zeros(4, filename=tenon.Filename())
    first, second = share_filename(tensor), share_filename(tensor[2:])
    assert (first.name, first.manager) == (
        second.name,
        second.manager,
    ) and second.storage_offset == 2
    names.append(first.name.decode())
    spec = made_by_torch(peer, "torch.ones(3)", "float32")
    again = tenon.open_filename(tenon.FilenameHandle(names[-1], 12), allow_unsealed=True)
    assert again == spec.storage and count_of(names[-1]) == 2


def test_what_torch_cannot_take() -> None:
    for tensor in (
        tenon.zeros(3),
        tenon.zeros(3, mode="frozen"),
        tenon.zeros(3, mode="lender_writes"),
    ):
        with pytest.raises(tenon.Unsupported, match="make it with filename=") as caught:
            share_filename(tensor)
        assert caught.value.details["option"] == "filename"
    filename = tenon.Filename()
    for tensor in (
        tenon.empty(4, "float4_e2m1fn", filename=filename),
        tenon.zeros(4, filename=filename)[::-1],
    ):
        with pytest.raises(tenon.Unsupported):
            share_filename(tensor)
    with pytest.raises(tenon.TenonError):
        share_filename(tenon.zeros(4, filename=tenon.Filename(directory="/tmp")))
    with pytest.raises(tenon.TenonError):
        share_filename(tenon.zeros(4, filename=tenon.Filename("a" * 100)))


def test_a_file_that_torch_cuts_short(peer: Peer) -> None:
    tensor = made_by_torch(peer, "torch.ones(100000)", "float32")
    os.truncate(f"/dev/shm{names[-1]}", 4096)
    with pytest.raises(tenon.Corrupt):
        tensor.storage.read()
    with pytest.raises(tenon.Corrupt):
        tenon.open_filename(
            tenon.FilenameHandle(names[-1], 400000), allow_unsealed=True, private_copy=True
        )
    os.truncate(f"/dev/shm{names[-1]}", 64 + 400000)


# ---- deaths

ALONE = f"""
import signal, torch, torch.multiprocessing
torch.multiprocessing.set_sharing_strategy("file_system")
{UNTYPED}
def say(*values): print(*map(repr, values), sep="|", flush=True)
"""


def said(process: subprocess.Popen[str]) -> list[Any]:
    assert process.stdout is not None
    return [ast.literal_eval(word) for word in process.stdout.readline().split("|")]


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_torch_is_killed_while_it_holds_tenons_file(peer: Peer) -> None:
    tensor = tenon.zeros(3, filename=tenon.Filename())
    lent = share_filename(tensor)
    name = lent.name.decode()
    names.append(name)
    process = peer.start(
        f"{ALONE}\ns = torch.UntypedStorage._new_shared_filename_cpu(*{lent.torch_tuple()!r})\n"
        "say('held')\nsignal.pause()"
    )
    assert said(process) == ["held"]
    assert count_of(name) == 2
    kill(process)
    tensor.numpy()[0] = 4
    assert exists(name) and tensor.tolist() == [4, 0, 0]
    tensor.close()
    wait_until(lambda: not exists(name))


def test_torch_is_killed_and_its_file_stays_with_us(
    peer: Peer, child: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = peer.start(
        f"{ALONE}\nt = torch.ones(3)\nsay(*untyped(t)._share_filename_cpu_())\nsignal.pause()"
    )
    shared = tuple(said(process))
    names.append(shared[1].decode())
    ours = child(
        "import sys, tenon\nstorage ="
        f" tenon.open_filename(tenon.FilenameHandle.from_torch_tuple(*{shared!r}),"
        " allow_unsealed=True)\nfor line in sys.stdin: print(list(storage.data.cast('f')),"
        " flush=True)"
    )
    assert ours.stdin is not None and ours.stdout is not None
    for _ in range(2):
        ours.stdin.write(b"\n")
        ours.stdin.flush()
        assert ours.stdout.readline() == b"[1.0, 1.0, 1.0]\n"
        if process.poll() is None:
            kill(process)
            # PyTorch's manager waits up to 2 seconds for its last client. Our process is one of its
            # clients.
            time.sleep(3)
    assert count_of(names[-1]) == 2
    # Our process knows that its count is too high. PyTorch's manager removes the file when its last
    # client is gone.
    ours.communicate()
    wait_until(lambda: not exists(names[-1]))


def test_tenon_is_killed(peer: Peer) -> None:
    """Tenon made the file, and PyTorch lets go last. The count stays too high by one for ever, and
    no process of Tenon's is left.
    """
    process = peer.start(
        "import sys, tenon, tenon.torch, signal\nt = tenon.zeros(3, filename=tenon.Filename())\n"
        "print(*map(repr, tenon.torch.share_filename(t)), sep='|', flush=True)\nsignal.pause()"
    )
    manager, name, nbytes, *_ = said(process)
    names.append(name.decode())
    peer.run(OPEN.format(manager, name, nbytes, 0, (3,), (1,), "float32"))
    kill(process)
    tenon.sweep()
    assert exists(names[-1])
    assert peer.run("value = kept[-1].tolist()") == [0, 0, 0]
    peer.let_go()
    tenon.sweep()
    wait_until(lambda: not exists(names[-1]))


def test_sweep_of_what_torch_left(peer: Peer, tmp_shm: Path) -> None:
    """PyTorch and its manager die by one SIGKILL each, so neither removes the file."""
    process = peer.start(
        f"{ALONE}\nt = torch.ones(3)\nsay(*untyped(t)._share_filename_cpu_())\nsignal.pause()"
    )
    manager, name, _ = said(process)
    names.append(name.decode())
    guards = [
        pid for pid in os.listdir("/proc") if pid.isdecimal() and is_child(int(pid), process.pid)
    ]
    assert guards
    # The file gets the same name in a directory of this test, because other processes have messages
    # of PyTorch's in /dev/shm too.
    here = tmp_shm / names[-1][1:]
    os.link(f"/dev/shm{names[-1]}", here)
    folder = str(tmp_shm)
    assert tenon.sweep(folder, torch=True, min_age=0) == tenon.Sweep(1, 0, 0, 0, 0)
    for pid in [*map(int, guards), process.pid]:
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    assert tenon.sweep(folder, torch=True).in_flight == 1 and here.exists(), "too young"
    assert tenon.sweep(folder, min_age=0).unsure == 1 and here.exists(), "not asked for"
    assert tenon.sweep(folder, torch=True, min_age=0).dead == 1 and not here.exists()
    os.unlink(f"/dev/shm{names[-1]}")
    os.unlink(manager)
    os.rmdir(os.path.dirname(manager))


@pytest.fixture
def tmp_shm() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="py-torch-") as folder:
        yield Path(folder)


def is_child(pid: int, parent: int) -> bool:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == parent
    except OSError:
        return False


# ---- inside one process, and on torch's queues


def test_torch_filename_is_a_value(peer: Peer) -> None:
    import pickle

    tensor = tenon.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3), filename=tenon.Filename())
    lent = share_filename(tensor[:, 1:])
    names.append(lent.name.decode())
    assert pickle.loads(pickle.dumps(lent)) == lent and isinstance(lent, TorchFilename)
    assert (lent.nbytes, lent.storage_offset, lent.sizes, lent.strides, lent.dtype) == (
        24,
        1,
        (2, 2),
        (3, 1),
        "int32",
    )
    value = peer.run(
        f"import pickle, tenon.torch; t = pickle.loads({pickle.dumps(lent)!r}).open();"
        " kept.append(t); value = [t.tolist(), t.is_shared()]"
    )
    assert value == [[[1, 2], [4, 5]], True]
    assert count_of(names[-1]) == 2


def test_from_torch_by_name(peer: Peer) -> None:
    done = peer.alone("""
import torch, torch.multiprocessing, tenon, gc
from tenon.torch import from_torch, to_torch
torch.multiprocessing.set_sharing_strategy("file_system")
t = torch.arange(6.).reshape(2, 3).share_memory_()
before = t.data_ptr()
a, b = from_torch(t), from_torch(t[:, 1:])
assert t.data_ptr() == before and a.storage == b.storage
b.numpy()[1, 1] = 9
print(t.tolist(), a.storage.is_sealed)
private = torch.ones(3)
moved = from_torch(private, share=True)
moved.numpy()[0] = 5
print(private.tolist(), private.is_shared(), from_torch(t, copy=True).tolist())
name = a.storage.share_filename().name
del t; gc.collect()
print(a.tolist(), name.startswith("/torch_"))
a.close(); b.close(); moved.close()
""")
    assert done.stdout.splitlines() == [
        "[[0.0, 1.0, 2.0], [3.0, 4.0, 9.0]] False",
        "[5.0, 1.0, 1.0] True [[0.0, 1.0, 2.0], [3.0, 4.0, 9.0]]",
        "[[0.0, 1.0, 2.0], [3.0, 4.0, 9.0]] True",
    ], done.stderr


def test_a_mapped_file_is_not_moved(peer: Peer) -> None:
    done = peer.alone("""
import tempfile, torch, tenon
from tenon.torch import from_torch
with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
    t = torch.from_file(file.name, shared=True, size=4)
    before = t.data_ptr()
    try:
        from_torch(t)
    except tenon.Unsupported as error:
        print(error.details["option"], t.data_ptr() == before)
""")
    assert done.stdout in ("copy True\n", "share True\n"), done.stderr


QUEUES = """
import sys, torch, torch.multiprocessing as mp, tenon, tenon.multiprocessing
from tenon.torch import to_torch

def work(inbox, outbox):
    set_up()
    a, b, c = inbox.get()
    a.numpy()[0] = 5
    b[0] = 6
    to_torch(c)[0] = 7
    outbox.put((a[1:], b[1:]))
    inbox.get()

def set_up():
    mp.set_sharing_strategy("file_system")
    tenon.multiprocessing.set_sharing_strategy(sys.argv[1])

if __name__ == "__main__":
    set_up()
    context = mp.get_context(sys.argv[2])
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=work, args=(inbox, outbox))
    process.start()
    a, b, c = tenon.zeros(3), torch.zeros(3), tenon.from_numpy(torch.ones(2).numpy())
    inbox.put((a, b, c))
    d, e = outbox.get(timeout=60)
    print(a.tolist(), b.tolist(), c.tolist(), d.storage == a.storage, d.tolist(), e.tolist())
    inbox.put(None)
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_queues_of_torch(peer: Peer, tmp_path: Path, strategy: str, method: str) -> None:
    program = tmp_path / "queues.py"
    program.write_text(QUEUES)
    done = peer.program(program, strategy, method)
    assert (
        done.stdout == "[5.0, 0.0, 0.0] [6.0, 0.0, 0.0] [7.0, 1.0] True [0.0, 0.0] [0.0, 0.0]\n0\n"
    ), done.stderr


def test_a_name_that_torch_is_told_wrongly(peer: Peer) -> None:
    with pytest.raises(PeerError):
        peer.run("torch.UntypedStorage._new_shared_filename_cpu(b'', b'/tenon-py-no-such', 12)")
