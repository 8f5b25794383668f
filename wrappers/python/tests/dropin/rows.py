"""Rows of torch.multiprocessing's behaviour under the sharing strategy "tenon": python rows.py
[NAME…].

reference.py runs the test file of PyTorch 1.13.1. This program has the CPU rows that newer versions
have added, written anew, and rows for what the drop-in promises beyond. Each row is a function and
runs in a process of its own: the program imports PyTorch once and forks for each row.

It prints a line for each row: ok, lacking (what this PyTorch lacks) or failed (why). The exit
status is 1 if one failed.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    Row = Callable[[], None]

SECONDS = 100
"""The longest that a row may take.

The slowest one starts five processes by spawn, on a busy machine.
"""

METHODS = ("fork", "spawn", "forkserver")

_rows: dict[str, Row] = {}
_bare: set[str] = set()


class Lacking(Exception):
    """This PyTorch lacks the feature that the row tests."""


def row(function: Row) -> Row:
    """Mark a function as a row that begins after tenon.torch.install()."""
    _rows[function.__name__] = function
    return function


def bare_row(function: Row) -> Row:
    """Mark a function as a row that begins with PyTorch as it was imported."""
    _bare.add(function.__name__)
    return row(function)


# ---- what the rows share


def serve(connection: Any) -> None:
    """Serve in the other process: call the functions that come, and send their results back."""
    while True:
        message = connection.recv()
        if message is None:
            return
        function, arguments = message
        del message
        try:
            reply = True, function(*arguments)
        except BaseException:
            reply = False, traceback.format_exc()
        del arguments
        connection.send(reply)
        del reply


class Peer:
    """Another process that calls functions on request."""

    def __init__(
        self, method: str = "fork", target: Callable[..., None] = serve, *, daemon: bool = True
    ) -> None:
        import torch.multiprocessing

        context = torch.multiprocessing.get_context(method)
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=target, args=(theirs,), daemon=daemon)
        self.process.start()
        theirs.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.connection.send((function, arguments))
        good, value = self.connection.recv()
        assert good, f"in the other process: {value}"
        return value

    def end(self) -> None:
        self.connection.send(None)
        self.process.join()
        assert self.process.exitcode == 0, f"the other process ended with {self.process.exitcode}"


_kept: list[Any] = []


def keep(value: Any) -> None:
    _kept.append(value)


def give_kept() -> Any:
    return _kept[-1]


def fill(tensor: Any, value: Any) -> None:
    tensor.detach().fill_(value)


def values_of(tensor: Any) -> list[Any]:
    values: list[Any] = tensor.detach().reshape(-1).tolist()
    return values


def untyped_of(tensor: Any) -> Any:
    return (
        tensor.untyped_storage()
        if hasattr(tensor, "untyped_storage")
        else tensor.storage()._storage
    )


def lies_in_tenon(tensor: Any) -> bool:
    """Whether a tensor's memory is Tenon's: PyTorch's own files are never sealed, and private
    memory is refused.
    """
    import tenon.torch

    try:
        return bool(tenon.torch.from_torch(tensor.detach()).storage.is_sealed)
    except tenon.Unsupported:
        return False


def facts_of(tensor: Any) -> tuple[Any, ...]:
    return (
        type(tensor).__name__,
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad,
    )


def both_see(peer: Peer, tensor: Any) -> None:
    """Send a tensor, and check that each side sees what the other one writes."""
    peer.ask(keep, tensor)
    assert lies_in_tenon(tensor), "the sender's tensor does not lie in Tenon's memory"
    peer.ask(fill, peer.ask(give_kept), 3)
    assert set(values_of(tensor)) <= {3}, (
        f"the sender does not see the receiver's write: {values_of(tensor)[:9]}"
    )
    fill(tensor, 5)
    assert peer.ask(kept_values) == values_of(tensor), (
        "the receiver does not see the sender's write"
    )


def kept_values() -> list[Any]:
    return values_of(_kept[-1])


def kept_facts() -> tuple[Any, ...]:
    return facts_of(_kept[-1])


def check_refused(message: str, call: Callable[[Any], Any], value: Any) -> None:
    """Check that calling this with the value raises a RuntimeError with these words."""
    try:
        call(value)
    except RuntimeError as error:
        assert message in str(error), f"another error: {error}"
    else:
        raise AssertionError("it was not refused")


def reducers_have(name: str, what: str) -> None:
    import torch.multiprocessing.reductions

    if not hasattr(torch.multiprocessing.reductions, name):
        raise Lacking(f"its reducers carry no {what}")


def __getattr__(name: str) -> Any:
    # pickle looks here for the class that this module cannot make before it imports torch.
    if name != "Marked":
        raise AttributeError(name)
    import torch

    made: Any = type("Marked", (torch.Tensor,), {"__module__": __name__})
    globals()["Marked"] = made
    return made


# ---- rows of newer versions


def facts_of_meta(tensor: Any) -> tuple[Any, ...]:
    return (tensor.device.type, untyped_of(tensor).nbytes(), *facts_of(tensor))


@row
def meta_empty() -> None:
    """A meta tensor of no elements arrives as a meta tensor, with its dtype."""
    reducers_have("rebuild_meta_tensor", "meta tensors")
    import torch

    queue = torch.multiprocessing.SimpleQueue()
    for dtype in (torch.float32, torch.int64):
        sent = torch.tensor([], dtype=dtype, device="meta")
        queue.put(sent)
        assert facts_of_meta(queue.get()) == facts_of_meta(sent)


@row
def meta_view() -> None:
    """Shape, strides, offset and the size of the storage of a meta tensor travel."""
    reducers_have("rebuild_meta_tensor", "meta tensors")
    import torch

    sent = torch.empty(6, 8, device="meta", dtype=torch.float64)[1:, ::2].t().requires_grad_()
    with Peer() as peer:
        assert peer.ask(facts_of_meta, sent) == facts_of_meta(sent)


@row
def meta_twice_under_spawn() -> None:
    """A process that spawn started sends one meta tensor twice, and receives one beside a real
    tensor.
    """
    reducers_have("rebuild_meta_tensor", "meta tensors")
    import torch

    with Peer("spawn") as peer:
        peer.ask(keep, torch.ones(5, 5, device="meta"))
        for _ in range(2):
            assert peer.ask(give_kept).is_meta
        assert peer.ask(values_of_second, [torch.ones(2, device="meta"), torch.full((2,), 4)]) == [
            4,
            4,
        ]


def values_of_second(pair: list[Any]) -> list[Any]:
    return values_of(pair[1])


@row
def thread_name() -> None:
    """The kernel shows the name that a thread gives itself."""
    import torch.multiprocessing as mp

    if not hasattr(mp, "_set_thread_name"):
        raise Lacking("it does not name threads")
    seen: list[str] = []

    def work() -> None:
        mp._set_thread_name("tenon row")
        seen.append(mp._get_thread_name())
        seen.append(Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["tenon row", "tenon row"], seen


@row
def integer_parameter_as_argument_of_spawn() -> None:
    """A parameter of integers can be an argument of a process that spawn starts."""
    import torch

    sent = torch.nn.Parameter(torch.tensor(7), requires_grad=False)
    process = torch.multiprocessing.get_context("spawn").Process(
        target=add_to_parameter, args=(sent,)
    )
    process.start()
    process.join()
    assert process.exitcode == 0 and sent.item() == 8, (process.exitcode, sent)


def add_to_parameter(parameter: Any) -> None:
    import torch

    assert type(parameter) is torch.nn.Parameter and not parameter.requires_grad
    parameter += 1


def sparse(layout: str) -> Any:
    import torch

    dense = torch.tensor([[0.0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0], [0, 4, 0, 5]])
    if layout == "coo":
        return dense.to_sparse()
    convert = getattr(dense, f"to_sparse_{layout}")
    return convert((2, 2)) if layout.startswith("bs") else convert()


def parts_of_sparse(tensor: Any) -> tuple[Any, Any, Any]:
    import torch

    if tensor.layout is torch.sparse_coo:
        return tensor._values(), tensor._indices(), tensor._indices()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.values(), tensor.crow_indices(), tensor.col_indices()
    return tensor.values(), tensor.ccol_indices(), tensor.row_indices()


def check_and_double_sparse(tensor: Any, layout: str) -> None:
    import torch

    assert tensor.layout is sparse(layout).layout and torch.equal(
        tensor.to_dense(), sparse(layout).to_dense()
    )
    # A part's storage belongs to the sparse tensor too, so a PyTorch without _swap_data_ptr_ moves
    # the storage to a file of its own.
    can_move = hasattr(torch.UntypedStorage, "_swap_data_ptr_")
    for part in parts_of_sparse(tensor):
        assert part.is_shared() and (lies_in_tenon(part) or not can_move), (
            "a part of it does not lie in Tenon's memory"
        )
    parts_of_sparse(tensor)[0].mul_(2)


@row
def sparse_tensors() -> None:
    """Tensors of all five sparse layouts arrive, and their values lie in shared memory."""
    import torch

    with Peer() as peer:
        for layout in ("coo", "csr", "csc", "bsr", "bsc"):
            sent = sparse(layout)
            peer.ask(check_and_double_sparse, sent, layout)
            assert torch.equal(sent.to_dense(), 2 * sparse(layout).to_dense()), (
                f"the write to {layout} is not seen"
            )


@row
def nested_strided() -> None:
    """A strided nested tensor arrives with its values.

    PyTorch's rebuilder copies them, so writes are not seen.
    """
    reducers_have("reduce_nested_tensor", "nested tensors")
    import torch

    with Peer() as peer:
        warnings.simplefilter("ignore")
        sent = torch.nested.nested_tensor([torch.arange(4.0).view(2, 2), torch.ones(3, 2)])
        assert peer.ask(parts_of_nested, sent) == parts_of_nested(sent)


def parts_of_nested(tensor: Any) -> list[list[list[float]]]:
    assert tensor.is_nested
    return [part.tolist() for part in tensor.unbind()]


@row
def nested_jagged() -> None:
    """A jagged nested tensor arrives, and its values lie in shared memory."""
    import torch

    if not hasattr(torch, "jagged"):
        raise Lacking("it has no jagged tensors")
    # This tensor is made before the fork, so that PyTorch imports its compiler once.
    sent = torch.nested.nested_tensor(
        [torch.arange(4.0).view(2, 2), torch.ones(3, 2)], layout=torch.jagged
    )
    with Peer() as peer:
        peer.ask(double_nested, sent)
        assert parts_of_nested(sent) == [[[0, 2], [4, 6]], [[2, 2]] * 3]


def double_nested(tensor: Any) -> None:
    assert parts_of_nested(tensor) == [[[0, 1], [2, 3]], [[1, 1]] * 3]
    for part in tensor.unbind():
        part.mul_(2)


@row
def one_storage_shared_by_many_threads() -> None:
    """Threads that share one storage at once move the storage once, and none of their writes is
    lost.
    """
    import torch

    for _ in range(50):
        tensor = torch.zeros(8, 1000)
        barrier = threading.Barrier(8)
        addresses: set[int] = set()

        def share(
            index: int,
            tensor: Any = tensor,
            barrier: Any = barrier,
            addresses: set[int] = addresses,
        ) -> None:
            barrier.wait()
            untyped = untyped_of(tensor)
            untyped.share_memory_()
            addresses.add(untyped.data_ptr())
            torch.add(tensor[index], 1, out=tensor[index])

        threads = [threading.Thread(target=share, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(addresses) == 1 and tensor.is_shared(), f"moved to {len(addresses)} places"
        assert bool((tensor == 1).all()), "a write was lost"


# ---- what is the same object, and what is not


@row
def own_message_is_the_same_storage() -> None:
    """A sender that receives its own message gets the same storage, whether or not the tensor was
    shared before.
    """
    import torch

    queue = torch.multiprocessing.SimpleQueue()
    for sent in (
        torch.arange(6.0),
        torch.arange(6.0).share_memory_(),
        torch.zeros(4, 4)[1],
        torch.zeros(3, dtype=torch.complex64),
    ):
        for _ in range(2):
            queue.put(sent)
            received = queue.get()
            assert untyped_of(received)._cdata == untyped_of(sent)._cdata, "another storage"
            assert facts_of(received) == facts_of(sent)


@row
def received_twice_is_the_same_storage() -> None:
    """Two messages with one tensor arrive as one storage, and a tensor that comes home has the
    sender's storage.
    """
    import torch

    sent = torch.arange(6.0)
    with Peer() as peer:
        peer.ask(keep, sent)
        peer.ask(keep, sent[2:])
        assert peer.ask(last_two_share)
        home = peer.ask(give_kept)
        assert untyped_of(home)._cdata == untyped_of(sent)._cdata and facts_of(home) == facts_of(
            sent[2:]
        )


def last_two_share() -> bool:
    return bool(untyped_of(_kept[-1])._cdata == untyped_of(_kept[-2])._cdata)


@row
def gone_storages_are_forgotten() -> None:
    """The tables in which sender and receiver remember torch storages do not grow without bound."""
    import torch

    with Peer() as peer:
        for _ in range(20):
            assert peer.ask(len, [torch.ones(10) for _ in range(50)]) == 50
        assert n_remembered() < 300
        assert peer.ask(n_remembered) < 300


def n_remembered() -> int:
    from tenon.torch import _storage

    return len(_storage.known.references)


@row
def views_in_one_message_share_a_storage() -> None:
    """One message carries views and the storage itself, untyped and typed. All of them arrive over
    one storage.
    """
    import torch

    base = torch.arange(25.0).view(5, 5)
    storages = [
        untyped_of(base),
        torch.storage.TypedStorage(wrap_storage=untyped_of(base), dtype=torch.float32),
    ]
    message = [*storages, base, base[2], base[:, 1], base.t(), base.view(torch.int32)]
    with Peer() as peer:
        assert peer.ask(storages_of, message) == 1
        assert peer.ask(storages_of, [torch.ones(5), torch.ones(5)]) == 2
        peer.ask(fill_second_column, message)
        assert base[:, 1].tolist() == [9.0] * 5


def storages_of(message: list[Any]) -> int:
    import torch

    first, second, *tensors = message
    if isinstance(first, torch.Tensor):
        return len({untyped_of(tensor)._cdata for tensor in message})
    return len({first._cdata, second._cdata, *(untyped_of(tensor)._cdata for tensor in tensors)})


def fill_second_column(message: list[Any]) -> None:
    message[4].fill_(9)


@row
def expanded_views() -> None:
    """A view of stride 0 arrives with its one row, and a slice with its whole storage."""
    import torch

    with Peer() as peer:
        expanded = torch.arange(3.0).expand(4, 3)
        assert peer.ask(facts_and_nbytes, expanded) == (facts_of(expanded), 12)
        expanded = torch.tensor(2.0).expand(1000, 1000)
        assert peer.ask(facts_and_nbytes, expanded) == (facts_of(expanded), 4)
        part = torch.arange(1000.0)[500:501]
        assert peer.ask(facts_and_nbytes, part) == (facts_of(part), 4000)


def facts_and_nbytes(tensor: Any) -> tuple[tuple[Any, ...], int]:
    return facts_of(tensor), untyped_of(tensor).nbytes()


@row
def zero_elements() -> None:
    """Tensors of no elements arrive, whether or not their storage is empty.

    Empty storages arrive too, and share_memory_() does nothing to them.
    """
    import torch

    with Peer() as peer:
        for sent in (
            torch.tensor([]),
            torch.empty(0, 3, dtype=torch.int64),
            torch.zeros(0, 7, 2),
            torch.arange(5)[5:],
        ):
            assert peer.ask(facts_of, sent.share_memory_()) == facts_of(sent)
        parameter = torch.nn.Parameter(torch.empty(0, 2))
        assert peer.ask(facts_of, parameter) == facts_of(parameter)
        assert peer.ask(nbytes_of, torch.UntypedStorage(0)) == 0


def nbytes_of(storage: Any) -> int:
    return int(storage.nbytes())


# ---- kinds of tensors


@row
def every_dtype() -> None:
    """Tensors of each dtype that torch.empty makes, of one element and of many, arrive with their
    bytes.
    """
    import torch

    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    tried = 0
    with Peer() as peer:
        for dtype in sorted(dtypes, key=str):
            if str(dtype).startswith(("torch.q", "torch.bits")):
                continue
            for shape in ((), (5,), (3, 4)):
                try:
                    sent = torch.empty(shape, dtype=dtype)
                except (RuntimeError, TypeError):
                    continue
                raw = torch.empty(0, dtype=torch.uint8).set_(untyped_of(sent))
                raw.copy_(torch.arange(raw.numel()) % (2 if dtype is torch.bool else 251))
                expected = raw.tolist()
                assert peer.ask(facts_and_bytes, sent) == (facts_of(sent), expected), str(dtype)
                tried += 1
    assert tried >= 3 * 12, f"only {tried} tensors were made"


def facts_and_bytes(tensor: Any) -> tuple[tuple[Any, ...], list[int]]:
    import torch

    return facts_of(tensor), torch.empty(0, dtype=torch.uint8).set_(untyped_of(tensor)).tolist()


@row
def conjugate_and_negative_views() -> None:
    """conj() and the imaginary part of it, whose negative bit is set, have the right values, and
    lie over the memory of their base.
    """
    import torch

    with Peer() as peer:
        base = torch.tensor([1 + 2j, 3 - 4j])
        for view in (
            base.conj(),
            base.conj().imag,
            base.imag,
            torch._neg_view(base),
            torch._neg_view(base.conj()),
        ):
            expected = view.is_conj(), view.is_neg(), values_of(view)
            assert peer.ask(bits_and_values, view) == expected, (
                f"{peer.ask(bits_and_values, view)} and not {expected}"
            )
        peer.ask(fill, base.conj(), 5 + 6j)
        assert values_of(base) == [5 - 6j, 5 - 6j]


def bits_and_values(tensor: Any) -> tuple[bool, bool, list[Any]]:
    return tensor.is_conj(), tensor.is_neg(), values_of(tensor)


@row
def parameters() -> None:
    """A Parameter arrives as a Parameter with its requires_grad, also one of integers.

    A plain tensor keeps requires_grad.
    """
    import torch

    sent = [
        torch.nn.Parameter(torch.arange(4.0)),
        torch.nn.Parameter(torch.arange(4.0), requires_grad=False),
        torch.nn.Parameter(torch.arange(4), requires_grad=False),
        torch.arange(4.0).requires_grad_(),
        torch.arange(4.0),
    ]
    with Peer() as peer:
        for tensor in sent:
            assert peer.ask(facts_of, tensor) == facts_of(tensor)
            both_see(peer, tensor)
            assert peer.ask(kept_facts) == facts_of(tensor)


@row
def non_leaf_is_refused() -> None:
    """A tensor that requires grad and is no leaf is refused in PyTorch's words, and its detached
    values are sent.
    """
    import torch

    made = torch.arange(4.0).requires_grad_() * 2
    words = "Cowardly refusing to serialize non-leaf tensor which requires_grad"
    with Peer() as peer:
        check_refused(words, torch.multiprocessing.SimpleQueue().put, made)
        check_refused(words, peer.connection.send, made)
        check_refused(words, peer.connection.send, {"deep": [torch.ones(3), made]})
        check_refused(words, peer.connection.send, made.share_memory_())
        assert peer.ask(values_of, made.detach()) == [0, 2, 4, 6]


@row
def hooks_warn() -> None:
    """PyTorch warns of hooks, which do not travel."""
    import torch

    tensor = torch.arange(4.0).requires_grad_()
    tensor.register_hook(print)
    with Peer() as peer, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert peer.ask(has_no_grad_and_hooks, tensor)
    texts = [str(warning.message) for warning in caught]
    assert any("hook" in text and "will not be serialized" in text for text in texts), texts


def has_no_grad_and_hooks(tensor: Any) -> bool:
    return tensor.grad is None and not tensor._backward_hooks


@row
def grad_does_not_travel() -> None:
    """Each side has a gradient of its own. The sender's gradient does not change."""
    import torch

    for tensor in (torch.nn.Parameter(torch.ones(4)), torch.ones(4).requires_grad_()):
        (tensor * 3).sum().backward()
        with Peer() as peer:
            assert peer.ask(has_no_grad_and_hooks, tensor)
            assert peer.ask(gradient_in_child, tensor) == [7.0] * 4
        assert tensor.grad.tolist() == [3.0] * 4
        (tensor * 2).sum().backward()
        assert tensor.grad.tolist() == [5.0] * 4


