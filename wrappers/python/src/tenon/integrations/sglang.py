"""Lends a model's weights as one flat tensor, with the names of SGLang's FlattenedTensorBucket and
MultiprocessingSerializer (version 0.5.23, sglang/srt/weight_sync/tensor_bucket.py and
sglang/srt/utils/common.py). Each of them works against SGLang's own at the other end. PyTorch is
imported. SGLang itself is not, unless a pickle names another class of SGLang's.

On the CPU a bucket lies in one storage of Tenon's, which serialize lends by its fd without a copy.
PyTorch's own receiving side maps it.
"""

from __future__ import annotations

import base64
import io
import pickle
from collections import ChainMap
from dataclasses import dataclass
from multiprocessing import AuthenticationError, resource_sharer
from multiprocessing.reduction import DupFd, ForkingPickler

import torch
from torch.multiprocessing import reductions

from tenon.error import InvalidArgument, PeerGone, PermissionDenied, make
from tenon.integrations._torch_unpickler import TorchUnpickler
from tenon.storage import Storage
from tenon.torch import _storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

__all__ = ["FlattenedTensorBucket", "FlattenedTensorMetadata", "MultiprocessingSerializer"]


@dataclass
class FlattenedTensorMetadata:
    """The name and form of a tensor, and where its bytes lie in the flat tensor."""

    name: str
    shape: Any
    dtype: Any
    start_idx: int
    end_idx: int
    numel: int
    """The number of bytes."""


class FlattenedTensorBucket:
    """One flat tensor of bytes that holds several tensors.

    It is made from (name, tensor) pairs, which are copied, or from a flat tensor and its metadata.
    """

    supports_multi_dtypes = True

    def __init__(
        self,
        named_tensors: list[tuple[str, Any]] | None = None,
        flattened_tensor: Any = None,
        metadata: list[FlattenedTensorMetadata] | None = None,
    ) -> None:
        if named_tensors is None:
            if flattened_tensor is None or metadata is None:
                raise ValueError(
                    "Must provide either named_tensors or both flattened_tensor and metadata"
                )
            self.flattened_tensor = flattened_tensor
            self.metadata = metadata
            return
        forms = [(name, tensor.dtype, tensor.shape) for name, tensor in named_tensors]
        self.metadata = _layout(forms, pads=True)
        nbytes = self.metadata[-1].end_idx
        self.flattened_tensor = _new(nbytes, named_tensors[0][1].device)
        for meta, (_, tensor) in zip(self.metadata, named_tensors, strict=True):
            self._view(meta).copy_(tensor.detach())

    @classmethod
    def empty(
        cls, names: Iterable[str], dtypes: Iterable[Any], shapes: Iterable[Any], device: Any
    ) -> Self:
        """Make a bucket to receive into. The tensors lie without gaps, as in SGLang's."""
        found = [each if isinstance(each, torch.dtype) else getattr(torch, each) for each in dtypes]
        metadata = _layout(list(zip(names, found, shapes, strict=True)), pads=False)
        flat = _new(metadata[-1].end_idx, torch.device(device))
        return cls(flattened_tensor=flat, metadata=metadata)

    def get_flattened_tensor(self) -> Any:
        return self.flattened_tensor

    def get_metadata(self) -> list[FlattenedTensorMetadata]:
        return self.metadata

    def reconstruct_tensors(self) -> list[tuple[str, Any]]:
        """The (name, tensor) pairs, whose tensors are views of the flat tensor."""
        return [(meta.name, self._view(meta)) for meta in self.metadata]

    def _view(self, meta: FlattenedTensorMetadata) -> Any:
        have = self.flattened_tensor.numel()
        size = torch.Size(meta.shape).numel() * torch._utils._element_size(meta.dtype)
        if not 0 <= meta.start_idx <= meta.end_idx <= have or meta.end_idx - meta.start_idx != size:
            raise make(
                InvalidArgument,
                f"the tensor {meta.name} of {size} bytes is said to lie at {meta.start_idx} to"
                f" {meta.end_idx} of {have} bytes: pass the metadata and the flat tensor of one"
                " bucket",
            )
        flat = self.flattened_tensor[meta.start_idx : meta.end_idx]
        return flat.view(meta.dtype).reshape(meta.shape)


