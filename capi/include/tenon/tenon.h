#ifndef TENON_TENON_H
#define TENON_TENON_H

/*
 * Tenon lends tensors between processes without copying them. The rules of the whole API:
 *
 *  1. Names. Types and functions are tenon_<noun>_<verb>, constants TENON_<AREA>_<NAME>. A verb means one thing: _new and
 *     _open give a new reference, _retain and _release count it. What a function returns directly is a number or borrowed;
 *     what it gives through a pointer named `out` is the caller's.
 *  2. Errors. A function that can fail returns a tenon_status and takes a tenon_error **err last. If err is not NULL and
 *     the call fails, *err is a new error: read it on any thread, then tenon_error_release it. err may be NULL; *err is not
 *     written on success, and its old value is never read. Running out of memory gives an error too. Nothing is kept per thread.
 *  3. Outputs are untouched on failure.
 *  4. Ownership. "New reference": the caller releases it. "Borrowed": the caller keeps it, and it must be valid for the call.
 *     "Consumed": the caller must not use it again. Release functions return void, accept NULL and cannot fail.
 *  5. Structs begin with struct_size = sizeof(the struct), set by the caller, for input and for output. Set the rest to
 *     zero first: zero is every field's default. A newer library takes an older, smaller struct, and never writes past it.
 *     An older library takes a newer, larger one for input if the part that it does not know is zero, else TENON_UNSUPPORTED;
 *     of one for output it leaves that part alone. Flags that it does not know, and reserved fields that are not 0, are TENON_UNSUPPORTED.
 *  6. Units. Sizes and offsets are bytes, except in a tenon_tensor_spec and a
 *     tenon_value_tensor_spec, where they are elements. Times are nanoseconds.
 *  7. Text is UTF-8 and ends with NUL.
 *  8. Threads. A pointer to const means that concurrent calls are safe. Retain, release and everything on storages, tensors,
 *     values, weak references and CUDA events are safe concurrently too; a message is for one thread at a time while it is built.
 *     A thread must not be cancelled (pthread_cancel) inside a call. Payload bytes are yours: Tenon never orders loads and stores between
 * threads or processes.
 *  9. Fork. The child may use and release what it inherited, and that never touches the parent's. It does not allocate
 *     from the parent's arena, and does not send or receive on the parent's connections. fork is safe at any moment,
 *     whatever other threads do in the library.
 * 10. Signals. No function may be called from a signal handler, but tenon_cancel_trigger, tenon_status_name and the version
 *     queries. The library installs no handler and never raises SIGPIPE. It starts one thread, with all signals masked, in a process that
 *     lends under leases (tenon_send) or lends or opens by name, and none in others, nor after tenon_lease_use_no_thread. Where that thread
 *     ends memory that a device has pinned, another one does it, and is gone when the driver has let go.
 * 11. fds are close-on-exec. An fd in a handle is the caller's to close; an fd that a getter returns is borrowed.
 * 12. Callbacks run on the thread that made the last release, must not throw or longjmp, and may call Tenon.
 * 13. ABI. Within one TENON_ABI_VERSION functions and constants are only added and structs only grow at their end.
 *
 * The shortest lend (error handling left out):
 *
 *     lender                                              borrower
 *     tenon_storage_new(NULL, 4096, &s, NULL);            tenon_connection_new(socket, NULL, &c, NULL);
 *     tenon_tensor_new(s, &spec, &t, NULL);               tenon_recv(c, NULL, &m, NULL);
 *     tenon_message_new(&m, NULL);                        tenon_tensor *t = tenon_message_tensor(m, 0);
 *     tenon_message_add(m, &t, NULL, 1, NULL, NULL);      tenon_tensor_data_mut(t, &p, NULL);
 *     tenon_send(c, m, NULL, NULL);                       tenon_message_release(m);
 */

#include <tenon/archive.h>
#include <tenon/arena.h>
#include <tenon/by_cuda.h>
#include <tenon/by_fd.h>
#include <tenon/by_filename.h>
#include <tenon/connection.h>
#include <tenon/cuda_arena.h>
#include <tenon/cuda_event.h>
#include <tenon/cuda_pinned.h>
#include <tenon/descriptor.h>
#include <tenon/dlpack.h>
#include <tenon/dtype.h>
#include <tenon/error.h>
#include <tenon/export.h>
#include <tenon/lease.h>
#include <tenon/message.h>
#include <tenon/module.h>
#include <tenon/scalar_type.h>
#include <tenon/stats.h>
#include <tenon/storage.h>
#include <tenon/tensor.h>
#include <tenon/value.h>
#include <tenon/version.h>
#include <tenon/wait.h>
#include <tenon/weak.h>

#endif
