"""usage: run_vectors.py FOLDER. It executes the cases of FOLDER/cases.json with Tenon's Python
package (tests/languages/vectors/README.md).
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

import composites
import cuda
import objects
import tenon
from case import (
    Case,
    Skip,
    Wrong,
    dtype_number,
    known,
    missing,
    outcome,
    same,
    same_bytes,
    tensor_of,
    text_of,
)
from tenon import _dtype, error
from tenon._native import ffi, lib
from tenon.arena import PAGES


def first_bytes(tensor: tenon.Tensor, nbytes: int) -> bytes:
    """Returns the bytes from the tensor's first element on."""
    start = tensor.offset * _dtype.bits_of(tensor._dtype_number) // 8
    return tensor.storage.read(start, nbytes)


def run_status(case: Case) -> None:
    known(case, "id", "kind", "status", "name")
    number, name = case["status"], case["name"]
    same("name", ffi.string(lib.tenon_status_name(number)).decode(), name)
    if name in ("OK", "UNKNOWN"):
        return
    made = error.from_status(number)
    same("code", made.code, name)
    same("status", made.status, number)
    kinds = [
        next(
            kind for kind in type(error.from_status(other)).__mro__ if kind is not tenon.OutOfMemory
        )
        for other in range(1, 32)
        if other != number and ffi.string(lib.tenon_status_name(other)) != b"UNKNOWN"
    ]
    if type(made) in kinds:
        raise Wrong(f"{type(made).__name__} belongs to another number too")


def run_dtype(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "nbytes", "details")
    name, number, numel = case["name"], dtype_number(case["dtype"]), case["numel"]
    if name:
        same("dtype of the name", _dtype.number_of(name), number)
    with tenon.Storage.new(4096) as storage:
        tensor = outcome(
            expect,
            lambda: (
                tenon.Tensor.over(storage, (numel,), name)
                if name
                else tenon.Tensor._new(storage, number, (numel,), None, 0, 0)
            ),
        )
        if tensor is not None:
            same("nbytes", tensor.nbytes, expect["nbytes"])
            same("dtype", tensor._dtype_number, number)
            if name:
                same("name", tensor.dtype, name)


def run_layout(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "numel", "nbytes", "strides", "contiguous", "details")
    with tenon.Storage.new(case["storage_nbytes"]) as storage:
        tensor = outcome(expect, lambda: tensor_of(storage, case))
        if tensor is not None:
            same("numel", tensor.numel, expect["numel"])
            same("nbytes", tensor.nbytes, expect["nbytes"])
            same("contiguous", tensor.is_contiguous, expect["contiguous"])
            same("strides", list(tensor.strides), expect["strides"])
            same("sizes", list(tensor.shape), case["sizes"])
            same("offset", tensor.offset, case.get("offset", 0))


def index_item(kind: int, start: int, stop: int, step: int) -> Any:
    return (start, slice(start, stop, step), None, ...)[kind]


def run_view(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "dtype", "sizes", "strides", "offset", "flags", "details")
    with tenon.Storage.new(case["storage_nbytes"]) as storage:
        tensor = tensor_of(storage, case)
        if "reshape" in case:
            view = outcome(expect, lambda: tensor.reshape(case["reshape"]))
        elif "view_dtype" in case:
            # An unknown dtype has no name.
            view = outcome(expect, lambda: tensor._view_dtype(dtype_number(case["view_dtype"])))
        else:
            items = tuple(index_item(*item) for item in case["index"])
            view = outcome(expect, lambda: tensor[items])
        if view is not None:
            same("dtype", view._dtype_number, dtype_number(expect["dtype"]))
            same("sizes", list(view.shape), expect["sizes"])
            same("strides", list(view.strides), expect["strides"])
            same("offset", view.offset, expect["offset"])
            same("flags", view._flags, expect["flags"])


