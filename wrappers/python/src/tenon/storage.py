"""Storages: reference-counted ranges of bytes that can be shared from their birth."""

from __future__ import annotations

from tenon import _strategy, by_cuda, by_fd, by_filename
from tenon._managed import SENDABLE, Closing, Managed, own_of
from tenon._native import address_of, ffi, lib, new_struct
from tenon._native_ext import StorageBase
from tenon._options import CPU, MODE_NAMES, MODES, device_name, flags, number_of, unsigned
from tenon._storage_of import register
from tenon.by_cuda import stream_pointer
from tenon.error import Unsupported, call, given, make
from tenon.wait import waited
from tenon.weak import WeakRef

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Self

    from typing_extensions import Buffer

    from tenon._options import Access, CudaForm, CudaTransport, Mode
    from tenon._text import Path
    from tenon.arena import Arena
    from tenon.by_cuda import CudaHandle, Stream
    from tenon.by_fd import FdHandle
    from tenon.by_filename import Filename, FilenameHandle
    from tenon.wait import Cancel


def _numbers(
    mode: str,
    alignment: int,
    isolated: bool,
    private: bool,
    zeroed: bool = False,
    will_fill: bool = False,
) -> tuple[int, int, int]:
    """The mode, flags and alignment of a new storage as the C library takes them."""
    chosen = (
        (lib.TENON_STORAGE_ISOLATED if isolated else 0)
        | (lib.TENON_STORAGE_PRIVATE if private else 0)
        | (lib.TENON_STORAGE_ZEROED if zeroed else 0)
        | (lib.TENON_STORAGE_WILL_FILL if will_fill else 0)
    )
    return number_of(MODES, mode, "mode"), chosen, unsigned(alignment, "alignment")


class ArenaBase(Managed):
    """The base of tenon.Arena, which makes storages and so stands above this module."""

    __slots__ = ()


