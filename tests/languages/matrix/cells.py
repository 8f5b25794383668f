"""The cells of one producer and one consumer (README.md, "A cell")."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import account
from programs import Failed, NotApplicable, Program

STRATEGIES = ["fd", "raw_fd", "bytes", "filename", "socket", "read_only", "arena", "arena_fd"]
# These strategies replace STRATEGIES in a run with CUDA.
ON_CUDA = ["cuda", "cuda_handle", "cuda_fd"]
# The strategies whose memory returns by a counter, and the transport of each.
BY_COUNTER = {"cuda_handle": "ipc", "cuda_fd": "fd"}
ON_CONNECTION = {
    "fd": "tenon",
    "read_only": "tenon",
    "raw_fd": "raw",
    "arena": "tenon",
    "arena_fd": "raw",
    "cuda": "tenon",
    "cuda_fd": "raw",
}
IN_MESSAGE = ("fd", "bytes", "read_only", "arena", "cuda")

WITHOUT_TORCH = {
    "fd": "PyTorch has no Tenon connection; raw_fd is its way by fd",
    "bytes": "PyTorch has nothing that is opened from bytes alone",
    "socket": "PyTorch opens files only",
    "read_only": (
        "PyTorch maps everything writable: the library refuses such a lend, and the kernel an fd"
    ),
    "arena": "PyTorch has no Tenon connection; arena_fd is its way into an arena",
    **dict.fromkeys(
        ON_CUDA,
        "PyTorch's runtime asks a driver for undocumented tables, which fake_cuda does not have:"
        " see tests/process/gpu and cuda_torch",
    ),
}

# The programs' environments on CUDA. A producer lends from its device 1, which is the consumer's
# device 2: only the UUID tells, and no number does. A producer's stream is slow, so a reader that
# does not wait for the stream finds other bytes.
DEVICES = {"FAKE_CUDA_DEVICES": "gpu=256,gpu=256,gpu=256"}
CUDA_ENVIRONMENT = {
    "produce": {**DEVICES, "FAKE_CUDA_LATENCY": "stream=2000"},
    "consume": {**DEVICES, "CUDA_VISIBLE_DEVICES": "0,2,1"},
}
LENT_FROM, LENT_TO = "1", "2:2"

numbers = itertools.count(1)


def pattern(seed: int, nbytes: int) -> bytes:
    return bytes((seed * 31 + i * 7 + i // 256) & 255 for i in range(nbytes))


class Tensor:
    """A tensor to lend: sizes, strides and offset in elements, over a storage of nbytes bytes."""

    def __init__(
        self, dtype: str, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, nbytes: int
    ) -> None:
        self.dtype, self.sizes, self.strides, self.offset, self.nbytes = (
            dtype,
            sizes,
            strides,
            offset,
            nbytes,
        )
        self.itemsize = int(dtype.split(":")[1]) // 8
        indices = itertools.product(*map(range, sizes))
        self.places = [
            (offset + sum(i * step for i, step in zip(index, strides, strict=True))) * self.itemsize
            for index in indices
        ]

    @property
    def words(self) -> list[str]:
        return [
            self.dtype,
            ",".join(map(str, self.sizes)) or "-",
            ",".join(map(str, self.strides)) or "-",
            str(self.offset),
        ]

    def content(self, storage: bytes) -> bytes:
        return b"".join(storage[place : place + self.itemsize] for place in self.places)

    def written(self, seed: int) -> bytes:
        return pattern(seed, len(self.places) * self.itemsize)


# The first tensor serves the warm-up. Tensors that PyTorch cannot have come last: those with
# negative strides, and those without bytes.
TENSORS = [
    Tensor("2:32:1", (2, 3), (3, 1), 0, 24),
    Tensor("0:64:1", (4, 5), (1, 4), 0, 160),
    Tensor("1:8:1", (4096,), (1,), 0, 4096),
    Tensor("4:16:1", (3, 1, 2), (2, 2, 1), 0, 12),
    Tensor("2:64:1", (), (), 3, 32),
    Tensor("0:32:1", (3, 2), (4, 2), 1, 48),
    Tensor("5:64:1", (2, 2), (2, 1), 0, 32),
]
NOT_FOR_TORCH = [Tensor("0:16:1", (2, 3), (-3, -1), 5, 12)]
NO_BYTES = [Tensor("2:32:1", (0, 4), (4, 1), 0, 0)]


def tensors_for(producer: Program, consumer: Program, strategy: str) -> list[Tensor]:
    if producer.language.is_torch or consumer.language.is_torch:
        return TENSORS
    # An empty storage has no fd and no name behind a socket, and nothing in it can be read-only.
    return (
        TENSORS
        + NOT_FOR_TORCH
        + (NO_BYTES if strategy in ("fd", "bytes", "filename", "arena", *ON_CUDA) else [])
    )


def not_applicable(producer: Program, consumer: Program, strategy: str) -> str:
    """The reason why this cell does not exist, or "" if it does."""
    if producer.language.is_torch and strategy == "arena_fd":
        return "PyTorch makes a segment for each storage"
    torch = producer.language.is_torch or consumer.language.is_torch
    return WITHOUT_TORCH.get(strategy, "") if torch else ""


def same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise Failed(f"{what} is {got!r:.120}, not {wanted!r:.120}")


def compare(program: Program, what: str, word: str, wanted: bytes) -> None:
    """Compare the CONTENT of a program's answer with the expected bytes."""
    got = "" if word == "-" else word
    if got == wanted.hex():
        return
    length = next(
        (i for i in range(len(wanted)) if got[2 * i : 2 * i + 2] != wanted[i : i + 1].hex()),
        len(wanted),
    )
    raise Failed(
        f"{program.name}: {what} differs from byte {length} on: {got[2 * length :]:.16}…, not"
        f" {wanted[length:].hex():.16}…"
    )


