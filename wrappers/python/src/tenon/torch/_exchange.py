"""Converts PyTorch's tensors into Tenon's and back, in one process and by the handles that PyTorch
opens.
"""

from __future__ import annotations

import functools
import sys

from tenon import _native_ext, _torch_rules
from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._options import CPU
from tenon._torch_dlpack import MATH_BITS, math_bits, over_device, with_math_bits
from tenon.by_fd import FdHandle, open_fd
from tenon.by_filename import FilenameHandle, filename_decref, open_filename
from tenon.composite import Composite
from tenon.dlpack import from_dlpack
from tenon.error import InvalidArgument, PermissionDenied, Unsupported, make
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.tensor_spec import TensorSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal, NoReturn

    from tenon._text import Path

_COW = "cow"
_UNSAFE = "unsafe"


def require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "tenon.torch needs PyTorch, and this Python has none: pip install torch", name="torch"
        ) from None


def torch_dtype(name: str) -> Any:
    import torch

    dtype = getattr(torch, name, None) or getattr(torch, name.replace("x", "_x"), None)
    if not isinstance(dtype, torch.dtype):
        raise make(Unsupported, f"this PyTorch ({torch.__version__}) has no dtype {name}")
    return dtype


def _over_host(tensor: Tensor, dtype: Any) -> Any:
    import torch

    if not tensor.numel:
        return torch.empty(tensor.shape, dtype=dtype)
    data, size = tensor.storage.data, tensor.itemsize
    if data.readonly:
        import warnings

        with warnings.catch_warnings():
            # PyTorch warns once per process about a read-only buffer. The caller of to_torch has
            # agreed to it.
            warnings.simplefilter("ignore", UserWarning)
            flat = torch.frombuffer(data, dtype=torch.uint8)
    else:
        flat = torch.frombuffer(data, dtype=torch.uint8)
    whole = flat[: flat.numel() // size * size].view(dtype)
    return torch.as_strided(whole, tensor.shape, tensor.strides, tensor.offset)


def _over_memory(tensor: Tensor) -> Any:
    """Make a torch tensor over the storage's bytes, whatever their access is."""
    dtype = torch_dtype(tensor.dtype)
    if any(step < 0 for step in tensor.strides):
        raise make(
            Unsupported,
            f"PyTorch knows no negative strides ({tensor.strides}): clone the tensor first",
        )
    if not tensor.itemsize:
        raise make(
            Unsupported,
            f"Tenon packs the elements of {tensor.dtype}, and PyTorch has none that are smaller"
            " than a byte",
        )
    result = (
        _over_host(tensor, dtype)
        if tensor._device_numbers[0] == CPU
        else over_device(tensor, dtype)
    )
    return with_math_bits(result, tensor._flags)


def copy_on_write(storage: Storage) -> Storage:
    """The same bytes in memory whose writes stay in this process.

    Raises ResourceExhausted if there is no room for the mapping or the copy.
    """
    private = None
    if storage.nbytes and storage.is_shared:
        try:
            with storage.share_fd() as handle:
                private = open_fd(handle, private_cow=True, allow_unsealed=not storage.is_sealed)
        except PermissionDenied:
            # The storage was opened read-only from a segment that other processes write, so it
            # cannot be lent on.
            pass
    if private is None:
        private = Storage.new_from(storage.read(), private=True)
    return private


def to_torch(
    tensor: Tensor | Composite,
    writable: Literal["error", "cow", "unsafe"] = "error",
    *,
    trusted: bool = False,
) -> Any:
    """Make a torch tensor over the same bytes, which it keeps alive. A parameter becomes a
    torch.nn.Parameter.

    A composite gives PyTorch's tensor of that layout over its parts. Its indices are checked first
    (Composite.check), and those that another process can still change are copied. PyTorch itself
    checks nothing. With trusted the check is skipped, and a wrong index of the sender's lets
    PyTorch read and write memory outside the tensor.

    from_torch finds Tenon's storage again, for this tensor and for its slices and views. PyTorch's
    own share_memory_() would move the tensor to other memory.

    PyTorch has no read-only tensors, and a write to read-only memory kills the process (SIGSEGV).
    So `writable` decides about a read-only tensor. "error" raises, "cow" gives private memory that
    is copied page by page where it is written, and "unsafe" gives the bytes as they are.

    A tensor on a CUDA device goes by DLPack, and has no "cow": clone the result of "unsafe". Order
    PyTorch's current stream after the stream in which the tensor was opened.
    """
    require_torch()
    if isinstance(tensor, Composite):
        from tenon.torch import _composite

        composite = tensor if trusted else tensor.check()
        return _composite.to_torch(composite, lambda part: to_torch(part, writable), torch_dtype)
    if not isinstance(tensor, Tensor):
        hint = (
            "; a TensorSpec describes a module's tensor: make a tenon.Tensor of its storage"
            " (Tensor.over)"
            if isinstance(tensor, TensorSpec)
            else ""
        )
        raise TypeError(f"to_torch takes a tenon.Tensor, not {type(tensor).__name__}{hint}")
    if writable not in ("error", _COW, _UNSAFE):
        raise ValueError(f'writable {writable!r} is not one of "error", "cow", "unsafe"')
    if tensor.read_only:
        if writable == "error":
            raise make(
                PermissionDenied,
                "the tensor is read-only and PyTorch would be killed at its first write to it: use"
                ' to_torch(t, writable="cow") for private copy-on-write memory, or'
                ' writable="unsafe" if nothing will ever write to it',
                option="writable",
            )
        if writable == _COW and tensor._device_numbers[0] != CPU:
            raise make(
                Unsupported,
                f"memory of {tensor.device} is not copied where it is written: use to_torch(t,"
                ' writable="unsafe").clone()',
                option="writable",
            )
        if writable == _COW:
            private = copy_on_write(tensor.storage)
            tensor = Tensor._new(
                private,
                tensor._dtype_number,
                tensor.shape,
                tensor.strides,
                tensor.offset,
                tensor._flags,
            )
    return _torch_rules.with_flags(_over_memory(tensor), tensor.requires_grad, tensor.is_parameter)


def _untyped(tensor: Any) -> Any:
    # PyTorch 1.13 has no untyped_storage, and its storage() takes ten times as long.
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage()


def _shared_fd(untyped: Any) -> int | None:
    """The fd of PyTorch's shared memory, which PyTorch owns. -1 means that the memory is a mapped
    file, and None that it is shared by name.
    """
    try:
        return int(untyped._get_shared_fd())
    except RuntimeError:
        # PyTorch raises this error for memory that has no fd.
        return None


def _is_by_filename() -> bool:
    """Whether share_memory_ makes files, which PyTorch's own strategy decides."""
    multiprocessing = sys.modules.get("torch.multiprocessing")
    return multiprocessing is not None and multiprocessing.get_sharing_strategy() == "file_system"


def open_shared(untyped: Any, share: bool) -> Storage:
    """Open the storage over PyTorch's shared memory, in the way in which it is shared already. With
    `share` private memory is shared first.

    Raises Unsupported for a mapped file, and for private memory without `share`. The storage keeps
    the memory alive. PyTorch's fd is only borrowed.
    """
    if untyped.is_shared():
        fd = _shared_fd(untyped)
        if fd is not None:
            if fd < 0:
                # PyTorch has no fd of it. Asking for a name would move the memory away from the
                # processes that have it.
                raise make(
                    Unsupported,
                    "the torch tensor lies in a file that was mapped, not shared: use copy=True, or"
                    " clone()",
                    option="copy",
                )
            return Storage._open_unsealed(fd, untyped.nbytes())
        by_filename = True
    elif share:
        by_filename = _is_by_filename()
    else:
        _refuse_private()
    if by_filename:
        return open_filename(
            FilenameHandle.from_torch_tuple(*untyped._share_filename_cpu_()), allow_unsealed=True
        )
    # PyTorch owns this fd. The call only borrows it.
    return Storage._open_unsealed(*untyped._share_fd_cpu_()[:2])


def _refuse_private() -> NoReturn:
    raise make(
        Unsupported,
        "the torch tensor lies in private memory: use from_torch(t, share=True) to move it into"
        " PyTorch's shared memory in place (what its share_memory_ does), or from_torch(t,"
        " copy=True) to copy it",
        option="share",
    )


@functools.cache
def _set_up_native() -> None:
    """Let native/torch.c take over the tensors that it can handle, from the next tensor on."""
    if "torch.multiprocessing" in sys.modules:
        import tenon.torch._rebuild  # noqa: F401


def from_torch(tensor: Any, *, share: bool = False, copy: bool = False) -> Any:
    """Make a tensor over the bytes of a torch tensor that lies in shared memory, with its storage
    offset and strides.

    A sparse, nested, quantised or meta tensor gives a tenon.Composite, and the rest of this text
    holds for each of its parts. Small parts (offsets, scales and the like) are always copied.
    PyTorch's mkldnn layout raises Unsupported.

    No byte is copied, unless copy is set. PyTorch's own fd is opened, or its name under its
    strategy "file_system". The bytes live as long as either side needs them. Their size is not
    sealed, so a process that opens them must pass allow_unsealed. A tensor over Tenon's own shared
    memory (from to_torch, numpy or DLPack) gives the storage that lies there. A tensor in private
    memory is refused, unless share moves it into PyTorch's shared memory in place, or copy puts a
    copy into memory of Tenon's own.

    The rules are those of PyTorch's reducers. requires_grad and being a parameter travel. The grad
    does not travel, and PyTorch warns about hooks. A tensor that requires grad and is no leaf
    raises Unsupported, and so does a tensor with named dimensions.

    A tensor on a CUDA device is taken by DLPack, with neither share nor copy. Its device memory can
    be lent as it is (Storage.share_cuda).
    """
    if not copy:
        own: Tensor | None = _native_ext.torch_find(tensor)
        if own is not None:
            return own
    _set_up_native()
    if not _torch_rules.is_strided(tensor):
        from tenon.torch import _composite

        return _composite.from_torch(
            tensor, lambda part, is_small: _part_from_torch(part, share, copy or is_small)
        )
    if not (tensor.is_cpu or tensor.is_cuda):
        raise make(
            Unsupported,
            f"a tensor on {tensor.device}: only those on the CPU, on CUDA devices and on meta can"
            " be lent",
        )
    _torch_rules.check(tensor)
    number = _torch_rules.element_type(tensor)
    flags = _torch_rules.flags_of(tensor) | math_bits(tensor)
    if not copy and tensor.is_cpu:
        own = Tensor._at(tensor.data_ptr(), number, tensor.shape, tensor.stride(), flags)
        if own is not None:
            return own
    tensor = tensor.detach()
    if tensor.is_cuda:
        if share or copy:
            raise make(
                Unsupported,
                f"a tensor on {tensor.device}: device memory is neither moved nor copied",
                option="share" if share else "copy",
            )
        import torch

        taken = from_dlpack(tensor, stream=torch.cuda.current_stream(tensor.device))
        return Tensor._new(taken.storage, number, taken.shape, taken.strides, taken.offset, flags)
    if copy:
        import torch

        packed = tensor.resolve_conj().resolve_neg().contiguous()
        flags &= ~MATH_BITS
        storage = Storage.new_from(
            packed.reshape(-1).view(torch.uint8).numpy() if packed.numel() else b""
        )
        return Tensor._new(storage, number, tuple(packed.shape), None, 0, flags)
    untyped = _untyped(tensor)
    storage = open_shared(untyped, share) if untyped.nbytes() else Storage.new(0)
    return Tensor._new(
        storage, number, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), flags
    )


