"""The lenders and borrowers of torch_suite.py: Tenon or PyTorch, each in a process of its own, with
memory of PyTorch or of the driver.

A message between them is PyTorch's tuple of eight, and the tensor's layout in the storage. "raw"
memory comes from the driver by ctypes. It works where PyTorch does not, as on the driver of
tests/support/fake_cuda.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for kit in (HERE, HERE.parents[2] / "wrappers" / "python" / "tests"):
    if (kit / "cuda_kit.py").exists():
        sys.path.insert(0, str(kit))

import tenon  # noqa: E402
from cuda_kit import (  # noqa: E402
    ON_THE_FAKE,
    PATIENCE,
    Array,
    bytes_at,
    check,
    collected,
    cuda,
    take_time,
    use_device,
)

SPAWN = multiprocessing.get_context("spawn")
PATIENCE_S = 60 * PATIENCE


class Skip(Exception):
    """Raised with the reason why the case cannot run here."""


@dataclass
class Message:
    items: tuple[Any, ...]
    uuid: bytes | None
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int  # in elements, like strides


ITEMSIZES = {
    "uint8": 1,
    "int8": 1,
    "bool": 1,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
}
ITEMSIZES |= {"int64": 8, "float64": 8, "complex64": 8}


def packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[n + 1 :]) for n in range(len(shape)))


def gathered(message: Message, storage: bytes) -> bytes:
    """Returns the tensor's elements in order, from the bytes of its storage."""
    size = ITEMSIZES[message.dtype]
    if message.strides == packed(message.shape):
        count = math.prod(message.shape)
        return storage[message.offset * size : (message.offset + count) * size]
    starts = (
        sum(map(int.__mul__, index, message.strides)) + message.offset
        for index in itertools.product(*map(range, message.shape))
    )
    return b"".join(storage[start * size : (start + 1) * size] for start in starts)


class Tenon:
    """A side that lends and opens with Tenon. memory: "raw" or "torch", the origin of the memory it
    lends.
    """

    name = "tenon"

    def __init__(self, memory: str) -> None:
        self.memory = memory
        self.arrays: list[Array] = []
        use_device()

    def make(self, data: bytes) -> Any:
        if self.memory == "torch":
            return tenon.from_dlpack(torch_tensor(data))
        self.arrays.append(Array(data))
        return tenon.from_dlpack(self.arrays[-1])

    def allocated(self) -> int:
        if self.memory == "torch":
            return torch_allocated()
        return sum(array.nbytes for array in self.arrays if not array.freed)

    def fill(self, tensor: Any, byte: int) -> None:
        check(
            cuda.cuMemsetD8Async(
                ctypes.c_uint64(self.pointer(tensor)), byte, ctypes.c_size_t(tensor.nbytes), None
            )
        )

    def pointer(self, tensor: Any) -> int:
        return int(
            tenon.Tensor.over(
                tensor.storage, tensor.storage.nbytes, "uint8"
            ).__cuda_array_interface__["data"][0]
        )

    def lend(self, tensor: Any, form: Any = "A") -> Message:
        handle = tensor.storage.share_cuda(form=form)
        return Message(
            handle.torch_tuple(),
            handle.uuid,
            tensor.dtype,
            tuple(tensor.shape),
            tuple(tensor.strides),
            tensor.offset,
        )

    def borrow(self, message: Message) -> Any:
        storage = tenon.open_cuda(tenon.CudaHandle.from_torch_tuple(message.items, message.uuid))
        return tenon.Tensor.over(
            storage, message.shape, message.dtype, strides=message.strides, offset=message.offset
        )

    def read(self, tensor: Any, message: Message) -> bytes:
        nbytes = tensor.storage.nbytes
        return gathered(message, bytes_at(self.pointer(tensor), nbytes)) if nbytes else b""

    def settle(self) -> bool:
        gc.collect()
        return collected()

    def settle_once(self) -> None:
        gc.collect()
        tenon.cuda_collect()

    def event(self) -> Any:
        if not hasattr(tenon, "CudaEvent"):
            raise Skip("this Tenon has no CudaEvent")
        return tenon.CudaEvent(interprocess=True)

    def event_from(self, handle: bytes) -> Any:
        if not hasattr(tenon, "CudaEvent"):
            raise Skip("this Tenon has no CudaEvent")
        return tenon.CudaEvent.from_ipc_handle(handle, 0)


