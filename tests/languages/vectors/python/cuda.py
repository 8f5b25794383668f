"""Device memory.

It comes from an archive that is imported to the device. That needs no function of the driver.
"""

from __future__ import annotations

import io
from typing import Any

import tenon
from case import Case, known, outcome, same
from tenon._options import CUDA_TRANSPORT_NAMES


def archive_of(module: tenon.Module, **options: Any) -> bytes:
    archive = io.BytesIO()
    tenon.export_module(module, archive, **options)
    return archive.getvalue()


def module_of(case: Case) -> tenon.Module:
    """Returns a module on the host with the case's data as the buffers t0, t1 and so on."""
    module = tenon.Module("Net")
    for index, data in enumerate(map(bytes.fromhex, case["data"])):
        module.add_buffer(
            f"t{index}", tenon.Tensor.over(tenon.Storage.new_from(data), len(data), "uint8")
        )
    return module


def run_counter(case: Case) -> None:
    known(case["expect"], "status", "details")
    outcome(case["expect"], lambda: tenon.release_cuda_counter(case["counter"], case["slot"]))


def run_open(case: Case) -> None:
    known(case["expect"], "status", "details")
    handle = tenon.CudaHandle(
        "auto",
        case["device"],
        None,
        case["nbytes"],
        case["offset"],
        case["counter"],
        case["slot"],
        bytes.fromhex(case["memory"]),
        b"",
        event_required=False,
    )
    storage = outcome(
        case["expect"], lambda: tenon.open_cuda(handle, read_only=case.get("read_only", False))
    )
    if storage is not None:
        with storage:
            same("nbytes", storage.nbytes, case["nbytes"])
            same("device", storage.device, f"cuda:{case['device']}")


def number_of(transport: str) -> int:
    return next(number for number, name in CUDA_TRANSPORT_NAMES.items() if name == transport)


def compare(expect: Case, handle: tenon.CudaHandle) -> None:
    memory, counter = expect.get("memory", ""), expect["counter"]
    got = {
        "transport": number_of(handle.transport),
        "device": handle.device,
        "nbytes": handle.nbytes,
        "offset": handle.offset,
        "memory": handle.memory.hex()[: len(memory)],
        "memory_nbytes": len(handle.memory),
        "counter": handle.counter[: len(counter)],
        "counter_nbytes": len(handle.counter),
        "fds": len(handle.fds),
        "event_required": handle.event_required,
    }
    for key, value in got.items():
        same(key, value, expect.get(key, value))
    same("uuid is known", handle.uuid is not None, True)


def transport_of(number: int) -> Any:
    return "auto" if number == 0 else CUDA_TRANSPORT_NAMES.get(number, str(number))


def run_share(case: Case) -> None:
    expect = case["expect"]
    known(
        expect,
        *(
            "status",
            "details",
            "transport",
            "device",
            "nbytes",
            "offset",
            "memory",
            "memory_nbytes",
        ),
        *("counter", "counter_nbytes", "fds", "event_required"),
    )
    module = module_of(case)
    if case["on"] == "cuda":
        module = tenon.import_module(archive_of(module), tensors="device")
    name = transport_of(case["transport"])
    form: Any = "ABCDE"[case["form"]]
    with module[f"t{case['share']}"] as tensor, tensor.storage as storage:

        def act() -> tenon.CudaHandle:
            if case["record"]:
                storage.record_stream(None)
            return storage.share_cuda(transport=name, form=form)

        handle = outcome(expect, act)
        if handle is not None:
            compare(expect, handle)
            with tenon.open_cuda(handle) as again:
                if handle.nbytes == 0:
                    same(
                        "nbytes and device",
                        (again.nbytes, again.device),
                        (0, f"cuda:{handle.device}"),
                    )
                else:
                    same("storage", again.id, storage.id)


def run_event(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "complete")

    def act() -> bool:
        with tenon.CudaEvent(device=case["device"], interprocess=case["interprocess"]) as event:
            event.record()
            event.wait()
            event.synchronize()
            if case["ask"] != "query":
                handle = event.ipc_handle()
                if case["ask"] == "open":
                    tenon.CudaEvent.from_ipc_handle(handle).close()
            return event.query()

    complete = outcome(expect, act)
    if complete is not None:
        same("complete", complete, expect["complete"])


def run_module(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "names_device", "data")
    first = archive_of(module_of(case))
    there = outcome(
        expect, lambda: tenon.import_module(first, tensors="device", device=case["device"])
    )
    if there is None:
        return
    again = archive_of(there, keep_device=case["keep_device"])
    same("names_device", b"cuda:0" in again, expect["names_device"])
    if not case["keep_device"]:
        same("archive", again, first)
    back = tenon.import_module(again)
    for index, data in enumerate(expect["data"]):
        same("device", there[f"t{index}"].device, f"cuda:{case['device']}")
        same("device", back[f"t{index}"].device, "cpu")
        storage = back[f"t{index}"].storage
        same("data", storage.read(0, storage.nbytes).hex(), data)


def run_arena(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "stats")
    arenas: list[tenon.CudaArena] = []
    kept: list[tenon.Storage] = []

    def act() -> bool:
        transport = transport_of(case.get("transport", 0))
        arenas.append(
            tenon.CudaArena(
                case["capacity_nbytes"], device=case.get("device", 0), transport=transport
            )
        )
        kept.extend(
            arenas[0].allocate(nbytes, timeout=case.get("timeout_ms", 0) / 1000)
            for nbytes in case["storages"]
        )
        return True

    outcome(expect, act)
    for arena in arenas:
        now = arena.stats()
        got = {name: getattr(now, name) for name in type(now).__slots__}
        got["transport"] = number_of(now.transport)
        for key, value in expect.get("stats", {}).items():
            same(key, got.get(key, "unknown"), value)
        arena.close()


KINDS = {
    "cuda_counter": run_counter,
    "cuda_open": run_open,
    "cuda_share": run_share,
    "cuda_event": run_event,
    "cuda_module": run_module,
    "cuda_arena": run_arena,
}
