from __future__ import annotations

import errno
import gc
import gzip
import io
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tenon
from modules import linear, mlp


def exported(module: tenon.Module, **options: object) -> bytes:
    file = io.BytesIO()
    tenon.export_module(module, file, **options)  # type: ignore[arg-type]
    return file.getvalue()


def names_of(data: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return archive.namelist()


def same(left: tenon.Module, right: tenon.Module) -> bool:
    ours, theirs = left.tensors(), right.tensors()
    return list(ours) == list(theirs) and all(
        ours[name].tolist() == theirs[name].tolist() for name in ours
    )


def test_to_a_path_and_back(tmp_path: Path) -> None:
    module, path = mlp(), tmp_path / "net.v1.pt"
    for target in (path, str(path), os.fsencode(path)):
        report = tenon.export_module(module, target)
        assert (
            report.nbytes == path.stat().st_size
            and report.version == 10
            and report.skipped_files == 0
        )
        assert report.records == len(names_of(path.read_bytes())) and report.oldest_pytorch
    assert {name.split("/")[0] for name in names_of(path.read_bytes())} == {"net.v1"}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    back = tenon.import_module(path)
    assert same(module, back) and back.class_name == module.class_name and back.code == module.code
    assert back["fc1.weight"].read_only
    assert back.report is not None and back.version == back.report.version == 10
    assert (back.report.mapped_storages, back.report.filled_storages, back.report.records) == (
        4,
        0,
        report.records,
    )
    assert back.warnings == () and "version=10" in repr(back.report)
    assert back["fc1"].report is None


def test_to_files_and_fds(tmp_path: Path) -> None:
    module, path = mlp(), tmp_path / "a"
    wanted = exported(module)
    with open(path, "wb") as file:
        file.write(b"before")
        tenon.export_module(module, file)
        assert file.tell() == 6 + len(wanted)
        file.write(b"after")
    assert path.read_bytes() == b"before" + wanted + b"after"
    with open(path, "wb", buffering=0) as raw:
        tenon.export_module(module, raw)
    assert path.read_bytes() == wanted
    with open(path, "rb") as file:
        file.read(3)
        assert same(module, tenon.import_module(file)) and same(
            module, tenon.import_module(file.fileno())
        )
        assert file.read(1) == wanted[3:4]
    fd = os.open(path, os.O_RDWR | os.O_TRUNC)
    try:
        tenon.export_module(module, fd)
        assert os.fstat(fd).st_size == len(wanted)
    finally:
        os.close(fd)
    with tempfile.NamedTemporaryFile() as named:
        tenon.export_module(module, named)
        assert same(module, tenon.import_module(named))


def test_to_a_pipe_and_a_socket() -> None:
    module = mlp()
    wanted = exported(module)
    read, write = os.pipe()
    with open(read, "rb") as source, open(write, "wb") as sink:
        thread = threading.Thread(target=lambda: (tenon.export_module(module, sink), sink.close()))
        thread.start()
        assert source.read() == wanted
        thread.join()
    left, right = socket.socketpair()
    with left, right:
        thread = threading.Thread(target=lambda: (tenon.export_module(module, left), left.close()))
        thread.start()
        with right.makefile("rb") as reader:
            assert same(module, tenon.import_module(reader))
        thread.join()


def test_files_that_change_what_is_written(tmp_path: Path) -> None:
    # A GzipFile has the fileno of the file below, whose bytes are compressed.
    module, path = mlp(), tmp_path / "a.gz"
    with gzip.open(path, "wb") as file:
        tenon.export_module(module, file)
    assert gzip.decompress(path.read_bytes()) == exported(module)
    with gzip.open(path, "rb") as file:
        assert same(module, tenon.import_module(file))


class Writer:
    def __init__(self, most: int = 1 << 30) -> None:
        self.data, self.most = bytearray(), most

    def write(self, data: memoryview) -> int:
        assert data.readonly
        taken = data[: self.most]
        self.data += taken
        return len(taken)


def test_to_what_has_write() -> None:
    module = mlp()
    wanted = exported(module)
    for writer in (Writer(), Writer(7)):
        assert tenon.export_module(module, writer).nbytes == len(wanted)
        assert writer.data == wanted
    pieces: list[bytes] = []

    class Silent:
        def write(self, data: memoryview) -> None:
            pieces.append(bytes(data))

    tenon.export_module(module, Silent())
    assert b"".join(pieces) == wanted


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, tenon.NotFound])
def test_what_write_raises_comes_out(kind: type[BaseException]) -> None:
    class Failing(Writer):
        def write(self, data: memoryview) -> int:
            if len(self.data) > 300:
                raise kind(5, "no more")
            return super().write(data)

    module = mlp()
    with pytest.raises(kind, match="no more") as caught:
        tenon.export_module(module, Failing(100))
    assert caught.value.__context__ is None
    assert same(module, tenon.import_module(exported(module)))


