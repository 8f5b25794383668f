"""Storages: counted bytes, born shareable."""

from __future__ import annotations

from tenon._managed import SENDABLE, Closing, own_of
from tenon._native import ffi, lib
from tenon._native_ext import StorageBase
from tenon._options import CPU, MODE_NAMES, MODES, device_name, number_of, unsigned
from tenon.arena import Arena, new_storage, new_storage_from
from tenon.error import Unsupported, call, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Self

    from typing_extensions import Buffer

    from tenon._options import Access, CudaForm, CudaTransport, Mode
    from tenon.by_cuda import CudaHandle, Stream
    from tenon.by_fd import FdHandle
    from tenon.by_filename import Filename, FilenameHandle, Path
    from tenon.wait import Cancel
    from tenon.weak import WeakRef


def _flags(isolated: bool, private: bool, zeroed: bool, will_fill: bool) -> int:
    flags: int = 0
    if isolated:
        flags |= lib.TENON_STORAGE_ISOLATED
    if private:
        flags |= lib.TENON_STORAGE_PRIVATE
    if zeroed:
        flags |= lib.TENON_STORAGE_ZEROED
    if will_fill:
        flags |= lib.TENON_STORAGE_WILL_FILL
    return flags


class Storage(Closing, StorageBase):
    """Counted, contiguous bytes. memoryview(storage) and storage.data are its bytes, without a
    copy; they refuse those of a device.
    """

    __slots__ = ("__weakref__",)
    _instead = SENDABLE

    @classmethod
    def new(
        cls,
        nbytes: int,
        *,
        mode: Mode = "shared",
        isolated: bool = False,
        private: bool = False,
        zeroed: bool = False,
        will_fill: bool = False,
        alignment: int = 0,
        arena: Arena | None = None,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> Self:
        """Make a storage. Its memory is reserved before this returns.

        arena: born there, in its mode. A full one raises ResourceExhausted, whose
        details["holders"] says who holds what; timeout: seconds to wait for room, after which it is
        Timeout; None waits for ever. cancel: ends the wait from outside.

        will_fill: you promise to write all bytes before you lend or read them. A block that was
        lent before is then not cleared. If you break the promise, a borrower can read bytes that
        were lent to another one. zeroed and will_fill exclude each other.
        """
        size, number = unsigned(nbytes, "nbytes"), number_of(MODES, mode, "mode")
        flags, multiple = (
            _flags(isolated, private, zeroed, will_fill),
            unsigned(alignment, "alignment"),
        )
        if arena is None:
            return cls._new(size, number, flags, multiple, 0)
        own = own_of(arena, Arena, "arena")
        if timeout == 0:
            return cls._new(size, number, flags, multiple, int(ffi.cast("uintptr_t", own)))
        return cls._adopt(new_storage(own, size, number, flags, multiple, timeout, cancel))

    @classmethod
    def new_from(
        cls,
        data: Buffer,
        *,
        mode: Mode = "shared",
        isolated: bool = False,
        private: bool = False,
        alignment: int = 0,
        arena: Arena | None = None,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> Self:
        """Make a storage that holds a copy of a C-contiguous buffer.

        With mode "frozen" it comes back frozen. arena, timeout: as new.
        """
        number, flags, multiple = (
            number_of(MODES, mode, "mode"),
            _flags(isolated, private, False, False),
            unsigned(alignment, "alignment"),
        )
        if arena is None:
            return cls._new_from(data, number, flags, multiple, 0)
        own = own_of(arena, Arena, "arena")
        if timeout == 0:
            return cls._new_from(data, number, flags, multiple, int(ffi.cast("uintptr_t", own)))
        return cls._adopt(new_storage_from(own, data, number, flags, multiple, timeout, cancel))

    @classmethod
    def new_filename(cls, nbytes: int, filename: Filename | None = None) -> Self:
        """Make a storage in a named file of its own, in PyTorch's layout: mode "shared", all bytes
        0, 64-byte aligned.

        The file appears whole, under its name, or not at all, and its memory is reserved first. It
        goes with its last holder.
        """
        from tenon.by_filename import new_storage

        return cls._adopt(new_storage(nbytes, filename))

    @classmethod
    def wrap(cls, data: Buffer) -> Self:
        """Make a private storage over a C-contiguous buffer, without a copy. It cannot be lent."""
        return cls._wrap(data)

    @classmethod
    def at(cls, address: int, nbytes: int = 1) -> tuple[Self, int]:
        """Find the storage that has the `nbytes` bytes at an address, and how many bytes into it
        they begin.

        For an address that comes back from another library, such as array.ctypes.data or
        torch_tensor.data_ptr(). A storage is found once its address was given out: by numpy(), a
        buffer, DLPack, to_torch or __cuda_array_interface__. Private and empty storages are not
        found. Raises NotFound.
        """
        return cls._at(unsigned(address, "address"), unsigned(nbytes, "nbytes"))

    def _own(self) -> object:
        return ffi.gc(ffi.cast("tenon_storage *", self._retained()), lib.tenon_storage_release)

    @property
    def data(self) -> memoryview:
        """The bytes; read-only if the storage is. The view keeps them alive."""
        return memoryview(self)

    @property
    def device(self) -> str:
        """Where the bytes are: "cpu", or "cuda:0" and so on, in this process's numbering."""
        return device_name(self._device_numbers)

    @property
    def mode(self) -> str:
        """ "shared", "lender_writes" or "frozen": chosen at birth, or what the seals of an opened
        segment enforce.
        """
        return MODE_NAMES[lib.tenon_storage_mode(self._own())]

    @property
    def is_shared(self) -> bool:
        """Whether the bytes lie in memory that can be lent."""
        return bool(lib.tenon_storage_is_shared(self._own()))

    @property
    def is_sealed(self) -> bool:
        """Whether the kernel holds the segment's size, so that reading can never meet SIGBUS."""
        return bool(lib.tenon_storage_is_sealed(self._own()))

    @property
    def is_pinned(self) -> bool:
        """Whether this process has pinned the segment in which the bytes lie."""
        return bool(lib.tenon_storage_is_pinned(self._own()))

    @property
    def use_count(self) -> int:
        """Strong references at this moment, for tests and debugging."""
        own = self._own()
        return int(lib.tenon_storage_use_count(own)) - 1

    def same_memory(self, other: Storage) -> bool:
        """Whether both lie over the same bytes, whatever the access."""
        return bool(lib.tenon_storage_same_memory(self._own(), other._own()))

    def write(self, data: Buffer, offset: int = 0) -> None:
        """Copy a C-contiguous buffer in. The only way to fill a "frozen" storage."""
        own = self._own()
        with memoryview(data) as view, ffi.from_buffer(view) as source:
            call(lib.tenon_storage_write, own, unsigned(offset, "offset"), source, view.nbytes)

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """A copy of some of the bytes.

        Gives an error and no SIGBUS if the file below was cut short.
        """
        if nbytes is None:
            nbytes = max(self.nbytes - offset, 0)
        elif offset + nbytes > self.nbytes:
            raise ValueError(
                f"{nbytes} bytes at offset {offset} do not fit into the storage, which has"
                f" {self.nbytes} bytes: give a smaller range"
            )
        room = bytearray(unsigned(nbytes, "nbytes"))
        self.readinto(room, offset)
        return bytes(room)

    def readinto(self, buffer: Buffer, offset: int = 0) -> None:
        """Copy as many of the bytes as the buffer holds into it."""
        own = self._own()
        with memoryview(buffer) as view, ffi.from_buffer(view, require_writable=True) as target:
            call(lib.tenon_storage_read, own, unsigned(offset, "offset"), target, view.nbytes)

    def freeze(self) -> Self:
        """End the filling of a "frozen" storage: the kernel refuses every later write."""
        call(lib.tenon_storage_freeze, self._own())
        return self

    def weak_ref(self) -> WeakRef:
        """A reference that does not keep the bytes alive."""
        from tenon.weak import WeakRef

        return WeakRef(self)

    def share_fd(self, access: Access = "auto") -> FdHandle:
        """Lend the storage: an fd, an offset and a size that another process can open.

        Close the handle once it was sent.
        """
        from tenon.by_fd import share_fd

        return share_fd(self, access)

    def share_filename(
        self,
        access: Access = "auto",
        *,
        filename: Filename | None = None,
        torch: bool = False,
        in_flight: bool = False,
        manager: Path | None = None,
        timeout: float | None = 5.0,
        cancel: Cancel | None = None,
    ) -> FilenameHandle:
        """Lend the storage by name. No byte is copied, but for private memory whose bytes were
        never handed out, which moves.

        A storage in a named file gives that name. Any other shared one gets a socket, that of its
        segment or, if filename says how, one of its own. torch: PyTorch must be able to open it, so
        it must be in a named file, and a manager (this user's, started if there is none) guards the
        name. in_flight: also do what filename_incref does. timeout: for the manager.
        """
        from tenon.by_filename import share_filename

        return share_filename(
            self,
            access,
            filename=filename,
            torch=torch,
            in_flight=in_flight,
            manager=manager,
            timeout=timeout,
            cancel=cancel,
        )

    def share_cuda(
        self,
        *,
        stream: Stream = None,
        transport: CudaTransport = "auto",
        form: CudaForm = "A",
        let_write: bool = False,
    ) -> CudaHandle:
        """Lend a storage on a CUDA device to one receiver, who opens the handle once. No byte is
        copied.

        What was given to stream until now is done before the receiver's work begins. transport:
        "ipc", PyTorch's way; "fd" and "pool", whose handle has fds that go with it, and "fabric",
        for memory that is not cudaMalloc's; "auto" takes the first by which the memory can travel.
        form: the bytes of an IPC handle, by the versions of PyTorch that write them: "A" up to 2.4,
        which the later ones read too, "B" some builds of 2024, "C" 2.6, "D" 2.8, "E" 2.13. The
        receiver can write the memory: a read-only storage is lent with let_write alone.
        """
        from tenon.by_cuda import share_cuda

        return share_cuda(self, stream=stream, transport=transport, form=form, let_write=let_write)

    def record_stream(self, stream: Stream = None) -> None:
        """Say that work in that CUDA stream uses the bytes: what was given to it until the
        storage's last release comes before the memory is given back. The stream must be there until
        then."""
        from tenon.by_cuda import record_stream

        record_stream(self, stream)

    def order_stream(self, stream: Stream = None) -> None:
        """Let what is given to that CUDA stream from now on come after what was given until now to
        the streams in which the bytes are used.

        Those are the stream of the call that opened them or of the connection, and what was
        recorded. For who uses them in yet another.
        """
        from tenon.by_cuda import order_stream

        order_stream(self, stream)

    def pin(self, device: int = 0) -> int:
        """Let a CUDA device reach the bytes of a shared storage; gives the address by which it
        does, 0 for no bytes.

        The whole segment is registered with the driver, once in this process, until it goes:
        isolated=True gives a storage its own, and an arena is reserved up to its capacity first.
        What it was given is PyTorch's pinned memory too: a tensor over it is_pinned(), and copies
        with non_blocking=True run beside the host, for as long as the storage is kept. Each process
        pins for itself.
        """
        out = ffi.new("void **")
        call(lib.tenon_storage_pin, self._own(), device, out)
        return int(ffi.cast("uintptr_t", out[0]))

    def __copy__(self) -> Self:
        """Another reference to the same bytes."""
        return self._adopt(self._retained())

    def __deepcopy__(self, memo: dict[Any, Any]) -> Storage:
        """A storage of its own with a copy of the bytes, of the same mode; in one deepcopy one for
        all tensors over this storage.

        It lies where tenon.empty would put it: no arena and no file name is copied.
        """
        key = "tenon.Storage", self.id
        found: Storage | None = memo.get(key)
        if found is None:
            from tenon.tensor import _copied

            if self._device_numbers[0] != CPU:
                raise make(
                    Unsupported,
                    f"memory of {self.device} is not copied by Tenon: copy it in the framework that"
                    " uses the device",
                )
            private = not self.is_shared
            # Bytes that another process can cut short are read by a call, which fails where a load
            # would be killed.
            data = self.data if self.is_sealed or private else self.read()
            mode: Any = self.mode
            found = memo[key] = _copied(
                data, "shared" if private else mode, False, private, None, None, 0, None
            )
        return found

    def __len__(self) -> int:
        return self.nbytes

    def __int__(self) -> NoReturn:
        # Without these, int() and float() would read the bytes as digits.
        raise TypeError(
            "a storage is bytes and no number: make a tensor over it, tenon.Tensor.over(storage,"
            " shape, dtype)"
        )

    __float__ = __int__

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Storage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        if self.closed:
            return "<tenon.Storage, closed>"
        place = self.device
        if place == "cpu":
            place = self.mode if self.is_shared else "private"
        return (
            f"<tenon.Storage {self.id}: {self.nbytes} bytes,"
            f" {place}{', read-only' if self.read_only else ''}>"
        )


def trim() -> int:
    """Give memory back to the system that is kept warm for later storages.

    Returns the bytes given back.
    """
    return int(lib.tenon_storage_trim())
