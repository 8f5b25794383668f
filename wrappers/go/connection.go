// Connections: sending and receiving messages over a connected AF_UNIX socket.

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

// ConnectionOptions are limits and options of one connection. Nil and the zero value mean the
// library's defaults.
type ConnectionOptions struct {
	// How to open received storages. OtherUser, NoManager and Decref are refused with
	// ErrUnsupported.
	Open            OpenOptions
	MaxMessageBytes uint64 // the largest descriptor that is accepted, in bytes; 0 means 64 MiB
	MaxTensors      uint64 // the most tensors in one message; 0 means 1,000,000
	// The most segments that the peer may keep open in this process through this connection. 0
	// means a half of RLIMIT_NOFILE, a quarter of vm.max_map_count, or 65,536, whichever is least.
	MaxSegments uint64
	// The most address space, in bytes, that the peer's memory may take in this process. 0 means a
	// quarter of the address space (32 TiB on amd64).
	MaxMappedBytes uint64
	// Refuse a peer whose user is neither this process's user nor root. By default every peer is
	// accepted.
	SameUser bool
	Group    *uint32 // as SameUser, but accept members of this group (a gid) too
	// Accept named files that Tenon made, although they have no seals, if the peer's user is this
	// process's user or root.
	NamedFiles bool
	// Send through a ring in shared memory, so that a message takes no system call while the
	// receiver is awake. The receiver needs no option.
	Ring bool
	// Also send read-only storages on a CUDA device, although their receiver can write to them.
	// Without this option that is ErrPermission.
	CUDALetWrite bool
	CUDAKeepOpen bool       // as OpenCUDAOptions.KeepOpen, for device memory that is received
	OnLenderGone LenderGone // what happens to received memory when its lender is gone
}

func (o *ConnectionOptions) c(flags C.uint32_t) C.tenon_connection_options {
	given := C.tenon_connection_options{
		struct_size: C.sizeof_tenon_connection_options,
		flags:       flags,
	}
	if o == nil {
		return given
	}
	given.open_access = o.Open.access()
	given.open_flags = o.Open.flags()
	given.max_message_nbytes = C.uint64_t(o.MaxMessageBytes)
	given.max_tensors = C.uint64_t(o.MaxTensors)
	given.max_segments = C.uint64_t(o.MaxSegments)
	given.max_mapped_nbytes = C.uint64_t(o.MaxMappedBytes)
	given.on_lender_gone = C.tenon_lender_gone(o.OnLenderGone)
	if o.SameUser {
		given.flags |= C.TENON_CONNECTION_SAME_USER
	}
	if o.Group != nil {
		given.flags |= C.TENON_CONNECTION_GROUP
		given.group = C.uint32_t(*o.Group)
	}
	if o.NamedFiles {
		given.flags |= C.TENON_CONNECTION_NAMED_FILES
	}
	if o.Ring {
		given.flags |= C.TENON_CONNECTION_RING
	}
	if o.CUDALetWrite {
		given.flags |= C.TENON_CONNECTION_CUDA_LET_WRITE
	}
	if o.CUDAKeepOpen {
		given.flags |= C.TENON_CONNECTION_CUDA_KEEP_OPEN
	}
	return given
}

// LenderGone says what happens to received memory when its lender is gone. The lender is gone when
// no process holds the other end of the socket any more: the lender's process ended, or all
// processes that had this end closed it.
type LenderGone uint32

const (
	// KeepLent is the default: received memory stays valid, and messages that were sent before are
	// still delivered.
	KeepLent LenderGone = C.TENON_LENDER_GONE_KEEP
	// DropLent drops received memory: later accesses fail with ErrPeerGone, and so does Recv.
	// Slices that were given out before stay valid as long as the tensor is open. Memory of a CUDA
	// device is closed as soon as the work in the streams that use it is complete.
	DropLent LenderGone = C.TENON_LENDER_GONE_DROP
)

// Peer says who is at the other end of a connection. The kernel reports it as of the moment when
// the socket was connected. For a socketpair it is the process that made the pair.
type Peer struct {
	// 0 if this process does not see the peer's pid namespace. Another process may have this pid by
	// now.
	PID int32
	UID uint32 // effective
	GID uint32 // effective
}

// Connection is one end of a connected AF_UNIX socket (stream or seqpacket) that carries messages.
// The other end must be a connection too, in any language. Sends wait for each other, and so do
// receives. A send and a receive can run at the same time. Any goroutine may use a Connection.
type Connection struct {
	handle
	waits waits
}

