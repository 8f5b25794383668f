"""Names: their form, how they are refused, and the one storage that every way of opening gives."""

from __future__ import annotations

import os
import pickle
import re
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tenon
from names import HEADER, count_of, gone, named

# ---- files


def test_a_file_in_pytorchs_layout(folder: str) -> None:
    tensor = tenon.zeros((2, 3), filename=tenon.Filename("weights", directory=folder))
    tensor.numpy()[1, 2] = 7
    path = f"{folder}/weights"
    data = Path(path).read_bytes()
    assert len(data) == HEADER + 24 and struct.unpack_from("i", data)[0] == 1
    assert struct.unpack_from("6f", data, HEADER) == (0, 0, 0, 0, 0, 7)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    storage = tensor.storage
    assert (storage.mode, storage.is_shared, storage.is_sealed, storage.nbytes) == (
        "shared",
        True,
        False,
        24,
    )
    with open(path, "r+b") as file:
        file.seek(HEADER)
        file.write(struct.pack("f", 5))
    assert tensor.tolist() == [[5, 0, 0], [0, 0, 7]]
    view = tensor.numpy()
    tensor.close()
    storage.close()
    assert os.path.exists(path) and view[1, 2] == 7
    del view
    gone(path)


def test_every_maker_takes_a_filename(folder: str) -> None:
    filename = tenon.Filename(directory=folder)
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    made = [
        tenon.empty((2, 3), "int16", filename=filename),
        tenon.zeros((2, 3), "int16", filename=filename),
        tenon.from_numpy(array, filename=filename),
        tenon.from_numpy(array)[:, ::2].clone(filename=filename),
        tenon.empty((0, 3), filename=filename),
        tenon.zeros((), filename=filename),
        tenon.from_numpy(np.arange(3).astype("float16"), filename=filename),
        tenon.from_numpy(np.zeros((0, 2)), filename=filename),
    ]
    assert len(os.listdir(folder)) == len(made)
    assert (
        made[2].tolist() == array.tolist()
        and made[3].tolist() == array[:, ::2].tolist()
        and made[6].tolist() == [0, 1, 2]
    )
    assert tenon.Storage.new_filename(5, filename).data == bytes(5)
    for tensor in made:
        handle = tensor.storage.share_filename()
        assert handle.nbytes == tensor.nbytes and os.path.dirname(handle.name) == folder
    for wrong in (
        {"mode": "frozen"},
        {"mode": "lender_writes"},
        {"private": True},
        {"alignment": 128},
    ):
        with pytest.raises(ValueError, match="named file"):
            tenon.empty(3, filename=filename, **wrong)  # type: ignore[arg-type]