def _part_from_torch(part: Any, share: bool, copy: bool) -> Tensor:
    tensor: Tensor = from_torch(
        part, share=share and not part.is_cuda, copy=copy and not part.is_cuda
    )
    return tensor


def _check_for_torch(tensor: Tensor) -> None:
    if tensor.is_conj or tensor.is_neg:
        raise make(
            Unsupported,
            "the tensor's conjugate or negative bit is set, which PyTorch would not learn: clone"
            " its resolved values",
        )
    if not tensor.itemsize:
        raise make(Unsupported, f"PyTorch has no elements smaller than a byte ({tensor.dtype})")
    if any(step < 0 for step in tensor.strides):
        raise make(
            Unsupported,
            f"PyTorch knows no negative strides ({tensor.strides}): clone the tensor first",
        )


def _begin(tensor: Tensor, offset: int) -> int:
    """The offset in elements at which a tensor begins, if its storage begins at the byte
    `offset`.
    """
    begin, rest = divmod(offset, tensor.itemsize)
    if rest:
        raise make(
            InvalidArgument,
            f"the storage begins at byte {offset}, no multiple of the {tensor.itemsize} bytes of"
            f" {tensor.dtype}: make it with a larger alignment, or isolated",
            option="alignment",
        )
    return begin + tensor.offset