def gradient_in_child(tensor: Any) -> list[float]:
    (tensor * 7).sum().backward()
    return values_of(tensor.grad)


@row
def graph_survives_the_move() -> None:
    """A graph is built before its leaf and its saved tensor are sent. Its backward() gives the
    right gradients afterwards.
    """
    import torch

    leaf, factor = torch.nn.Parameter(torch.arange(4.0)), torch.full((4,), 3.0)
    result = (leaf * factor).pow(2).sum()
    with Peer() as peer:
        assert peer.ask(values_of, leaf) == [0, 1, 2, 3] and peer.ask(values_of, factor) == [3] * 4
        result.backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [0, 18, 36, 54]


@row
def views_move_with_their_base() -> None:
    """Views that were made before their base was sent see what the other process writes."""
    import torch

    base = torch.zeros(4, 4)
    rows, flat, transposed = base[1], base.view(-1), base.t()
    with Peer() as peer:
        peer.ask(fill, base, 2)
        assert set(values_of(rows)) == set(values_of(flat)) == set(values_of(transposed)) == {2.0}
        peer.ask(fill, rows, 4)
        assert base[1].tolist() == transposed[:, 1].tolist() == [4.0] * 4


@row
def tensor_subclass() -> None:
    """A plain subclass arrives with its type and attributes, over the same memory."""
    import torch

    sent = torch.arange(4.0).as_subclass(__getattr__("Marked"))
    sent.mark = "kept"
    for method in ("fork", "spawn"):
        with Peer(method) as peer:
            assert peer.ask(mark_of, sent) == ("Marked", "kept", [0.0, 1.0, 2.0, 3.0])
            peer.ask(fill_part, sent, 1, 8)
            assert values_of(sent.as_subclass(torch.Tensor)) == [0, 8, 2, 3]
            sent.as_subclass(torch.Tensor)[1] = 1


