"""Weights that processes share by a name: tenon.weights.open. tests/process/shared_weights kills
and stops processes.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tenon
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from pathlib import Path

OPENER = """
import json, sys, tenon
path, directory = sys.argv[1:]
with tenon.weights.open(path or None, name="net", directory=directory, timeout=30) as weights:
    info = weights.info()
    print(json.dumps([info.loaded, info.server_pid, weights["a"].tolist()]), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = tmp_path / "names"
    names.mkdir()
    return names


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.safetensors"
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(4, np.int64)}
    save_file(tensors, path)
    return path


class Opener:
    """Another process that has the weights until it is ended."""

    def __init__(self, file: Path | str, folder: Path) -> None:
        command = [sys.executable, "-c", OPENER, str(file), str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.loaded, self.server, self.elements = json.loads(self.process.stdout.readline())

    def __enter__(self) -> Opener:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def test_one_process_loads_and_hands_on(file: Path, folder: Path) -> None:
    weights = tenon.weights.open(file, name="net", directory=folder)
    info = weights.info()
    assert info.loaded and info.serves and info.loader_pid == info.server_pid == os.getpid()
    assert info.version == 1 and info.file_nbytes == file.stat().st_size <= info.nbytes
    assert info.file_mtime_ns == file.stat().st_mtime_ns
    with Opener(file, folder) as first, Opener("", folder) as second:
        assert not first.loaded and not second.loaded and second.server == os.getpid()
        assert second.elements == [[0, 1, 2], [3, 4, 5]]
        assert weights.info().holders == 3
        weights.close()
        # One of the two has taken over.
        with tenon.weights.open(name="net", directory=folder, timeout=30) as again:
            assert not again.info().loaded
            assert again.info().server_pid in (first.process.pid, second.process.pid)
    assert not list(folder.iterdir())


def test_it_is_a_mapping_of_read_only_tensors(file: Path, folder: Path) -> None:
    with tenon.weights.open(file, name="net", directory=folder) as weights:
        assert weights.names() == tuple(weights) == weights.keys() and len(weights) == 2
        assert "a" in weights and "c" not in weights and "'a'" in repr(weights)
        tensors = dict(weights)
        with pytest.raises(KeyError, match='no weight "c"'):
            weights["c"]
    assert repr(weights) == "<tenon.SharedWeights, closed>"
    assert tensors["a"].read_only and tensors["a"].storage.mode == "frozen"
    array = tensors["a"].numpy()
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]] and not array.flags.writeable
    assert array.ctypes.data % 8 == 0
    # The tensors are the weights. Others can still attach.
    with tenon.weights.open(name="net", directory=folder) as again:
        assert not again.info().loaded and again["b"].tolist() == [1, 1, 1, 1]


def test_without_a_name_nothing_is_shared(file: Path) -> None:
    with tenon.weights.open(file) as weights:
        assert isinstance(weights, tenon.Weights) and weights["b"].tolist() == [1, 1, 1, 1]
    with pytest.raises(TypeError, match="needs a path or a name"):
        tenon.weights.open()


