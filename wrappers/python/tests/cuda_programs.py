"""Programs that test_by_cuda.py runs on the fake driver, and tests/process/gpu on a real one:
python cuda_programs.py PROGRAM.

A program that needs a receiver starts another; the two talk in pickles.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tenon
from cuda_kit import (
    ALLOCATION,
    DATA,
    Array,
    Gate,
    Receiver,
    check,
    collected,
    cuda,
    give,
    is_live,
    new_host_room,
    new_stream,
    nothing_left,
    over,
    read,
    take,
    take_time,
    use_device,
)

# ---- receivers


def reads() -> None:
    """Opens each handle that comes and describes its memory, until None comes."""
    use_device()
    own = new_stream()
    while (message := take()) is not None:
        handle, options = message
        if options.get("stream") == "own":
            options["stream"] = own
        with tenon.open_cuda(handle, **options) as storage:
            tensor = over(storage)
            give(
                (storage.device, tensor.__dlpack_device__(), read(tensor) if tensor.nbytes else b"")
            )
            del tensor
        assert collected()
        give("let go")


# ---- programs


def lends() -> None:
    use_device()
    receiver = Receiver("reads")
    array = Array(DATA)
    tensor = tenon.from_dlpack(array)
    assert (
        tensor.device == tensor.storage.device == "cuda:0"
        and tensor.__dlpack_device__() == (2, 0)
        and array.streams == [1]
    )
    stream = new_stream()
    letters: tuple[Any, ...] = ("A", "B", "C", "D", "E")
    for form in letters:
        for given in (None, stream, 1, 2):
            handle = tensor.storage.share_cuda(stream=given, form=form)
            assert (
                handle.transport == "ipc"
                and handle.nbytes == len(DATA)
                and handle.device == 0
                and len(handle.uuid or b"") == 16
            )
            assert (
                len(handle.memory) == {"A": 64, "B": 65}.get(form, 66) and len(handle.event) == 64
            )
            assert re.fullmatch("/tenon-cuda-[0-9a-f]{32}", handle.counter)
            receiver.send((handle, {"stream": "own" if given == stream else given}))
            assert receiver.receive() == ("cuda:0", (2, 0), DATA)
            assert receiver.receive() == "let go"
    # The receiver gets no options beside the handle, or the device.
    for options in ({}, {"device": 0}):
        receiver.send((tensor.storage.share_cuda(), options))
        assert receiver.receive()[2] == DATA and receiver.receive() == "let go"
    # The handle travels as PyTorch's tuple, with the uuid and without.
    for uuid in (None, handle.uuid):
        handle = tensor.storage.share_cuda(stream=stream)
        items = handle.torch_tuple()
        same = tenon.CudaHandle.from_torch_tuple(pickle.loads(pickle.dumps(items)), uuid)
        assert same.torch_tuple() == items and same.uuid == uuid and same.transport == "auto"
        receiver.send((same, {}))
        assert receiver.receive()[2] == DATA and receiver.receive() == "let go"
    # The receiver keeps memory that the sender has let go.
    receiver.send((tensor.storage.share_cuda(), {}))
    assert not array.freed
    del tensor
    assert receiver.receive()[2] == DATA and receiver.receive() == "let go"
    receiver.send(None)
    receiver.end()
    assert collected() and array.freed == 1
    nothing_left()


def keeps() -> None:
    use_device()
    while (message := take()) is not None:
        with tenon.open_cuda(message) as storage:
            give("open")
            take()
            assert read(over(storage)) == DATA
        assert collected()
        give("let go")


def waits() -> None:
    """The sender's memory stays until the receiver lets go."""
    use_device()
    receiver = Receiver("keeps")
    array = Array(DATA)
    tensor = tenon.from_dlpack(array)
    receiver.send(tensor.storage.share_cuda())
    assert receiver.receive() == "open"
    tensor.close()
    assert tenon.cuda_collect() == 1 and not array.freed
    receiver.send("go on")
    assert receiver.receive() == "let go"
    assert collected() and array.freed == 1
    receiver.send(None)
    receiver.end()
    nothing_left()