def mark_of(tensor: Any) -> tuple[str, str, list[Any]]:
    import torch

    return type(tensor).__name__, tensor.mark, values_of(tensor.as_subclass(torch.Tensor))


def fill_part(tensor: Any, index: int, value: int) -> None:
    import torch

    tensor.as_subclass(torch.Tensor)[index] = value


@row
def storages() -> None:
    """Untyped, typed and legacy storages arrive with their kind, over the same memory."""
    import torch

    with Peer() as peer:
        untyped = torch.UntypedStorage(8)
        untyped.fill_(1)
        assert peer.ask(describe_and_fill, untyped) == ("UntypedStorage", None, [1] * 8)
        assert untyped.tolist() == [2] * 8 and untyped.is_shared()
        warnings.simplefilter("ignore")
        typed = torch.storage.TypedStorage([1, 2, 3], dtype=torch.int32)
        assert peer.ask(describe_and_fill, typed) == ("TypedStorage", torch.int32, [1, 2, 3])
        assert typed.tolist() == [2, 2, 2] and typed.is_shared()
        legacy = torch.DoubleStorage([1, 2])
        name, dtype, values = peer.ask(describe_and_fill, legacy)
        assert (
            name in ("DoubleStorage", "TypedStorage")
            and dtype is torch.float64
            and values == [1, 2]
        )
        assert legacy.tolist() == [2, 2] and legacy.is_shared()


