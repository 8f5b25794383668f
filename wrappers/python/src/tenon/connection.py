"""Connections: they carry messages over a Unix socket that the user provides."""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._native import ffi, lib, new_struct
from tenon._options import ACCESSES, LENDER_GONE, flags, number_of, open_flags, small, unsigned
from tenon.by_cuda import ordinal, stream_pointer
from tenon.error import call, filled, given, owned
from tenon.message import Message
from tenon.wait import Cancel, run, waited

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
    """The process at the other end of a connection, as the kernel recorded it when the socket was
    connected. For a socketpair it is the process that made the pair.

    pid is 0 if the peer is in a pid namespace that this process does not see. By now the pid may
    belong to another process. uid and gid are the effective ones.
    """

    pid: int
    uid: int
    gid: int
    __slots__ = tuple(__annotations__)


class Connection(Managed):
    """A connection is one end of a connected AF_UNIX socket (stream or seqpacket).

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
        ring: bool = False,
        cuda_let_write: bool = False,
        cuda_keep_open: bool = False,
        on_lender_gone: LenderGone = "keep",
    ) -> None:
        """Make a connection on a socket. The caller closes the socket afterwards. With adopt the
        connection closes it.

        The options from access to allow_unsealed say how to open received memory. A limit of 0 is
        the library's default.

        - allow_unsealed: Accept memory that its owner can cut short, so that a later load may end
          in SIGBUS: PyTorch's memory (tenon.torch.from_torch) and named files. None accepts it if
          this process's sharing strategy is "file_system" now. Under the other strategy None
          accepts only named files that Tenon made, which a process of the strategy "file_system"
          sends, and only from a peer of this process's user or root, who could end this process
          anyway.
        - max_segments and max_mapped_nbytes: How many segments the peer may have open here, and how
          much address space they may take.
        - same_user: Raise PermissionDenied if the peer runs neither as this process's user nor as
          root. By default every peer is accepted, because the maker of the socket has decided.
        - group: As same_user, but also accept members of this gid.
        - ring: Send through a ring in shared memory, so that a message takes no system call while
          the receiver is awake. The receiver needs no option.
        - cuda_let_write: Also send read-only storages on a CUDA device, although their receiver can
          write them. Without it such a send raises PermissionDenied.
        - cuda_keep_open: As open_cuda's keep_open, for received device memory.
        - on_lender_gone: What happens to received memory when nobody holds the other end of the
          socket any more. With "keep" it stays valid. With "drop" each later access raises
          PeerGone, and so does recv. Existing arrays and buffers stay valid, and the memory is
          unmapped when they go. Memory of a CUDA device is closed as soon as the streams that use
          it have passed.
        """
        self._cdata = self._socket = None
        self._streams = {}
        copies = {"private_copy": private_copy, "private_cow": private_cow}
        options = new_struct(
            "tenon_connection_options",
            open_access=number_of(ACCESSES, access, "access"),
            open_flags=open_flags(allow_unsealed, **copies),
            group=0 if group is None else small(group, "group"),
            on_lender_gone=number_of(LENDER_GONE, on_lender_gone, "on_lender_gone"),
            max_message_nbytes=unsigned(max_message_nbytes, "max_message_nbytes"),
            max_tensors=unsigned(max_tensors, "max_tensors"),
            max_segments=unsigned(max_segments, "max_segments"),
            max_mapped_nbytes=unsigned(max_mapped_nbytes, "max_mapped_nbytes"),
        )
        options.flags = flags(
            "CONNECTION",
            adopt_socket=adopt,
            named_files=allow_unsealed is None,
            same_user=same_user,
            group=group is not None,
            ring=ring,
            cuda_let_write=cuda_let_write,
            cuda_keep_open=cuda_keep_open,
        )
        fd = socket if isinstance(socket, int) else socket.fileno()
        self._cdata = owned("tenon_connection", lib.tenon_connection_new, fd, options)
        if not isinstance(socket, int):
            if adopt:
                socket.detach()
            else:
                # The socket must outlive the connection, also when its owner forgets it.
                self._socket = socket

    def close(self) -> None:
        """Release the connection.

        Received tensors stay valid. A call that runs in another thread ends first.
        """
        super().close()
        self._socket = None

    def fileno(self) -> int:
        """The fd to poll. When it is readable, call recv(timeout=0) until it raises WouldBlock."""
        return int(lib.tenon_connection_fd(self._own()))

    def gone_fileno(self) -> int:
        """An fd for select or an event loop, which becomes readable once the lender is gone. With
        on_lender_gone="drop" it does so after the drop.

        The connection owns the fd. Do not read from it.
        """
        return int(given("int", lib.tenon_connection_gone_fd, self._own()))

    def peer(self) -> Peer:
        """The process at the other end."""
        return Peer._of(filled("tenon_peer", lib.tenon_connection_peer, self._own()))

    def set_stream(self, device: SupportsIndex, stream: Stream = None) -> None:
        """Set the stream in which this process uses the memory of a CUDA device. Until then that is
        the default stream.

        A stream is anything that share_cuda takes. Work that was given to the stream before a send
        is done before the receiver's work begins. Work that is given to it after a receive waits
        for the sender's work, and the received memory counts as used in it. The stream must exist
        until the connection is closed and the memory received meanwhile has gone. The connection,
        closed or not, keeps a stream object until another stream is set.
        """
        number = ordinal(device)
        # The library comes first, because it gives work to the older stream until this call.
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
        """Send tensors (a list, a single one, or a dict by name), or a Message, as one message.
        Messages are delivered whole and in order.

        The timeout is in seconds, and None waits for ever. When the wait ends early (Timeout,
        WouldBlock, Cancelled, Ctrl-C) the message may be half sent, and the connection keeps it. To
        resume, call flush, or send the same Message object again.
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
        """Finish a message that an earlier send left half sent."""
        own = self._own()
        run(lambda wait, error: lib.tenon_send(own, ffi.NULL, wait, error), timeout, cancel)

    def recv(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> Message:
        """Receive the next message.

        The timeout is in seconds, and None waits for ever. When the wait ends early nothing is
        lost: call recv again.
        """
        request = lib.tenon_recv, self._own()
        return Message._over(waited("tenon_message", *request, timeout=timeout, cancel=cancel))

    def send_object(
        self,
        obj: Any,
        *,
        importer: Any = None,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        """Send an object as one message. The message contains its pickle and lends the storages of
        its tensors.

        Private torch memory moves to shared memory. importer is as in tenon.pickle.dumps.
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
        """Receive the object of the next message, which send_object sent. Its tensors lie in the
        memory that the sender lent.

        allow lists the classes and functions that the sender may name. Without it an object may
        consist of dicts, lists, tuples, sets, numbers, text, bytes and tensors. None allows every
        name, which lets the sender run code here. PermissionDenied names the forbidden name, and
        Corrupt says that the message carries no object. In both cases the message is lost.
        """
        from tenon.pickle import names_of, object_of

        names = names_of(allow)  # a wrong list must not cost a message
        with self.recv(timeout=timeout, cancel=cancel) as message:
            return object_of(message, names, importer)

    def _shown(self) -> str:
        return f" on fd {self.fileno()}"


def pair() -> tuple[Connection, Connection]:
    """Make two connections to each other: one for this process, one for a child."""
    import socket

    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Connection(left, adopt=True), Connection(right, adopt=True)
