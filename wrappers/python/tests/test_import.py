from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
import tenon


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", *arguments], capture_output=True, text=True, check=True
    )


def test_import_brings_in_nothing_heavy() -> None:
    program = (
        "import sys; before = set(sys.modules); import tenon; print(*sorted(set(sys.modules) -"
        " before))"
    )
    loaded = set(run("-c", program).stdout.split())
    others = {name for name in loaded if not name.startswith("tenon") and name != "_cffi_backend"}
    assert others <= {"__future__", "atexit", "errno", "time", "_thread"}, others
    assert "tenon.torch" not in loaded


def test_version_and_names() -> None:
    assert tenon.__version__ == importlib.metadata.version("libtenon")
    for name in tenon.__all__:
        assert hasattr(tenon, name), name


def test_the_library_lies_in_the_package() -> None:
    folder = Path(tenon.__file__).parent
    assert (folder / "py.typed").exists()
    libraries = list(folder.glob("libtenon.so*"))
    assert len(libraries) == 1
    # The library includes the parts of the C++ library that it needs. With gcc 12 it has 3.73 MB.
    assert libraries[0].stat().st_size <= 3_850_000
    loaded = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "libtenon" in line
    }
    assert loaded == {str(libraries[0].resolve())}


def test_only_the_limited_api() -> None:
    folder = Path(tenon.__file__).parent
    assert sorted(path.name for path in folder.glob("*.so")) == [
        "_cffi.abi3.so",
        "_native_ext.abi3.so",
    ]


def test_the_programs_lie_in_the_package() -> None:
    programs = Path(tenon.__file__).parent / "bin"
    version = f"{tenon.__version__}\n"
    for name in ("tenon", "tenon-manager"):
        assert subprocess.run(
            [programs / name, "--version"], capture_output=True, text=True, check=True
        ).stdout.endswith(version)
    # The console script is this function, and it execs the program.
    done = subprocess.run(
        [sys.executable, "-B", "-c", "from tenon._programs import main; main()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith(version)
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="tenon")
    assert script.value == "tenon._programs:main"


def test_submodules_come_when_they_are_asked_for() -> None:
    program = (
        "import sys, tenon; assert {'torch', 'multiprocessing'} <= set(dir(tenon)) and"
        " 'multiprocessing' not in sys.modules; print(tenon.multiprocessing.get_sharing_strategy(),"
        " tenon.torch.to_torch.__name__, 'torch' in sys.modules)"
    )
    assert run("-c", program).stdout == "file_descriptor to_torch False\n"
    assert not hasattr(tenon, "tensorflow")


def test_torch_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ModuleNotFoundError, match="needs PyTorch, and this Python has none: pip install torch"
    ):
        tenon.torch.to_torch(tenon.zeros(3))