def test_names(folder: str) -> None:
    first, second = (
        tenon.zeros(1, filename=tenon.Filename()),
        tenon.zeros(1, filename=tenon.Filename()),
    )
    names = [tensor.storage.share_filename().name for tensor in (first, second)]
    assert all(re.fullmatch("/tenon-[0-9a-f]{32}", name) for name in names) and names[0] != names[1]
    assert os.path.exists(f"/dev/shm{names[0]}")
    del first, second
    gone(f"/dev/shm{names[0]}")
    gone(f"/dev/shm{names[1]}")
    other = named(folder, prefix="train.", mode=0o640)
    path = other.storage.share_filename().name
    assert re.fullmatch(re.escape(folder) + "/train.[0-9a-f]{32}", path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    for name in (
        "caf\u00e9 1",
        os.fsdecode(b"\xff\xfe"),
        "a" * (255 - len(folder) - 1),
        "-",
        "...",
    ):
        tensor = named(folder, name=name)
        handle = tensor.storage.share_filename()
        assert handle.name == f"{folder}/{name}" and os.path.exists(handle.name)
        assert tenon.open_filename(handle, allow_unsealed=True) == tensor.storage
        del tensor


def test_a_name_that_is_taken(folder: str) -> None:
    tensor = named(folder, name="one")
    for taken in ("one", "link", "pipe", "folder"):
        if taken == "link":
            os.symlink("nowhere", f"{folder}/link")
        elif taken == "pipe":
            os.mkfifo(f"{folder}/pipe")
        elif taken == "folder":
            os.mkdir(f"{folder}/folder")
        with pytest.raises(tenon.PermissionDenied) as caught:
            named(folder, name=taken)
        assert caught.value.details["path"] == f"{folder}/{taken}"
    assert not os.path.exists(f"{folder}/nowhere")
    os.unlink(f"{folder}/link")
    os.unlink(f"{folder}/pipe")
    os.rmdir(f"{folder}/folder")
    assert tensor.tolist() == [1, 2, 3]


BAD_LEAVES = ["a/b", "/a", "..", ".", "a\0b", "a" * 256, "a" * 300]


@pytest.mark.parametrize("name", BAD_LEAVES)
def test_bad_names_to_make(folder: str, name: str) -> None:
    for filename in (
        tenon.Filename(name, directory=folder),
        tenon.Filename(prefix=f"{name}/", directory=folder),
    ):
        for make in (
            lambda f: tenon.zeros(3, filename=f),
            lambda f: tenon.Storage.new(8).share_filename(filename=f),
        ):
            with pytest.raises(tenon.InvalidArgument) as caught:
                make(filename)
            assert "path" in caught.value.details


BAD_NAMES = [
    "a",
    "/",
    "/.",
    "/..",
    "/a/",
    "/a/..",
    "a/b",
    "/a\0b",
    "/" + "a" * 255,
    "/" + "a" * 300,
    "\0",
    "/a\0",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_to_open(name: str) -> None:
    handle = tenon.FilenameHandle(name, 8)
    calls: list[Callable[[], object]] = [
        lambda: tenon.open_filename(name, 8, allow_unsealed=True),
        lambda: tenon.open_filename(handle, allow_unsealed=True),
        lambda: tenon.filename_incref(handle),
        lambda: tenon.filename_decref(handle),
        lambda: tenon.filename_unlink(name),
    ]
    for call in calls:
        with pytest.raises(tenon.InvalidArgument) as caught:
            call()
        assert "path" in caught.value.details


def test_the_empty_name_is_an_empty_storages() -> None:
    empty = tenon.FilenameHandle("", 0)
    assert tenon.open_filename(empty).nbytes == 0
    tenon.filename_incref(empty)
    tenon.filename_decref(empty)
    with pytest.raises(tenon.InvalidArgument):
        tenon.open_filename("", 8, allow_unsealed=True)
    with pytest.raises(tenon.InvalidArgument):
        tenon.filename_unlink("")


def test_what_is_not_there(folder: str) -> None:
    for name in (f"{folder}/nothing", f"{folder}/no/such", "/tenon-py-nothing"):
        with pytest.raises(tenon.NotFound) as caught:
            tenon.open_filename(name, 8, allow_unsealed=True)
        assert caught.value.errno and caught.value.details["path"]
        tenon.filename_unlink(name)
        tenon.filename_decref(tenon.FilenameHandle(name, 8))
        with pytest.raises(tenon.NotFound):
            tenon.filename_incref(tenon.FilenameHandle(name, 8))
    with pytest.raises(tenon.NotFound):
        tenon.zeros(1, filename=tenon.Filename(directory=f"{folder}/no"))
    with pytest.raises(tenon.InvalidArgument):
        tenon.zeros(1, filename=tenon.Filename(directory="relative"))


def test_what_is_no_named_file(folder: str) -> None:
    tensor = named(folder, name="good")
    paths = {
        kind: f"{folder}/{kind}"
        for kind in ("short", "link", "pipe", "folder", "zero", "negative", "many")
    }
    Path(paths["short"]).write_bytes(bytes(10))
    os.symlink(f"{folder}/good", paths["link"])
    os.mkfifo(paths["pipe"])
    os.mkdir(paths["folder"])
    for kind, count in (("zero", 0), ("negative", -1), ("many", 2**31 - 1)):
        Path(paths[kind]).write_bytes(struct.pack("i", count) + bytes(HEADER + 12 - 4))
    before = {
        path: Path(path).read_bytes()
        for path in (paths["zero"], paths["negative"], paths["many"], paths["short"])
    }
    for kind, path in paths.items():
        with pytest.raises(
            (tenon.Corrupt, tenon.NotFound) if kind == "zero" else tenon.Corrupt
        ) as caught:
            tenon.open_filename(path, 12, allow_unsealed=True, timeout=5)
        assert caught.value.details["path"] == path, kind
    with pytest.raises(tenon.Corrupt) as caught:
        tenon.open_filename(f"{folder}/good", 13, allow_unsealed=True)
    assert {path: Path(path).read_bytes() for path in before} == before
    assert count_of(f"{folder}/good") == 1
    for kind in ("pipe", "folder"):
        with pytest.raises(tenon.PermissionDenied):
            tenon.filename_unlink(paths[kind])
    os.rmdir(paths.pop("folder"))
    for path in paths.values():
        os.unlink(path)
    del tensor


def test_nul_and_length_are_refused_before_c_sees_them() -> None:
    with pytest.raises(tenon.InvalidArgument, match="NUL"):
        tenon.open_filename(tenon.FilenameHandle("/a", 8, manager="/tmp/x\0y"))
    with pytest.raises(tenon.InvalidArgument, match="107"):
        tenon.open_filename(tenon.FilenameHandle("/a", 8, manager="/" + "m" * 107))
    with pytest.raises(tenon.InvalidArgument, match="NUL"):
        tenon.sweep("/dev/shm\0/x")
    with pytest.raises(tenon.InvalidArgument, match="NUL"):
        tenon.manager_start("/bin/true\0")


def test_wrong_arguments(folder: str) -> None:
    handle = tenon.FilenameHandle(f"{folder}/x", 8)
    with pytest.raises(TypeError):
        tenon.open_filename(handle, 8)
    with pytest.raises(TypeError):
        tenon.open_filename(f"{folder}/x")
    for nbytes, offset in ((-1, 0), (1 << 64, 0), (8, -1)):
        with pytest.raises(ValueError):
            tenon.open_filename(f"{folder}/x", nbytes, offset)
    with pytest.raises(ValueError):
        tenon.open_filename(f"{folder}/x", 8, access="write")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        tenon.zeros(1, filename=tenon.Filename(directory=folder, mode=1 << 32))
    with pytest.raises(ValueError):
        tenon.zeros(1, filename=tenon.Filename(directory=folder, group=-1))
    with pytest.raises(ValueError):
        tenon.sweep(folder, min_age=-1)


# ---- values


def test_values() -> None:
    handle = tenon.FilenameHandle("/leaf", 8, 0, "/tmp/manager", "writable")
    same = tenon.FilenameHandle("/leaf", nbytes=8, manager="/tmp/manager", access="writable")
    assert (
        handle == same
        and hash(handle) == hash(same)
        and handle != tenon.FilenameHandle("/leaf", 8)
        and handle != "/leaf"
    )
    assert pickle.loads(pickle.dumps(handle)) == handle
    assert "'/leaf'" in repr(handle) and "nbytes=8" in repr(handle)
    with pytest.raises(AttributeError):
        handle.nbytes = 9
    with pytest.raises(AttributeError):
        del handle.nbytes
    assert handle.torch_tuple() == (b"/tmp/manager", b"/leaf", 8)
    assert tenon.FilenameHandle.from_torch_tuple(
        b"/tmp/manager", b"/leaf", 8
    ) == tenon.FilenameHandle("/leaf", 8, manager="/tmp/manager")
    assert tenon.FilenameHandle.from_torch_tuple(b"", b"leaf", 8).name == "/leaf"
    assert tenon.FilenameHandle.from_torch_tuple(b"\xff", b"/\xff", 8).torch_tuple() == (
        b"\xff",
        b"/\xff",
        8,
    )
    with pytest.raises(tenon.InvalidArgument):
        tenon.FilenameHandle("/leaf", 8, 64).torch_tuple()
    filename = tenon.Filename("a", mode=0o644)
    assert (
        filename == tenon.Filename(name="a", mode=0o644)
        and pickle.loads(pickle.dumps(filename)) == filename
    )
    assert tenon.Sweep(1, 2, 3, 4, 5).dead == 3


# ---- identity


def test_one_storage_by_name_and_by_fd(folder: str) -> None:
    tensor = named(folder)
    storage = tensor.storage
    handle = storage.share_filename()
    assert (
        handle == storage.share_filename() and handle.access == "writable" and handle.manager == ""
    )
    by_name = tenon.open_filename(handle, allow_unsealed=True)
    with storage.share_fd() as lent:
        by_fd = tenon.open_fd(lent, allow_unsealed=True)
    assert by_name == storage == by_fd and by_name.id == storage.id
    assert count_of(handle.name) == 1
    arena = tenon.Storage.new_from(b"arena")
    name = arena.share_filename()
    with arena.share_fd() as lent:
        assert tenon.open_filename(name) == arena == tenon.open_fd(lent)
    assert stat.S_ISSOCK(os.stat(f"/dev/shm{name.name}").st_mode)
    empty = tenon.Storage.new(0).share_filename()
    assert empty.name == "" and tenon.open_filename(empty).nbytes == 0


def test_weak(folder: str) -> None:
    storage = named(folder).storage
    weak, handle = storage.weak_ref(), storage.share_filename()
    assert weak.lock() == storage
    again = tenon.open_filename(handle, allow_unsealed=True)
    storage.close()
    assert not weak.expired and os.path.exists(handle.name)
    again.close()
    assert weak.expired and weak.lock() is None
    gone(handle.name)
    with pytest.raises(tenon.NotFound):
        tenon.open_filename(handle, allow_unsealed=True)


def test_private_opens(folder: str) -> None:
    tensor = named(folder)
    handle = tensor.storage.share_filename()
    cow = tenon.open_filename(handle, allow_unsealed=True, private_cow=True)
    copy = tenon.open_filename(handle, allow_unsealed=True, private_copy=True)
    read_only = tenon.open_filename(handle, allow_unsealed=True, access="read_only")
    for private in (cow, copy):
        private.data[:4] = struct.pack("f", 9)
        assert tensor.tolist() == [1, 2, 3] and private != tensor.storage
    assert read_only.read_only and read_only.same_memory(tensor.storage)
    with pytest.raises(TypeError):
        read_only.data[0] = 1
    tensor.numpy()[2] = 4
    assert struct.unpack("3f", copy.data) == (9, 2, 3) and struct.unpack("3f", read_only.data) == (
        1,
        2,
        4,
    )


def test_access(folder: str) -> None:
    with pytest.raises(tenon.PermissionDenied):
        named(folder).storage.share_filename("read_only")
    frozen = tenon.Storage.new_from(b"weights!", mode="frozen")
    handle = frozen.share_filename()
    assert handle.access == "read_only"
    with pytest.raises(tenon.PermissionDenied):
        tenon.open_filename(handle, access="writable")
    with pytest.raises(tenon.PermissionDenied):
        frozen.share_filename("writable")
    with pytest.raises(tenon.Unsupported):
        tenon.Storage.wrap(bytearray(8)).share_filename()


def test_private_memory_moves_unless_it_was_seen(folder: str) -> None:
    fresh = tenon.Storage.new(4096, private=True)
    fresh.write(b"moved")
    handle = fresh.share_filename(filename=tenon.Filename("moved", directory=folder))
    assert handle.name == f"{folder}/moved" and fresh.is_shared
    assert Path(handle.name).read_bytes()[HEADER : HEADER + 5] == b"moved"
    seen = tenon.Storage.new(4096, private=True)
    view = seen.data
    with pytest.raises(tenon.Unsupported):
        seen.share_filename(filename=tenon.Filename(directory=folder))
    del view
