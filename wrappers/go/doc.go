// Package tenon lends tensors between processes without copying them. The other process can use Go,
// C, C++, Python, Rust or PyTorch. The package also writes and reads PyTorch's TorchScript
// archives, and needs no PyTorch for that.
//
// A [Storage] is a range of bytes that other processes can map. A [Tensor] is a shape over one
// storage. Tensors travel in a [Message] over a [Connection], as a [Descriptor] by any other means,
// by fd ([Storage.ShareFD]) or by name ([Storage.ShareFilename]). The receiver gets the same
// memory, and no byte is copied. Sparse, nested, quantised and meta tensors are [Composite]
// tensors, which travel in a Message too.
//
//	weight, err := tenon.FromSlice([]float32{1, 2, 3}, []int64{3}, nil)    // the lender
//	message, err := tenon.NewMessage(weight)
//	err = connection.Send(ctx, message)
//
//	message, err := connection.Recv(ctx) // the borrower, in another process
//	views, err := message.Views()
//	err = tenon.With(views[0], func(values []float32) error { values[0] = 42; return nil })
//
// # Who closes what
//
// The caller closes every object that has a Close method. Objects can be closed in any order and
// more than once. The garbage collector frees an object that was never closed, but it does not know
// how much memory depends on the object. A call on a closed object gives [ErrClosed]. One goroutine
// may close an object while another goroutine uses it: the memory is freed when the last use ends.
//
// # Elements
//
// Elements are Go slices over the shared memory itself, without a copy and without a call of C for
// each element. [With] lends such a slice to a function. [NewView] makes a read-only view that
// keeps its memory. Both are safe even if another goroutine closes the source meanwhile. [Slice]
// and [ReadOnlySlice] give the bare slice. The collector does not know that memory. So a program
// must not use the slice after its source was closed or collected (runtime.KeepAlive). A load from
// unmapped memory ends the program, as a bad pointer does in C.
//
// Tenon does not synchronise access to tensor data. The two processes must agree who writes when,
// for example by a message.
//
// # Waiting
//
// Every call that waits takes a context. (The context of a wait for room in an arena is
// [StorageOptions].Wait.) The call ends at the context's deadline, or when the context is
// cancelled. Closing the object ends the calls that wait on it. A call that has to wait occupies a
// thread and one fd until it returns.
//
// # Queues
//
// A [Queue] carries messages of many processes to many processes, and each message goes to exactly
// one of them. It lies in a storage ([Queue.Storage]), which travels as any storage does: by fd or
// in a message. The other process calls [JoinQueue] with it. [Queue.Messages] gives received
// messages by a Go channel, and [Queue.SendFrom] sends the messages of one.
//
// # Publishers and subscribers
//
// A [Publisher] sends each message to every [Subscriber]. A subscriber connects by the path of a
// socket ([Publisher.Listen], [ConnectSubscriber]), and gets the latest message first. When a
// subscriber is slow, the [PublishPolicy] decides. [Subscriber.Messages] gives received messages by
// a Go channel.
//
// # Arenas and leases
//
// All storages of an [Arena] ([StorageOptions]) share one fd and one mapping, in this process and
// in each borrower. A storage that is sent over a connection is lent under a lease: its block is
// not reused before the borrower has closed the storage or has died. StorageOptions.Wait waits for
// that in a full arena. [Arena.Stats] and [LeaseHolders] tell which processes hold blocks. A
// program in which the library must not start a thread calls [LeaseUseNoThread] first, polls
// [LeaseFD] and calls [LeasePoll].
//
// # Objects
//
// An object is plain data with tensors in it: numbers, text, bytes, lists, tuples, sets and dicts.
// [Connection.SendObject] and [Connection.RecvObject] exchange objects with programs in any
// language, as Python's send_object and recv_object do. [NewMessageFromObject] names the Go types.
//
// # Modules
//
// A [Module] is what PyTorch calls a ScriptModule. [NewModule] builds a module, and [ImportModule]
// reads one. [ExportModule] writes a module as an archive that torch.jit.load runs. The attributes
// of a module are [Value]s. No PyTorch is needed, and nothing in an archive is executed.
//
// # Errors
//
// A failed call gives an [*Error] with the code, the message and the details of the C library.
// errors.Is compares it with a [Code] such as [ErrPeerGone], with the error of the standard library
// that means the same (fs.ErrNotExist, context.DeadlineExceeded), or with a syscall.Errno.
//
// # Processes
//
// Go programs do not fork. They start other programs (os/exec) and pass fds in ExtraFiles. A Go
// program ends without the work that exit() does in C. So a program that shares by name closes its
// storages, and then calls [Trim] and [FilenameLeave]. Otherwise its names stay until another
// process sweeps the directory.
//
// A program that deposits messages ([Message.Deposit]) calls [HandOverDeposits] at its end.
//
// # Building
//
// pkg-config finds the C library (tenon.pc). With the build tag tenon_static the library's archive
// is linked into the program instead (tenon-static.pc). The build tag tenon_debug collects garbage
// around every call, to find objects that a call does not keep alive.
package tenon