def describe_and_fill(storage: Any) -> tuple[str, Any, list[Any]]:
    import torch

    assert isinstance(storage, (torch.UntypedStorage, torch.storage.TypedStorage))
    before = storage.tolist()
    storage.fill_(2)
    return type(storage).__name__, getattr(storage, "dtype", None), before


def quantised() -> dict[str, Any]:
    import torch

    numbers, scales, floats = (
        torch.arange(8.0).reshape(2, 4),
        torch.tensor([0.5, 0.25]),
        torch.tensor([0.5, 1.5]),
    )
    zeros = torch.tensor([0, 1])
    return {
        "quint8": torch.quantize_per_tensor(numbers, 0.5, 3, torch.quint8),
        "a transposed view": torch.quantize_per_tensor(numbers, 0.5, 3, torch.qint8)[:, 1:].t(),
        "a parameter": torch.nn.Parameter(
            torch.quantize_per_tensor(numbers, 0.5, 3, torch.qint32), requires_grad=False
        ),
        "per channel": torch.quantize_per_channel(numbers, scales, zeros, 0, torch.qint8),
        "with float parameters": torch.quantize_per_channel(
            numbers, scales, floats, 0, torch.quint8
        ),
        "packed": torch.quantize_per_channel(numbers, scales, floats, 0, torch.quint4x2),
    }


def facts_of_quantised(tensor: Any) -> tuple[Any, ...]:
    if str(tensor.qscheme()) == "torch.per_tensor_affine":
        quantizer = [tensor.q_scale(), tensor.q_zero_point()]
    else:
        quantizer = [
            tensor.q_per_channel_scales().tolist(),
            tensor.q_per_channel_zero_points().tolist(),
            tensor.q_per_channel_axis(),
        ]
    return (str(tensor.qscheme()), quantizer, tensor.dequantize().tolist(), *facts_of(tensor))


def set_bytes(tensor: Any, value: int) -> None:
    untyped = untyped_of(tensor)
    for index in range(untyped.nbytes()):
        untyped[index] = value


def facts_of_kept_quantised() -> tuple[Any, ...]:
    return facts_of_quantised(_kept[-1])


