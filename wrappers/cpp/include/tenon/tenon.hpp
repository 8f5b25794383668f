// Tenon for C++20: lends tensors between processes without copying them, and reads and writes the module archives of PyTorch. Header-only,
// over the C header; link with libtenon.
//
//  1. Objects. Each owns one reference and gives it back at its end. Storage, Tensor, Arena, Value, Module, CudaArena and CudaEvent are
//     counted: a copy is one more reference to the same thing. The others move only. A default-made or moved-from one is empty: fallible
//     calls on it fail with Code::kInvalidArgument, the others give 0 or nothing. close() gives the reference back early, and twice is
//     fine.
//  2. Errors. A call that can fail has two forms: `x`, which throws tenon::Error (the classes after its code, such as tenon::Timeout,
//     derive from it), and `try_x`, which returns a tenon::Result. Without exceptions (-fno-exceptions, or TENON_NO_EXCEPTIONS defined)
//     there is only the second. Either carries the code, the message and all details of the C library. When the C++ runtime itself has
//     no memory it throws std::bad_alloc in both, and so comes out of both what a callable of yours threw, that an export called.
//  3. Views. view<T>() gives std::span<const T>, view_mut<T>() std::span<T>; both are borrowed from their object, so they cannot be
//     asked of a temporary, and both are refused for another element type, for elements that do not lie packed, and for a misaligned
//     address.
//  4. Threads and fork are as in tenon/tenon.h, rules 8 and 9. One C++ object is for one thread at a time; copies of it are for as many
//     as you like. Payload bytes are yours: Tenon never orders loads and stores between threads or processes.
//  5. get() borrows the C object, adopt() takes one over, detach() hands it out: for what only the C header has.
//
// The shortest lend:
//
//     lender                                                    borrower
//     auto weight = tenon::zeros<float>({1000, 1000});          auto connection = tenon::Connection::make(socket);
//     auto connection = tenon::Connection::make(socket);        auto message = connection.recv();
//     connection.send(tenon::Message::of({{"weight", weight}}));  auto weight = message["weight"];
//                                                               weight.view_mut<float>()[7] = 42;
#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include <tenon/cpp/archive.hpp>
#include <tenon/cpp/arena.hpp>
#include <tenon/cpp/by_cuda.hpp>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/by_filename.hpp>
#include <tenon/cpp/connection.hpp>
#include <tenon/cpp/cuda_arena.hpp>
#include <tenon/cpp/cuda_event.hpp>
#include <tenon/cpp/descriptor.hpp>
#include <tenon/cpp/dlpack.hpp>
#include <tenon/cpp/dtype.hpp>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/lease.hpp>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/module.hpp>
#include <tenon/cpp/scalar_type.hpp>
#include <tenon/cpp/stats.hpp>
#include <tenon/cpp/storage.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/cpp/value.hpp>
#include <tenon/cpp/wait.hpp>
#include <tenon/cpp/weak.hpp>

#endif