def run_message(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "count", "find", "details")
    names = [text_of(name, case.get("name_repeat", 1)) for name in case["names"]]
    user = bytes.fromhex(case.get("user", "") * case.get("user_repeat", 1))
    tensors = [tenon.zeros((1,), "uint8") for _ in names]
    message = outcome(expect, lambda: tenon.Message(tensors, names, user))
    if message is not None:
        with message:
            same("count", len(message), expect["count"])
            same("names", message.names, names)
            same("user bytes", message.user_bytes, user)
            for name, index in expect.get("find", []):
                found = message.get(text_of(name))
                if index < 0 or found is None:
                    same(
                        f"find {name}",
                        None if found is None else "found",
                        None if index < 0 else index,
                    )
                else:
                    same(
                        f"find {name}",
                        found.storage.id,
                        tensors[index].storage.id if index < len(tensors) else None,
                    )


def run_encode(case: Case) -> None:
    known(case["expect"], "bytes", "mask")
    storages = [tenon.Storage.new(nbytes, isolated=True) for nbytes in case["storages"]]
    tensors = [tensor_of(storages[spec["storage"]], spec) for spec in case["tensors"]]
    names = [text_of(spec["name"]) for spec in case["tensors"]]
    with (
        tenon.Message(tensors, names, bytes.fromhex(case["user"])) as message,
        tenon.Descriptor(message) as descriptor,
    ):
        same_bytes(descriptor.bytes, case["expect"])