@row
def quantised_tensors() -> None:
    """Quantised tensors arrive with their quantizer, which PyTorch's reducer loses. Both sides see
    writes.
    """
    import tenon.torch
    import torch

    with Peer() as peer:
        for name, sent in quantised().items():
            peer.ask(keep, sent)
            assert peer.ask(facts_of_kept_quantised) == facts_of_quantised(sent), name
            assert sent.is_shared(), f"{name} is not shared"
            before = facts_of_quantised(sent)
            peer.ask(set_bytes, sent, 1)
            assert facts_of_quantised(sent) != before, (
                f"{name}: the sender does not see the receiver's write"
            )
            set_bytes(sent, 2)
            assert peer.ask(facts_of_kept_quantised) == facts_of_quantised(sent), (
                f"{name}: the receiver does not see the sender's write"
            )
            assert untyped_of(peer.ask(give_kept))._cdata == untyped_of(sent)._cdata, (
                f"{name} came home to another storage"
            )
    with Peer("spawn") as peer:
        sent = quantised()["per channel"]
        assert peer.ask(facts_of_quantised, sent) == facts_of_quantised(sent)
    shared = torch.quantize_per_tensor(torch.arange(4.0), 0.5, 0, torch.quint8).share_memory_()
    assert shared.is_shared() and shared.dequantize().tolist() == [
        0,
        1,
        2,
        3,
    ], "share_memory_() lost the scale"
    # A PyTorch without this function moves the storage to a file of its own, because a tensor over
    # the bytes has the storage too.
    assert tenon.torch.from_torch(shared).values.storage.is_sealed == hasattr(
        torch.UntypedStorage, "_swap_data_ptr_"
    )
    queue = torch.multiprocessing.SimpleQueue()
    queue.put([shared, shared[1:]])
    whole, rest = queue.get()
    assert untyped_of(whole)._cdata == untyped_of(rest)._cdata == untyped_of(
        shared
    )._cdata and rest.dequantize().tolist() == [1, 2, 3]


# ---- share_memory_ and modules


@row
def share_memory_then_is_shared() -> None:
    """share_memory_() moves a tensor to Tenon's memory and keeps its values. is_shared() is true
    for all views.
    """
    import torch

    warnings.simplefilter("ignore")
    tensor = torch.arange(6.0)
    assert not tensor.is_shared() and not lies_in_tenon(tensor)
    assert tensor.share_memory_() is tensor
    assert tensor.is_shared() and lies_in_tenon(tensor) and values_of(tensor) == [0, 1, 2, 3, 4, 5]
    address = tensor.data_ptr()
    assert tensor.share_memory_().data_ptr() == address, "shared memory was moved again"
    assert untyped_of(tensor).share_memory_().data_ptr() == address, "shared memory was moved again"
    viewed = torch.arange(6.0)
    view = viewed[2:]
    viewed.share_memory_()
    view[0] = 7
    assert values_of(viewed) == [0, 1, 7, 3, 4, 5] and viewed.is_shared() and view.is_shared(), (
        "the view was left behind"
    )
    # A PyTorch without this function moves a storage that has views to a file of its own.
    assert lies_in_tenon(viewed) or not hasattr(torch.UntypedStorage, "_swap_data_ptr_")
    parameter = torch.nn.Parameter(torch.arange(3.0))
    assert parameter.share_memory_().is_shared() and lies_in_tenon(parameter)
    for storage in (
        torch.UntypedStorage(4),
        torch.storage.TypedStorage([1.0], dtype=torch.float32),
    ):
        assert not storage.is_shared()
        assert storage.share_memory_() is storage and storage.is_shared()
    assert torch.UntypedStorage._new_shared(16).is_shared()


@row
def inherited_by_fork() -> None:
    """A child of fork inherits shared memory, and both sides see writes."""
    import torch

    tensor = torch.zeros(4).share_memory_()
    process = torch.multiprocessing.get_context("fork").Process(target=fill, args=(tensor, 3))
    process.start()
    process.join()
    assert process.exitcode == 0 and values_of(tensor) == [3] * 4


def model() -> Any:
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    )


@row
def module_share_memory() -> None:
    """Module.share_memory() moves all parameters and buffers.

    A child's optimiser step is seen here, and the module can still be trained.
    """
    import torch

    module = model().share_memory()
    tensors = [*module.parameters(), *module.buffers()]
    assert all(tensor.is_shared() and lies_in_tenon(tensor) for tensor in tensors)
    before = [tensor.detach().clone() for tensor in tensors]
    # PyTorch imports its compiler when it makes the first optimiser, and the child inherits that.
    train(model())
    with Peer() as peer:
        peer.ask(train, module)
        assert not any(torch.equal(old, new) for old, new in zip(before, tensors, strict=True)), (
            "a child's step is not seen"
        )
    train(module)


def train(module: Any) -> None:
    import torch

    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.randn(5, 3) + 1).pow(2).sum().backward()
    optimizer.step()
    assert all(parameter.grad is not None for parameter in module.parameters())


def work_on_state(queue: Any, answers: Any) -> None:
    """Load a state from a queue, and change it in place."""
    import torch

    state = queue.get()
    module = model()
    module.load_state_dict(state)
    answers.put(
        (type(state).__name__, list(state), all(lies_in_tenon(tensor) for tensor in state.values()))
    )
    for tensor in state.values():
        tensor.fill_(6)
    answers.put(torch.full((2,), 6))


def state_under(method: str) -> None:
    import torch

    context = torch.multiprocessing.get_context(method)
    queue, answers = context.Queue(), context.Queue()
    state = model().state_dict()
    process = context.Process(target=work_on_state, args=(queue, answers))
    process.start()
    queue.put(state)
    assert answers.get(timeout=SECONDS) == ("OrderedDict", list(state), True)
    received = answers.get(timeout=SECONDS)
    assert lies_in_tenon(received) and values_of(received) == [6, 6]
    assert all(set(values_of(tensor)) == {6} for tensor in state.values())
    process.join()
    assert process.exitcode == 0


@row
def state_dict_under_fork() -> None:
    """A state_dict goes through a queue to a child of fork."""
    state_under("fork")


@row
def state_dict_under_spawn() -> None:
    """A state_dict goes through a queue to a child of spawn, whose answer lies in Tenon's memory
    too.
    """
    state_under("spawn")


@row
def state_dict_under_forkserver() -> None:
    """A state_dict goes through a queue to a child of forkserver, whose answer lies in Tenon's
    memory too.
    """
    state_under("forkserver")


# ---- carriers


def own_strategy() -> str:
    import torch.multiprocessing as mp

    return str(mp.get_sharing_strategy())


def double(tensor: Any) -> Any:
    """Change the argument in place, and return a new tensor."""
    tensor.mul_(2)
    return tensor + 1


def ask_grandchild(tensor: Any) -> tuple[str, Any]:
    with Peer("spawn") as peer:
        result = peer.ask(double, tensor)
        assert lies_in_tenon(result)
        return peer.ask(own_strategy), result


@row
def grandchild_under_spawn() -> None:
    """The strategy reaches a grandchild. All three processes share the tensors that the middle one
    passes on.
    """
    import torch

    sent = torch.arange(4.0)
    # A daemon may have no children.
    with Peer("spawn", daemon=False) as peer:
        strategy, result = peer.ask(ask_grandchild, sent)
        assert strategy == "tenon" and values_of(sent) == [0, 2, 4, 6]
        assert values_of(result) == [1, 3, 5, 7] and lies_in_tenon(result)