class TorchHandle(Managed):
    """The handle with which a PyTorch process opens a tensor.

    It owns its fd until close or detach, and unpacks into its five parts.
    """

    __slots__ = ("nbytes", "sizes", "storage_offset", "strides")
    nbytes: int
    """How many bytes of the segment to map. _new_shared_fd_cpu takes this number beside the fd."""
    storage_offset: int
    """Where the tensor begins, in elements from the start of the segment."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __init__(self, handle: FdHandle, tensor: Tensor) -> None:
        self._cdata = None
        self.storage_offset = _begin(tensor, handle.offset)
        self.nbytes = handle.offset + handle.nbytes
        self.sizes = tensor.shape
        self.strides = tensor.strides
        self._cdata = handle

    @property
    def fd(self) -> int:
        """The fd, which is close-on-exec."""
        return int(self._own().fd)

    def fileno(self) -> int:
        """The same fd, for select and similar functions."""
        return self.fd

    def detach(self) -> int:
        """Give the fd to the caller, who owns it from now on."""
        return int(self._own().detach())

    def close(self) -> None:
        """Close the fd, unless it was detached."""
        if self._cdata is not None:
            self._cdata.close()
        super().close()

    def __iter__(self) -> Any:
        return iter((self.fd, self.nbytes, self.storage_offset, self.sizes, self.strides))


def share_with_torch(tensor: Tensor) -> TorchHandle:
    """Lend a tensor to a PyTorch process that has no Tenon. The handle unpacks into (fd, nbytes,
    storage_offset, sizes, strides).

    In that process, after the fd came over a socket:

        storage = torch.UntypedStorage._new_shared_fd_cpu(fd, nbytes)
        t = torch.empty(0, dtype=dtype).set_(storage, storage_offset, sizes, strides)

    PyTorch maps a segment from its start, and always for writing. So the tensor must be of mode
    "shared", and the peer can reach all other memory before it in its segment, unless the tensor
    was made isolated.

    Raises PermissionDenied for another mode, Unsupported for a tensor that PyTorch cannot express,
    and InvalidArgument if the storage begins at no multiple of the element's size.
    """
    _check_for_torch(tensor)
    handle = tensor.storage.share_fd("writable")
    try:
        return TorchHandle(handle, tensor)
    except BaseException:
        handle.close()
        raise


class TorchFilename(Frozen):
    """The handle with which a PyTorch process opens a tensor by name. It unpacks into its first six
    parts, without dtype and in_flight.

    The handle is a plain value and holds nothing.
    """

    manager: bytes
    name: bytes
    nbytes: int
    storage_offset: int
    """Where the tensor begins, in elements from the start of the file's payload."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    in_flight: bool
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        manager: bytes,
        name: bytes,
        nbytes: int,
        storage_offset: int,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: str,
        in_flight: bool = False,
    ) -> None:
        super().__init__(manager, name, nbytes, storage_offset, sizes, strides, dtype, in_flight)

    def torch_tuple(self) -> tuple[bytes, bytes, int]:
        """(manager, name, nbytes), as `_new_shared_filename_cpu` takes them."""
        return self.manager, self.name, self.nbytes

    def __iter__(self) -> Iterator[Any]:
        return iter(
            (self.manager, self.name, self.nbytes, self.storage_offset, self.sizes, self.strides)
        )

    def open(self) -> Any:
        """Make a torch tensor over the same bytes, in a storage that PyTorch itself has opened.
        PyTorch's own reducers lend it on by the same name.
        """
        import torch

        dtype = torch_dtype(self.dtype)
        storage = torch.UntypedStorage._new_shared_filename_cpu(
            self.manager, self.name, self.nbytes
        )
        if self.in_flight:
            storage._shared_decref()
        return torch.empty(0, dtype=dtype).set_(
            storage, self.storage_offset, self.sizes, self.strides
        )


