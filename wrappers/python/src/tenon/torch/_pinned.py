"""Pins the memory of batches, without the copy of DataLoader's pin_memory.

Imports torch when used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenon.error import ResourceExhausted, Unsupported, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeVar

    Batch = TypeVar("Batch")


def _tensors_of(batch: Any) -> Iterator[Any]:
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors_of(value)
    elif isinstance(batch, Sequence) and not isinstance(batch, (str, bytes, bytearray)):
        for value in batch:
            yield from _tensors_of(value)


def pin(batch: Batch) -> Batch:
    """Pin the memory of a batch's tensors where it lies, and return the batch.

    Copies of the batch to a device with non_blocking=True then run beside the host. A batch is a
    tensor, or a mapping or sequence of batches. Other objects in it are left alone. Its tensors
    must be on the CPU and lie in Tenon's memory. PyTorch knows them as pinned once it has started
    CUDA (torch.cuda.init()). A segment or an arena is registered with the driver once in a process,
    so later batches in it cost microseconds. An arena must have all of its memory, which
    tenon.torch.reserve gives it.

    Raises Unsupported if a tensor lies elsewhere, or if there is no CUDA, and ResourceExhausted if
    an arena does not have all of its memory. The tensors before it stay pinned.
    """
    from tenon.torch import _storage

    for tensor in _tensors_of(batch):
        if not tensor.numel():
            continue
        place = _storage.find(_storage.untyped_of(tensor)) if tensor.is_cpu else None
        if place is None:
            raise make(
                Unsupported,
                f"a tensor on {tensor.device} that is not in Tenon's shared memory: call"
                " tenon.torch.install() before the DataLoader is made, or tensor.pin_memory(),"
                " which copies",
            )
        storage = place[0]
        if storage.is_pinned:
            continue
        try:
            storage.pin()
        except ResourceExhausted as error:
            raise make(
                type(error),
                f"{error.strerror or error}; for torch memory, call tenon.torch.reserve in the"
                " process that makes it, such as in a DataLoader's worker_init_fn",
                **error.details,
            ) from error
    return batch