class Torch:
    """A side that lends and opens with PyTorch, by the functions of its own pickling."""

    name = "torch"

    def __init__(self, memory: str) -> None:
        import torch

        self.torch = torch
        torch.cuda.init()
        use_device()

    def make(self, data: bytes) -> Any:
        return torch_tensor(data)

    def allocated(self) -> int:
        return torch_allocated()

    def fill(self, tensor: Any, byte: int) -> None:
        tensor.fill_(byte)

    def pointer(self, tensor: Any) -> int:
        return int(tensor.untyped_storage().data_ptr())

    def lend(self, tensor: Any, form: Any = "A") -> Message:
        items = tensor.untyped_storage()._share_cuda_()
        name = str(tensor.dtype).removeprefix("torch.")
        return Message(
            tuple(items),
            None,
            name,
            tuple(tensor.shape),
            tuple(tensor.stride()),
            int(tensor.storage_offset()),
        )

    def borrow(self, message: Message) -> Any:
        torch = self.torch
        if message.items[1] is None:  # PyTorch's own pickling does this
            return torch.empty(message.shape, dtype=getattr(torch, message.dtype), device="cuda")
        storage = torch.UntypedStorage._new_shared_cuda(*message.items)
        empty = torch.empty(0, dtype=getattr(torch, message.dtype), device="cuda")
        return empty.set_(storage, message.offset, message.shape, message.strides)

    def read(self, tensor: Any, message: Message) -> bytes:
        return torch_bytes(tensor)

    def settle(self) -> bool:
        self.torch.cuda.synchronize()
        self.settle_once()
        return True

    def settle_once(self) -> None:
        gc.collect()
        self.torch.cuda.ipc_collect()

    def event(self) -> Any:
        return self.torch.cuda.Event(interprocess=True)

    def event_from(self, handle: bytes) -> Any:
        return self.torch.cuda.Event.from_ipc_handle(self.torch.device("cuda", 0), handle)


def torch_tensor(data: bytes) -> Any:
    import torch

    host = (
        torch.frombuffer(bytearray(data), dtype=torch.uint8)
        if data
        else torch.empty(0, dtype=torch.uint8)
    )
    return host.to("cuda")


def torch_bytes(tensor: Any) -> bytes:
    import torch

    flat = tensor.detach().cpu().contiguous().flatten()
    return bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b""


def torch_allocated() -> int:
    import torch

    return int(torch.cuda.memory_allocated())


def new_side(name: str, memory: str) -> Any:
    return Tenon(memory) if name == "tenon" else Torch(memory)


