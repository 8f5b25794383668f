"""The cases of torch_suite.py. Each case is a function that runs in the lender's process and can
start borrowers, which are other processes.

The cases cover what the CUDA tests of PyTorch's multiprocessing cover: simple use, memory
allocation, deadlock, sending many, mixed types, events as importer and exporter, empty and small
tensors. They add views, the forms of the memory handle and CuPy. The last cases test Tenon's Python
package: multiprocessing, PyTorch's streams, bits and element types, __cuda_array_interface__ and
pinned memory.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable
from typing import Any

import tenon
from sides import (
    ITEMSIZES,
    ON_THE_FAKE,
    PATIENCE_S,
    SPAWN,
    Message,
    Skip,
    cuda,
    new_side,
    soon,
    take_time,
    torch_bytes,
    view_as,
)

DATA = bytes(range(200)) * 20
UNDER_SANITIZER = "TENON_TEST_COMPUTE_SANITIZER" in os.environ
Start = Callable[[], Any]


class Case:
    """lend: this process's side. start(): starts a new borrower. count: how many tensors the long
    case sends.
    """

    keeps = False  # whether memory stays lent to a borrower that has ended

    def __init__(self, lend: Any, start: Start, memory: str, borrow: str, count: int) -> None:
        self.lend, self.start, self.memory, self.borrow, self.count = (
            lend,
            start,
            memory,
            borrow,
            count,
        )

    def all_back(self, before: int, what: str) -> None:
        def all_is() -> bool:
            self.lend.settle_once()
            return bool(self.lend.allocated() <= before)

        soon(all_is, f"{what}: memory was not given back")


def simple(case: Case) -> None:
    """Sends three tensors. The lender sees what the borrower writes."""
    borrower = case.start()
    tensors = [case.lend.make(bytes([n]) * 5000) for n in (1, 2, 3)]
    for n, tensor in enumerate(tensors, 1):
        assert borrower.ask("open", n, case.lend.lend(tensor)) == bytes([n]) * 5000
    borrower.ask("fill", 2, 42)
    message = Message((), None, "uint8", (5000,), (1,), 0)
    for tensor, byte in zip(tensors, (1, 42, 3), strict=True):
        assert case.lend.read(tensor, message) == bytes([byte]) * 5000
    for n in (1, 2, 3):
        assert borrower.ask("close", n)
    borrower.end()


def allocation(case: Case) -> None:
    """Memory that the lender released is freed only when the borrower releases it, too."""
    borrower = case.start()
    warm = case.lend.make(DATA)
    assert borrower.ask("open", "warm", case.lend.lend(warm)) == DATA
    before = case.lend.allocated()
    data = random.Random(7).randbytes(1 << 20)
    for turn in range(3):
        tensor = case.lend.make(data)
        assert borrower.ask("open", turn, case.lend.lend(tensor)) == data
        del tensor
        case.lend.settle_once()
        assert case.lend.allocated() >= before + len(data), "memory that is in use was freed"
        assert borrower.ask("read", turn) == data
        assert borrower.ask("close", turn)
        case.all_back(before, f"turn {turn}")
    borrower.end()


def deadlock(case: Case) -> None:
    """Checks that no process waits for ever: neither for a consumer that ended with open tensors
    and unread messages, nor at a full queue.
    """
    case.keeps = True
    borrower = case.start()
    tensors = [case.lend.make(bytes([n]) * 512) for n in range(8)]
    borrower.ask("hold", [case.lend.lend(tensor) for tensor in tensors[:3]])
    messages = [case.lend.lend(tensor) for tensor in tensors[3:]]
    assert messages
    borrower.line.send(("die",))
    borrower.process.join(PATIENCE_S)
    assert borrower.process.exitcode == 0
    del tensors, messages
    case.lend.settle_once()
    queue = SPAWN.Queue(1)
    actor = SPAWN.Process(target=act, args=(queue, case.borrow, case.memory), daemon=True)
    actor.start()
    for n in range(min(100, case.count // 100)):
        state = {
            name: case.lend.make(bytes([n, m]) * 300)
            for m, name in enumerate(("weight", "bias", "scale"))
        }
        # Keeps each state only until the next one is in the queue.
        sent = {name: case.lend.lend(tensor) for name, tensor in state.items()}
        queue.put((n, sent), timeout=PATIENCE_S)
    queue.put(None, timeout=PATIENCE_S)
    actor.join(PATIENCE_S)
    assert actor.exitcode == 0, f"the actor ended with {actor.exitcode}"


def act(queue: Any, name: str, memory: str) -> None:
    side = new_side(name, memory)
    while (item := queue.get(timeout=PATIENCE_S)) is not None:
        time.sleep(0.01)
        n, sent = item
        for m, message in enumerate(sent.values()):
            assert side.read(side.borrow(message), message) == bytes([n, m]) * 300
    assert side.settle()


def send_many(case: Case) -> None:
    """Sends many small tensors one after the other, each with its number. Counter files fill up and
    new ones are made.
    """
    borrower = case.start()
    batch = 500
    before = case.lend.allocated()
    for first in range(0, case.count, batch):
        numbers = range(first, min(first + batch, case.count))
        expected = [struct.pack("<i", n) * 5 for n in numbers]
        tensors = many_tensors(case, expected)
        got = borrower.ask("many", [case.lend.lend(tensor) for tensor in tensors])
        assert got == expected, (
            f"after {first}: {got if isinstance(got, str) else 'other bytes came'}"
        )
        del tensors
    borrower.end()
    case.all_back(before, f"{case.count} tensors")


def many_tensors(case: Case, contents: list[bytes]) -> list[Any]:
    """Returns tensors in one allocation. Raw memory is cut up as PyTorch's allocator does."""
    if case.memory == "torch":
        return [case.lend.make(content) for content in contents]
    whole = case.lend.make(b"".join(content.ljust(512, b"\0") for content in contents))
    return [
        tenon.from_dlpack(whole[n * 512 : n * 512 + len(content)])
        for n, content in enumerate(contents)
    ]