@row
def strategy_of_children() -> None:
    """Children of spawn and forkserver begin with "tenon" if their parent has it, and with
    PyTorch's default if it chose another one.
    """
    import torch.multiprocessing as mp

    for method in METHODS:
        with Peer(method) as peer:
            assert peer.ask(own_strategy) == "tenon", method
    mp.set_sharing_strategy("file_system")
    for method, expected in zip(
        METHODS, ("file_system", "file_descriptor", "file_descriptor"), strict=True
    ):
        with Peer(method) as peer:
            assert peer.ask(own_strategy) == expected, method


@row
def pool_map() -> None:
    """Pool.map changes its arguments in place and gives results that lie in Tenon's memory."""
    import torch

    for method in ("fork", "spawn"):
        sent = [torch.full((3,), float(number)) for number in range(6)]
        with torch.multiprocessing.get_context(method).Pool(2) as pool:
            results = pool.map(double, sent, 1)
            assert [values_of(tensor) for tensor in sent] == [
                [2.0 * number] * 3 for number in range(6)
            ]
            assert [values_of(tensor) for tensor in results] == [
                [2.0 * number + 1] * 3 for number in range(6)
            ]
            assert all(map(lies_in_tenon, results))


@row
def process_pool_executor() -> None:
    """A ProcessPoolExecutor changes its arguments in place and gives results in Tenon's memory."""
    from concurrent.futures import ProcessPoolExecutor

    import torch

    for method in ("fork", "spawn"):
        sent = [torch.full((3,), float(number)) for number in range(6)]
        with ProcessPoolExecutor(
            2, mp_context=torch.multiprocessing.get_context(method)
        ) as executor:
            results = list(executor.map(double, sent))
        assert [values_of(tensor) for tensor in sent] == [[2.0 * number] * 3 for number in range(6)]
        assert [values_of(tensor) for tensor in results] == [
            [2.0 * number + 1] * 3 for number in range(6)
        ]
        assert all(map(lies_in_tenon, results))


def get_double_put(queue: Any, answers: Any) -> None:
    answers.put(double(queue.get()))


@row
def manager_queue() -> None:
    """Tensors pass through a Manager's queue, and the memory stays the first sender's."""
    import torch

    for method in ("fork", "spawn"):
        context = torch.multiprocessing.get_context(method)
        with context.Manager() as manager:
            queue, answers = manager.Queue(), manager.Queue()
            process = context.Process(target=get_double_put, args=(queue, answers))
            process.start()
            sent = torch.arange(3.0)
            queue.put(sent)
            received = answers.get()
            process.join()
            assert process.exitcode == 0
            assert (
                values_of(sent) == [0, 2, 4]
                and values_of(received) == [1, 3, 5]
                and lies_in_tenon(received)
            )


@row
def pipe_both_ways() -> None:
    """A tensor goes through a Pipe, and one that the child makes goes the other way. Both are
    shared.
    """
    import torch

    for method in METHODS:
        with Peer(method) as peer:
            both_see(peer, torch.zeros(5, 5))
            peer.ask(keep_new)
            theirs = peer.ask(give_kept)
            assert lies_in_tenon(theirs)
            theirs.fill_(11)
            assert peer.ask(kept_values) == [11] * 4


def keep_new() -> None:
    import torch

    _kept.append(torch.zeros(4))


def fill_rank(rank: int, tensor: Any) -> None:
    tensor[rank] = rank + 1


@row
def spawn_function() -> None:
    """torch.multiprocessing.spawn gives the same tensor to all its processes."""
    import torch

    tensor = torch.zeros(2)
    torch.multiprocessing.spawn(fill_rank, args=(tensor,), nprocs=2)
    assert tensor.tolist() == [1, 2]


@row
def dropin_module() -> None:
    """tenon.torch.multiprocessing has every name of torch.multiprocessing, and they are the same
    objects.
    """
    import tenon.torch.multiprocessing as ours
    import torch.multiprocessing as theirs

    for name in [*theirs.__all__, "spawn", "get_context", "reductions", "Queue", "Process", "Pool"]:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert set(theirs.__all__) <= set(ours.__all__) and set(dir(theirs)) <= set(dir(ours))
    ours.set_sharing_strategy("file_system")
    assert ours.get_sharing_strategy() == theirs.get_sharing_strategy() == "file_system"
    assert ours.get_all_sharing_strategies() == {"file_descriptor", "file_system", "tenon"}


