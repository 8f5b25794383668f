"""Packages of modules, programs with other weights, against torch.package and torch.export.

A package has encoder layers of one class that share their first weight. Reading it opens the file
and reads all modules. PyTorch compiles their code, which Tenon only parses. Both read one file that
PyTorch wrote, in the page cache, and both write to a file in memory. PyTorch can replace a weight
of a program only by loading the program and saving it again.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row

warnings.simplefilter("ignore")  # from torch.jit
PYTHON = "newest torch"
ROUNDS = 1 if SMOKE else 15
MODULES = 2 if SMOKE else 8
WIDTH = 32 if SMOKE else 256
FASTER: dict[str, Any] = {"of": "theirs/ours", "at_least": 1}


def packages(tenon: Any, torch: Any, folder: Path, peer: str) -> None:
    from torch.package import PackageExporter, PackageImporter, package_exporter

    package_exporter._gate_torchscript_serialization = False
    names = [f"layer{number}.pkl" for number in range(MODULES)]
    layers = [torch.nn.TransformerEncoderLayer(WIDTH, 4, WIDTH * 2).eval() for _ in names]
    for layer in layers[1:]:
        layer.linear1.weight = layers[0].linear1.weight
    scripted = [torch.jit.script(layer) for layer in layers]
    path = folder / "peer.pt"

    def write_theirs(to: Path = folder / "theirs.pt") -> None:
        with PackageExporter(str(to)) as package:
            for name, module in zip(names, scripted, strict=True):
                package.save_pickle("models", name, module)

    def read_ours() -> Any:
        with tenon.Package(path) as package:
            return {name: package[name] for name in package.modules}

    def read_theirs() -> Any:
        package = PackageImporter(str(path))
        return [package.load_pickle("models", name) for name in names]

    write_theirs(path)
    modules = read_ours()
    of_all = f"a package of {MODULES} modules, {path.stat().st_size / 1e6:.0f} MB"
    for measure, ours, theirs in (
        (f"open and read {of_all}", read_ours, read_theirs),
        (
            f"write {of_all}",
            lambda: tenon.export_package(folder / "ours.pt", modules),
            write_theirs,
        ),
    ):
        seconds = interleave(ROUNDS, lambda run=ours: run, lambda run=theirs: run)
        print_row(
            measure,
            "ms",
            f"{peer}, torch.package",
            FASTER,
            [one * 1e3 for one in seconds[0]],
            [one * 1e3 for one in seconds[1]],
        )


def programs(tenon: Any, torch: Any, folder: Path, peer: str) -> None:
    layers = [torch.nn.Linear(WIDTH * 4, WIDTH * 4) for _ in range(MODULES)]
    model = torch.nn.Sequential(*layers).eval()
    path = folder / "program.pt2"
    torch.export.save(torch.export.export(model, (torch.zeros(1, WIDTH * 4),)), str(path))
    weights = {
        f"{number}.weight": torch.rand_like(layer.weight) for number, layer in enumerate(layers)
    }

    def replace_ours() -> None:
        with tenon.open_weights(path) as program:
            for name, weight in weights.items():
                program.replace(name, weight.numpy())
            program.rewrite(folder / "ours.pt2")

    def replace_theirs() -> None:
        program = torch.export.load(str(path))
        for name, weight in weights.items():
            program.state_dict[name] = torch.nn.Parameter(weight)
        torch.export.save(program, str(folder / "theirs.pt2"))

    measure = (
        f"open a program of {path.stat().st_size / 1e6:.0f} MB, replace {len(weights)} weights and"
        " write it"
    )
    seconds = interleave(ROUNDS, lambda: replace_ours, lambda: replace_theirs)
    print_row(
        measure,
        "ms",
        f"{peer}, torch.export",
        FASTER,
        [one * 1e3 for one in seconds[0]],
        [one * 1e3 for one in seconds[1]],
    )


def main() -> None:
    tenon = load_tenon()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    peer = f"PyTorch {torch.__version__.split('+')[0]}"
    with tempfile.TemporaryDirectory(prefix="tenon-bench-", dir="/dev/shm") as folder:
        packages(tenon, torch, Path(folder), peer)
        if hasattr(torch, "export"):
            programs(tenon, torch, Path(folder), peer)


if __name__ == "__main__":
    main()