def items() -> None:
    """PyTorch's tuple, item by item."""
    use_device()
    tensor = tenon.from_dlpack(Array(DATA))
    part = tenon.from_dlpack(tensor[1000:2000])
    handle = part.storage.share_cuda()
    device, memory, nbytes, offset, counter, slot, event, required = handle.torch_tuple()
    assert (device, nbytes, offset, slot) == (0, 1000, 1000, handle.slot)
    assert type(memory) is bytes and memory == handle.memory and len(memory) == 64
    assert (
        type(counter) is bytes
        and counter == handle.counter.encode()
        and type(event) is bytes
        and len(event) == 64
    )
    assert type(required) is bool and required is handle.event_required
    assert pickle.loads(pickle.dumps(handle)) == handle and hash(handle) == hash(
        pickle.loads(pickle.dumps(handle))
    )
    assert handle.counter in repr(handle)
    with pytest.raises(AttributeError):
        handle.nbytes = 1
    # The same process gets the same storage, and the message counts as received.
    with tenon.open_cuda(handle) as again:
        assert again == part.storage and again.id == part.storage.id
    with pytest.raises(tenon.InvalidArgument):
        tenon.open_cuda(handle)
    with pytest.raises(tenon.Corrupt):
        tenon.release_cuda_counter(handle.counter, handle.slot)
    # Nobody opens this message.
    unread = part.storage.share_cuda()
    part.close()
    assert tenon.cuda_collect() == 1
    tenon.release_cuda_counter(unread.counter, unread.slot)
    assert collected()
    tensor.close()
    nothing_left()


def empties() -> None:
    use_device()
    receiver = Receiver("reads")
    array = Array(b"")
    tensor = tenon.from_dlpack(array)
    assert tensor.device == "cuda:0" and tensor.shape == (0,)
    assert tensor.__cuda_array_interface__["data"] == (0, False)
    handle = tensor.storage.share_cuda()
    assert handle.torch_tuple() == (0, None, 0, 0, None, 0, None, None)
    assert (
        handle.transport,
        handle.memory,
        handle.event,
        handle.counter,
        handle.event_required,
    ) == ("none", b"", b"", "", False)
    for each in (
        handle,
        tenon.CudaHandle.from_torch_tuple(handle.torch_tuple()),
        tenon.CudaHandle.from_torch_tuple(handle.torch_tuple(), handle.uuid),
    ):
        receiver.send((each, {}))
        assert receiver.receive() == ("cuda:0", (2, 0), b"") and receiver.receive() == "let go"
    receiver.send(None)
    receiver.end()
    with pytest.raises(tenon.Unsupported):
        memoryview(tensor)
    tensor.close()
    assert array.freed == 1
    nothing_left()


def refuses_the_host() -> None:
    """A host cannot follow a pointer to a device, so every such access is refused."""
    use_device()
    tensor = tenon.from_dlpack(Array(DATA))
    storage = tensor.storage
    columns = tensor.view((10, 400))[:, ::2]
    calls: list[Callable[[], object]] = [
        lambda: memoryview(tensor),
        lambda: memoryview(storage),
        lambda: bytes(memoryview(tensor)),
        lambda: bytearray(storage),
        lambda: storage.data,
        storage.read,
        lambda: storage.read(0, 0),
        lambda: storage.readinto(bytearray(3)),
        lambda: storage.write(b"abc"),
        tensor.numpy,
        lambda: tensor.view(dtype="bfloat16").numpy(),
        lambda: np.asarray(tensor),
        lambda: np.array(tensor),
        tensor.tolist,
        tensor[0].item,
        tensor.tobytes,
        columns.tobytes,
        tensor.clone,
        columns.clone,
        lambda: tensor.__dlpack__(copy=True),
        lambda: tenon.from_numpy(tensor),
        lambda: tenon.Storage.new_from(tensor),  # type: ignore[arg-type]
        lambda: tenon.Storage.wrap(tensor),  # type: ignore[arg-type]
        lambda: tenon.import_module(storage),  # type: ignore[arg-type]
    ]
    for number, call in enumerate(calls):
        with pytest.raises(tenon.Unsupported) as caught:
            call()
        assert "device" in str(caught.value), number
    for call in (storage.share_fd, storage.share_filename):
        with pytest.raises(tenon.Unsupported):
            call()
    with pytest.raises((BufferError, RuntimeError, tenon.Unsupported)):
        np.from_dlpack(tensor)
    assert repr(
        tensor
    ) == "<tenon.Tensor shape=(4000,), dtype=uint8, cuda:0>" and "4000 bytes, cuda:0" in repr(
        storage
    )
    assert len(storage) == 4000 and len(columns) == 10 and not storage.read_only
    del calls, call, caught, columns
    storage.close()
    tensor.close()
    nothing_left()


