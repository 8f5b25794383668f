from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import tenon
from modules import linear, mlp


def test_modules_and_files_there_and_back(tmp_path: Path) -> None:
    path, module = tmp_path / "both.pt", mlp()
    entries = {
        "models/net.pkl": module,
        "models/same.pkl": module,
        "models/other.pkl": linear(4, 3),
        "note.txt": "hello",
        "raw.bin": b"\0\1",
    }
    report = tenon.export_package(path, entries, externs=["numpy"], durability="file")
    assert report.nbytes == path.stat().st_size and report.version == 10 and report.oldest_pytorch
    with tenon.Package(path) as package:
        assert report.records == len(package.records) and {
            name.split("/")[0] for name in zipfile.ZipFile(path).namelist()
        } == {"both"}
        assert (
            package.modules == tuple(package) == ("models/net.pkl", "models/other.pkl")
            and len(package) == 2
        )
        assert package.read("note.txt") == b"hello" and package.read("raw.bin") == b"\0\1"
        assert package.read(".data/extern_modules").split() == [b"torch.jit._script", b"numpy"]
        assert package.read("models/net.pkl") == package.read("models/same.pkl")
        net = package["models/net.pkl"]
        assert "models/net.pkl" in repr(package)
        with pytest.raises(tenon.NotFound, match=r"It has models/net\.pkl, models/other\.pkl"):
            package["models/none.pkl"]
        with pytest.raises(tenon.NotFound, match="no record"):
            package.read("none")
    assert repr(package) == "<tenon.Package, closed>"
    with pytest.raises(ValueError, match="closed"):
        package.records  # noqa: B018
    ours, theirs = module.tensors(), net.tensors()
    assert list(ours) == list(theirs) and all(
        ours[name].tolist() == theirs[name].tolist() for name in ours
    )


def test_a_base_is_written_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    tenon.export_package(
        path, {"m/one.pkl": linear(4, 3), "m/two.pkl": mlp(), "m/source.py": "x = 1\n"}
    )
    with tenon.Package(path) as package:
        one = package["m/one.pkl"]
        name = next(iter(one.tensors()))
        shape = one[name].shape
        one[name] = tenon.from_numpy(np.full(shape, 7, np.float32))
        assert package["m/one.pkl"][name].tolist() == one[name].tolist()
        # The new file replaces the file that is open for reading.
        tenon.export_package(path, {"m/source.py": "x = 2\n"}, base=package)
    with tenon.Package(path, tensors="fill") as changed:
        assert (
            changed.modules == ("m/one.pkl", "m/two.pkl")
            and changed.read("m/source.py") == b"x = 2\n"
        )
        assert changed["m/one.pkl"][name].tolist() == np.full(shape, 7).tolist()
        # Records that no module needs any more are left out.
        tenon.export_package(path, {"m/one.pkl": "no module"}, base=changed)
    with tenon.Package(path) as smaller:
        assert smaller.modules == ("m/two.pkl",)


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    for name in ("net.pkl", "a//b", "../a/b", ".data/0", "byteorder"):
        with pytest.raises(tenon.InvalidArgument, match="the name"):
            tenon.export_package(path, {name: linear(4, 3)})
    with pytest.raises(tenon.InvalidArgument, match="Python module"):
        tenon.export_package(path, {}, externs=["a b"])
    with pytest.raises(TypeError):
        tenon.export_package(path, {"a/b": 1})  # type: ignore[dict-item]
    assert not path.exists()
    tenon.export_module(linear(4, 3), path)
    with pytest.raises(tenon.Unsupported, match="tenon_import_module"):
        tenon.Package(path)
