package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_connection_peer
// #cgo nocallback tenon_connection_peer
// #cgo noescape tenon_go_send_now
// #cgo noescape tenon_go_recv_now
import "C"

import (
	"context"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// ConnectionOptions are limits and options of one connection. Nil, and the zero value: the
// library's defaults.
type ConnectionOptions struct {
	// How to open what is received; OtherUser, NoManager and Decref do not apply.
	Open            OpenOptions
	MaxMessageBytes uint64 // largest descriptor accepted, in bytes; 0: 64 MiB
	MaxTensors      uint64 // most tensors accepted in one message; 0: 1,000,000
	// Most segments that the peer may have open here through this connection; 0: what RLIMIT_NOFILE
	// allows, at most 65,536.
	MaxSegments uint64
	// Most address space that the peer's memory may take here; 0: a quarter of it (32 TiB on
	// amd64).
	MaxMappedBytes uint64
	// Refuse a peer that is neither of this process's user nor root; by default any peer is good.
	SameUser bool
	Group    *uint32 // the same, but the members of that gid are let in too
	// Also take named files that Tenon made, although they have no seals, if the peer is of this
	// process's user or root.
	NamedFiles bool
	// Send read-only storages on a CUDA device too, though their receiver can write them: else that
	// is ErrPermission.
	CUDALetWrite bool
	CUDAKeepOpen bool       // as OpenCUDAOptions.KeepOpen, for device memory that is received
	OnLenderGone LenderGone // what happens to received memory when its lender is gone
}

// LenderGone says what happens to received memory when nobody holds the other end of the socket any
// more: the lender's process ended, or everybody who had that end closed it.
type LenderGone uint32

const (
	// KeepLent: what was received stays valid, and messages that were sent before are delivered.
	// The default.
	KeepLent LenderGone = C.TENON_LENDER_GONE_KEEP
	// DropLent: later accesses fail with ErrPeerGone, and so does Recv. Slices that are out stay
	// valid as long as the tensor is open. Memory of a CUDA device is closed as soon as the streams
	// that use it have passed.
	DropLent LenderGone = C.TENON_LENDER_GONE_DROP
)

// Peer is who is at the other end of a connection, as the kernel told it when the socket was
// connected; for a socketpair, who made it.
type Peer struct {
	// 0: of a pid namespace that this process does not see; it can be another process's by now.
	PID int32
	UID uint32 // effective
	GID uint32 // effective
}

// Connection is one end of a connected AF_UNIX socket (stream or seqpacket) that carries messages.
// The other end must be a connection too, in any language. Sends queue behind each other, receives
// too; a send and a receive run at the same time. Any goroutine may use it.
type Connection struct {
	handle
	waits waits
}

// NewConnection puts a connection on a socket of the caller's, which stays open when the connection
// is closed. Nobody else may read from it or write to it meanwhile.
func NewConnection(socket int, options *ConnectionOptions) (*Connection, error) {
	return connect(socket, options, 0)
}

// ConnectionOn puts a connection on the socket of a *net.UnixConn or an *os.File. The connection
// has its own copy of the fd, closed with it; close the original at any time, and do so to let the
// peer notice the end of the connection.
func ConnectionOn(socket syscall.Conn, options *ConnectionOptions) (*Connection, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	copied := -1
	var failure error
	err = raw.Control(func(fd uintptr) {
		number, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
		if errno != 0 {
			failure = os.NewSyscallError("fcntl", errno)
			return
		}
		copied = int(number)
	})
	if err == nil {
		err = failure
	}
	if err != nil {
		return nil, err
	}
	c, err := connect(copied, options, C.TENON_CONNECTION_ADOPT_SOCKET)
	if err != nil {
		syscall.Close(copied)
	}
	return c, err
}

// Pair makes two connections that are each other's ends, for two goroutines. For another process,
// use socketpair and exec.Cmd.ExtraFiles.
func Pair() (*Connection, *Connection, error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	first, err := connect(ends[0], nil, C.TENON_CONNECTION_ADOPT_SOCKET)
	if err != nil {
		syscall.Close(ends[0])
		syscall.Close(ends[1])
		return nil, nil, err
	}
	second, err := connect(ends[1], nil, C.TENON_CONNECTION_ADOPT_SOCKET)
	if err != nil {
		first.Close()
		syscall.Close(ends[1])
		return nil, nil, err
	}
	return first, second, nil
}

func connect(socket int, options *ConnectionOptions, flags C.uint32_t) (*Connection, error) {
	collect()
	given := C.tenon_connection_options{
		struct_size: C.sizeof_tenon_connection_options,
		flags:       flags,
	}
	if options != nil {
		given.open_access = options.Open.access()
		given.open_flags = options.Open.flags()
		given.max_message_nbytes = C.uint64_t(options.MaxMessageBytes)
		given.max_tensors = C.uint64_t(options.MaxTensors)
		given.max_segments = C.uint64_t(options.MaxSegments)
		given.max_mapped_nbytes = C.uint64_t(options.MaxMappedBytes)
		given.on_lender_gone = C.tenon_lender_gone(options.OnLenderGone)
		if options.SameUser {
			given.flags |= C.TENON_CONNECTION_SAME_USER
		}
		if options.Group != nil {
			given.flags |= C.TENON_CONNECTION_GROUP
			given.group = C.uint32_t(*options.Group)
		}
		if options.NamedFiles {
			given.flags |= C.TENON_CONNECTION_NAMED_FILES
		}
		if options.CUDALetWrite {
			given.flags |= C.TENON_CONNECTION_CUDA_LET_WRITE
		}
		if options.CUDAKeepOpen {
			given.flags |= C.TENON_CONNECTION_CUDA_KEEP_OPEN
		}
	}
	if int(C.int(socket)) != socket {
		socket = -1
	}
	var out *C.tenon_connection
	var failure *C.tenon_error
	if status := C.tenon_connection_new(
		C.int(socket), &given, &out, &failure,
	); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	c := new(Connection)
	c.own(kindConnection, unsafe.Pointer(out))
	return c, nil
}

func (c *Connection) begin() (*C.tenon_connection, error) {
	if c == nil {
		return nil, invalid("the connection is nil")
	}
	pointer, err := c.acquire()
	return (*C.tenon_connection)(pointer), err
}

// GoneFD gives an fd that is readable once the lender is gone, and what it lent is dropped. It is
// the connection's, and valid until Close: poll it, and do not read from it.
func (c *Connection) GoneFD() (int, error) {
	pointer, err := c.begin()
	if err != nil {
		return -1, err
	}
	defer c.release()
	var out C.int
	var failure *C.tenon_error
	if status := C.tenon_connection_gone_fd(pointer, &out, &failure); status != C.TENON_OK {
		return -1, takeError(status, failure)
	}
	return int(out), nil
}

// Close gives the connection back; calls that wait in other goroutines end with ErrClosed. A
// message half sent is never finished: the peer gets ErrPeerGone. What was received stays valid.
// Again: nothing. Close never fails.
func (c *Connection) Close() error {
	if c != nil && c.close() {
		c.waits.end()
	}
	return nil
}

// FD is the socket, to poll, until the connection is closed: when it is readable call TryRecv until
// it says ErrWouldBlock; after an unfinished send wait until it is writable and call Flush. -1 of a
// closed connection.
func (c *Connection) FD() int {
	connection, err := c.begin()
	if err != nil {
		return -1
	}
	defer c.release()
	return int(C.tenon_connection_fd(connection))
}

// Peer tells who is at the other end.
func (c *Connection) Peer() (Peer, error) {
	connection, err := c.begin()
	if err != nil {
		return Peer{}, err
	}
	defer c.release()
	out := C.tenon_peer{struct_size: C.sizeof_tenon_peer}
	var failure *C.tenon_error
	if status := C.tenon_connection_peer(connection, &out, &failure); status != C.TENON_OK {
		return Peer{}, takeError(status, failure)
	}
	return Peer{PID: int32(out.pid), UID: uint32(out.uid), GID: uint32(out.gid)}, nil
}

// SetStream names the stream, a number as in ShareCUDA, in which memory of a CUDA device is used
// here; without this call it is the default one. What was given to it before a send is done before
// work of the receiver's begins; what is given to it after a receive waits for the sender's, and
// what was received counts as used in it. It must be there until the connection, and what was
// received meanwhile, was closed.
func (c *Connection) SetStream(device int32, stream uintptr) error {
	connection, err := c.begin()
	if err != nil {
		return err
	}
	defer c.release()
	var failure *C.tenon_error
	if status := C.tenon_go_connection_set_stream(
		connection, C.int32_t(device), C.uintptr_t(stream), &failure,
	); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// Send sends a message, whole or not at all, in order. What is lent stays valid for the peer after
// everything here was closed. If ctx ends first the message may be half sent: the connection keeps
// it, and the next Send (of the same message, sent once all the same, or of another, sent after it)
// or Flush goes on. A context that is already done ends Send before it begins.
func (c *Connection) Send(ctx context.Context, message *Message) error {
	if message == nil {
		return invalid("the message is nil")
	}
	return c.send(ctx, message)
}

// Flush finishes what an earlier Send or TrySend left.
func (c *Connection) Flush(ctx context.Context) error { return c.send(ctx, nil) }

// TrySend is Send without waiting: ErrWouldBlock if some of it is left for Flush, or for the next
// call.
func (c *Connection) TrySend(message *Message) error {
	if message == nil {
		return invalid("the message is nil")
	}
	return c.trySend(message)
}

func (c *Connection) trySend(message *Message) error {
	connection, err := c.begin()
	if err != nil {
		return err
	}
	defer c.release()
	sent, err := message.begin()
	if err != nil {
		return err
	}
	defer message.end()
	var failure *C.tenon_error
	switch status := C.tenon_go_send_now(connection, sent, &failure); status {
	case C.TENON_OK:
		return nil
	case C.TENON_WOULD_BLOCK:
		return ErrWouldBlock
	default:
		return takeError(status, failure)
	}
}

func (c *Connection) send(ctx context.Context, message *Message) error {
	if err := ended(ctx); err != nil {
		return err
	}
	// Both calls by one thread, which is how the library knows that they are one send.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Without a wait first: it needs no cancel, and mostly ends here.
	if err := c.trySend(message); err != ErrWouldBlock {
		return err
	}
	connection, err := c.begin()
	if err != nil {
		return err
	}
	defer c.release()
	sent, err := message.begin()
	if err != nil {
		return err
	}
	defer message.end()
	return wait(
		ctx,
		&c.waits,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			return C.tenon_go_send(connection, sent, timeout, cancel, failure)
		},
	)
}

// Recv receives the next message, to be closed by the caller: ErrPeerGone once all that the peer
// sent was received. If ctx ends first nothing is lost: the next call goes on. A context that is
// already done ends Recv before it begins.
func (c *Connection) Recv(ctx context.Context) (*Message, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if message, err := c.TryRecv(); err != ErrWouldBlock {
		return message, err
	}
	connection, err := c.begin()
	if err != nil {
		return nil, err
	}
	defer c.release()
	var out *C.tenon_message
	err = wait(
		ctx,
		&c.waits,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			return C.tenon_go_recv(connection, timeout, cancel, &out, failure)
		},
	)
	if err != nil {
		return nil, err
	}
	return newMessage(out), nil
}

// TryRecv is Recv without waiting: ErrWouldBlock if no message is there.
func (c *Connection) TryRecv() (*Message, error) {
	connection, err := c.begin()
	if err != nil {
		return nil, err
	}
	defer c.release()
	var out *C.tenon_message
	var failure *C.tenon_error
	switch status := C.tenon_go_recv_now(connection, &out, &failure); status {
	case C.TENON_OK:
		return newMessage(out), nil
	case C.TENON_WOULD_BLOCK:
		return nil, ErrWouldBlock
	default:
		return nil, takeError(status, failure)
	}
}