def mixed_types(case: Case) -> None:
    """Sends tensors of every type, with one on the CPU between them."""
    borrower = case.start()
    bits = bytes(n % 2 for n in range(240))
    for name in list(ITEMSIZES) * 3:
        tensor = view_as(case.lend, case.lend.make(bits), name, (2, 120 // ITEMSIZES[name]))
        message = case.lend.lend(tensor)
        assert message.dtype == name
        assert borrower.ask("open", name, message) == bits, name
    cpu = tenon.zeros(4)
    cpu.storage.write(struct.pack("<4f", 3, 3, 3, 3))
    assert borrower.ask("cpu", cpu) == [3.0] * 4
    for name in ITEMSIZES:
        assert borrower.ask("close", name)
    borrower.end()


def event_exporter(case: Case) -> None:
    """An event of the lender orders the borrower's stream. Only the event can do it, because the
    memory was lent before the work began.
    """
    borrower = case.start()
    tensor = case.lend.make(bytes(4096))
    assert borrower.ask("open", 1, case.lend.lend(tensor)) == bytes(4096)
    event = case.lend.event()
    borrower.ask("event", bytes(event.ipc_handle()))
    case.lend.fill(tensor, 0)  # a kernel's first launch can wait for all running work
    take_time()
    case.lend.fill(tensor, 7)
    event.record()
    assert not event.query(), "the work was over at once"
    borrower.ask("wait")
    assert borrower.ask("read", 1) == b"\7" * 4096
    assert borrower.ask("query") is True and event.query()
    assert borrower.ask("close", 1)
    borrower.end()


def event_importer(case: Case) -> None:
    """An event that the borrower made and recorded orders this process's stream."""
    borrower = case.start()
    tensor = case.lend.make(bytes(4096))
    assert borrower.ask("open", 1, case.lend.lend(tensor)) == bytes(4096)
    event = case.lend.event_from(borrower.ask("new event"))
    borrower.ask("fill late", 1, 9)
    event.wait()
    assert case.lend.read(tensor, Message((), None, "uint8", (4096,), (1,), 0)) == b"\t" * 4096
    event.synchronize()
    assert event.query()
    del event  # its maker keeps it until all others have released it
    assert borrower.ask("close", 1)
    borrower.end()


def empty(case: Case) -> None:
    borrower = case.start()
    tensor = case.lend.make(b"")
    message = case.lend.lend(tensor)
    assert message.items[1] is None and message.items[2] == 0, message.items
    assert borrower.ask("open", 1, message) == b""
    assert borrower.ask("close", 1)
    borrower.end()


def small_tensors(case: Case) -> None:
    """Sends a thousand tensors in one block of the allocator. They need one memory handle and one
    open, and keep their distances in memory.
    """
    borrower = case.start()
    contents = [bytes([n % 256, n // 256]) * 8 for n in range(1000)]
    tensors = many_tensors(case, contents)
    messages = [case.lend.lend(tensor) for tensor in tensors]
    assert len({message.items[1] for message in messages}) <= 2, (
        "the tensors lie in more than one block and its neighbour"
    )
    borrower.ask("hold", messages)
    there = borrower.ask("where")
    here = [case.lend.pointer(tensor) for tensor in tensors]
    if len({message.items[1] for message in messages}) == 1:
        assert [one - there[0] for one in there] == [one - here[0] for one in here]
        if ON_THE_FAKE:
            assert borrower.ask("opens") == 1
    for n in range(0, 1000, 37):
        assert borrower.ask("read", ("held", n)) == contents[n]
    borrower.end()


def views(case: Case) -> None:
    """Sends slices, strided and transposed tensors: the storage travels, with the tensor's layout
    in it.
    """
    borrower = case.start()
    halves = view_as(case.lend, case.lend.make(DATA), "float16", (50, 40))
    shown = [DATA[row * 80 : row * 80 + 80] for row in range(50)]
    element = [[row[column * 2 : column * 2 + 2] for column in range(40)] for row in shown]
    wanted = {
        "rows": (halves[1:], b"".join(shown[1:])),
        "columns": (halves[:, ::2], b"".join(b"".join(row[::2]) for row in element)),
        "corner": (
            halves[1:3, 5:7],
            b"".join(element[row][column] for row in (1, 2) for column in (5, 6)),
        ),
    }
    if case.lend.name == "torch":
        wanted["transposed"] = (
            halves.t(),
            b"".join(element[row][column] for column in range(40) for row in range(50)),
        )
        assert torch_bytes(wanted["transposed"][0]) == wanted["transposed"][1]
    else:
        wanted["transposed"] = (
            halves.view((40, 50), strides=(1, 40), offset=0),
            b"".join(element[row][column] for column in range(40) for row in range(50)),
        )
    for name, (tensor, expected) in wanted.items():
        assert borrower.ask("open", name, case.lend.lend(tensor)) == expected, name
    for name in wanted:
        assert borrower.ask("close", name)
    borrower.end()
    # Under compute-sanitizer PyTorch 2.11 never gives back memory that one of its kernels read. The
    # same happens when PyTorch is the lender.
    case.keeps = UNDER_SANITIZER and case.borrow == "torch"


def forms(case: Case) -> None:
    """Sends every form of the memory handle that the borrower's PyTorch reads. Tenon reads all
    forms.
    """
    if case.lend.name != "tenon":
        raise Skip("PyTorch writes one form only")
    letters = "ABCDE"
    if case.borrow == "torch":
        import torch

        version = tuple(map(int, torch.__version__.split(".")[:2]))
        letters = (
            "A" + "C" * (version >= (2, 6)) + "D" * (version >= (2, 8)) + "E" * (version >= (2, 13))
        )
    borrower = case.start()
    for letter in letters:
        try:
            assert (
                borrower.ask("open", letter, case.lend.lend(case.lend.make(DATA), letter)) == DATA
            ), letter
        except AssertionError as error:
            if "future version" not in str(error):
                raise
            raise Skip(
                f"form {letter} is of a later PyTorch than {torch.__version__}, which opened those"
                " before it"
            ) from None
        assert borrower.ask("close", letter)
    borrower.end()


def ends_first(case: Case) -> None:
    """The borrower can still release what it has open after its lender has ended."""
    line, there = SPAWN.Pipe()
    lender = SPAWN.Process(
        target=lend_and_end, args=(there, case.lend.name, case.memory), daemon=True
    )
    lender.start()
    assert line.poll(PATIENCE_S)
    message = line.recv()
    borrower = case.start()
    assert borrower.ask("open", 1, message) == DATA
    line.send("end")
    lender.join(PATIENCE_S)
    assert lender.exitcode == 0
    # The driver does not promise what a read gives now. The release must work.
    assert borrower.ask("close", 1)
    borrower.end()


def lend_and_end(line: Any, name: str, memory: str) -> None:
    side = new_side(name, memory)
    tensor = side.make(DATA)
    line.send(side.lend(tensor))
    line.recv()


def cupy(case: Case) -> None:
    """Lends CuPy's memory by Tenon, and uses memory that Tenon opened as CuPy's."""
    if case.memory != "torch" or case.lend.name != "tenon":
        raise Skip("for Tenon as the lender, beside PyTorch")
    try:
        import cupy as cp
    except ImportError:
        raise Skip("no CuPy here") from None
    borrower = case.start()
    array = cp.arange(1000, dtype=cp.int32)
    tensor = tenon.from_dlpack(array)
    assert borrower.ask("open", 1, case.lend.lend(tensor)) == array.tobytes()
    assert bool((cp.from_dlpack(tensor) == array).all())
    assert borrower.ask("close", 1)
    borrower.end()


def cupy_borrows(case: Case) -> None:
    """Memory that another process lends becomes a CuPy array, by both of CuPy's ways, without a
    copy.
    """
    if case.lend.name != "tenon" or case.borrow != "tenon":
        raise Skip("for Tenon on both sides")
    try:
        import cupy as cp
    except ImportError:
        raise Skip("no CuPy here") from None
    line, there = SPAWN.Pipe()
    lender = SPAWN.Process(
        target=lend_and_end, args=(there, case.lend.name, case.memory), daemon=True
    )
    lender.start()
    assert line.poll(PATIENCE_S)
    message = line.recv()
    tensor = case.lend.borrow(message)
    for array in (cp.asarray(tensor), cp.from_dlpack(tensor)):
        assert array.data.ptr == case.lend.pointer(tensor) and array.dtype == cp.uint8
        assert array.tobytes() == DATA
    part = cp.asarray(tensor.view((50, 80))[1:, ::2])
    assert part.get().tobytes() == b"".join(
        DATA[row * 80 : row * 80 + 80 : 2] for row in range(1, 50)
    )
    del tensor
    assert array.tobytes() == DATA
    del array, part
    assert case.lend.settle()
    line.send("end")
    lender.join(PATIENCE_S)
    assert lender.exitcode == 0


def only_in_torch(case: Case) -> Any:
    """Returns PyTorch, for a case with Tenon and PyTorch in one process."""
    if case.memory != "torch" or case.lend.name != "tenon" or case.borrow != "tenon":
        raise Skip("for Tenon on both sides, beside PyTorch")
    import torch

    return torch


def multiprocessing(case: Case) -> None:
    """Tensors in multiprocessing's pipe, between tensors of the host, are the same memory here."""
    if case.lend.name != "tenon" or case.borrow != "tenon":
        raise Skip("for Tenon on both sides")
    borrower = case.start()
    before = case.lend.allocated()
    for turn in range(3):
        tensor = case.lend.make(DATA[turn:])
        assert borrower.ask("tensor", tensor) == DATA[turn:]
        del tensor
    assert borrower.ask("cpu", tenon.zeros(2)) == [0.0, 0.0]
    case.all_back(before, "what went through a pipe")
    borrower.end()


def side_streams(case: Case) -> None:
    """Work in PyTorch's current stream comes first, whichever stream that is. Only the streams
    named in the calls order the work.
    """
    torch = only_in_torch(case)
    from tenon.torch import from_torch, to_torch

    borrower = case.start()
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    nbytes = 1 << 20
    source = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(other):
        source.clone().fill_(0)  # a kernel's first launch can wait for all running work
    torch.cuda.synchronize()

    def sent(tensor: Any, stream: Any) -> Message:
        handle = tensor.storage.share_cuda(stream=stream)
        return Message(
            handle.torch_tuple(),
            handle.uuid,
            "uint8",
            tuple(tensor.shape),
            tuple(tensor.strides),
            tensor.offset,
        )

    # Lends in the stream in which PyTorch has written.
    with torch.cuda.stream(side):
        take_time(side.cuda_stream)
        source.fill_(7)
        assert not side.query(), "the work was over at once"
        message = sent(from_torch(source), side)
    assert borrower.ask("open", 1, message) == b"\7" * nbytes
    assert borrower.ask("close", 1)
    # Takes the tensor for another stream. PyTorch makes that stream wait.
    with torch.cuda.stream(side):
        take_time(side.cuda_stream)
        source.fill_(8)
        taken = tenon.from_dlpack(source, stream=other)
    with torch.cuda.stream(other):
        seen = to_torch(taken).clone()
    other.synchronize()
    assert seen.cpu().eq(8).all()
    # PyTorch writes Tenon's memory in a side stream. The stream is still at work when this process
    # has released everything.
    with tenon.CudaArena(nbytes) as arena:
        mine = tenon.Tensor.over(arena.allocate(nbytes), nbytes, "uint8")
        with torch.cuda.stream(side):
            there = to_torch(mine)
            assert there.data_ptr() == case.lend.pointer(mine)
            take_time(side.cuda_stream)
            there.fill_(9)
            message = sent(mine, side)
            del there
        mine.close()
        assert borrower.ask("open", 2, message) == b"\t" * nbytes
        assert borrower.ask("close", 2)
        soon(lambda: arena.stats().bytes_used == 0, "the arena's block did not come back")
        mine = tenon.Tensor.over(arena.allocate(nbytes), nbytes, "uint8")
        with torch.cuda.stream(side):
            take_time(side.cuda_stream)
            to_torch(mine).fill_(5)
        mine.close()
        assert arena.stats().bytes_used > 0, "memory that a stream uses is free"
        soon(lambda: arena.stats().bytes_used == 0, "the arena's block did not come back")
    del taken, source, seen
    borrower.end()


def bits_and_types(case: Case) -> None:
    """Sends what DLPack, or this PyTorch's DLPack, lacks: the conjugate and negative bits, bool,
    float8.
    """
    torch = only_in_torch(case)
    from tenon.torch import from_torch, to_torch

    x = torch.tensor([1 + 2j, 3 - 1j], device="cuda")
    for tensor in (x, x.conj(), x.conj().imag, torch._neg_view(x.conj())):
        for take in (from_torch, tenon.from_dlpack):
            back = to_torch(take(tensor))
            assert (
                back.data_ptr() == tensor.data_ptr()
                and back.is_conj() == tensor.is_conj()
                and back.is_neg() == tensor.is_neg()
            )
            assert torch.equal(back, tensor)
    raw = torch.arange(64, device="cuda").remainder(2).to(torch.uint8)
    for name in (
        "bool",
        "complex32",
        "uint16",
        "uint32",
        "uint64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e8m0fnu",
    ):
        if hasattr(torch, name):
            tensor = raw.view(getattr(torch, name))
            for take in (from_torch, tenon.from_dlpack):
                back = to_torch(take(tensor))
                assert back.dtype == tensor.dtype and back.data_ptr() == tensor.data_ptr(), name
                assert torch.equal(back.view(torch.uint8), raw), name
    if torch.cuda.device_count() > 1:
        far = torch.arange(8, device="cuda:1")
        assert torch.cuda.current_device() == 0
        for take in (from_torch, tenon.from_dlpack):
            taken = take(far)
            assert taken.device == "cuda:1" and torch.equal(to_torch(taken), far)
        del taken, far


def interface(case: Case) -> None:
    """PyTorch takes a tensor by __cuda_array_interface__ with its layout, and keeps it alive."""
    torch = only_in_torch(case)
    before = case.lend.allocated()
    whole = case.lend.make(DATA)
    numbers = whole.view((50, 20), "int32")
    seen = torch.as_tensor(numbers, device="cuda")
    assert (
        seen.data_ptr() == case.lend.pointer(whole)
        and seen.dtype == torch.int32
        and tuple(seen.shape) == (50, 20)
    )
    assert torch_bytes(seen) == DATA
    part = torch.as_tensor(numbers[1:, ::2], device="cuda")
    assert (
        part.data_ptr() == seen.data_ptr() + 80
        and tuple(part.stride()) == (20, 2)
        and torch.equal(part, seen[1:, ::2])
    )
    assert not hasattr(whole.view(dtype="bfloat16"), "__cuda_array_interface__")
    whole.close()
    numbers.close()
    assert torch_bytes(seen) == DATA
    del seen, part, whole, numbers
    case.all_back(before, "what PyTorch took by __cuda_array_interface__")


def pinned(case: Case) -> None:
    """PyTorch recognises pinned shared memory as pinned memory, and copies to it run in parallel
    with the host.
    """
    torch = only_in_torch(case)
    from tenon.torch import to_torch

    torch.cuda.init()  # before this, PyTorch 2.11 reports no memory as pinned
    nbytes = 1 << 20
    storage = tenon.Storage.new(nbytes, isolated=True)
    host = to_torch(tenon.Tensor.over(storage, nbytes, "uint8"))
    assert not storage.is_pinned and not host.is_pinned()
    assert storage.pin() and storage.is_pinned
    assert host.is_pinned()
    device = torch.full((nbytes,), 7, dtype=torch.uint8, device="cuda")
    host.copy_(device, non_blocking=True)
    torch.cuda.synchronize()
    assert bytes(storage.data) == b"\7" * nbytes
    device.fill_(8)
    over = torch.cuda.Event()
    take_time(torch.cuda.current_stream().cuda_stream)
    host.copy_(device, non_blocking=True)
    over.record()
    assert not over.query(), "the copy was waited for"
    over.synchronize()
    assert bytes(storage.data) == b"\x08" * nbytes
    host.fill_(9)
    device.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    assert device.cpu().eq(9).all()
    theirs = torch.arange(5).pin_memory()
    assert tenon.from_dlpack(theirs).device == "cpu" and tenon.from_dlpack(theirs).tolist() == [
        0,
        1,
        2,
        3,
        4,
    ]
    del host
    storage.close()
    tenon.trim()


CASES = {
    each.__name__: each
    for each in (
        simple,
        allocation,
        deadlock,
        send_many,
        mixed_types,
        event_exporter,
        event_importer,
        empty,
        small_tensors,
        views,
        forms,
        ends_first,
        cupy,
        cupy_borrows,
        multiprocessing,
        side_streams,
        bits_and_types,
        interface,
        pinned,
    )
}


def nothing_left(case: Case) -> None:
    """Checks the fake's ledger at the end: no open is left, and no rule was broken."""
    assert case.keeps or case.lend.settle(), "memory is still lent when all is over"
    if ON_THE_FAKE:
        for kind in (3, 12):
            soon(
                lambda kind=kind: cuda.fake_cuda_live(kind, 0) == 0,
                f"objects of kind {kind} are left",
            )
        assert cuda.fake_cuda_faults(0) == 0, "a rule of the driver was broken"