def interface() -> None:
    use_device()
    array = Array(DATA)
    tensor = tenon.from_dlpack(array)
    expected = {
        "shape": (4000,),
        "strides": None,
        "typestr": "|u1",
        "data": (array.pointer, False),
        "version": 3,
        "stream": 1,
    }
    assert tensor.__cuda_array_interface__ == expected
    halves = tensor.view((50, 40), "float16")[1:, ::2]
    assert halves.__cuda_array_interface__ == {
        "shape": (49, 20),
        "strides": (80, 4),
        "typestr": "<f2",
        "data": (array.pointer + 80, False),
        "version": 3,
        "stream": 1,
    }
    for dtype, typestr in (
        ("bool", "|b1"),
        ("int64", "<i8"),
        ("complex64", "<c8"),
        ("float64", "<f8"),
    ):
        assert tensor.view(dtype=dtype).__cuda_array_interface__["typestr"] == typestr
    # Element types that numpy lacks or stores differently.
    for dtype in (
        "bfloat16",
        "float8_e4m3fn",
        "float4_e2m1fn_x2",
        "int4",
        "uint4",
        "complex32",
        "float128",
        "float32x2",
    ):
        assert not hasattr(tensor.view(dtype=dtype), "__cuda_array_interface__")
    assert not hasattr(
        tenon.Tensor.over(tensor.storage, 4, "complex64").view(dtype="bfloat16"),
        "__cuda_array_interface__",
    )
    constant = tenon.from_dlpack(Array(DATA, read_only=True))
    assert constant.__cuda_array_interface__["data"][1] is True
    with pytest.raises(BufferError):
        constant.__dlpack__(stream=1)
    del halves
    constant.close()
    tensor.close()
    with pytest.raises(ValueError, match="closed"):
        _ = tensor.__cuda_array_interface__
    nothing_left()


class TorchLike:
    def __init__(self, number: int) -> None:
        self.cuda_stream = number


class CupyLike:
    def __init__(self, number: int) -> None:
        self.ptr = number


class Protocol:
    def __init__(self, number: int, version: int = 0) -> None:
        self.answer = version, number

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.answer


def streams() -> None:
    use_device()
    array = Array(DATA)
    stream = new_stream()
    given: list[tuple[Any, int]] = [
        (None, 1),
        (0, 1),
        (1, 1),
        (2, 2),
        (stream, stream),
        (TorchLike(0), 1),
        (TorchLike(stream), stream),
        (CupyLike(stream), stream),
        (Protocol(stream), stream),
    ]
    for each, told in given:
        tensor = tenon.from_dlpack(array, stream=each)
        assert array.streams.pop() == told
        tensor.storage.record_stream(each)
        handle = tensor.storage.share_cuda(stream=each)
        with tenon.open_cuda(handle, stream=each) as storage:
            assert storage == tensor.storage
        tensor.close()
        del storage
        assert collected() and array.freed == 1
        array = Array(DATA)
    with tenon.from_dlpack(array) as tensor:
        for wrong in ("1", 1.5, True, object(), TorchLike(None)):  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                tensor.storage.record_stream(wrong)  # type: ignore[arg-type]
        for bad in (-1, 1 << 64, Protocol(stream, 1)):
            with pytest.raises(ValueError):
                tensor.storage.share_cuda(stream=bad)
        # Stream numbers that DLPack defines.
        for good in (None, 1, 2, stream, -1):
            assert (
                tenon.from_dlpack(Offers(tensor.__dlpack__(stream=good, max_version=(1, 0)))).device
                == "cuda:0"
            )
            assert tenon.from_dlpack(Offers(tensor.__dlpack__(stream=good))).device == "cuda:0"
        for bad in (0, -2):
            with pytest.raises(tenon.InvalidArgument, match="ambiguous"):
                tensor.__dlpack__(stream=bad)
        for wrong in ("x", 1.5, True, TorchLike(stream)):
            with pytest.raises(TypeError):
                tensor.__dlpack__(stream=wrong)
        with pytest.raises(BufferError, match="copies nothing") as caught:
            tensor.__dlpack__(stream=1, copy=True)
        assert isinstance(caught.value, tenon.Unsupported)
        del caught
        assert tensor.__dlpack__(stream=1, dl_device=(2, 0)) is not None
        for device in ((1, 0), (2, 1)):
            with pytest.raises(BufferError, match="CUDA device 0"):
                tensor.__dlpack__(stream=1, dl_device=device)
    gc.collect()
    assert collected() and array.freed == 1
    nothing_left()