def share_filename(
    tensor: Tensor,
    *,
    in_flight: bool = False,
    manager: Path | None = None,
    timeout: float | None = 5.0,
) -> TorchFilename:
    """Lend a tensor by name to PyTorch. The handle unpacks into (manager, name, nbytes,
    storage_offset, sizes, strides).

    In the other process, with or without Tenon (TorchFilename.open does the same):

        storage = torch.UntypedStorage._new_shared_filename_cpu(manager, name, nbytes)
        t = torch.empty(0, dtype=dtype).set_(storage, storage_offset, sizes, strides)

    The tensor must lie in a named file in /dev/shm: tenon.zeros(..., filename=tenon.Filename()).

    - in_flight: The name waits for one opening. The receiver then calls `storage._shared_decref()`,
      as PyTorch's own receivers do. Without it, this process must hold the tensor until the
      opening.
    - manager: The socket of PyTorch's or Tenon's manager. None takes this user's manager, which is
      started if there is none.
    """
    _check_for_torch(tensor)
    storage = tensor.storage
    if storage.is_shared and storage.is_sealed and storage.nbytes:
        raise make(
            Unsupported,
            "the tensor lies in memory that has no name, and PyTorch opens files only: make it with"
            " filename=tenon.Filename(), or with"
            " tenon.multiprocessing.set_sharing_strategy('file_system');"
            " clone(filename=tenon.Filename()) copies it; share_with_torch lends it by fd",
            option="filename",
        )
    handle = storage.share_filename(
        "writable", torch=True, in_flight=in_flight, manager=manager, timeout=timeout
    )
    try:
        begin = _begin(tensor, handle.offset)
        guard, name, nbytes = FilenameHandle(
            handle.name, handle.offset + handle.nbytes, 0, handle.manager
        ).torch_tuple()
    except BaseException:
        if in_flight:
            filename_decref(handle)
        raise
    return TorchFilename(
        guard, name, nbytes, begin, tensor.shape, tensor.strides, tensor.dtype, in_flight
    )