def _layout(forms: list[tuple[str, Any, Any]], *, pads: bool) -> list[FlattenedTensorMetadata]:
    """Where each tensor lies.

    SGLang leaves no gaps, and cannot view a tensor whose first byte is no multiple of the size of
    its elements. With pads such a tensor begins a little later.
    """
    if not forms:
        raise ValueError("Cannot create empty tensor bucket")
    metadata, end = [], 0
    for name, dtype, dimensions in forms:
        shape, itemsize = torch.Size(dimensions), torch._utils._element_size(dtype)
        if any(each < 0 for each in shape):
            raise ValueError(f"Negative dimension in received tensor {name}: {shape}")
        begin = -(-end // itemsize) * itemsize
        if begin != end and not pads:
            raise ValueError(f"Unaligned received tensor {name}: byte offset {end}, dtype {dtype}")
        end = begin + shape.numel() * itemsize
        metadata.append(FlattenedTensorMetadata(name, shape, dtype, begin, end, end - begin))
    return metadata


def _new(nbytes: int, device: Any) -> Any:
    if device.type != "cpu" or not nbytes:
        return torch.empty(nbytes, dtype=torch.uint8, device=device)
    # PyTorch maps a segment from its start.
    storage = Storage.new(nbytes, isolated=True)
    return torch.empty(0, dtype=torch.uint8).set_(_storage.over(storage, 0, nbytes))


class MultiprocessingSerializer:
    """Pickles objects with tensors for another process of this machine, as SGLang's class does.

    Tensors of the CPU go by fd. The receiver must be a relative of this process, or have its
    authkey (multiprocessing.current_process().authkey). It loads each pickle once.
    """

    @staticmethod
    def serialize(obj: Any, output_str: bool = False) -> Any:
        """Give the pickle as bytes, or in base64 as a str."""
        file = io.BytesIO()
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(obj)
        data = file.getvalue()
        return base64.b64encode(data).decode() if output_str else data

    @staticmethod
    def deserialize(data: Any) -> Any:
        """Load what serialize gave. Raises PeerGone if the sender has ended, and Corrupt if the
        pickle has other names than those of tensors, containers and SGLang's classes.
        """
        return _Unpickler.loads(
            base64.b64decode(data, validate=True) if isinstance(data, str) else data
        )


_SGLANG = "sglang.srt.weight_sync.tensor_bucket"
_OWN: dict[str, Any] = {
    each.__name__: each for each in (FlattenedTensorBucket, FlattenedTensorMetadata)
}


# Only Python's pickler that is written in Python can name a class that is not importable.
_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """multiprocessing's pickler, which names this module's classes as SGLang does."""

    dispatch_table = ChainMap(
        ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
        pickle.dispatch_table,  # type: ignore[attr-defined]
    )

    def reducer_override(self, obj: Any) -> Any:
        # SGLang admits PyTorch's own forms only, and the strategy "tenon" has others.
        if isinstance(obj, torch.UntypedStorage):
            return _reduce_own(obj) or reductions.reduce_storage(obj)
        if isinstance(obj, torch.Tensor):
            return reductions.reduce_tensor(obj)
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        own = getattr(obj, "__name__", "")
        if _OWN.get(own) is not obj:
            super().save_global(obj, name)
            return
        self.save(_SGLANG)
        self.save(own)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)


def _reduce_own(untyped: Any) -> Any:
    """Lend Tenon's memory by the fd. None for other memory, which PyTorch copies into its own."""
    place = _storage.find(untyped) if untyped.device.type == "cpu" and untyped.nbytes() else None
    if place is None or place[1] or place[0].mode != "shared":
        return None
    with place[0].share_fd("writable") as handle:
        if handle.offset:
            return None
        return reductions.rebuild_storage_fd, (type(untyped), DupFd(handle.fd), untyped.nbytes())


class _LentFd(resource_sharer.DupFd):
    """An fd that the sender gives out once."""

    def detach(self) -> int:
        try:
            return int(super().detach())
        except AuthenticationError as error:
            raise make(
                PermissionDenied,
                "the sender of the tensors has another authkey: start both processes with"
                " multiprocessing, or give them one multiprocessing.current_process().authkey",
            ) from error
        except (OSError, EOFError) as error:
            raise make(
                PeerGone,
                "the sender of the tensors has ended, or this pickle was loaded before: serialize"
                " the bucket again, once for each receiver",
            ) from error


_ALLOWED = {
    "builtins": {"bytearray", "complex", "frozenset", "range", "set", "slice"},
    "collections": {"OrderedDict", "deque"},
    "torch": {"Tensor", "UntypedStorage", "device"},
    "torch.nn.parameter": {"Parameter"},
    "torch.storage": {"TypedStorage", "UntypedStorage"},
    # SGLang's own classes for devices, which only a process with SGLang gets.
    "sglang.srt.model_executor.model_runner_components.weight_updater": {"LocalSerializedTensor"},
    "sglang.srt.utils.patch_torch": {"_rebuild_cuda_tensor_modified"},
}
_REBUILD = {
    "torch._utils": "_rebuild_parameter",
    "torch.multiprocessing.reductions": "rebuild_",
}


class _Unpickler(TorchUnpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == _SGLANG and name in _OWN:
            return _OWN[name]
        if (module, name) == ("multiprocessing.resource_sharer", "DupFd"):
            return _LentFd
        prefix = _REBUILD.get(module)
        if name in _ALLOWED.get(module, ()) or (prefix and name.startswith(prefix)):
            return pickle.Unpickler.find_class(self, module, name)
        return super().find_class(module, name)
