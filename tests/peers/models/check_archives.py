#!/usr/bin/env python3
"""Runs the archives of write_archives.py, or the same archives exported again, in this PyTorch.

Each archive of FOLDER is loaded and called as it was when it was written. Its outputs must be the
same, and equal to the bit if the same PyTorch wrote it. With --renamed FOLDER2, <name>.pt of
FOLDER2 is what our library exported. Its outputs, parameters, buffers and extra files must be those
of the original to the bit, with the same sharing and strides, and its records must be equal
(archive_compare.py). An archive of another PyTorch that this one cannot run is left out, with
PyTorch's own message.

With --package FILE, the package FILE has <name>.pt of FOLDER as the resource zoo/<name>.pkl. Its
outputs, parameters and buffers must be those of the original to the bit.

usage: check_archives.py FOLDER [--renamed FOLDER2 | --package FILE] [--json FILE] [MODEL...]
"""

import argparse
import base64
import json
import math
import struct
import sys
import warnings
from pathlib import Path
from typing import Any

import archive_compare
import torch
import zoo


def same_tensor(a: torch.Tensor, b: torch.Tensor, exact: bool) -> bool:
    if (
        a.dtype != b.dtype
        or a.shape != b.shape
        or a.layout != b.layout
        or a.device != b.device
        or a.is_quantized != b.is_quantized
    ):
        return False
    if exact and (
        a.requires_grad != b.requires_grad or a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg()
    ):
        return False
    if a.is_meta or (
        exact
        and a.layout == torch.strided
        and (a.stride(), a.storage_offset()) != (b.stride(), b.storage_offset())
    ):
        return a.is_meta and a.stride() == b.stride()
    if a.layout == torch.sparse_coo:
        return all(
            same_tensor(x, y, exact)
            for x, y in ((a._indices(), b._indices()), (a._values(), b._values()))
        )
    if a.layout == torch.sparse_csr:
        parts = (
            (a.crow_indices(), b.crow_indices()),
            (a.col_indices(), b.col_indices()),
            (a.values(), b.values()),
        )
        return all(same_tensor(x, y, exact) for x, y in parts)
    if a.is_quantized:
        return quantizer(a) == quantizer(b) and torch.equal(a.int_repr(), b.int_repr())
    if raw(a) == raw(b):
        return True
    return (
        not exact
        and (a.is_floating_point() or a.is_complex())
        and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    )


def raw(tensor: torch.Tensor) -> bytes:
    plain = (
        tensor.detach()
        .resolve_conj()
        .resolve_neg()
        .clone(memory_format=torch.contiguous_format)
        .reshape(-1)
    )
    return bytes(plain.view(torch.uint8).tolist()) if plain.numel() else b""


def quantizer(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.qscheme() == torch.per_tensor_affine:
        return (tensor.q_scale(), tensor.q_zero_point())
    return (
        tensor.q_per_channel_scales().tolist(),
        tensor.q_per_channel_zero_points().tolist(),
        tensor.q_per_channel_axis(),
    )


def same(a: Any, b: Any, exact: bool) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return same_tensor(a, b, exact)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y, exact) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key], exact) for key in a)
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (
            not exact and math.isclose(a, b, rel_tol=1e-4)
        )
    return bool(a == b)


def tensors_of(module: torch.jit.ScriptModule) -> dict[str, torch.Tensor]:
    """Returns the parameters and buffers by their paths. A shared one is listed under each of its
    paths.
    """
    found: dict[str, torch.Tensor] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for kind, members in (
            ("parameter", part.named_parameters(recurse=False)),
            ("buffer", part.named_buffers(recurse=False)),
        ):
            found |= {f"{kind} {prefix}.{name}": tensor for name, tensor in members}
    return found


def sharing(tensors: dict[str, torch.Tensor]) -> set[frozenset[str]]:
    """Returns the groups of tensors that lie in the same memory."""
    groups: dict[int, set[str]] = {}
    for name, tensor in tensors.items():
        if tensor.layout == torch.strided and not tensor.is_meta and tensor.storage().nbytes():
            groups.setdefault(tensor.storage().data_ptr(), set()).add(name)
    return {frozenset(names) for names in groups.values()}