@row
def sender_ends_first() -> None:
    """A child ends before its message is read. Its tensors arrive."""
    import torch

    context = torch.multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=put_new, args=(queue,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [values_of(queue.get(timeout=10)) for _ in range(3)] == [[0.0] * 4, [1.0] * 4, [2.0] * 4]


def put_new(queue: Any) -> None:
    import torch

    for number in range(3):
        queue.put(torch.full((4,), float(number)))


# ---- with and without the strategy


def state_of_torch() -> dict[str, Any]:
    """Every object that install() may replace, by name."""
    import multiprocessing.process
    from multiprocessing import queues, reduction

    import torch

    absent = object
    table = reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    found: dict[str, Any] = {
        f"{owner.__name__}.{name}": vars(owner).get(name, absent)
        for owner in (
            torch.UntypedStorage,
            torch.storage.TypedStorage,
            torch.storage._StorageBase,
            torch.Tensor,
            torch.nn.Module,
        )
        for name in (
            "share_memory_",
            "share_memory",
            "is_shared",
            "_new_shared",
            "_shared_decref",
            "__reduce_ex__",
            "__reduce__",
        )
    }
    found["Queue.put"] = queues.Queue.put
    found |= {f"reducer of {kind!r}": reducer for kind, reducer in table.items()}
    found |= {
        f"torch.multiprocessing.{name}": value
        for name, value in vars(torch.multiprocessing).items()
    }
    found |= {
        f"reductions.{name}": value
        for name, value in vars(torch.multiprocessing.reductions).items()
    }
    configuration = multiprocessing.process.current_process()._config  # type: ignore[attr-defined]
    found |= {f"configuration {name}": value for name, value in configuration.items()}
    found |= {f"sys.meta_path {index}": finder for index, finder in enumerate(sys.meta_path)}
    return found


def check_restored(before: dict[str, Any], strategies: frozenset[str]) -> None:
    import torch.multiprocessing as mp

    after = state_of_torch()
    changed = [
        name
        for name in before.keys() | after.keys()
        if before.get(name, sys) is not after.get(name, sys)
    ]
    assert not changed, f"not restored: {sorted(changed)}"
    assert mp.get_all_sharing_strategies() == strategies


@bare_row
def uninstall_restores() -> None:
    """uninstall() puts back every object that install() replaced, once no tensor lies in Tenon's
    memory. A second round of install() and uninstall() does the same.
    """
    import gc

    import tenon.torch
    import torch
    import torch.multiprocessing as mp

    before, strategies = state_of_torch(), frozenset(mp.get_all_sharing_strategies())
    for _ in range(3):
        tenon.torch.install()
        assert tenon.torch.installed() and mp.get_sharing_strategy() == "tenon"
        tenon.torch.uninstall()
        check_restored(before, strategies)
    mp.set_sharing_strategy("file_system")
    tenon.torch.install()
    with Peer() as peer:
        tensor = torch.zeros(4).share_memory_()
        both_see(peer, tensor)
        del tensor
    gc.collect()
    tenon.torch.uninstall()
    tenon.torch.uninstall()
    assert not tenon.torch.installed() and mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    check_restored(before, strategies)
    tensor = torch.zeros(4).share_memory_()
    assert tensor.is_shared() and not lies_in_tenon(tensor)


@row
def uninstall_with_tensors_alive() -> None:
    """A tensor that lies in Tenon's memory when uninstall() is called can still be sent, and stays
    shared.
    """
    import tenon.torch
    import torch

    sent, private = torch.zeros(4).share_memory_(), torch.zeros(4)
    tenon.torch.uninstall()
    with Peer() as peer:
        both_see(peer, sent)
        peer.ask(fill, private, 2)
        assert values_of(private) == [2] * 4 and not lies_in_tenon(private)


def serve_without(connection: Any) -> None:
    import tenon.torch
    import torch.multiprocessing  # noqa: F401

    tenon.torch.uninstall()
    assert not tenon.torch.installed()
    serve(connection)


def pass_on(tensor: Any) -> tuple[bool, Any]:
    """In a process without the strategy: keep the tensor, share it again, and lend it on."""
    import tenon.torch

    assert not tenon.torch.installed() and own_strategy() == "file_descriptor"
    _kept.append(tensor)
    address = tensor.data_ptr()
    tensor.share_memory_()
    return tensor.is_shared() and tensor.data_ptr() == address, tensor


def check_stranger(stranger: Peer, third: Peer) -> None:
    import torch

    sent = torch.zeros(4)
    shared, home = stranger.ask(pass_on, sent)
    assert shared, "without the strategy is_shared() is False, or share_memory_() moved the tensor"
    assert untyped_of(home)._cdata == untyped_of(sent)._cdata, "what came back is another storage"
    quantised_one = quantised()["quint8"]
    shared, home = stranger.ask(pass_on, quantised_one)
    assert shared and facts_of_quantised(home) == facts_of_quantised(quantised_one), (
        "a quantised tensor came back with other numbers"
    )
    stranger.ask(keep, sent)
    third.ask(keep, stranger.ask(give_kept))
    third.ask(fill, third.ask(give_kept), 8)
    assert values_of(sent) == stranger.ask(kept_values) == [8] * 4, "the three do not share"
    # Private memory of that process is shared in PyTorch's way.
    stranger.ask(keep_new)
    theirs = stranger.ask(give_kept)
    assert not lies_in_tenon(theirs)
    theirs.fill_(2)
    assert stranger.ask(kept_values) == [2] * 4
    stranger.ask(keep, sent)


@row
def stranger_that_uninstalled() -> None:
    """A process that has called uninstall() opens a message and lends it on. All three processes
    share it.
    """
    with Peer("spawn") as third:
        for method in ("fork", "spawn"):
            with Peer(method, target=serve_without) as stranger:
                check_stranger(stranger, third)


def uninstall_and_import(connection: Any) -> None:
    import tenon.torch

    tenon.torch.uninstall()
    import torch.multiprocessing as mp

    connection.send((tenon.torch.installed(), mp.get_sharing_strategy()))


@row
def uninstall_before_torch_is_imported() -> None:
    """A child calls uninstall() before it imports torch. The later import does not install the
    drop-in.
    """
    import torch

    ours, theirs = torch.multiprocessing.Pipe()
    process = torch.multiprocessing.get_context("spawn").Process(
        target=uninstall_and_import, args=(theirs,)
    )
    process.start()
    process.join()
    assert process.exitcode == 0 and ours.recv() == (False, "file_descriptor")


def has_torch(connection: Any) -> None:
    connection.send("torch" in sys.modules)


def start_grandchild(connection: Any) -> None:
    """In a process that has not imported torch: start another process."""
    import multiprocessing

    has_torch(connection)
    process = multiprocessing.get_context("spawn").Process(
        target=own_strategy_to, args=(connection,)
    )
    process.start()
    process.join()
    has_torch(connection)
    assert process.exitcode == 0


def own_strategy_to(connection: Any) -> None:
    has_torch(connection)
    connection.send(own_strategy())


@row
def child_that_never_imports_torch() -> None:
    """A child that does not import torch needs no torch, and passes the strategy on to its own
    children.
    """
    import torch

    ours, theirs = torch.multiprocessing.Pipe()
    process = torch.multiprocessing.get_context("spawn").Process(
        target=start_grandchild, args=(theirs,)
    )
    process.start()
    process.join()
    assert process.exitcode == 0, f"the child ended with {process.exitcode}"
    assert [ours.recv() for _ in range(4)] == [False, False, "tenon", False]


@bare_row
def stranger_that_never_installed() -> None:
    """A process that was started before install() and does not have the strategy opens a message
    and lends it on.
    """
    import tenon.torch

    for method in ("fork", "spawn"):
        with Peer(method) as stranger:
            tenon.torch.install()
            with Peer("spawn") as third:
                check_stranger(stranger, third)
        tenon.torch.uninstall()


@row
def shared_storage_is_not_resizable() -> None:
    """Shared memory cannot be resized, because the other processes would keep the old size.

    Copies of it are private.
    """
    import copy
    import pickle

    import torch

    # The refused tensor has the new size nevertheless, so the test must not read it.
    check_refused("not resizable", lambda value: value.resize_(1000), torch.ones(4).share_memory_())
    tensor = torch.ones(4).share_memory_()
    check_refused("not resizable", lambda value: untyped_of(value).resize_(0), tensor)
    for made in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)), tensor.clone()):
        assert values_of(made) == [1] * 4 and not made.is_shared()


@row
def memory_of_others() -> None:
    """Tensors over NumPy's memory, of inference mode, and over a mapped checkpoint are sent as
    PyTorch sends them.
    """
    import torch

    with Peer() as peer:
        with torch.inference_mode():
            sent, view = torch.zeros(4), torch.zeros(4)[1:]
        for tensor in (sent, view):
            peer.ask(keep, tensor)
            assert tensor.is_shared() and peer.ask(kept_values) == values_of(tensor)
        array = torch.zeros(4).numpy()
        array += 1
        tensor = torch.from_numpy(array)
        both_share(peer, tensor)
        # The array is left behind, as with PyTorch's own strategies.
        assert array.tolist() == [1] * 4
        if hasattr(torch.Tensor, "untyped_storage"):
            with tempfile.NamedTemporaryFile() as file:
                torch.save(torch.ones(4), file.name)
                both_share(peer, torch.load(file.name, mmap=True))