class Offers:
    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: Any) -> Any:
        assert stream == 1
        capsule, self.capsule = self.capsule, None
        return capsule


def ordered() -> None:
    """A consumer's stream is ordered after the streams that used the bytes: by DLPack, by the CUDA
    array interface, and by order_stream().
    """
    use_device()
    used, other = new_stream(), new_stream()
    array = Array(bytes(len(DATA)))
    tensor = tenon.from_dlpack(array)
    tensor.storage.record_stream(used)
    for byte, (reader, how) in enumerate(((other, "dlpack"), (0, "interface"), (other, "told")), 1):
        gate = Gate(used)
        fill = (
            ctypes.c_uint64(array.pointer),
            ctypes.c_ubyte(byte),
            ctypes.c_size_t(len(DATA)),
            ctypes.c_void_p(used),
        )
        check(cuda.cuMemsetD8Async(*fill))
        capsule = None
        if how == "dlpack":
            capsule = tensor.__dlpack__(stream=other)
        elif how == "interface":
            assert tensor.__cuda_array_interface__["stream"] == 1
        else:
            tensor.storage.order_stream(other)
        room = new_host_room(len(DATA))
        check(
            cuda.cuMemcpyDtoHAsync_v2(
                room,
                ctypes.c_uint64(array.pointer),
                ctypes.c_size_t(len(DATA)),
                ctypes.c_void_p(reader),
            )
        )
        gate.open()
        check(cuda.cuStreamSynchronize(ctypes.c_void_p(reader)))
        assert room.raw == bytes([byte]) * len(DATA), how
        del capsule
    with tenon.zeros(4) as host, pytest.raises(tenon.InvalidArgument):
        host.storage.order_stream()
    tensor.close()
    del tensor
    gc.collect()
    assert collected() and array.freed == 1
    nothing_left()


def recorded() -> None:
    """Unfinished work on a stream keeps the memory."""
    use_device()
    stream = new_stream()
    for how in ("recorded", "handed out"):
        array = Array(DATA)
        tensor = tenon.from_dlpack(array)
        take_time(stream)
        check(
            cuda.cuMemsetD8Async(
                ctypes.c_uint64(array.pointer),
                ctypes.c_ubyte(7),
                ctypes.c_size_t(len(DATA)),
                ctypes.c_void_p(stream),
            )
        )
        if how == "recorded":
            tensor.storage.record_stream(stream)
        else:
            capsule = tensor.__dlpack__(stream=stream)
            del capsule
        tensor.close()
        assert not array.freed and tenon.cuda_collect() == 1
        assert collected() and array.freed == 1
    nothing_left()


def waits_without_the_gil() -> None:
    """A last release must wait for the device without the GIL, because the device waits for a host
    function that is written in Python.
    """
    use_device()
    stream = new_stream()

    def closed(tensor: tenon.Tensor) -> None:
        tensor.close()

    def storage_closed(tensor: tenon.Tensor) -> None:
        storage = tensor.storage
        tensor.close()
        storage.close()

    def capsule(tensor: tenon.Tensor) -> None:
        last = tensor.__dlpack__(stream=-1)
        tensor.close()
        del last

    def left_behind(tensor: tenon.Tensor) -> None:
        own = [tensor._retained()]
        tensor.close()
        # The interpreter drops the tensor while the exception is raised.
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            print(tenon.Tensor._adopt(own.pop()), 1 / 0)

    def pinned(_: tenon.Tensor) -> None:
        with tenon.Storage.new(100, isolated=True) as storage:
            storage.pin()
        tenon.trim()

    for release in (closed, storage_closed, capsule, left_behind, pinned):
        arena = tenon.CudaArena(1 << 20)
        tensor = over(arena.allocate(1000))
        arena.close()
        gc.collect()
        waited = "cuMemHostUnregister" if release is pinned else "cuMemFree"
        gate = Gate(stream)
        before = calls(waited)
        opener = threading.Thread(target=open_when, args=(gate, waited, before))
        opener.start()
        release(tensor)
        opener.join()
        assert calls(waited) == before + 1, release
        del tensor
        gc.collect()
    nothing_left()