class Storage(Closing, StorageBase):
    """A storage is a contiguous, reference-counted range of bytes on one device.

    memoryview(storage) and storage.data give the bytes without a copy. Both refuse a storage on a
    device.
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
        """Make a storage. Its memory is reserved before the call returns.

        - arena, timeout and cancel: As in tenon.empty.
        - will_fill: You promise to write all bytes before you lend or read them. Tenon then does
          not clear a block that was lent before. If you break the promise, a borrower can read the
          bytes of another borrower. zeroed and will_fill exclude each other.
        """
        size = unsigned(nbytes, "nbytes")
        place = _numbers(mode, alignment, isolated, private, zeroed, will_fill)
        if arena is None:
            return cls._new(size, b"", place[0], place[1], place[2], 0)
        return cls._born(size, b"", place, arena, timeout, cancel)

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

        With mode "frozen" the storage is frozen when the call returns. arena, timeout and cancel
        are as in new.
        """
        place = _numbers(mode, alignment, isolated, private)
        return cls._born(None, data, place, arena, timeout, cancel)

    @classmethod
    def _born(
        cls,
        nbytes: int | None,
        data: Buffer,
        place: tuple[int, int, int],
        arena: Arena | None,
        timeout: float | None,
        cancel: Cancel | None,
    ) -> Self:
        """Make a storage of so many bytes, or, if that is None, one that holds a copy of a
        buffer.
        """
        number, bits, multiple = place
        if arena is None:
            return cls._new(nbytes, data, number, bits, multiple, 0)
        own = own_of(arena, ArenaBase, "arena")
        if timeout == 0:
            return cls._new(nbytes, data, number, bits, multiple, address_of(own))
        fields = {"mode": number, "flags": bits, "alignment": multiple}
        options = new_struct("tenon_storage_options", arena=own, **fields)
        with memoryview(data) as view, ffi.from_buffer(view) as source:

            def step(wait: Any, *out_error: Any) -> int:
                options.wait = wait
                if nbytes is not None:
                    return int(lib.tenon_storage_new(options, nbytes, *out_error))
                return int(lib.tenon_storage_new_from(options, source, view.nbytes, *out_error))

            made = waited("tenon_storage", step, timeout=timeout, cancel=cancel)
            return cls._at_pointer(address_of(made))

    @classmethod
    def new_filename(cls, nbytes: int, filename: Filename | None = None) -> Self:
        """Make a storage in a named file of its own, in PyTorch's layout. Its mode is "shared", all
        bytes are 0, and it is aligned to 64 bytes.

        The memory is reserved first. The file then appears complete under its name, or not at all.
        It disappears with its last holder.
        """
        own = by_filename.new_storage(nbytes, filename)
        return cls._at_pointer(address_of(own))

    @classmethod
    def wrap(cls, data: Buffer) -> Self:
        """Make a private storage over a C-contiguous buffer, without a copy. It cannot be lent."""
        return cls._wrap(data)

    @classmethod
    def at(cls, address: int, nbytes: int = 1) -> tuple[Self, int]:
        """Find the storage that holds the `nbytes` bytes at an address. Returns the storage, and
        the offset of the address in it.

        Use it for an address that comes back from another library, such as array.ctypes.data or
        torch_tensor.data_ptr(). Only a storage whose address Tenon has given out can be found: by
        numpy(), a buffer, DLPack, to_torch or __cuda_array_interface__. Private and empty storages
        are never found. Raises NotFound if there is no such storage.
        """
        return cls._at(unsigned(address, "address"), unsigned(nbytes, "nbytes"))

    def _own(self) -> object:
        return ffi.gc(ffi.cast("tenon_storage *", self._retained()), lib.tenon_storage_release)

    @property
    def data(self) -> memoryview:
        """The bytes as a memoryview, read-only if the storage is. The view keeps the bytes
        alive.
        """
        return memoryview(self)

    @property
    def device(self) -> str:
        """The device of the bytes: "cpu", or "cuda:0" and so on, in this process's numbering."""
        return device_name(self._device_numbers)

    @property
    def mode(self) -> str:
        """The mode, "shared", "lender_writes" or "frozen". It is the one chosen at birth, or, for
        an opened segment, the one that its seals enforce.
        """
        return MODE_NAMES[lib.tenon_storage_mode(self._own())]

    @property
    def is_shared(self) -> bool:
        """Whether the bytes lie in memory that can be lent."""
        return bool(lib.tenon_storage_is_shared(self._own()))

    @property
    def is_sealed(self) -> bool:
        """Whether the kernel keeps the segment from shrinking, so that a read can never end in
        SIGBUS.
        """
        return bool(lib.tenon_storage_is_sealed(self._own()))

    @property
    def is_pinned(self) -> bool:
        """Whether this process has pinned the segment in which the bytes lie."""
        return bool(lib.tenon_storage_is_pinned(self._own()))

    @property
    def use_count(self) -> int:
        """The number of strong references at this moment, for tests and debugging."""
        own = self._own()
        return int(lib.tenon_storage_use_count(own)) - 1

    def same_memory(self, other: Storage) -> bool:
        """Whether both storages lie over the same bytes. Their access may differ."""
        return bool(lib.tenon_storage_same_memory(self._own(), other._own()))

    def write(self, data: Buffer, offset: int = 0) -> None:
        """Copy a C-contiguous buffer into the storage. This is the only way to fill a "frozen"
        storage.
        """
        own = self._own()
        with memoryview(data) as view, ffi.from_buffer(view) as source:
            call(lib.tenon_storage_write, own, unsigned(offset, "offset"), source, view.nbytes)

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """Give a copy of some of the bytes.

        If another process has cut the underlying file short, the call raises an error, where a load
        would end in SIGBUS.
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
        """Copy bytes of the storage into a buffer, as many as the buffer holds."""
        own = self._own()
        with memoryview(buffer) as view, ffi.from_buffer(view, require_writable=True) as target:
            call(lib.tenon_storage_read, own, unsigned(offset, "offset"), target, view.nbytes)

    def freeze(self) -> Self:
        """End the filling of a "frozen" storage. The kernel refuses every later write."""
        call(lib.tenon_storage_freeze, self._own())
        return self

    def weak_ref(self) -> WeakRef:
        """Make a reference that does not keep the bytes alive."""
        return WeakRef(self)

    def share_fd(self, access: Access = "auto") -> FdHandle:
        """Lend the storage by fd. The handle has an fd, an offset and a size, with which another
        process opens the storage.

        Close the handle once it was sent.
        """
        return by_fd.share_fd(self, access)

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
        """Lend the storage by name. No byte is copied, except that private memory moves to shared
        memory, if its bytes were never handed out.

        A storage in a named file gives the name of that file. Any other shared storage gives the
        name of a socket: the socket of its segment or, if filename says how to make one, a socket
        of its own.

        - torch: PyTorch must be able to open the storage. It must then lie in a named file. The
          name is guarded by a manager, this user's, which is started if there is none.
        - in_flight: Also do what filename_incref does.
        - timeout: The seconds to wait for the manager.
        """
        chosen = flags("FILENAME", torch=torch, in_flight=in_flight)
        options = by_filename.options_of(filename, access, chosen, manager)
        return by_filename.share_filename(self, options, timeout, cancel)

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

        - stream: Work that was given to this stream so far is done before the receiver's work
          begins.
        - transport: "ipc" is PyTorch's way. "fd" and "pool" give a handle with fds that must travel
          with it. "fabric" is for memory that does not come from cudaMalloc. "auto" takes the first
          transport by which the memory can travel.
        - form: The layout of an IPC handle, named after the versions of PyTorch that write it: "A"
          up to 2.4, which later versions read too, "B" some builds of 2024, "C" 2.6, "D" 2.8, "E"
          2.13.
        - let_write: The receiver can always write the memory. So a read-only storage is lent only
          with let_write.
        """
        return by_cuda.share_cuda(self, stream, transport, form, let_write)

    def record_stream(self, stream: Stream = None) -> None:
        """Record that work in this CUDA stream uses the bytes. Work that was given to the stream
        before the storage's last release is done before the memory is given back. The stream must
        exist until then.
        """
        call(lib.tenon_storage_record_stream, self._own(), stream_pointer(stream))

    def order_stream(self, stream: Stream = None) -> None:
        """Order later work in this CUDA stream behind the work that was given so far to the streams
        in which the bytes are used.

        These are the stream of the call that opened the bytes, or of the connection, and every
        recorded stream. Call it before you use the bytes in another stream.
        """
        call(lib.tenon_storage_order_stream, self._own(), stream_pointer(stream))

    def pin(self, device: int = 0) -> int:
        """Let a CUDA device reach the bytes of a shared storage. Returns the address at which the
        device reaches them, or 0 for an empty storage.

        The whole segment is registered with the driver, once in this process and until the segment
        goes. isolated=True gives a storage a segment of its own. An arena is first reserved up to
        its capacity. PyTorch takes the memory for pinned memory too: a tensor over it is_pinned(),
        and copies with non_blocking=True run beside the host, as long as the storage is kept. Each
        process pins for itself.
        """
        return address_of(given("void *", lib.tenon_storage_pin, self._own(), device))

    def __copy__(self) -> Self:
        """Make another reference to the same bytes."""
        return self._adopt(self._retained())

    def __deepcopy__(self, memo: dict[Any, Any]) -> Storage:
        """Make a storage of the same mode with a copy of the bytes. Within one deepcopy there is
        one copy for all tensors over this storage.

        The copy lies where tenon.empty would put it, and not in this storage's arena or named file.
        """
        key = "tenon.Storage", self.id
        found: Storage | None = memo.get(key)
        if found is None:
            if self._device_numbers[0] != CPU:
                raise make(
                    Unsupported,
                    f"memory of {self.device} is not copied by Tenon: copy it in the framework that"
                    " uses the device",
                )
            private = not self.is_shared
            # If another process can cut the bytes short, read() takes them: it raises an error
            # where a load would kill this process.
            data = self.data if self.is_sealed or private else self.read()
            mode: Any = self.mode
            place = Place("shared" if private else mode, private=private)
            found = memo[key] = place.copy_of(data)
        return found

    def __len__(self) -> int:
        return self.nbytes

    def __int__(self) -> NoReturn:
        # Without __int__ and __float__, int() and float() would read the bytes as digits.
        raise TypeError(
            "a storage is bytes and no number: make a tensor over it, tenon.Tensor.over(storage,"
            " shape, dtype)"
        )

    __float__ = __int__

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Storage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def _place(self) -> str:
        """What repr() says about the place: the device, or how memory of the host can be lent."""
        where = self.device
        return where if where != "cpu" else self.mode if self.is_shared else "private"

    def _shown(self) -> str:
        access = ", read-only" if self.read_only else ""
        return f" {self.id}: {self.nbytes} bytes, {self._place()}{access}"


