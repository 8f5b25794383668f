"""Tenon lends tensors between processes without copying them.

It also writes and reads module archives that PyTorch runs.

    lender                                      borrower
    t = tenon.zeros((2, 3))                     with tenon.Connection(socket) as c:
    with tenon.Connection(socket) as c:             t = c.recv()["weight"]
        c.send({"weight": t})                   t.numpy()[0, 0] = 1  # seen by the lender
"""

from __future__ import annotations

from tenon import _mp_hook
from tenon._native import __version__
from tenon._reports import ExportReport, ImportReport
from tenon.archive import export_module, import_module
from tenon.arena import Arena, ArenaStats
from tenon.by_cuda import (
    CudaHandle,
    cuda_available,
    cuda_collect,
    open_cuda,
    release_cuda_counter,
    require_cuda,
)
from tenon.by_fd import FdHandle, open_fd
from tenon.by_filename import (
    Filename,
    FilenameHandle,
    Sweep,
    filename_decref,
    filename_incref,
    filename_unlink,
    manager_start,
    open_filename,
    sweep,
)
from tenon.composite import (
    Composite,
    JaggedTensor,
    MetaTensor,
    NestedTensor,
    QuantizedTensor,
    SparseTensor,
)
from tenon.connection import Connection, Peer, pair
from tenon.cuda_arena import CudaArena, CudaArenaStats
from tenon.cuda_event import CudaEvent
from tenon.descriptor import Descriptor, open_descriptor
from tenon.dlpack import from_dlpack
from tenon.error import (
    Cancelled,
    Corrupt,
    Incompatible,
    Internal,
    Interrupted,
    InvalidArgument,
    Io,
    NotFound,
    OutOfMemory,
    PeerGone,
    PermissionDenied,
    ResourceExhausted,
    TenonError,
    Timeout,
    Unsupported,
    WouldBlock,
)
from tenon.lease import LeaseHolder, lease_fd, lease_holders, lease_poll, lease_use_no_thread
from tenon.message import Message
from tenon.module import ExtraFiles, LoadResult, Member, Module, States
from tenon.package import Package, export_package
from tenon.scalar_type import ScalarType
from tenon.stats import Stats, stats
from tenon.storage import Storage, trim
from tenon.tensor import Tensor, empty, from_numpy, zeros
from tenon.tensor_spec import TensorSpec
from tenon.value import Device, Enum, NamedTuple, Object, Value, type_text
from tenon.wait import Cancel
from tenon.weak import WeakRef
from tenon.weights import Weights, open_weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon import deposit as deposit
    from tenon import multiprocessing as multiprocessing
    from tenon import pickle as pickle
    from tenon import torch as torch
    from tenon.publish import Publisher as Publisher
    from tenon.publish import PublisherStats as PublisherStats
    from tenon.publish import Subscriber as Subscriber
    from tenon.publish import SubscriberInfo as SubscriberInfo
    from tenon.publish import SubscriberStats as SubscriberStats
    from tenon.queue import Queue as Queue
    from tenon.queue import QueueMember as QueueMember
    from tenon.queue import QueueStats as QueueStats
    from tenon.shared_weights import SharedWeights as SharedWeights
    from tenon.shared_weights import SharedWeightsInfo as SharedWeightsInfo

__all__ = [
    "Arena",
    "ArenaStats",
    "Cancel",
    "Cancelled",
    "Composite",
    "Connection",
    "Corrupt",
    "CudaArena",
    "CudaArenaStats",
    "CudaEvent",
    "CudaHandle",
    "Descriptor",
    "Device",
    "Enum",
    "ExportReport",
    "ExtraFiles",
    "FdHandle",
    "Filename",
    "FilenameHandle",
    "ImportReport",
    "Incompatible",
    "Internal",
    "Interrupted",
    "InvalidArgument",
    "Io",
    "JaggedTensor",
    "LeaseHolder",
    "LoadResult",
    "Member",
    "Message",
    "MetaTensor",
    "Module",
    "NamedTuple",
    "NestedTensor",
    "NotFound",
    "Object",
    "OutOfMemory",
    "Package",
    "Peer",
    "PeerGone",
    "PermissionDenied",
    "Publisher",
    "PublisherStats",
    "QuantizedTensor",
    "Queue",
    "QueueMember",
    "QueueStats",
    "ResourceExhausted",
    "ScalarType",
    "SharedWeights",
    "SharedWeightsInfo",
    "SparseTensor",
    "States",
    "Stats",
    "Storage",
    "Subscriber",
    "SubscriberInfo",
    "SubscriberStats",
    "Sweep",
    "TenonError",
    "Tensor",
    "TensorSpec",
    "Timeout",
    "Unsupported",
    "Value",
    "WeakRef",
    "Weights",
    "WouldBlock",
    "__version__",
    "cuda_available",
    "cuda_collect",
    "empty",
    "export_module",
    "export_package",
    "filename_decref",
    "filename_incref",
    "filename_unlink",
    "from_dlpack",
    "from_numpy",
    "import_module",
    "lease_fd",
    "lease_holders",
    "lease_poll",
    "lease_use_no_thread",
    "manager_start",
    "open_cuda",
    "open_descriptor",
    "open_fd",
    "open_filename",
    "open_weights",
    "pair",
    "release_cuda_counter",
    "require_cuda",
    "stats",
    "sweep",
    "trim",
    "type_text",
    "zeros",
]

# Modules of the package that import much themselves. `import tenon` leaves them out.
_LATE = ("deposit", "multiprocessing", "pickle", "torch")
# Names of such a module.
_LATE_NAMES = {
    **dict.fromkeys(("Queue", "QueueMember", "QueueStats"), "queue"),
    **dict.fromkeys(("SharedWeights", "SharedWeightsInfo"), "shared_weights"),
    **dict.fromkeys(
        ("Publisher", "PublisherStats", "Subscriber", "SubscriberInfo", "SubscriberStats"),
        "publish",
    ),
}


def __getattr__(name: str) -> Any:
    module = _LATE_NAMES.get(name)
    if module is not None or name in _LATE:
        from importlib import import_module

        found = import_module(f"tenon.{module or name}")
        return getattr(found, name) if module else found
    raise AttributeError(f"module 'tenon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE, *_LATE_NAMES})


_mp_hook.install()