def calls(function: str) -> int:
    return int(cuda.fake_cuda_calls(function.encode(), os.getpid()))


def open_when(gate: Gate, function: str, before: int) -> None:
    while calls(function) == before:
        time.sleep(0.001)
    gate.open()


def archives() -> None:
    """A module's tensors go to a file and return, to the host or to the device."""
    use_device()
    source = "def forward(self, x: Tensor) -> Tensor:\n  return x + self.w\n"
    host = tenon.Module("Net")
    host.add_parameter("w", tenon.from_dlpack(np.arange(1000, dtype=np.float32)))
    host.define(source)
    wanted = io.BytesIO()
    tenon.export_module(host, wanted)
    for stream in (None, new_stream()):
        there = tenon.import_module(wanted, tensors="device", device=0)
        assert is_live(1, ALLOCATION)
        assert (
            there["w"].device == "cuda:0"
            and read(there["w"]) == np.arange(1000, dtype=np.float32).tobytes()
        )
        spec = tenon.TensorSpec.quantized(there["w"].view(dtype="uint8"), 0.5)
        assert spec.device == tenon.Value(spec).get().device == "cuda:0"
        del spec
        again, kept = io.BytesIO(), io.BytesIO()
        tenon.export_module(there, again, stream=stream)
        assert again.getvalue() == wanted.getvalue()
        tenon.export_module(there, kept, keep_device=True)
        assert b"cuda:0" in kept.getvalue()
        del there
        gc.collect()
        assert is_live(0, ALLOCATION)
    back = tenon.import_module(kept)
    assert back["w"].device == "cpu" and any(
        "another device (cuda:" in line for line in back.warnings
    )
    with pytest.raises(tenon.InvalidArgument, match="device 999"):
        tenon.import_module(kept, tensors="device", device=999)
    with pytest.raises(tenon.InvalidArgument):
        tenon.import_module(kept, device=999)
    with pytest.raises(TypeError, match="stream"):
        tenon.export_module(host, io.BytesIO(), stream="0")  # type: ignore[arg-type]
    nothing_left()


def has_weights() -> None:
    """Opens the weights of each name that comes, and tells what is there, until None comes."""
    use_device()
    while (message := take()) is not None:
        name, folder = message
        with tenon.weights.open(name=name, directory=folder, device="cuda:0") as weights:
            facts = weights.info().loaded, weights["w"].device, read(weights["w"])
        give(facts)


def weights_once() -> None:
    """Two processes have one copy of a file's weights on the device."""
    use_device()
    data = np.arange(3000, dtype=np.float32)
    seen = list[tuple[int, int]]()
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/net.safetensors"
        tenon.weights.save(file, {"w": data, "empty": data[:0]})
        weights = tenon.weights.open(
            file,
            name="net",
            directory=folder,
            device="cuda:0",
            progress=lambda done, total: seen.append((done, total)),
        )
        assert weights.info().loaded and seen[-1][0] == seen[-1][1] == os.stat(file).st_size
        tensor = weights["w"]
        assert tensor.device == weights["empty"].device == "cuda:0" and tensor.shape == (3000,)
        assert tensor.__dlpack_device__() == (2, 0) and read(tensor) == data.tobytes()
        assert is_live(1, ALLOCATION)
        other = Receiver("has_weights")
        other.send(("net", folder))
        assert other.receive() == (False, "cuda:0", data.tobytes())
        assert is_live(1, ALLOCATION)
        with pytest.raises(tenon.Unsupported, match="save them to a file"):
            tenon.weights.publish("net", {"w": data}, directory=folder, device="cuda:0")
        next_one = tenon.weights.publish("net", file, directory=folder, device="cuda:0")
        assert next_one.info().version == 2 and weights.changed(timeout=20) == 2
        next_one.close()
        weights.close()
        assert read(tensor) == data.tobytes()  # the tensor keeps the memory
        tensor.close()
        del weights, next_one
        other.send(None)
        other.end()
        gc.collect()
        assert collected() and os.listdir(folder) == ["net.safetensors"]
    nothing_left()


