"""Code of the models of tests/peers/compile to names, bytecode and flatbuffers, against PyTorch.

PyTorch's side is torch.jit.load, export_opnames and saves for the lite interpreter. Each sample is
one model: the median of its rounds, which alternate with PyTorch's. The archives are those that
torch.jit.save wrote, in the page cache. PyTorch parses and compiles the code when it loads an
archive. Tenon parses it in the import and compiles it later, so there is one row with the import
and one without. Both write bytecode and flatbuffers into memory, and both open the flatbuffers that
PyTorch wrote. Tenon parses the code of a flatbuffer when the module is first used, so there are
rows in which it lists the members too. PyTorch writes no flatbuffer of a module with NamedTuples,
so these models have no part in those rows.
"""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row

warnings.simplefilter("ignore")  # from torch.jit
PYTHON = "torch"
ROUNDS = 1 if SMOKE else 15
NAMES = ["mlp", "cnn", "strings"] if SMOKE else []
SMALL: dict[str, Any] = {"of": "ours", "at_most": 1000}
EXPORTED = [("mlp", SMALL)] if SMOKE else [("mlp", SMALL), ("transformer_encoder_layer", None)]
WRITER = Path(__file__).resolve().parents[1] / "peers/compile/write_models.py"


def main() -> None:
    tenon = load_tenon()
    import torch
    from torch.jit.mobile import _load_for_lite_interpreter

    torch.set_num_threads(1)
    if torch.__version__.startswith("1."):
        # Without this flag the archives lack methods that are called through an interface.
        torch._C._enable_mobile_interface_call_export()
    peer = f"PyTorch {torch.__version__.split('+')[0]}"

    def compile_ours(module: Any) -> Any:
        return lambda: module.opnames

    def open_and_compile_ours(path: Path) -> Any:
        return lambda: lambda: tenon.import_module(path).opnames()

    def compile_theirs(path: Path) -> Any:
        return lambda: lambda: torch.jit.export_opnames(torch.jit.load(str(path)))

    def write_ours(path: Path, sizes: list[int], **options: Any) -> Any:
        def write() -> None:
            file = io.BytesIO()
            tenon.export_module(tenon.import_module(path), file, bytecode="compile", **options)
            sizes[0] = len(file.getbuffer())

        return lambda: write

    def write_theirs(path: Path, sizes: list[int], **options: Any) -> Any:
        def write() -> None:
            sizes[1] = len(
                torch.jit.load(str(path))._save_to_buffer_for_lite_interpreter(**options)
            )

        return lambda: write

    def writes_flatbuffer(path: Path) -> bool:
        try:
            torch.jit.load(str(path))._save_for_lite_interpreter(
                str(path.with_suffix(".ff")), _use_flatbuffer=True
            )
        except RuntimeError as error:
            assert "not supported in lite interpreter" in str(error), error
            return False
        return True

    def opens(path: Path) -> bool:
        """Whether PyTorch can read its own flatbuffer. It cannot read the code that it prints for
        some.
        """
        try:
            torch.jit.load(str(path))
        except RuntimeError:
            return False
        return True

    def open_ours(path: Path) -> Any:
        return lambda: lambda: tenon.import_module(path)

    def open_and_use_ours(path: Path) -> Any:
        return lambda: lambda: tenon.import_module(path).members()

    def open_theirs(load: Any, path: Path) -> Any:
        return lambda: lambda: load(str(path))

    def export(module: Any, bytecode: Any) -> Any:
        return lambda: lambda: tenon.export_module(module, io.BytesIO(), bytecode=bytecode)

    def nothing() -> Any:
        return lambda: None

    def medians(seconds: tuple[list[float], list[float]]) -> tuple[float, float]:
        return statistics.median(seconds[0]) * 1e6, statistics.median(seconds[1]) * 1e6

    compiled, opened, written, sizes, flat, flat_sizes = [], [], [], [], [], []
    flat_opened, flat_used, flat_in_lite, flat_used_in_lite = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as folder:
        subprocess.run(
            [sys.executable, "-W", "ignore", str(WRITER), folder, *NAMES],
            stdout=sys.stderr,
            check=True,
        )
        # A module that PyTorch cannot write as bytecode has no archive in the list.
        paths = [
            path.with_suffix("").with_suffix(".pt")
            for path in sorted(Path(folder).glob("*.lite.ptl"))
        ]
        for path in paths:
            compiled.append(
                medians(
                    interleave(
                        ROUNDS, compile_ours(tenon.import_module(path)), compile_theirs(path)
                    )
                )
            )
            opened.append(
                medians(interleave(ROUNDS, open_and_compile_ours(path), compile_theirs(path)))
            )
            both = [0, 0]
            written.append(
                medians(interleave(ROUNDS, write_ours(path, both), write_theirs(path, both)))
            )
            sizes.append((both[0] / 1e3, both[1] / 1e3))
            if writes_flatbuffer(path):
                ours, theirs = (
                    write_ours(path, both, flatbuffer=True),
                    write_theirs(path, both, _use_flatbuffer=True),
                )
                flat.append(medians(interleave(ROUNDS, ours, theirs)))
                flat_sizes.append((both[0] / 1e3, both[1] / 1e3))
                file = path.with_suffix(".ff")
                if opens(file):
                    theirs = open_theirs(torch.jit.load, file)
                    flat_opened.append(medians(interleave(ROUNDS, open_ours(file), theirs)))
                    flat_used.append(medians(interleave(ROUNDS, open_and_use_ours(file), theirs)))
                theirs = open_theirs(_load_for_lite_interpreter, file)
                flat_in_lite.append(medians(interleave(ROUNDS, open_ours(file), theirs)))
                flat_used_in_lite.append(
                    medians(interleave(ROUNDS, open_and_use_ours(file), theirs))
                )
        names = f"{peer}, load and export_opnames"
        lite = f"{peer}, load and lite save"
        of_all = f"each of {len(paths)} models"
        faster: dict[str, Any] = {"of": "theirs/ours", "at_least": 1}
        smaller: dict[str, Any] = {"of": "ours/theirs", "at_most": 1}
        for measure, unit, against, pairs, goal in (
            (
                f"compile the code of {of_all}, for the names of its operators",
                "us",
                names,
                compiled,
                faster | {"at_least": 5},
            ),
            (f"open {of_all}, and compile it for these names", "us", names, opened, faster),
            (f"open {of_all}, compile, and write bytecode", "us", lite, written, faster),
            (f"size of the archive with bytecode of {of_all}", "kB", lite, sizes, smaller),
            (
                f"open, compile, and write a flatbuffer of each of {len(flat)} models",
                "us",
                f"{lite} as a flatbuffer",
                flat,
                faster,
            ),
            (
                f"size of the flatbuffer of each of {len(flat)} models",
                "kB",
                f"{lite} as a flatbuffer",
                flat_sizes,
                smaller,
            ),
            (
                f"open a flatbuffer of each of {len(flat_opened)} models",
                "us",
                f"{peer}, torch.jit.load",
                flat_opened,
                faster,
            ),
            (
                f"open a flatbuffer of each of {len(flat_used)} models, and list members",
                "us",
                f"{peer}, torch.jit.load",
                flat_used,
                faster,
            ),
            (
                f"open a flatbuffer of each of {len(flat_in_lite)} models",
                "us",
                f"{peer}, the lite loader",
                flat_in_lite,
                faster,
            ),
            (
                f"open a flatbuffer of each of {len(flat_used_in_lite)} models, and list members",
                "us",
                f"{peer}, the lite loader",
                flat_used_in_lite,
                {"of": "theirs/ours"},
            ),
        ):
            print_row(
                measure,
                unit,
                against,
                goal,
                [ours for ours, _ in pairs],
                [theirs for _, theirs in pairs],
            )
        for measure, unit, pairs, goal in (
            ("open, compile, and write bytecode", "us", written, faster),
            ("size of the archive with bytecode", "kB", sizes, smaller),
        ):
            worst = max(range(len(paths)), key=lambda index: pairs[index][0] / pairs[index][1])
            ours, theirs = pairs[worst]
            title = f"{measure}: the model with the least advantage, {paths[worst].stem}"
            print_row(title, unit, lite, goal, [ours], [theirs])
        for name, goal in EXPORTED:
            module = tenon.import_module(Path(folder) / f"{name}.pt")
            for bytecode, text in (("drop", "without bytecode"), ("compile", "with bytecode")):
                own = [
                    seconds * 1e6
                    for seconds in interleave(ROUNDS, export(module, bytecode), nothing)[0]
                ]
                print_row(f"export {name}, {text}", "us", "", goal, own, [])


if __name__ == "__main__":
    main()
