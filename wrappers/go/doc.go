// Package tenon lends tensors between processes without copying them: to and from Go, C, C++,
// Python, Rust and PyTorch. It writes and reads PyTorch's TorchScript archives too, without
// PyTorch.
//
// A [Storage] is counted bytes that are born shareable, a [Tensor] a shape over one. Tensors travel
// in a [Message] over a [Connection], as a [Descriptor] by any other means, by fd
// ([Storage.ShareFD]) or by name ([Storage.ShareFilename]). What arrives is the same memory.
// Sparse, nested, quantised and meta tensors are [Composite] tensors, which travel in a Message
// too.
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
// What has a Close is to be closed, in any order and more than once if you like; an object that was
// forgotten goes with a collection, but the collector does not know how much memory hangs on it. A
// closed object gives [ErrClosed]. Close in one goroutine while another uses the object is fine:
// the memory goes when the last use ends.
//
// # Elements
//
// Elements are Go slices over the shared memory itself: no copy, and no call of C for each. [With]
// lends such a slice to a function, [NewView] makes a read-only view that keeps its memory, and
// both are safe whatever is closed meanwhile. [Slice] and [ReadOnlySlice] give the bare slice: it
// points to memory that the collector does not know, so it must not be used after its source was
// closed, or was collected (runtime.KeepAlive). Go's own slice of unmapped memory ends the program,
// as a bad pointer does in C.
//
// Nobody orders the reads and writes of two processes: agree with the other side, for example by a
// message, who writes when.
//
// # Waiting
//
// Every call that waits takes a context (for room in an arena: [StorageOptions].Wait): its deadline
// is the call's, and its end ends the call. So does Close of the connection. A call that has to
// wait occupies a thread and one fd until it returns.
//
// # Arenas and leases
//
// All that is born in an [Arena] ([StorageOptions]) has one fd and one mapping, here and at each
// borrower. What was sent is under a lease: its block is not used again before the borrower closed
// it or died. StorageOptions.Wait waits for that in a full arena; [Arena.Stats] and [LeaseHolders]
// tell who holds what. A program that wants no thread of the library's calls [LeaseUseNoThread]
// first, polls [LeaseFD] and calls [LeasePoll].
//
// # Objects
//
// An object is plain data with tensors in it: numbers, text, bytes, lists, tuples, sets and dicts.
// [Connection.SendObject] and [Connection.RecvObject] exchange objects with programs in any
// language, as Python's send_object and recv_object do. [NewMessageFromObject] names the Go types.
//
// # Modules
//
// A [Module] is what PyTorch calls a ScriptModule: built with [NewModule] or read with
// [ImportModule], changed, and written with [ExportModule] as an archive that torch.jit.load runs.
// Its attributes are [Value]s. No PyTorch is needed, and nothing in an archive is executed.
//
// # Errors
//
// A failed call gives an [*Error] with code, message and details of the C library; errors.Is
// compares with a [Code] such as [ErrPeerGone], with the standard library's error of that meaning
// (fs.ErrNotExist, context.DeadlineExceeded), or with a syscall.Errno.
//
// # Processes
//
// Go programs do not fork: they start others (os/exec), with fds in ExtraFiles. A Go program ends
// without what exit() does in C: one that shares by name closes its storages, then calls [Trim] and
// [FilenameLeave], else its names are left for the next process that looks.
//
// A program that deposits messages ([Message.Deposit]) calls [HandOverDeposits] at its end.
//
// # Building
//
// The C library is found by pkg-config (tenon.pc). With the build tag tenon_static its archive is
// linked in instead (tenon-static.pc). The tag tenon_debug collects garbage around every call, to
// find what is not kept alive.
package tenon