class Pair:
    """A producer and a consumer. After a failure, the end of the `with` block drops what both still
    hold for the cell, so that the next cell finds them clean.
    """

    def __init__(self, producer: Program, consumer: Program) -> None:
        self.programs = (producer, consumer)
        self.commands: list[tuple[str, int]] = []

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for program in self.programs if kind is not None else ():
            for command in reversed(self.commands):
                if program.process.poll() is None:
                    with contextlib.suppress(Failed, NotApplicable):
                        program.ask(*command)

    def key(self) -> int:
        number = next(numbers)
        self.commands.append(("drop", number))
        return number

    def connect(self, kind: str) -> int:
        producer, consumer = self.programs
        number = next(numbers)
        self.commands.append(("close", number))
        consumer.begin("connect", number, kind, producer.path)
        producer.begin("accept", number, kind)
        consumer.end()
        try:
            producer.end()
        except Failed:
            # The connection may still wait there, and the next accept would take it.
            with contextlib.suppress(Failed, NotApplicable):
                producer.ask("accept", number, kind)
            raise
        return number


class Counter:
    """The counter of a CUDA handle, read from its file: 1 until the receiver has let go, then 0."""

    # PyTorch's file has a head and 10,000 counters (docs/format/cuda.md).
    HEAD, NBYTES = 64, 64 + 8 * 10_000

    def __init__(self, name: str, slot: str) -> None:
        self.path, self.slot = account.SHM / name.removeprefix("/"), int(slot)

    def value(self) -> int:
        data = self.path.read_bytes()
        same(f"bytes of {self.path}", len(data), self.NBYTES)
        return int.from_bytes(data[self.HEAD + 8 * self.slot :][:8], "little", signed=True)


def read_cuda_handle(strategy: str, words: list[str], tensor: Tensor) -> Counter | None:
    """Check the words of a producer's handle, and return its counter. An empty storage has none."""
    transport, device, uuid, nbytes, _, counter, slot, event_required, event, memory, fds = words
    same("device", device, LENT_FROM)
    same("bytes of the UUID", len(uuid), 2 * 16)
    same("nbytes", nbytes, str(tensor.nbytes))
    if tensor.nbytes == 0:
        same(
            "what leads to no bytes",
            [transport, counter, event_required, event, memory, fds],
            ["none", "-", "0", "-", "-", "0"],
        )
        return None
    same("transport", transport, BY_COUNTER[strategy])
    same("fds", fds, str(int(strategy == "cuda_fd")))
    same("event_required", event_required, "1")
    same("bytes of the event", len(event), 2 * 64)
    if counter == "-":
        raise Failed("counter is '-', not a name")
    found = Counter(counter, slot)
    same(f"the counter of what is lent ({counter} {slot})", found.value(), 1)
    return found