register(Storage)

# The alignment of the payload of a named file, which begins after the header.
_NAMED_ALIGNMENT = 64


class Place:
    """Where the bytes of a new tensor lie: those options of tenon.empty that say it."""

    __slots__ = ("arena", "cancel", "filename", "isolated", "mode", "private", "timeout")

    def __init__(
        self,
        mode: Mode = "shared",
        isolated: bool = False,
        private: bool = False,
        filename: Filename | None = None,
        arena: Arena | None = None,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> None:
        self.mode, self.isolated, self.private = mode, isolated, private
        self.filename, self.arena = filename, arena
        self.timeout, self.cancel = timeout, cancel

    def _named(self, alignment: int, nbytes: int) -> Storage | None:
        """Make a storage in a named file, if the caller asks for one, or if the strategy is
        "file_system" and the other options allow it. None means that the storage belongs elsewhere.
        """
        filename = self.filename
        if filename is None and (not nbytes or _strategy.current != _strategy.FILE_SYSTEM):
            return None
        fits = alignment <= _NAMED_ALIGNMENT and self.arena is None
        if fits and self.mode == "shared" and not self.private:
            return Storage.new_filename(nbytes, filename or _strategy.filename)
        if filename is None:
            return None
        raise ValueError(
            'a named file is of mode "shared", never private nor in an arena, and its bytes are'
            f" aligned to {_NAMED_ALIGNMENT}"
        )

    def new(self, nbytes: int, zeroed: bool, alignment: int) -> Storage:
        """Make a storage."""
        storage = self._named(alignment, nbytes)
        if storage is not None:
            return storage
        place = _numbers(self.mode, alignment, self.isolated, self.private, zeroed)
        return Storage._born(nbytes, b"", place, self.arena, self.timeout, self.cancel)

    def copy_of(self, data: Buffer) -> Storage:
        """Make a storage that holds a copy of a C-contiguous buffer."""
        with memoryview(data) as view:
            storage = self._named(0, view.nbytes)
            if storage is not None:
                storage.write(view)
                return storage
            place = _numbers(self.mode, 0, self.isolated, self.private)
            return Storage._born(None, view, place, self.arena, self.timeout, self.cancel)


def trim() -> int:
    """Return the free memory to the system that Tenon keeps for later storages.

    Returns the number of bytes that were given back.
    """
    return int(lib.tenon_storage_trim())
