"""Bytecode for PyTorch's lite interpreter in archives: its operators and its debug tables."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tenon
from modules import mlp

GOLDEN = sorted((Path(__file__).parents[3] / "tests/peers/golden/lite").glob("*.ptl"))
OPERATORS = ["aten::linear", "aten::relu"]


def exported(
    module: tenon.Module, **options: object
) -> tuple[tenon.ExportReport, dict[str, bytes], io.BytesIO]:
    """Export a module. Return the report, the records and the file."""
    file = io.BytesIO()
    report = tenon.export_module(module, file, **options)  # type: ignore[arg-type]
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        return (
            report,
            {name.partition("/")[2]: archive.read(name) for name in archive.namelist()},
            file,
        )


def test_the_flatbuffer_form() -> None:
    file = io.BytesIO()
    report = tenon.export_module(mlp(), file, flatbuffer=True)
    assert file.getvalue()[4:8] == b"PTMF" and len(file.getvalue()) == report.nbytes
    assert (report.bytecode_functions, report.records) == (1, 0)
    back = tenon.import_module(file.getvalue())
    assert back.warnings == () and list(back.tensors()) == list(mlp().tensors())
    with pytest.raises(tenon.InvalidArgument, match="always has bytecode"):
        tenon.export_module(mlp(), io.BytesIO(), flatbuffer=True, bytecode="drop")


def test_bad_code_of_a_flatbuffer_is_refused_at_first_use() -> None:
    file = io.BytesIO()
    tenon.export_module(mlp(), file, flatbuffer=True)
    good = file.getvalue()
    bad = good.replace(b"def forward", b"dxf forward")
    assert bad != good
    module = tenon.import_module(bad)
    for use in (
        module.members,
        module.tensors,
        lambda: module.class_name,
        lambda: module.report,
        lambda: module.warnings,
        lambda: hash(module),
        lambda: module == mlp(),
        lambda: tenon.export_module(module, io.BytesIO()),
    ):
        with pytest.raises(tenon.Corrupt, match=r"code/__torch__.*\.py:"):
            use()
    assert module == module and repr(module).startswith("<tenon.Module")
    module.close()
    assert module == module and hash(module) == hash(module)
    with pytest.raises(tenon.Corrupt, match=r"code/__torch__.*\.py:"):
        tenon.import_module(bad, check="all")
    again = tenon.import_module(good, check="all")
    assert again.class_name == mlp().class_name and again != tenon.import_module(good)


def two_methods() -> tenon.Module:
    """The lite interpreter runs forward and cannot run awaited."""
    module = tenon.Module("Two")
    module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.relu(x)\n")
    module.define(
        "def awaited(self, x: Tensor) -> Tensor:\n  later = awaitable(torch.relu, x)\n  return x\n"
    )
    return module


@pytest.mark.parametrize("methods", [None, "forward", ["forward"], ("forward",)])
def test_bytecode_is_compiled(methods: object) -> None:
    report, records, file = exported(mlp(), bytecode="compile", methods=methods)
    assert (
        report.bytecode_functions == 1
        and report.debug_tables == 0
        and b"aten::linear" in records["bytecode.pkl"]
    )
    assert "bytecode_functions=1" in repr(report)
    # An import takes Tenon's bytecode without a warning, and an export keeps it.
    back = tenon.import_module(file)
    assert back.warnings == ()
    assert exported(back)[1]["bytecode.pkl"] == records["bytecode.pkl"]


def test_what_the_bytecode_looks_like() -> None:
    module = tenon.Module("Dims")
    module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.add(x, torch.dim(x))\n")

    def record(**options: object) -> bytes:
        return exported(module, bytecode="compile", **options)[1]["bytecode.pkl"]

    plain = record()
    assert record(bytecode_version=8) == plain and b"DIM" in plain and b"aten::dim" not in plain
    assert b"aten::dim" in record(emit=["plain_operators"])
    both = record(emit=("plain_operators", "default_inputs"))
    assert b"aten::dim" in both and both != record(emit=("plain_operators",))
    assert record(emit=["no_interface_methods"]) == record(emit=["defaults_before_out"]) == plain


def test_a_forked_function_runs_at_once_if_asked() -> None:
    module = tenon.Module("Forks")
    module.define(
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.wait(fork(torch.neg, x))\n"
    )
    with pytest.raises(tenon.Unsupported, match="forks_at_once"):
        exported(module, bytecode="compile")
    report, records, _ = exported(module, bytecode="compile", emit=["forks_at_once"])
    assert report.bytecode_functions == 1 and b"aten::neg" in records["bytecode.pkl"]
    assert "aten::neg" in module.opnames()


def test_a_module_has_no_bytecode_unless_told() -> None:
    for options in ({}, {"bytecode": "keep"}, {"bytecode": "drop"}):
        report, records, _ = exported(mlp(), **options)
        assert report.bytecode_functions == 0 and "bytecode.pkl" not in records


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_bytecode_of_pytorch_is_kept_or_dropped(path: Path) -> None:
    module = tenon.import_module(path)
    report, records, _ = exported(module)
    assert (report.bytecode_functions, "bytecode.pkl" in records) == (1, True)
    report, records, _ = exported(module, bytecode="drop")
    assert (report.bytecode_functions, "bytecode.pkl" in records) == (0, False)
    report, records, _ = exported(module, bytecode="compile")
    assert (report.bytecode_functions, "bytecode.pkl" in records) == (1, True)


def test_kept_bytecode_lives_with_new_weights_and_not_with_new_code() -> None:
    (path,) = (path for path in GOLDEN if path.stem == "mlp-1.13.1")
    module = tenon.import_module(path)
    name, weight = next(iter(module.parameters().items()))
    module[name] = np.zeros(weight.shape, "float32")
    assert exported(module)[0].bytecode_functions == 1
    module.define("def more(self, x: Tensor) -> Tensor:\n  return torch.relu(x)\n")
    assert exported(module)[0].bytecode_functions == 0
    assert exported(module, bytecode="compile", methods="forward")[0].bytecode_functions == 1


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_debug_tables_are_carried_when_both_sides_ask(path: Path) -> None:
    def tables(read: bool, **options: object) -> int:
        report, records, _ = exported(tenon.import_module(path, debug_tables=read), **options)
        found = [name for name in records if name.endswith(".debug_pkl") or "debug_" in name]
        assert len(found) == report.debug_tables
        return len(found)

    with zipfile.ZipFile(path) as archive:
        there = sum("debug_" in name for name in archive.namelist())
    assert tables(True, debug_tables=True) == there > 2
    assert tables(True) == tables(False, debug_tables=True) == 0
    # Some tables describe the old bytecode. Tables are written together or not at all.
    assert tables(True, debug_tables=True, bytecode="drop") == 0
    # New bytecode has tables of its own.
    assert tables(True, debug_tables=True, bytecode="compile") > 2
    assert tables(False, debug_tables=True, bytecode="compile") > 2
    assert tables(True, bytecode="compile") == 0


@pytest.mark.parametrize("methods", [None, "forward", ["forward"], ("forward",)])
def test_opnames(methods: str | list[str] | None) -> None:
    assert mlp().opnames(methods) == OPERATORS


def test_opnames_of_archives() -> None:
    for path in GOLDEN:
        names = tenon.import_module(path).opnames()
        assert names == sorted(set(names))
        assert ("aten::linear" if path.stem.startswith("mlp") else "aten::mul.Tensor") in names


def test_what_the_lite_interpreter_cannot_run_is_refused_with_its_place(tmp_path: Path) -> None:
    module, path = two_methods(), tmp_path / "two.ptl"
    path.write_bytes(b"old")
    for refused in (module.opnames, lambda: tenon.export_module(module, path, bytecode="compile")):
        with pytest.raises(tenon.Unsupported, match="awaitable") as caught:
            refused()
        details = caught.value.details
        assert details["excerpt"].splitlines()[0] == "    later = awaitable(torch.relu, x)"
        assert f"{details['file']}:{details['line']}:{details['column']}: " in str(caught.value)
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1
    # If only some methods are chosen, the other method is left out.
    assert module.opnames("forward") == ["aten::relu"]
    assert (
        tenon.export_module(
            module, path, bytecode="compile", methods=["forward"]
        ).bytecode_functions
        == 1
    )


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"methods": "forward"}, tenon.InvalidArgument, "methods is for"),
        ({"methods": ["forward"], "bytecode": "drop"}, tenon.InvalidArgument, "methods is for"),
        ({"methods": "predict", "bytecode": "compile"}, tenon.NotFound, "predict"),
        ({"methods": ["forward", "predict"], "bytecode": "compile"}, tenon.NotFound, "predict"),
        ({"methods": [], "bytecode": "compile"}, tenon.InvalidArgument, "empty name"),
        ({"methods": "a\0", "bytecode": "compile"}, tenon.InvalidArgument, "NUL"),
        ({"methods": [3], "bytecode": "compile"}, TypeError, "str"),
        ({"bytecode": "compile", "bytecode_version": 3}, tenon.InvalidArgument, "from 4 to 8"),
        ({"bytecode_version": 8}, tenon.InvalidArgument, "bytecode_version and emit_flags are for"),
        (
            {"bytecode": "compile", "emit": ["small"]},
            ValueError,
            "'small' is not one of default_inputs",
        ),
        ({"bytecode": "always"}, ValueError, "'always' is not one of keep, drop, compile"),
    ],
)
def test_wrong_options(
    options: dict[str, object], kind: type[BaseException], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        tenon.export_module(mlp(), tmp_path / "a.pt", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_wrong_methods_of_opnames() -> None:
    for methods, kind in (
        ("predict", tenon.NotFound),
        ([], tenon.InvalidArgument),
        ([3], TypeError),
        (3, TypeError),
    ):
        with pytest.raises(kind):
            mlp().opnames(methods)  # type: ignore[arg-type]
    closed = mlp()
    closed.close()
    with pytest.raises(ValueError, match="already closed"):
        closed.opnames()