class Lend:
    """One lent and opened tensor. Both programs hold it until drop()."""

    def __init__(
        self, pair: Pair, strategy: str, connection: int | None, tensor: Tensor, seed: int
    ) -> None:
        self.producer, self.consumer = producer, consumer = pair.programs
        self.strategy, self.tensor = strategy, tensor
        self.key = pair.key()
        self.bytes = tensor.content(pattern(seed, tensor.nbytes))
        number = "-" if connection is None else connection
        producer.begin("lend", self.key, strategy, number, tensor.nbytes, seed, *tensor.words)
        handle = producer.end()
        self.counter = (
            read_cuda_handle(strategy, handle, tensor) if strategy in BY_COUNTER else None
        )
        if self.counter is not None:
            producer.counters.add(self.counter.path)
        told = ["-"] * 4 if strategy in IN_MESSAGE else tensor.words
        says = consumer.ask("open", self.key, strategy, number, *told, *handle)
        name = f"t{self.key}" if strategy in IN_MESSAGE else "-"
        device = LENT_TO if strategy in ON_CUDA else "1:0"
        same(
            f"{consumer.name}: what open says",
            says[:-1],
            [*tensor.words, str(int(strategy == "read_only")), device, name, name],
        )
        compare(consumer, "what was lent", says[-1], self.bytes)

    def write(self, writer: Program, reader: Program, seed: int) -> None:
        """One side writes, and the other must see it. In a read-only lend both are refused."""
        if self.strategy == "read_only":
            writer.refuses("PERMISSION", "write", self.key, seed)
        else:
            writer.ask("write", self.key, seed)
            self.bytes = self.tensor.written(seed)
        compare(reader, f"what {writer.name} wrote", reader.ask("read", self.key)[0], self.bytes)

    def check(self, program: Program, what: str) -> None:
        compare(program, what, program.ask("read", self.key)[0], self.bytes)

    def drop(self) -> None:
        counter = self.counter
        if counter is not None:
            same("the counter of what is held", counter.value(), 1)
        self.consumer.ask("drop", self.key)
        if counter is not None:
            account.until(
                f"{self.consumer.name} has not let go by the counter {counter.path} {counter.slot}",
                counter.value,
            )
        self.producer.ask("drop", self.key)


def exchange(pair: Pair, strategy: str, tensors: list[Tensor]) -> None:
    """Lend each tensor, let both sides write it, and give it back."""
    producer, consumer = pair.programs
    connection = pair.connect(ON_CONNECTION[strategy]) if strategy in ON_CONNECTION else None
    for index, tensor in enumerate(tensors):
        lend = Lend(pair, strategy, connection, tensor, (index * 37 + 11) & 255)
        if tensor.places:
            lend.write(consumer, producer, (index * 41 + 101) & 255)
            lend.write(producer, consumer, (index * 43 + 201) & 255)
            if strategy == "read_only":
                writable = [
                    line
                    for line in account.mappings(consumer.pid)
                    if line.startswith("rw-s") and "/memfd:" in line
                ]
                same(f"{consumer.name}: writable mappings", writable, [])
        lend.drop()
    if connection is not None:
        consumer.ask("close", connection)
        producer.ask("close", connection)


def run(producer: Program, consumer: Program, strategy: str, names: account.Names) -> None:
    """Run one cell. Any failure is raised."""
    reason = not_applicable(producer, consumer, strategy)
    if reason:
        raise NotApplicable(reason)
    tensors = tensors_for(producer, consumer, strategy)
    gives_back(
        producer,
        consumer,
        names,
        lambda pair: exchange(pair, strategy, tensors[:1]),
        lambda pair: exchange(pair, strategy, tensors),
    )


def gives_back(
    producer: Program,
    consumer: Program,
    names: account.Names,
    warm_up: Callable[[Pair], None],
    act: Callable[[Pair], None],
) -> None:
    """Run warm_up and act. After act both programs must hold what they held before it."""
    # A cell that failed may have left fds and device memory.
    waited = {program: waiting(program) for program in (producer, consumer)}
    segment_fds = {program: settle(program)[2] for program in (producer, consumer)}
    with Pair(producer, consumer) as pair:
        warm_up(pair)
    # A lease of the other side can end after a settle. Then the segment is empty, but it stays
    # cached until the next settle.
    for program, fds in segment_fds.items():
        account.until(
            f"{program.name} keeps fds of segments",
            lambda p=program, n=fds: (now := settle(p)[2]) != n and now,
        )  # type: ignore[misc]
    before = [
        (program, account.settled(program.name, program.pid)) for program in (producer, consumer)
    ]
    own = names.of_tenon()
    with Pair(producer, consumer) as pair:
        act(pair)
    for program, snapshot in before:
        account.until(
            f"{program.name} waits for device memory",
            lambda p=program: max(0, waiting(p) - waited[p]),
        )  # type: ignore[misc]
        account.until(
            f"{program.name} is not as before",
            lambda p=program, s=snapshot: difference_settled(p, s),
        )  # type: ignore[misc]
    account.until("names are left", lambda: names.of_tenon() - own)


