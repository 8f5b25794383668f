#ifndef TENON_TENON_H
#define TENON_TENON_H

/**
 * @file
 * The whole C interface of Tenon, a library that lends tensors between processes without copying
 * them. A program includes this header, which includes all others, or the single headers that it
 * needs. These rules hold for every function:
 *
 * 1.  Names. Types and functions are named `tenon_<noun>_<verb>`, constants `TENON_<AREA>_<NAME>`.
 *     A verb means the same thing everywhere: _new and _open give a new reference, _retain adds a
 *     reference, _release gives one back. A return value is a number or a borrowed pointer, unless
 *     its comment calls it a new reference. An object that a call gives through a pointer named
 *     `out` belongs to the caller, unless its comment says "borrowed".
 * 2.  Errors. A function that can fail returns a tenon_status and takes a `tenon_error **err` as
 *     its last parameter. If the call fails and err is not NULL, the call stores a new error in
 *     `*err`. The caller may read that error on any thread and must release it with
 *     tenon_error_release. err may be NULL. `*err` is not written on success, and its old value is
 *     never read. Running out of memory gives an error too. Tenon keeps no error state per thread.
 * 3.  Outputs are untouched when a call fails.
 * 4.  Ownership. "New reference": the caller owns the object and must release it. "Borrowed": the
 *     owner does not change. A borrowed argument stays the caller's, and it must be valid during
 *     the call. "Consumed": the caller must not use the argument again. Release functions return
 *     void, accept NULL and cannot fail.
 * 5.  Structs of options, results and figures begin with struct_size. The caller sets it to
 *     sizeof(the struct), for input and for output, and sets all other fields to zero first: zero
 *     is the default of every field. A newer library accepts an older, smaller struct and never
 *     writes past its end. An older library accepts a newer, larger input struct if the fields that
 *     the library does not know are zero, and returns TENON_UNSUPPORTED otherwise. In a newer,
 *     larger output struct it leaves the fields that it does not know untouched. Unknown flags, and
 *     reserved fields that are not 0, give TENON_UNSUPPORTED.
 * 6.  Units. Sizes and offsets are in bytes. But sizes, strides and offsets are in elements in a
 *     tenon_tensor_spec, a tenon_tensor_view, a tenon_composite_spec and a tenon_value_tensor_spec.
 *     Times are in nanoseconds.
 * 7.  Text is UTF-8 and ends with NUL.
 * 8.  Threads. A function that takes an object by pointer to const may be called concurrently on
 *     that object. Retain, release and all functions on storages, tensors, composites, objects,
 *     values, modules, packages, weak references and CUDA events may be called concurrently too. A
 *     message must be used by one thread at a time while it is built. No thread may be cancelled
 *     (pthread_cancel) inside a call. Tenon does not synchronise access to tensor data: the
 *     program must order its loads and stores between threads and between processes.
 * 9.  Fork. A process may call fork at any moment, whatever other threads are doing in the library.
 *     The child may use and release the objects that it inherited, and this never affects the
 *     parent's objects. The child cannot allocate from the parent's arena and cannot send or
 *     receive on the parent's connections, queues, publishers and subscribers: those calls give
 *     TENON_UNSUPPORTED.
 * 10. Signals. Only tenon_cancel_trigger, tenon_status_name and the functions of tenon/version.h
 *     may be called from a signal handler. The library installs no signal handler and never raises
 *     SIGPIPE. All signals are masked in its threads. The service thread lasts as long as the
 *     process. The first of these starts it: a lend under a lease (tenon_send, or a
 *     tenon_descriptor with fds), a deposit (tenon/deposit.h), a name (tenon/by_filename.h), a
 *     queue (tenon/queue.h), a publisher (tenon/publish.h), shared weights
 *     (tenon/shared_weights.h), an arena with prefault_nbytes, TENON_LENDER_GONE_DROP,
 *     tenon_connection_gone_fd. A process that does none of these has no
 *     service thread, and neither has a process that called tenon_lease_use_no_thread before. Each
 *     fd of a queue (tenon_queue_recv_fd, tenon_queue_send_fd) has a thread until the queue is
 *     left. Two kinds of work can block, so each gets a thread of its own, which ends with the
 *     work. One kind is giving up pinned memory, when the service thread would have to do it. The
 *     other is opening or closing a file that another process chose, unless the file is memory, a
 *     pipe or a local socket.
 * 11. File descriptors (fds) that the library makes are close-on-exec. The fd in a handle belongs
 *     to the caller, who must close it. An fd that a getter returns is borrowed.
 * 12. Callbacks run on the thread that made the last release. They must not throw or longjmp. They
 *     may call Tenon.
 * 13. ABI. As long as TENON_ABI_VERSION stays the same, functions and constants are only added, and
 *     structs only grow at their end.
 *
 * The shortest lend (error handling left out):
 *
 *     lender                                         borrower
 *     tenon_storage_new(NULL, 4096, &s, NULL);       tenon_connection_new(socket, NULL, &c, NULL);
 *     tenon_tensor_new(s, &spec, &t, NULL);          tenon_recv(c, NULL, &m, NULL);
 *     tenon_message_new(&m, NULL);                   tenon_tensor *t = tenon_message_tensor(m, 0);
 *     tenon_message_add(m, &t, NULL, 1, NULL, NULL); tenon_tensor_data_mut(t, &p, NULL);
 *     tenon_send(c, m, NULL, NULL);                  tenon_message_release(m);
 */

#include <tenon/arena.h>
#include <tenon/by_cuda.h>
#include <tenon/by_fd.h>
#include <tenon/by_filename.h>
#include <tenon/composite.h>
#include <tenon/connection.h>
#include <tenon/cuda_arena.h>
#include <tenon/cuda_event.h>
#include <tenon/cuda_pinned.h>
#include <tenon/deposit.h>
#include <tenon/descriptor.h>
#include <tenon/dlpack.h>
#include <tenon/dtype.h>
#include <tenon/error.h>
#include <tenon/export.h>
#include <tenon/lease.h>
#include <tenon/message.h>
#include <tenon/modules.h>
#include <tenon/object.h>
#include <tenon/publish.h>
#include <tenon/queue.h>
#include <tenon/scalar_type.h>
#include <tenon/stats.h>
#include <tenon/storage.h>
#include <tenon/tensor.h>
#include <tenon/version.h>
#include <tenon/wait.h>
#include <tenon/weak.h>

#endif