def run_descriptor(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "tensors", "user")
    message = outcome(
        expect,
        lambda: tenon.open_descriptor(
            bytes.fromhex(case["bytes"]),
            case["fds"],
            access=case.get("access", "auto"),
            allow_unsealed=case.get("allow_unsealed", False),
        ),
    )
    if message is None:
        return
    with message:
        same("user bytes", message.user_bytes.hex(), expect["user"])
        same("count", len(message), len(expect["tensors"]))
        for index, (tensor, name, wanted) in enumerate(
            zip(message.tensors, message.names, expect["tensors"], strict=True)
        ):
            got = {
                "name": None if name is None else name.encode().hex(),
                "dtype": [
                    tensor._dtype_number & 255,
                    tensor._dtype_number >> 8 & 255,
                    tensor._dtype_number >> 16,
                ],
                "sizes": list(tensor.shape),
                "strides": list(tensor.strides),
                "offset": tensor.offset,
                "flags": tensor._flags,
                "numel": tensor.numel,
                "nbytes": tensor.nbytes,
                "contiguous": tensor.is_contiguous,
                "read_only": tensor.read_only,
                "data": (
                    first_bytes(
                        tensor, min(len(wanted.get("data", "")) // 2, tensor.storage.nbytes)
                    ).hex()
                ),
            }
            for key, value in wanted.items():
                same(f"tensor {index} {key}", got.get(key, "unknown"), value)


def count_of(path: str) -> int:
    with open(path, "rb") as file:
        return int(struct.unpack("<i", file.read(4))[0])


def run_named_file(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "nbytes", "data", "read_only", "sealed", "mode", "count")
    handle = tenon.FilenameHandle(case["path"], case["nbytes"], case["offset"])
    access, unsealed = case.get("access", "auto"), case.get("allow_unsealed", False)
    storage = outcome(
        expect, lambda: tenon.open_filename(handle, access=access, allow_unsealed=unsealed)
    )
    if storage is None:
        return
    with storage:
        same("nbytes", storage.nbytes, expect["nbytes"])
        same(
            "data",
            storage.read(0, min(len(expect["data"]) // 2, storage.nbytes)).hex(),
            expect["data"],
        )
        same("read_only", storage.read_only, expect["read_only"])
        same("sealed", storage.is_sealed, expect["sealed"])
        same("mode", storage.mode.upper(), expect["mode"])
        same("count", count_of(case["path"]), expect["count"])
    same("count after the release", count_of(case["path"]), expect["count"] - 1)


def run_new_named_file(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "bytes", "mask")
    filename = tenon.Filename(name=case["name"], directory=case["directory"])
    storage = outcome(expect, lambda: tenon.Storage.new_filename(case["nbytes"], filename))
    if storage is None:
        return
    path = Path(case["directory"], case["name"])
    with storage:
        storage.write(bytes.fromhex(case["payload"]))
        same_bytes(path.read_bytes(), expect)
    same("file after the release", os.path.lexists(path), False)


def compare_stats(arena: tenon.Arena, wanted: dict[str, int]) -> None:
    now = arena.stats()
    got = {name: getattr(now, name) for name in type(now).__slots__}
    got["pages"] = PAGES[now.pages]
    got["numa_node"] = -1 if now.numa_node is None else now.numa_node
    got["locked"] = int(now.locked)
    for key, value in wanted.items():
        same(key, got.get(key, "unknown"), value)


def run_arena(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "stats")
    arenas: list[tenon.Arena] = []
    kept: list[tenon.Storage] = []

    def act() -> bool:
        mode, pages = case.get("mode", "SHARED").lower(), case.get("pages", "AUTO").lower()
        arenas.append(
            tenon.Arena(
                case["capacity_nbytes"], mode=mode, alignment=case.get("alignment", 0), pages=pages
            )
        )
        if "reserve" in case:
            arenas[0].reserve(case["reserve"])
        kept.extend(
            arenas[0].storage(nbytes, timeout=case.get("timeout_ms", 0) / 1000)
            for nbytes in case["storages"]
        )
        return True

    outcome(expect, act)
    for arena in arenas:
        compare_stats(arena, expect.get("stats", {}))
        arena.close()


def run_lease(case: Case) -> None:
    expect = case["expect"]
    known(expect, "blocks_lent", "bytes_lent", "leases", "nbytes")
    deadline = time.monotonic() + 10
    while tenon.lease_holders() and time.monotonic() < deadline:
        time.sleep(0.001)
    first, second = tenon.pair()
    with tenon.Arena(case["capacity_nbytes"]) as arena, first, second:
        tensors = [arena.empty(nbytes, "uint8") for nbytes in case["lend"]]
        for _ in range(case["messages"]):
            first.send(tensors, timeout=10)
        del tensors
        compare_stats(
            arena,
            {
                "blocks_live": 0,
                "blocks_lent": expect["blocks_lent"],
                "bytes_lent": expect["bytes_lent"],
            },
        )
        (holder,) = tenon.lease_holders()
        got = (
            holder.uid,
            holder.leases,
            holder.nbytes,
            holder.granted,
            holder.granted_bytes,
            holder.age > 0,
        )
        same(
            "holder",
            got,
            (
                os.getuid(),
                expect["leases"],
                expect["nbytes"],
                expect["leases"],
                expect["nbytes"],
                True,
            ),
        )
        for _ in range(case["messages"] if case["end"] == "receive" else 0):
            second.recv(timeout=10).close()
        if case["end"] == "close":
            second.close()
        with arena.storage(case["capacity_nbytes"], timeout=10):
            compare_stats(arena, {"blocks_lent": 0})


KINDS = {
    **cuda.KINDS,
    "arena": run_arena,
    "lease": run_lease,
    "status": run_status,
    "dtype": run_dtype,
    "layout": run_layout,
    "view": run_view,
    "message": run_message,
    "composite": composites.run_composite,
    "object": objects.run_object,
    "encode": run_encode,
    "descriptor": run_descriptor,
    "named_file": run_named_file,
    "new_named_file": run_new_named_file,
}


def main() -> int:
    failed = False
    for case in json.loads(Path(sys.argv[1], "cases.json").read_text()):
        try:
            if case["kind"] not in KINDS:
                raise Wrong(f"unknown kind {case['kind']}")
            if why := missing(case):
                raise Skip(why)
            KINDS[case["kind"]](case)
            line = f"ok {case['id']}"
        except Skip as reason:
            line = f"skip {case['id']} {reason}"
        except Exception as reason:
            failed = True
            line = f"FAIL {case['id']} {type(reason).__name__}: {' '.join(str(reason).split())}"
        print(line, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