def settle(program: Program) -> list[str]:
    """Let a program settle, and return its four words STORAGES SEGMENTS SEGMENT_FDS WAITING."""
    words = program.ask("settle")
    same(f"{program.name}: how many words settle says", len(words), 4)
    return words


def difference_settled(program: Program, before: account.Snapshot) -> str:
    """Let a program settle, and compare what it holds with what it held before."""
    settle(program)
    return account.Snapshot(program.pid).difference(before)


def waiting(program: Program) -> int:
    """How many storages wait for their device memory to come back."""
    word = settle(program)[3]
    return 0 if word == "-" else int(word)


def strategies_for(producer: Program, consumer: Program) -> Iterator[str]:
    yield from (
        strategy for strategy in STRATEGIES if not not_applicable(producer, consumer, strategy)
    )


def lend_by_all(pair: Pair) -> tuple[list[Lend], list[int]]:
    """Lend one tensor by each strategy at the same time. Return the lends and the connections."""
    producer, consumer = pair.programs
    kinds = {
        ON_CONNECTION[strategy]
        for strategy in strategies_for(producer, consumer)
        if strategy in ON_CONNECTION
    }
    connections = {kind: pair.connect(kind) for kind in sorted(kinds)}
    lends = []
    for index, strategy in enumerate(strategies_for(producer, consumer)):
        connection = connections[ON_CONNECTION[strategy]] if strategy in ON_CONNECTION else None
        lends.append(Lend(pair, strategy, connection, TENSORS[1], index * 53 + 17))
    return lends, list(connections.values())


def after_the_end(
    survivor: Program, other: Program, lends: list[Lend], connections: list[int]
) -> None:
    """Check the survivor after the other program was killed. The survivor keeps its bytes, can
    write them, and gets PEER_GONE on its connections.
    """
    for connection in connections:
        survivor.refuses("PEER_GONE", "wait", connection)
    for lend in lends:
        lend.check(survivor, f"what it holds after the end of {other.name}")
        if lend.strategy == "read_only":
            survivor.refuses("PERMISSION", "write", lend.key, 99)
        else:
            survivor.ask("write", lend.key, 99)
            lend.bytes = lend.tensor.written(99)
        lend.check(survivor, "what it wrote by itself")
        survivor.ask("drop", lend.key)
        survivor.lost += survivor is lend.producer and lend.counter is not None
    for connection in connections:
        survivor.ask("close", connection)


def holds_nothing(program: Program) -> None:
    """Wait until the program holds no shared memory. It may hold only the device memory that it
    lent by a counter to programs that were killed.
    """
    account.until(
        f"{program.name} waits for device memory, beside what is lost",
        lambda: waiting(program) - program.lost,
    )
    account.until(
        f"{program.name} still holds",
        lambda: account.Snapshot(program.pid).holdings(program.counters),
    )


def fork(producer: Program, consumer: Program) -> None:
    """The consumer forks. The child reads by every strategy. The parent sees no difference."""
    with Pair(producer, consumer) as pair:
        lends, connections = lend_by_all(pair)
        consumer.ask("settle")
        before = account.settled(consumer.name, consumer.pid)
        for lend in lends:
            if lend.strategy in ON_CUDA:
                raise NotApplicable("the driver does not work in a child of fork")
            compare(
                consumer,
                f"what the child reads ({lend.strategy})",
                consumer.ask("fork", lend.key)[0],
                lend.bytes,
            )
            lend.write(producer, consumer, 77)
        account.until(
            f"{consumer.name} is not as before",
            lambda: account.Snapshot(consumer.pid).difference(before),
        )
        for lend in lends:
            lend.drop()
        for connection in connections:
            consumer.ask("close", connection)
            producer.ask("close", connection)
    holds_nothing(consumer)
    holds_nothing(producer)
