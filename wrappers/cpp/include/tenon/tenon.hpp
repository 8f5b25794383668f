/// @file
/// Tenon for C++20. Tenon lends tensors between processes without copying them, and reads and
/// writes PyTorch's module archives, packages and files of weights. These headers are a header-only
/// layer over the C headers. A program includes this header and links with libtenon. These rules
/// hold for all headers:
///
/// 1.  Objects. Each object owns one reference and releases it in its destructor. Storage, Tensor,
///     Composite, Arena, Value, Module, Package, Weights, CudaArena and CudaEvent are counted: a
///     copy is another reference to the same object. The other types can only be moved. A
///     default-made or moved-from object is empty: calls on it that can fail give
///     Code::kInvalidArgument, and other calls give 0 or an empty result. close() releases the
///     reference early. A second close() does nothing. An Object is plain data of C++: it owns no C
///     object.
/// 2.  Errors. A call that can fail has two forms. `x` throws tenon::Error; classes such as
///     tenon::Timeout derive from it, one for each code. `try_x` returns a tenon::Result. Without
///     exceptions (-fno-exceptions, or TENON_NO_EXCEPTIONS defined) there is only the try_ form.
///     Both forms carry the code, the message and all details of the C library. Two kinds of
///     exceptions come out of both forms: std::bad_alloc when the C++ runtime itself has no memory,
///     and an exception from a callable of the program that an export calls.
/// 3.  Views. view<T>() gives a std::span<const T> and view_mut<T>() a std::span<T>. Both are
///     borrowed from their object, so they cannot be called on a temporary. Both fail if T does not
///     stand for the element type, if the elements do not lie packed, or if the address is
///     misaligned.
/// 4.  Threads and fork. Rules 8 and 9 of tenon/tenon.h apply. Only one thread at a time may use a
///     C++ object, but every thread may have a copy of it. Tenon does not synchronise access to
///     tensor data: the program must order its loads and stores between threads and between
///     processes.
/// 5.  The C objects. get() borrows the C object, adopt() takes over a reference to a C object, and
///     detach() gives the reference to the caller. With these a program can call functions that
///     only the C headers have.
///
/// The shortest lend:
///
///     lender:
///       auto weight = tenon::zeros<float>({1000, 1000});
///       auto connection = tenon::Connection::make(socket);
///       connection.send(tenon::Message::of({{"weight", weight}}));
///     borrower:
///       auto connection = tenon::Connection::make(socket);
///       auto message = connection.recv();
///       auto weight = message["weight"];
///       weight.view_mut<float>()[7] = 42;
#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include <tenon/cpp/archive.hpp>
#include <tenon/cpp/arena.hpp>
#include <tenon/cpp/by_cuda.hpp>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/by_filename.hpp>
#include <tenon/cpp/composite.hpp>
#include <tenon/cpp/connection.hpp>
#include <tenon/cpp/cuda_arena.hpp>
#include <tenon/cpp/cuda_event.hpp>
#include <tenon/cpp/deposit.hpp>
#include <tenon/cpp/descriptor.hpp>
#include <tenon/cpp/dlpack.hpp>
#include <tenon/cpp/dtype.hpp>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/lease.hpp>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/module.hpp>
#include <tenon/cpp/object.hpp>
#include <tenon/cpp/package.hpp>
#include <tenon/cpp/publish.hpp>
#include <tenon/cpp/queue.hpp>
#include <tenon/cpp/scalar_type.hpp>
#include <tenon/cpp/shared_weights.hpp>
#include <tenon/cpp/stats.hpp>
#include <tenon/cpp/storage.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/cpp/value.hpp>
#include <tenon/cpp/wait.hpp>
#include <tenon/cpp/weak.hpp>
#include <tenon/cpp/weights.hpp>

#endif