def test_progress(file: Path, folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    see: Any = lambda done, total: seen.append((done, total))  # noqa: E731
    with tenon.weights.open(file, name="net", directory=folder, progress=see):
        size = file.stat().st_size
        assert seen == [(0, size), (size, size)]

    def fail(done: int, total: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        tenon.weights.open(file, name="net", directory=folder, progress=fail)
    assert not list(folder.iterdir())


def test_another_version_is_refused(file: Path, folder: Path) -> None:
    with tenon.weights.open(file, name="net", directory=folder):
        os.utime(file, ns=(1, 2))
        with pytest.raises(tenon.PermissionDenied, match="another version") as refused:
            tenon.weights.open(file, name="net", directory=folder)
        assert refused.value.details["field"] == "mtime_ns"
        assert refused.value.details["pid"] == str(os.getpid())


def test_what_is_refused(file: Path, folder: Path) -> None:
    open_weights = tenon.weights.open
    with pytest.raises(tenon.NotFound, match="no process has weights"):
        open_weights(name="net", directory=folder)
    with pytest.raises(tenon.NotFound):
        open_weights(folder / "none", name="net", directory=folder)
    for name in ("", ".net", "a/b", "n" * 201):
        with pytest.raises(tenon.InvalidArgument):
            open_weights(file, name=name, directory=folder)
    with pytest.raises(tenon.InvalidArgument, match="need a directory"):
        open_weights(file, name="net", group=0)
    with pytest.raises(tenon.ResourceExhausted, match="raise max_nbytes") as small:
        open_weights(file, name="net", directory=folder, max_nbytes=100)
    assert small.value.details["limit"] == "max_nbytes"
    file.write_bytes(b"no weights")
    with pytest.raises(tenon.Corrupt):
        open_weights(file, name="net", directory=folder)
    assert not list(folder.iterdir())


def test_threads_share_one_copy(file: Path, folder: Path) -> None:
    opened: list[Any] = []

    def run() -> None:
        opened.append(tenon.weights.open(file, name="net", directory=folder, timeout=30))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.info().loaded for each in opened) == 1
    assert len({each["a"].numpy().ctypes.data for each in opened}) == 1
    for each in opened:
        each.close()
    assert not list(folder.iterdir())


def test_an_index_of_shards_is_one_version(file: Path, folder: Path) -> None:
    """test_weights_shards.py compares the shared tensors with those of the index itself."""
    other = file.with_name("other.safetensors")
    save_file({"c": np.full(3, 2.5)}, other)
    index = file.with_name("net.safetensors.index.json")
    index.write_text(json.dumps({"weight_map": {"a": file.name, "b": file.name, "c": other.name}}))
    total = sum(path.stat().st_size for path in (file, other, index))
    seen: list[tuple[int, int]] = []
    with tenon.weights.open(
        index, name="net", directory=folder, progress=lambda *done: seen.append(done)
    ) as weights:
        assert seen[-1] == (total, total) and weights.info().file_nbytes == total
        with Opener(index, folder) as attached, Opener("", folder) as without_path:
            assert not attached.loaded and attached.elements == [[0, 1, 2], [3, 4, 5]]
            assert without_path.elements == attached.elements
        save_file({"c": np.full(3, 3.5)}, other)  # a shard of the same size
        with pytest.raises(tenon.PermissionDenied, match="another version of it"):
            tenon.weights.open(index, name="net", directory=folder)
        with tenon.weights.publish("net", index, directory=folder) as new:
            assert new.info().version == 2 and new["c"].tolist() == [3.5] * 3
            assert weights["c"].tolist() == [2.5] * 3
    with pytest.raises(tenon.ResourceExhausted) as refused:
        tenon.weights.open(index, name="net", directory=folder, max_nbytes=total - 1)
    assert refused.value.details["limit"] == "max_nbytes"
    assert not list(folder.iterdir())


def test_a_new_version(file: Path, folder: Path) -> None:
    with tenon.weights.open(file, name="net", directory=folder) as old:
        assert old.changed(timeout=0) is None and old.changed(0.01) is None
        step = {"a": np.full((2, 3), 7, np.float32).T, "new": np.arange(3)}
        with tenon.weights.publish("net", step, directory=folder, timeout=30) as new:
            assert new.info().version == 2 and new.info().loaded
            assert old.changed(timeout=30) == 2
            assert select.select([old.changed_fd()], [], [], 0)[0]
            assert old["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
            with tenon.weights.open(name="net", directory=folder) as newest:
                assert newest.info().version == 2 and newest["new"].tolist() == [0, 1, 2]
                assert newest["a"].tolist() == [[7, 7]] * 3
            with tenon.weights.publish("net", file, directory=folder) as third:
                assert third.info().version == 3 and new.changed(timeout=30) == 3
        with pytest.raises(tenon.InvalidArgument):
            tenon.weights.publish("net", {}, directory=folder)
    assert not list(folder.iterdir())


def test_a_budget_refuses_what_would_exceed_it(file: Path, folder: Path) -> None:
    with tenon.weights.open(file, name="net", directory=folder) as first:
        nbytes = first.info().file_nbytes
        with pytest.raises(tenon.ResourceExhausted, match='"net" with') as caught:
            tenon.weights.open(file, name="b", directory=folder, budget=2 * nbytes - 1)
        assert caught.value.details["limit"] == "budget_nbytes"
        tenon.weights.publish("b", file, directory=folder, budget=2 * nbytes).close()
    assert not list(folder.iterdir())


def test_a_version_is_written_into_memory_that_nobody_has(file: Path, folder: Path) -> None:
    with tenon.weights.open(file, name="net", directory=folder):
        step = None
        for number in range(5):
            state = {"a": np.full(5000, number, np.float32)}
            step = tenon.weights.publish("net", state, directory=folder, reuse=True)
            tensor = step["a"]
            assert tensor.storage.mode == "lender_writes"
            assert tensor.numpy().min() == tensor.numpy().max() == number
            assert not tensor.numpy().flags.writeable
        assert step and step.info().version == 6
        with pytest.raises(tenon.InvalidArgument):
            tenon.weights.publish("net", file, directory=folder, reuse=True)
        del step, tensor
    assert not list(folder.iterdir())