@pytest.mark.parametrize("count", [0, -1, 1 << 40])
def test_what_write_must_not_return(count: int) -> None:
    class Wrong:
        def write(self, data: memoryview) -> int:
            return count

    with pytest.raises(OSError):
        tenon.export_module(mlp(), Wrong())


def test_a_writer_cannot_keep_what_it_got() -> None:
    kept: list[memoryview] = []

    class Keeper:
        def write(self, data: memoryview) -> None:
            kept.append(data)

    tenon.export_module(mlp(), Keeper())
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])


def test_a_writer_cannot_change_the_module() -> None:
    module = mlp()

    class Changer(Writer):
        def write(self, data: memoryview) -> int:
            module["fc1.bias"] = np.zeros(8, "float32")
            return super().write(data)

    with pytest.raises(tenon.PermissionDenied):
        tenon.export_module(module, Changer())
    module["fc1.bias"] = np.zeros(8, "float32")


def test_extra_files_and_the_hook() -> None:
    module = mlp()
    module.extra_files["a"] = b"module's"
    module.extra_files["b"] = b"module's"
    seen: list[tenon.Module] = []

    def hook(given: tenon.Module) -> dict[str, bytes | str]:
        seen.append(given)
        assert given["fc1.weight"].shape == (8, 4)
        return {"b": "hook's", "c": "hook's", "d": "hook's"}

    data = io.BytesIO()
    report = tenon.export_module(
        module,
        data,
        extra_files={"a": "this export's", "c": bytearray(b"this export's")},
        hook=hook,
    )
    assert seen == [module] and seen[0] is module and report.skipped_files == 2
    assert dict(tenon.import_module(data).extra_files) == {
        "a": b"this export's",
        "c": b"this export's",
        "b": b"module's",
        "d": b"hook's",
    }
    assert dict(module.extra_files) == {"a": b"module's", "b": b"module's"}
    tenon.export_module(module, io.BytesIO(), hook=lambda _: None)
    with pytest.raises(TypeError):
        tenon.export_module(module, io.BytesIO(), extra_files={"a": 3})  # type: ignore[dict-item]