def errors() -> None:
    use_device()
    cpu = tenon.zeros(4)
    for call in (cpu.storage.share_cuda, cpu.storage.record_stream):
        with pytest.raises(tenon.InvalidArgument, match="CUDA"):
            call()
    with pytest.raises(tenon.InvalidArgument, match="stream"):
        tenon.from_dlpack(cpu, stream=1)
    unknown = Array(DATA, device_type=10)
    with pytest.raises(tenon.Unsupported, match="device 10:0"):
        tenon.from_dlpack(unknown)
    unknown.free()
    array = Array(DATA)
    tensor = tenon.from_dlpack(array)
    with pytest.raises(ValueError, match="form"):
        tensor.storage.share_cuda(form="F")  # type: ignore[arg-type]
    handle = tensor.storage.share_cuda()
    items = list(handle.torch_tuple())

    def but(**more: Any) -> tenon.CudaHandle:
        return tenon.CudaHandle(
            **{**{name: getattr(handle, name) for name in type(handle).__slots__}, **more}
        )

    for device in (-1, 999):
        with pytest.raises(tenon.InvalidArgument):
            tenon.open_cuda(handle, device=device)
    with pytest.raises(ValueError):
        tenon.open_cuda(handle, device=1 << 31)
    with pytest.raises(tenon.NotFound):
        tenon.open_cuda(but(uuid=b"\1" * 16))
    with pytest.raises(tenon.Incompatible):
        tenon.open_cuda(but(memory=b"\4c" + bytes(64)))
    with pytest.raises(tenon.Corrupt):
        tenon.open_cuda(but(memory=b"c"))
    with pytest.raises(tenon.Corrupt):
        tenon.open_cuda(but(memory=bytes(1000)))
    with pytest.raises(tenon.Unsupported):
        tenon.open_cuda(but(memory=b"\3e" + bytes(300)))
    for bad in (
        {"event": b"x"},
        {"uuid": b"x"},
        {"counter": "/a\0b"},
        {"counter": "/" + "a" * 255},
        {"nbytes": -1},
        {"slot": 1 << 64},
    ):
        with pytest.raises(ValueError):
            tenon.open_cuda(but(**bad))
    for counter, slot in (
        ("torch_1", 0),
        ("/../x", 0),
        ("/a\0b", 0),
        (handle.counter, 10_000),
        (handle.counter, -1),
    ):
        with pytest.raises(ValueError):
            tenon.release_cuda_counter(counter, slot)
    tenon.release_cuda_counter("/torch_1_2_3", 0)
    for position, wrong in (
        (0, "0"),
        (1, "memory"),
        (2, None),
        (3, 1.5),
        (4, "/name"),
        (4, None),
        (5, True),
        (6, None),
        (7, 1),
        (7, None),
    ):
        with pytest.raises(TypeError):
            tenon.CudaHandle.from_torch_tuple((*items[:position], wrong, *items[position + 1 :]))
    for tuple_ in (
        (),
        tuple(items[:7]),
        (*items, 1),
        (*items[:6], b"short", True),
        (0, None, 0, 0, b"/x", 0, None, None),
        (*items[:2], -1, *items[3:]),
    ):
        with pytest.raises(ValueError):
            tenon.CudaHandle.from_torch_tuple(tuple_)
    with pytest.raises(TypeError):
        tenon.CudaHandle.from_torch_tuple(handle)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="uuid"):
        tenon.CudaHandle.from_torch_tuple(tuple(items), b"short")
    # The refused calls leave the handle intact.
    tenon.open_cuda(handle).close()
    tensor.close()
    with pytest.raises(ValueError, match="closed"):
        _ = tensor.storage
    nothing_left()


if __name__ == "__main__":
    signal.alarm(100)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    globals()[sys.argv[1]]()