def view_as(side: Any, tensor: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    if side.name == "tenon":
        return tensor.view(shape, dtype)
    return tensor.view(getattr(side.torch, dtype)).view(shape)


# ---- the other process


def serve(line: Any, name: str, memory: str) -> None:
    """Runs the other process: opens what the orders name, and answers with its contents."""
    side = new_side(name, memory)
    held: dict[Any, tuple[Any, Message]] = {}
    events: list[Any] = []
    borrowed_at: list[Any] = []
    opens_before = opens()
    while (order := line.recv()) is not None:
        word, *rest = order
        answer: Any = True
        try:
            if word == "open":
                key, message = rest
                held[key] = side.borrow(message), message
                answer = side.read(*held[key])
            elif word == "read":
                answer = side.read(*held[rest[0]])
            elif word == "fill":
                side.fill(held[rest[0]][0], rest[1])
                side.settle() if side.name == "torch" else check(cuda.cuCtxSynchronize())
            elif word == "close":
                del held[rest[0]]
                answer = side.settle()
            elif word == "many":
                borrowed = [(side.borrow(message), message) for message in rest[0]]
                answer = [side.read(*each) for each in borrowed]
                del borrowed
                if not side.settle():
                    answer = "it was not all given back"
            elif word == "hold":
                for number, message in enumerate(rest[0]):
                    held["held", number] = side.borrow(message), message
            elif word == "opens":
                answer = opens() - opens_before
            elif word == "where":
                answer = [side.pointer(tensor) for tensor, _ in held.values()]
            elif word == "event":
                events.append(side.event_from(rest[0]))
            elif word == "wait":
                events[-1].wait()
            elif word == "query":
                answer = events[-1].query()
            elif word == "new event":
                events.append(side.event())
                answer = bytes(events[-1].ipc_handle())
            elif word == "fill late":
                side.fill(
                    held[rest[0]][0], 0
                )  # a kernel's first launch can wait for all running work
                take_time()
                side.fill(held[rest[0]][0], rest[1])
                events[-1].record()
            elif word == "times":
                answer = timed(rest[0], lambda message: borrowed_at.append(side.borrow(message)))
                borrowed_at.clear()
                side.settle()
            elif word == "cycles":
                answer = timed(
                    rest[0], lambda message: (side.borrow(message), None)[1] or tenon.cuda_collect()
                )
            elif word == "bare":
                answer = timed(rest[0], open_and_close)
            elif word == "there":
                answer = rest[0] is not None
            elif word == "cpu":
                answer = rest[0].tolist()
            elif word == "tensor":
                answer = bytes_at(Tenon.pointer(side, rest[0]), rest[0].storage.nbytes)
                del rest, order
                assert side.settle(), "it was not given back"
            elif word == "die":
                os._exit(0)
        except Skip as skip:
            answer = skip
        except Exception as error:
            answer = AssertionError(f"the borrower: {word}: {type(error).__name__}: {error}")
        line.send(answer)
    held.clear()
    events.clear()
    side.settle()


def timed(things: Any, call: Any) -> list[float]:
    """Returns the duration of each call in microseconds."""
    times = []
    for thing in things:
        before = time.perf_counter()
        call(thing)
        times.append((time.perf_counter() - before) * 1e6)
    return times


def open_and_close(handle: bytes) -> None:
    """Opens and closes memory by bare calls of the driver."""
    pointer = ctypes.c_uint64()
    check(
        cuda.cuIpcOpenMemHandle_v2(
            ctypes.byref(pointer), IpcHandle.from_buffer_copy(handle), ctypes.c_uint(1)
        )
    )
    check(cuda.cuIpcCloseMemHandle(pointer))


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


def opens() -> int:
    """Counts this process's opens by the driver. A real driver counts none: the result is 0."""
    return int(cuda.fake_cuda_calls(b"cuIpcOpenMemHandle", os.getpid())) if ON_THE_FAKE else 0


class Borrower:
    def __init__(self, name: str, memory: str) -> None:
        self.line, there = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(there, name, memory), daemon=True)
        self.process.start()
        there.close()

    def ask(self, *order: Any) -> Any:
        self.line.send(order)
        return self.answer()

    def answer(self) -> Any:
        if not self.line.poll(PATIENCE_S):
            raise AssertionError(f"the borrower has not answered for {PATIENCE_S} s")
        try:
            answer = self.line.recv()
        except EOFError:
            self.process.join(PATIENCE_S)
            raise AssertionError(f"the borrower ended with {self.process.exitcode}") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self.line.send(None)
        self.process.join(PATIENCE_S)
        assert self.process.exitcode == 0, f"the borrower ended with {self.process.exitcode}"


def soon(condition: Any, what: str) -> None:
    """Waits for a limited time until `condition` holds."""
    for _ in range(5000 * PATIENCE):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError(what)