def test_what_the_hook_raises_comes_out(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(b"old")

    def hook(module: tenon.Module) -> dict[str, bytes]:
        raise LookupError("no files")

    with pytest.raises(LookupError, match="no files"):
        tenon.export_module(mlp(), path, hook=hook)
    with pytest.raises(TypeError):
        tenon.export_module(mlp(), path, hook=lambda _: {3: b""})  # type: ignore[dict-item]
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_options(tmp_path: Path) -> None:
    module, path = mlp(), tmp_path / "a.pt"
    for durability in ("none", "file", "file_and_directory"):
        tenon.export_module(module, path, durability=durability)  # type: ignore[arg-type]
    tenon.export_module(module, path, archive_name="inside")
    assert {name.split("/")[0] for name in names_of(path.read_bytes())} == {"inside"}
    assert {name.split("/")[0] for name in names_of(exported(module))} == {"archive"}
    assert tenon.export_module(module, path, file_version=3).version == 3
    assert tenon.import_module(path).version == 3
    module.define("def more(self, x: Tensor) -> Tensor:\n  return torch.no_such_operator(x)\n")
    with pytest.raises(tenon.InvalidArgument) as caught:
        tenon.export_module(module, path)
    assert "no_such_operator" in caught.value.details["excerpt"] and caught.value.details[
        "excerpt"
    ] in str(caught.value)
    assert tenon.import_module(path).version == 3
    tenon.export_module(module, path, check=False)
    assert "no_such_operator" in tenon.import_module(path).code["__torch__.py"]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"durability": "very"}, ValueError),
        ({"file_version": 11}, (tenon.InvalidArgument, tenon.Unsupported)),
        ({"file_version": -1}, (tenon.InvalidArgument, tenon.Unsupported)),
        ({"file_version": 1 << 40}, OverflowError),
        ({"archive_name": "a/b"}, tenon.InvalidArgument),
        ({"archive_name": "a\0"}, tenon.InvalidArgument),
        ({"extra_files": {"../up": b""}}, tenon.InvalidArgument),
        ({"extra_files": {"a\0": b""}}, tenon.InvalidArgument),
    ],
)
def test_wrong_export_options(
    options: dict[str, object], kind: type[BaseException], tmp_path: Path
) -> None:
    with pytest.raises(kind):
        tenon.export_module(mlp(), tmp_path / "a.pt", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tenon.export_module(mlp(), tmp_path / "no" / "a.pt")
    with pytest.raises(tenon.InvalidArgument, match="NUL"):
        tenon.export_module(mlp(), "a\0b")
    with pytest.raises(TypeError, match="file must be"):
        tenon.export_module(mlp(), object())  # type: ignore[arg-type]
    with pytest.raises(TypeError), open(tmp_path / "text", "w") as text:
        tenon.export_module(mlp(), text)  # type: ignore[arg-type]
    with pytest.raises(OSError) as caught, open("/dev/full", "wb") as full:
        tenon.export_module(mlp(), full)
    assert caught.value.errno == errno.ENOSPC
    closed = io.BytesIO()
    closed.close()
    with pytest.raises(ValueError):
        tenon.export_module(mlp(), closed)


def sources(data: bytes) -> list[object]:
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    return [
        data,
        bytearray(data),
        memoryview(data),
        io.BytesIO(data),
        mapped,
        np.frombuffer(data, np.uint8),
    ]


@pytest.mark.parametrize("tensors", ["map", "map_private", "fill"])
def test_from_memory(tensors: str) -> None:
    module = mlp()
    for source in sources(exported(module)):
        back = tenon.import_module(source, tensors=tensors)  # type: ignore[arg-type]
        del source
        gc.collect()
        assert same(module, back)
        assert back["fc1.weight"].read_only == (tensors == "map")


def test_views_keep_the_buffer() -> None:
    source = bytearray(exported(mlp()))
    module = tenon.import_module(source)
    with pytest.raises(BufferError):
        source.append(1)
    weight = module["fc1.weight"]
    module.close()
    del module
    gc.collect()
    with pytest.raises(BufferError):
        source.append(1)
    array = weight.numpy()
    del weight
    gc.collect()
    assert array.sum() == np.arange(32).sum()
    with pytest.raises(BufferError):
        source.append(1)
    del array
    gc.collect()
    source.append(1)
    # An import that copies, and an import that is refused, keep no buffer.
    copied = tenon.import_module(source[:-1], tensors="fill")
    source.append(2)
    with pytest.raises(tenon.TenonError):
        tenon.import_module(source[:100])
    source.append(3)
    assert copied["fc1.bias"].shape == (8,)


def test_a_buffer_after_the_interpreter() -> None:
    """A tensor over Python's bytes outlives the interpreter. Its deleter must not call Python
    then.
    """
    program = """
import io, sys, tenon
module = tenon.Module("M")
module.add_parameter("w", tenon.zeros(1 << 16))
file = io.BytesIO()
tenon.export_module(module, file)
back = tenon.import_module(bytearray(file.getvalue()))
sys.modules["kept for ever"] = back["w"], back, tenon.Value([1])
handle, member = back.handle, back.find("w")
import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(back["w"]))
print("done", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_last_release_on_another_thread() -> None:
    source = bytearray(exported(mlp()))
    kept = [tenon.import_module(source)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    gc.collect()
    source.append(1)


def test_into_an_arena() -> None:
    data = exported(mlp())
    with tenon.Arena(1 << 20) as arena:
        module = tenon.import_module(data, tensors="fill", arena=arena)
        assert arena.stats().blocks_live == 4
        report = module.report
        assert report is not None and (report.mapped_storages, report.filled_storages) == (0, 4)
        weight = module["fc1.weight"]
        weight.numpy()[0, 0] = 5
        assert module["fc1.weight"][0, 0].item() == 5
    for mode in ("shared", "lender_writes", "frozen"):
        weight = tenon.import_module(data, tensors="fill", mode=mode)["fc1.weight"]  # type: ignore[arg-type]
        assert weight.storage.mode == mode


def test_a_file_that_is_replaced_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    tenon.export_module(mlp(), path)
    with tenon.import_module(path) as module:
        module["fc1.weight"] = np.zeros((8, 4), "float32")
        tenon.export_module(module, path)
        assert module["fc2.bias"].tolist() == [100, 101, 102]
    back = tenon.import_module(path)
    assert back["fc1.weight"].tolist() == [[0] * 4] * 8 and back["fc2.bias"].tolist() == [
        100,
        101,
        102,
    ]


def test_sharing_survives() -> None:
    module = tenon.Module("Shared")
    whole = tenon.from_numpy(np.arange(6, dtype="float32"))
    module.add_parameter("whole", whole)
    module.add_buffer("part", whole[2:4])
    module.add_attribute("same", "List[Tensor]", [whole, whole])
    child = linear(2, 2)
    module.add_submodule("left", child)
    module.add_submodule("right", child)
    back = tenon.import_module(exported(module))
    assert back["left"] == back["right"]
    assert back["whole"].storage == back["part"].storage and back["part"].tolist() == [2, 3]
    first, second = back["same"]
    assert first is second


def test_every_kind_of_value_comes_back() -> None:
    module = tenon.Module("Values")
    module.define_types(
        "__torch__",
        "class Pair(NamedTuple):\n  a : int\n  b : Optional[str]\nclass Color(Enum):\n  RED = 1\n",
    )
    values = {
        "n": ("int", -5),
        "f": ("float", 0.1),
        "c": ("complex", 1 - 2j),
        "s": ("str", "ä"),
        "none": ("Optional[int]", None),
        "device": ("Device", tenon.Device("cuda:1")),
        "nested": ("Dict[str, List[Tuple[int, float]]]", {"b": [(1, 2.0)], "a": []}),
        "pair": ("__torch__.Pair", tenon.NamedTuple("__torch__.Pair", (1, None))),
        "color": ("__torch__.Color", tenon.Enum("__torch__.Color", 1)),
    }
    for name, (type_, value) in values.items():
        module.add_attribute(name, type_, value)
    tensors = {
        "meta": tenon.TensorSpec.meta((2, 3)),
        "quantized": tenon.TensorSpec.quantized(np.arange(6, dtype=np.uint8), 0.5, 3),
        "sparse": tenon.TensorSpec.sparse_coo(np.array([[0, 1]]), np.array([1.0, 2.0]), (4,)),
        "bits": tenon.TensorSpec("bits8", (4,), storage=tenon.Storage.new_from(b"abcd")),
    }
    for name, spec in tensors.items():
        module.add_buffer(name, spec)
    back = tenon.import_module(exported(module))
    for name, (type_, value) in values.items():
        assert back[name] == value and back.find(name).type == type_
    assert list(back["nested"]) == ["b", "a"]
    assert (back["meta"].device, back["meta"].shape) == ("meta", (2, 3))
    assert (
        back["quantized"].scale,
        back["quantized"].zero_point,
        back["quantized"].scalar_type.name,
    ) == (0.5, 3, "quint8")
    assert back["sparse"].values.tolist() == [1.0, 2.0] and back["bits"].storage.read() == b"abcd"


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_damaged_archives(where: int) -> None:
    data = exported(mlp())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo("archive/data.pkl")
    damaged = bytearray(data)
    if where == 0:
        damaged = damaged[: len(data) // 2]
    elif where == 1:
        start = data.index(b"archive/data.pkl") + len("archive/data.pkl")
        damaged[data.index(b"\x80\x02", start) + 20] ^= 0xFF
    elif where == 2:
        damaged[info.header_offset] ^= 0xFF
    else:
        damaged[:] = b"PK\5\6" + bytes(18)
    with pytest.raises((tenon.Corrupt, tenon.Unsupported)) as caught:
        tenon.import_module(damaged)
    if where in (1, 2):
        assert (
            "data.pkl" in caught.value.details["record"]
            and caught.value.details["offset"].isdecimal()
        )


def test_a_damaged_tensor_is_found_by_check() -> None:
    module = mlp()
    data = bytearray(exported(module))
    data[data.index(np.arange(32, dtype="float32").tobytes())] ^= 1
    assert tenon.import_module(data)["fc1.weight"].shape == (8, 4)
    for options in ({"check": "all"}, {"check": "fill", "tensors": "fill"}):
        with pytest.raises(tenon.Corrupt):
            tenon.import_module(data, **options)  # type: ignore[arg-type]


def test_limits() -> None:
    data = exported(mlp())
    for options in ({"max_inflated_nbytes": 100}, {"max_records": 3}, {"max_depth": 1}):
        with pytest.raises(tenon.ResourceExhausted):
            tenon.import_module(data, **options)  # type: ignore[arg-type]
    for wrong in (
        {"max_inflated_nbytes": -1},
        {"tensors": "read"},
        {"check": "some"},
        {"mode": "open"},
    ):
        with pytest.raises(ValueError):
            tenon.import_module(data, **wrong)  # type: ignore[arg-type]


def test_what_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tenon.import_module(tmp_path / "no")
    (tmp_path / "text").write_text("text")
    for source in (tmp_path / "text", b"", b"text", io.BytesIO()):
        with pytest.raises((tenon.Corrupt, tenon.Unsupported)):
            tenon.import_module(source)
    with pytest.raises(tenon.InvalidArgument, match="NUL"):
        tenon.import_module("a\0b")
    with pytest.raises(TypeError):
        tenon.import_module(object())  # type: ignore[arg-type]
    with pytest.raises((tenon.InvalidArgument, tenon.Io)):
        tenon.import_module(1 << 20)


def test_many_threads_read_one_module() -> None:
    module = tenon.import_module(exported(mlp()))
    found: list[object] = []

    def look() -> None:
        for _ in range(20):
            found.append(
                (
                    list(module.tensors()),
                    module["fc1.weight"].shape,
                    module["fc2"].class_name,
                    len(exported(module)),
                )
            )

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and all(each == found[0] for each in found)


def rewritten(
    data: bytes, more: dict[str, bytes] | None = None, replace: dict[bytes, bytes] | None = None
) -> bytes:
    """Copy an archive, with more entries behind its own and with other code."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            for before, after in (replace or {}).items():
                if entry.filename.endswith(".py"):
                    content = content.replace(before, after)
            new.writestr(entry.filename, content)
        for name, content in (more or {}).items():
            info = zipfile.ZipInfo("x")
            info.filename = name
            new.writestr(info, content)
    return out.getvalue()


def test_extra_files_of_any_name_are_kept_under_a_safe_one() -> None:
    data = exported(mlp(), archive_name="m")
    more = {
        "m/extra//etc/model/conf.json": b"1",
        "m/extra/meta\\conf.json": b"2",
        "m/extra/../../up": b"3",
        "m/extra/plain": b"4",
        "m/extra/./plain": b"5",
    }
    module = tenon.import_module(rewritten(data, more))
    assert same(module, mlp())
    kept = {name: bytes(content) for name, content in module.extra_files.items()}
    assert kept == {
        "etc/model/conf.json": b"1",
        "meta/conf.json": b"2",
        "_/_/up": b"3",
        "plain": b"4",
    }
    warnings = "\n".join(module.warnings)
    told = '"/etc/model/conf.json" is absolute: it is kept as "etc/model/conf.json"'
    for part in (told, "backslash", 'not kept, for there is a "plain" already'):
        assert part in warnings, warnings
    # The archive that was read can be written again.
    assert same(tenon.import_module(exported(module)), module)


def test_bytes_behind_an_archive_and_folders_of_macos_are_passed_over() -> None:
    data = exported(mlp(), archive_name="m")
    for behind in (b"\n", b"x" * 65535):
        module = tenon.import_module(data + behind)
        assert same(module, mlp())
        assert module.warnings == (
            f"{len(behind)} bytes follow the end of the archive, and are passed over",
        )
    with pytest.raises(tenon.Corrupt):
        tenon.import_module(data + b"x" * 70000)
    module = tenon.import_module(
        rewritten(data, {"__MACOSX/m/._data.pkl": b"x", "__MACOSX/._m": b"y"})
    )
    assert same(module, mlp()) and len(module.warnings) == 1 and "__MACOSX" in module.warnings[0]


def test_a_device_map_is_pairs_of_devices() -> None:
    archive = io.BytesIO()
    tenon.export_module(tenon.Module("M"), archive)
    assert tenon.import_module(archive, device_map={"cuda:0": "cpu", "mps": "cpu"}).class_name
    for device_map in ({"cuda": "mps"}, {"": "cpu"}, {"cuda:0,x": "cpu"}):
        with pytest.raises(tenon.InvalidArgument, match="write pairs like cuda:1=cuda:0,mps=cpu"):
            tenon.import_module(archive, device_map=device_map)


def test_code_that_names_a_device_is_told() -> None:
    module = tenon.Module("M")
    module.define(
        'def forward(self, x: Tensor) -> Tensor:\n  return torch.to(x, torch.device("cuda:0"))\n'
    )
    data = exported(module)
    assert tenon.import_module(data).warnings == (
        (
            "the code names the device cuda:0, in __torch__.M.forward: it runs only where PyTorch"
            " has one, wherever the tensors are"
        ),
    )
    assert tenon.import_module(rewritten(data, replace={b"cuda:0": b"cpu"})).warnings == ()


def test_divisions_of_numbers_do_not_tie_a_module_to_its_version() -> None:
    module = tenon.Module("M")
    module.define(
        "def forward(self, x: Tensor, k: int) -> Tensor:\n  return torch.mul(x, torch.div(1.,"
        " float(k)) + k / 2)\n"
    )
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(exported(module))) as new, zipfile.ZipFile(out, "w") as old:
        for name in new.namelist():
            is_version = name.endswith("/.data/version")
            old.writestr(
                name.replace(".data/", "") if is_version else name,
                b"3\n" if is_version else new.read(name),
            )
    back = tenon.import_module(out.getvalue())
    assert back.version == 3 and back.warnings == ()
    back.define("def more(self, x: Tensor) -> Tensor:\n  return torch.relu(x)\n")
    assert tenon.import_module(exported(back)).version == 10


def test_from_a_pipe() -> None:
    data = exported(mlp())
    read, write = os.pipe()

    def fill() -> None:
        with os.fdopen(write, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=fill)
    thread.start()
    with os.fdopen(read, "rb") as file:
        module = tenon.import_module(file)
    thread.join()
    assert same(module, mlp())
