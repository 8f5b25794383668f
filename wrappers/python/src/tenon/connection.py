"""Connections: messages over a Unix socket that the user brings."""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._native import ffi, lib
from tenon._options import ACCESSES, LENDER_GONE, number_of, open_flags, small, unsigned
from tenon.by_cuda import ordinal, stream_pointer
from tenon.error import call
from tenon.message import Message
from tenon.wait import Cancel, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
    from collections.abc import Iterable, Sequence
    from typing import Any, SupportsIndex

    from typing_extensions import Buffer

    from tenon._options import Access, LenderGone
    from tenon.by_cuda import Stream
    from tenon.message import Tensors


class Peer(Frozen):
    """Who is at the other end of a connection, as the kernel told it when the socket was connected;
    for a socketpair, who made it.

    pid: 0 of a pid namespace that this process does not see; the pid can be another process's by
    now. uid, gid: effective ones.
    """

    __slots__ = ("pid", "uid", "gid")  # noqa: RUF023 (the order of __init__)

    pid: int
    uid: int
    gid: int

    def __init__(self, pid: int, uid: int, gid: int) -> None:
        self._set(pid=pid, uid=uid, gid=gid)


class Connection(Managed):
    """One end of a connected AF_UNIX socket (stream or seqpacket).

    The other end must be a connection too.
    """

    __slots__ = ("_socket", "_streams")
    _socket: Any
    _streams: dict[int, Any]

    def __init__(
        self,
        socket: int | _socket.socket,
        *,
        adopt: bool = False,
        access: Access = "auto",
        private_copy: bool = False,
        private_cow: bool = False,
        allow_unsealed: bool | None = None,
        max_message_nbytes: int = 0,
        max_tensors: int = 0,
        max_segments: int = 0,
        max_mapped_nbytes: int = 0,
        same_user: bool = False,
        group: int | None = None,
        cuda_let_write: bool = False,
        cuda_keep_open: bool = False,
        on_lender_gone: LenderGone = "keep",
    ) -> None:
        """Put a connection on a socket, which stays the caller's to close afterwards; with adopt it
        is closed with the connection.

        The options from access to allow_unsealed say how to open what is received. A limit of 0 is
        the library's default. allow_unsealed: take memory that its owner can cut short, so that a
        later load may be killed: PyTorch's (tenon.torch.from_torch) and named files. None: if this
        process's sharing strategy is "file_system" now; else only named files that Tenon made,
        which a process of that strategy sends, and only of a peer of this process's user or root,
        who could end this process anyway. max_segments and max_mapped_nbytes: how many segments the
        peer may have open here, and how much address space they may take. same_user:
        PermissionDenied if the peer is neither of this process's user nor root. group: the same,
        but members of that gid are let in too. By default any peer is good: whoever made the socket
        has decided. cuda_let_write: send read-only storages on a CUDA device too, though their
        receiver can write them; else that is PermissionDenied. cuda_keep_open: as open_cuda's
        keep_open, for device memory that is received. on_lender_gone: what happens to received
        memory when nobody holds the other end of the socket any more. "keep": it stays valid.
        "drop": each later access raises PeerGone, and so does recv. Arrays and buffers that are out
        stay valid until they go, which unmaps the memory. Memory of a CUDA device is closed as soon
        as the streams that use it have passed.
        """
        self._cdata = self._socket = None
        self._streams = {}
        options = ffi.new("tenon_connection_options *")
        options.struct_size = ffi.sizeof("tenon_connection_options")
        options.flags = lib.TENON_CONNECTION_ADOPT_SOCKET if adopt else 0
        options.open_access = number_of(ACCESSES, access, "access")
        options.open_flags = open_flags(private_copy, private_cow, False, allow_unsealed)
        options.max_message_nbytes = unsigned(max_message_nbytes, "max_message_nbytes")
        options.max_tensors = unsigned(max_tensors, "max_tensors")
        options.max_segments = unsigned(max_segments, "max_segments")
        options.max_mapped_nbytes = unsigned(max_mapped_nbytes, "max_mapped_nbytes")
        if allow_unsealed is None:
            options.flags |= lib.TENON_CONNECTION_NAMED_FILES
        if same_user:
            options.flags |= lib.TENON_CONNECTION_SAME_USER
        if group is not None:
            options.flags |= lib.TENON_CONNECTION_GROUP
            options.group = small(group, "group")
        if cuda_let_write:
            options.flags |= lib.TENON_CONNECTION_CUDA_LET_WRITE
        if cuda_keep_open:
            options.flags |= lib.TENON_CONNECTION_CUDA_KEEP_OPEN
        options.on_lender_gone = number_of(LENDER_GONE, on_lender_gone, "on_lender_gone")
        out = ffi.new("tenon_connection **")
        call(
            lib.tenon_connection_new,
            socket if isinstance(socket, int) else socket.fileno(),
            options,
            out,
        )
        self._cdata = ffi.gc(out[0], lib.tenon_connection_release)
        if not isinstance(socket, int):
            if adopt:
                socket.detach()
            else:
                # The socket must outlive the connection, also when its owner forgets it.
                self._socket = socket

    def close(self) -> None:
        """Give the connection back.

        What was received stays valid. A call that runs in another thread ends first.
        """
        super().close()
        self._socket = None

    def fileno(self) -> int:
        """The fd to poll. When it is readable, call recv(timeout=0) until WouldBlock."""
        return int(lib.tenon_connection_fd(self._own()))

    def gone_fileno(self) -> int:
        """An fd that is readable once the lender is gone, for select or an event loop; with
        on_lender_gone="drop", after the drop.

        It stays the connection's. Do not read from it.
        """
        out = ffi.new("int *")
        call(lib.tenon_connection_gone_fd, self._own(), out)
        return int(out[0])

    def peer(self) -> Peer:
        """Who is at the other end."""
        out = ffi.new("tenon_peer *")
        out.struct_size = ffi.sizeof("tenon_peer")
        call(lib.tenon_connection_peer, self._own(), out)
        return Peer(out.pid, out.uid, out.gid)

    def set_stream(self, device: SupportsIndex, stream: Stream = None) -> None:
        """Name the stream in which memory of a CUDA device is used here; without this call it is
        the default one.

        A stream is what share_cuda takes. What was given to it before a send is done before work of
        the receiver's begins; what is given to it after a receive waits for the sender's, and what
        was received counts as used in it. It has to be there until the connection is closed, and
        what was received meanwhile has gone; an object is kept by this one, closed or not, until
        another stream is named.
        """
        number = ordinal(device)
        # First the library, which until then gives its work to the older one.
        call(lib.tenon_connection_set_stream, self._own(), number, stream_pointer(stream))
        self._streams[number] = stream

    def send(
        self,
        tensors: Message | Tensors = (),
        names: Sequence[str | None] | None = None,
        user_bytes: Buffer = b"",
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        """Send tensors (a list, one, or a dict by name), or a Message, as one message; delivered
        whole and in order.

        When the wait ends first (Timeout, WouldBlock, Cancelled, Ctrl-C) the message may be half
        sent and the connection keeps it: go on with flush, or by sending the same Message object.
        Seconds; None waits for ever.
        """
        if isinstance(tensors, Message):
            if names is not None or bytes(user_bytes):
                raise TypeError("a Message has its own names and user bytes")
            message = tensors
        else:
            message = Message(tensors, names, user_bytes)
        own, what = self._own(), message._own()
        run(lambda wait, error: lib.tenon_send(own, what, wait, error), timeout, cancel)

    def flush(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> None:
        """Finish what an earlier send left half sent."""
        own = self._own()
        run(lambda wait, error: lib.tenon_send(own, ffi.NULL, wait, error), timeout, cancel)

    def recv(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> Message:
        """Receive the next message.

        When the wait ends first nothing is lost: call again. Seconds; None waits for ever.
        """
        own = self._own()
        return Message._arrive(
            lambda wait, out, error: lib.tenon_recv(own, wait, out, error), timeout, cancel
        )

    def send_object(
        self,
        obj: Any,
        *,
        importer: Any = None,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        """Send an object as one message: its pickle, and the storages of its tensors, which are
        lent.

        Private torch memory moves to shared memory. importer: as in tenon.pickle.dumps.
        """
        from tenon.pickle import message_of

        tensors, user_bytes = message_of(obj, importer)
        self.send(tensors, None, user_bytes, timeout=timeout, cancel=cancel)

    def recv_object(
        self,
        *,
        allow: Iterable[Any] | None = (),
        importer: Any = None,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> Any:
        """Receive the object of the next message, which send_object sent. Its tensors lie in what
        the sender lent.

        allow: the classes and functions that the sender may name; without any, an object is made of
        dicts, lists, tuples, sets, numbers, text, bytes and tensors. None allows all, which lets
        the sender run code here. PermissionDenied names what is not allowed, and Corrupt says that
        the message carries no object. The message is gone then.
        """
        from tenon.pickle import names_of, object_of

        names = names_of(allow)  # a wrong list must not cost a message
        with self.recv(timeout=timeout, cancel=cancel) as message:
            return object_of(message, names, importer)

    def __repr__(self) -> str:
        return (
            "<tenon.Connection, closed>"
            if self.closed
            else f"<tenon.Connection on fd {self.fileno()}>"
        )


def pair() -> tuple[Connection, Connection]:
    """Two connections to each other: one for this process, one for a child."""
    import socket

    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Connection(left, adopt=True), Connection(right, adopt=True)