def both_share(peer: Peer, tensor: Any) -> None:
    """Like both_see(), but the memory may lie anywhere."""
    peer.ask(keep, tensor)
    peer.ask(fill, tensor, 3)
    assert values_of(tensor) == peer.ask(kept_values) == [3] * tensor.numel()


@row
def dataloader() -> None:
    """DataLoader's workers collate their batches in Tenon's memory, under each start method."""
    import torch
    from torch.utils.data import DataLoader

    for method in METHODS:
        samples: Any = list(torch.arange(24.0).view(12, 2))
        workers = 2 if method == "fork" else 1
        loader = DataLoader(
            samples, batch_size=4, num_workers=workers, multiprocessing_context=method
        )
        batches = list(loader)
        assert [values_of(batch) for batch in batches] == [
            [float(8 * part + at) for at in range(8)] for part in range(3)
        ]
        assert all(map(lies_in_tenon, batches)), method


def collate_and_tell(samples: Any) -> Any:
    """Collate a batch, and tell for each new torch storage whether its maker fills it."""
    import torch
    from tenon.torch import _storage
    from torch.utils.data import default_collate

    plain, fills = _storage.new, []

    def new(nbytes: int, **how: Any) -> Any:
        fills.append(how["will_fill"] and not how["zeroed"])
        return plain(nbytes, **how)

    _storage.new = new
    try:
        batch = default_collate(samples)
        n_collated = len(fills)
        torch.UntypedStorage._new_shared(16)
        torch.storage.TypedStorage([1.0], dtype=torch.float32)._new_shared(4)
    finally:
        _storage.new = plain
    return batch, fills[:n_collated], fills[n_collated:]


@row
def collate_fills_its_storage() -> None:
    """Memory that PyTorch's collate fills is not cleared first.

    Any other caller of _new_shared gets zeros, as from PyTorch.
    """
    import torch
    from torch.utils.data import DataLoader

    samples: Any = list(torch.arange(24.0).view(12, 2))
    loader = DataLoader(
        samples,
        batch_size=4,
        num_workers=1,
        multiprocessing_context="fork",
        collate_fn=collate_and_tell,
    )
    for batch, collated, others in loader:
        assert lies_in_tenon(batch) and collated == [True] and not any(others) and others
    untyped = torch.UntypedStorage._new_shared(5000)
    address = untyped.data_ptr()
    untyped.fill_(7)
    del untyped
    untyped = torch.UntypedStorage._new_shared(5000)
    assert untyped.data_ptr() == address, "another block: the row proves nothing"
    assert not any(untyped.tolist())


@bare_row
def pinned_batches() -> None:
    """A DataLoader's batches are pinned where the workers made them. pinned.py checks that on the
    fake driver.
    """
    import torch

    if torch.backends.cuda.is_built():
        raise Lacking("PyTorch with CUDA cannot run on the fake driver")
    driver = Path(os.environ.get("TENON_BUILD_DIR", "")) / "tests/support/fake_cuda/driver-13"
    if not driver.is_dir():
        raise Lacking("no fake driver in TENON_BUILD_DIR")
    with tempfile.TemporaryDirectory() as world:
        environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_WORLD": world}
        done = subprocess.run(
            [sys.executable, "-B", str(Path(__file__).with_name("pinned.py"))],
            env=environment,
            check=False,
        )
    if done.returncode == 77:
        raise Lacking("this Tenon was built without CUDA")
    assert done.returncode == 0


@row
def other_strategies_stay() -> None:
    """Under "file_system" and "file_descriptor" private memory is shared in PyTorch's way, and
    Tenon's memory stays shared.
    """
    import torch
    import torch.multiprocessing as mp

    ours = torch.zeros(4).share_memory_()
    for strategy in ("file_system", "file_descriptor"):
        mp.set_sharing_strategy(strategy)
        with Peer() as peer:
            tensor = torch.zeros(4)
            peer.ask(fill, tensor, 2)
            assert values_of(tensor) == [2] * 4 and tensor.is_shared() and not lies_in_tenon(tensor)
            both_see(peer, ours)
            mp.set_sharing_strategy("tenon")
            # Tenon adopts PyTorch's shared memory, because other processes have it.
            peer.ask(keep, tensor)
            peer.ask(fill, tensor, 4)
            assert values_of(tensor) == peer.ask(kept_values) == [4] * 4
            mp.set_sharing_strategy(strategy)


# ---- running them


def run_row(name: str, note: str) -> int:
    """Run a row in its own process, and write what went wrong to the note."""
    try:
        warnings.filterwarnings(
            "ignore", message=".*(beta|prototype|experimental|deprecated|implicitly disabled).*"
        )
        if name not in _bare:
            import tenon.torch

            tenon.torch.install()
        _rows[name]()
    except Lacking as error:
        Path(note).write_text(str(error))
        return 77
    except BaseException:
        Path(note).write_text(traceback.format_exc())
        return 1
    return 0


def wait_for(pid: int) -> str | int:
    """Wait for a row's process and return its exit status. Kill every process that it left
    running.
    """
    fd = os.pidfd_open(pid)
    try:
        done, _, _ = select.select([fd], [], [], SECONDS)
    finally:
        os.close(fd)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if done else f"not done after {SECONDS} s"


def main(names: list[str]) -> int:
    unknown = set(names) - _rows.keys()
    if unknown:
        print(
            f"no such rows: {', '.join(sorted(unknown))}. There are {', '.join(_rows)}",
            file=sys.stderr,
        )
        return 2
    import tenon.torch  # noqa: F401
    import torch
    import torch.multiprocessing

    torch.set_num_threads(1)
    # The collector of a row's process need not look at PyTorch's own objects. That would take half
    # of the row's time at exit.
    gc.collect()
    gc.freeze()
    failed = False
    # split_rows.py and put_rows.py import this module, so `_rows` has the rows of both modules.
    for name in names or [
        name for name, function in _rows.items() if function.__module__ == "__main__"
    ]:
        # A context manager would remove this file in the row's process too, so the code removes it
        # by hand.
        file, note = tempfile.mkstemp(prefix="tenon-rows-")
        os.close(file)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os.setsid()
            # The row's process ends by the interpreter's own exit, because processes hand over
            # their deposits then.
            return run_row(name, note)
        began = time.monotonic()
        status = wait_for(pid)
        took = f"{time.monotonic() - began:.1f} s"
        why = Path(note).read_text()
        os.unlink(note)
        if status == 0:
            print(f"ok       {name} {took}", flush=True)
        elif status == 77:
            print(f"lacking  {name} (PyTorch {torch.__version__}: {why})", flush=True)
        else:
            failed = True
            last = why.strip().splitlines()[-1] if why else f"the process ended with {status}"
            print(f"failed   {name} ({last})", flush=True)
            print(why, file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