// NewConnection makes a connection on a socket of the caller. The socket stays open when the
// connection is closed. No other code may read from it or write to it meanwhile.
func NewConnection(socket int, options *ConnectionOptions) (*Connection, error) {
	return connect(socket, options, 0)
}

// ConnectionOn makes a connection on the socket of a *net.UnixConn or an *os.File. The connection
// has its own copy of the fd, which is closed with it. The caller may close the original at any
// time, and must close it so that the peer notices the end of the connection.
func ConnectionOn(socket syscall.Conn, options *ConnectionOptions) (*Connection, error) {
	copied, err := copySocket(socket)
	if err != nil {
		return nil, err
	}
	c, err := connect(copied, options, C.TENON_CONNECTION_ADOPT_SOCKET)
	if err != nil {
		syscall.Close(copied)
	}
	return c, err
}

// copySocket gives another fd of the same socket.
func copySocket(socket syscall.Conn) (int, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return -1, err
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
		return -1, err
	}
	return copied, nil
}

// Pair makes two connections that are each other's peers, for two goroutines. For another process,
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
	given := options.c(flags)
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
	c.waits.of = kindConnection
	return c, nil
}

func (c *Connection) begin() (*C.tenon_connection, error) {
	if c == nil {
		return nil, invalid("the connection is nil")
	}
	pointer, err := c.acquire()
	return (*C.tenon_connection)(pointer), err
}

// GoneFD gives an fd that becomes readable when the lender is gone; with DropLent, once the
// lender's memory was dropped. The fd belongs to the connection and is valid until Close. Poll it,
// and do not read from it.
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

// Close closes the connection. Calls that wait in other goroutines end with ErrClosed. A message
// that was sent only in part is never finished, and the peer gets ErrPeerGone. Received storages
// stay valid. A second Close does nothing. Close never fails.
func (c *Connection) Close() error {
	if c != nil && c.close() {
		c.waits.end()
	}
	return nil
}

// FD returns the socket, for polling, until the connection is closed. When the socket is readable,
// call TryRecv until it returns ErrWouldBlock. After an unfinished send, wait until the socket is
// writable and call Flush. FD returns -1 for a closed connection.
func (c *Connection) FD() int {
	connection, err := c.begin()
	if err != nil {
		return -1
	}
	defer c.release()
	return int(C.tenon_connection_fd(connection))
}

// Peer says who is at the other end.
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

// SetStream names the stream in which this process uses memory of a CUDA device that it sends or
// receives. A stream is a number, as in ShareCUDA. Without this call it is the default stream. Work
// that was given to the sender's stream before a send is complete before the receiver's work
// begins. Work that is given to the receiver's stream after a receive waits for the sender's work,
// and a received storage counts as used in that stream. The stream must exist until the connection
// is closed, and until all storages that were received meanwhile are closed.
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

// Send sends a message. A message arrives whole or not at all, and messages arrive in the order in
// which they were sent. Lent storages stay valid for the peer after everything in this process is
// closed. If ctx ends first, part of the message may be sent already. The connection then keeps the
// message, and the next Send or Flush continues. That Send may pass the same message, which is
// still sent only once, or another message, which is sent after it. If ctx is already done, Send
// returns before it begins.
func (c *Connection) Send(ctx context.Context, message *Message) error {
	if message == nil {
		return invalid("the message is nil")
	}
	return c.send(ctx, message)
}

// Flush finishes a message that an earlier Send or TrySend left unfinished.
func (c *Connection) Flush(ctx context.Context) error { return c.send(ctx, nil) }

// TrySend sends as Send does, but does not wait. ErrWouldBlock means that a part of the message is
// left for Flush or for the next call.
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
	// One thread must make both calls, because the library recognises a resumed send by its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Try without waiting first. That needs no cancel, and mostly succeeds.
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

// Recv receives the next message, which the caller closes. It returns ErrPeerGone once every
// message of the peer was received. If ctx ends first, nothing is lost, and the next call
// continues. If ctx is already done, Recv returns before it begins.
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

// TryRecv receives as Recv does, but does not wait. ErrWouldBlock means that there is no message.
func (c *Connection) TryRecv() (*Message, error) {
	connection, err := c.begin()
	if err != nil {
		return nil, err
	}
	defer c.release()
	var out *C.tenon_message
	var failure *C.tenon_error
	status := C.tenon_go_recv_now(connection, &out, &failure)
	return received(status, out, failure)
}