def compare_modules(original: torch.jit.ScriptModule, renamed: torch.jit.ScriptModule) -> list[str]:
    ours, theirs = tensors_of(renamed), tensors_of(original)
    if list(ours) != list(theirs):
        return [f"parameters and buffers {list(theirs)} are {list(ours)}"]
    differences = [
        f"{name} differs" for name in ours if not same_tensor(theirs[name], ours[name], True)
    ]
    return (
        differences
        if sharing(ours) == sharing(theirs)
        else [*differences, "parameters and buffers are shared otherwise"]
    )


def load(path: Path, names: list[str]) -> tuple[torch.jit.ScriptModule, dict[str, bytes]]:
    extra = dict.fromkeys(names, "")
    module = torch.jit.load(str(path), _extra_files=extra)
    return module, {
        name: data.encode() if isinstance(data, str) else data for name, data in extra.items()
    }


def read(path: Path) -> Any:
    """Reads a file of torch.save. These tests wrote it, so the pickle may be trusted."""
    return torch.load(path) if zoo.TORCH < (2, 0) else torch.load(path, weights_only=False)


def open_package(path: Path) -> Any:
    from torch.package import PackageImporter, package_exporter

    # PyTorch refuses script modules in packages until this is set.
    package_exporter._gate_torchscript_serialization = False
    return PackageImporter(str(path))


def check(
    folder: Path, renamed: Path | None, package: Any, name: str, entry: dict[str, Any], exact: bool
) -> tuple[str, list[str]]:
    """Returns ("ok" or "left out", the list of errors)."""
    contents = {key: base64.b64decode(data) for key, data in entry["extra_files"].items()}
    try:
        original, extra = load(folder / f"{name}.pt", list(contents))
        calls = [
            zoo.Call(method, arguments) for method, arguments in read(folder / f"{name}.calls")
        ]
        expected = read(folder / f"{name}.expected")
    except RuntimeError as error:
        if not exact:
            return next(line for line in str(error).splitlines() if line.strip()), []
        raise
    wrong = [] if extra == contents else ["extra files differ"]
    other = "the new archive" if renamed is not None else "the module of the package"
    if renamed is not None:
        again, extra = load(renamed / f"{name}.pt", list(contents))
        wrong += [] if extra == contents else ["extra files of the new archive differ"]
        wrong += archive_compare.compare_archives(folder / f"{name}.pt", renamed / f"{name}.pt")
    elif package is not None:
        again = package.load_pickle("zoo", f"{name}.pkl")
    else:
        again, _ = load(folder / f"{name}.pt", [])
    # A call may change buffers.
    wrong += compare_modules(original, again)
    outputs = zoo.run(original, calls)
    if not same(expected, outputs, exact):
        wrong.append(f"returned {outputs} and not {expected}")
    if renamed is not None or package is not None:
        ours = zoo.run(again, calls)
        if not same(outputs, ours, True):
            wrong.append(f"{other} returned {ours} and not {outputs}")
    return "ok", wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--renamed", type=Path)
    parser.add_argument("--package", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    index = json.loads((arguments.folder / "index.json").read_text())
    exact = index["torch"] == torch.__version__
    results: dict[str, dict[str, Any]] = {}
    package = open_package(arguments.package) if arguments.package is not None else None
    for name, entry in index["models"].items():
        if "left_out" in entry or (arguments.models and name not in arguments.models):
            continue
        try:
            said, wrong = check(arguments.folder, arguments.renamed, package, name, entry, exact)
        except Exception as error:
            said, wrong = "ok", [f"{type(error).__name__}: {error}"]
        result = "failed" if wrong else "ok" if said == "ok" else "left out"
        results[name] = {
            "result": result,
            "why": wrong or ([] if said == "ok" else [said]),
            "flags": entry["flags"],
        }
        if result != "ok":
            print(f"{name}: {result}: {'; '.join(results[name]['why'])}")
    if arguments.json:
        document = {"torch": torch.__version__, "written_by": index["torch"], "models": results}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    counts = [
        sum(result["result"] == kind for result in results.values())
        for kind in ("ok", "left out", "failed")
    ]
    print(
        f"PyTorch {torch.__version__}, archives of {index['torch']}: {counts[0]} ok, {counts[1]}"
        f" left out, {counts[2]} failed"
    )
    return 1 if counts[2] or not counts[0] else 0


if __name__ == "__main__":
    sys.exit(main())
