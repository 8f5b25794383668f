/// @file
/// CUDA events: marks in streams. Streams of this process and of other processes, and the host, can
/// wait for a mark. tenon/cuda_event.h has the details.
#ifndef TENON_CPP_CUDA_EVENT_HPP
#define TENON_CPP_CUDA_EVENT_HPP

#include <tenon/cuda_event.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/wait.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

TENON_CPP_BEGIN

/// How to make an event.
struct CudaEventOptions {
  /// The device's ordinal in this process's numbering.
  std::int32_t device = 0;
  /// The event has an IPC handle, with which other processes can open it.
  bool interprocess = false;
};

/// A CUipcEventHandle or cudaIpcEventHandle_t, byte for byte.
using CudaEventHandle = std::array<std::byte, 64>;

/// An event: a mark in a CUDA stream (a CUstream or a cudaStream_t), in its device's primary
/// context. A copy of the object is the same event. Events do not measure time. After fork the
/// child may close an event, and every other call gives Code::kUnsupported.
class CudaEvent : public detail::Counted<CudaEvent, tenon_cuda_event, tenon_cuda_event_retain,
                                         tenon_cuda_event_release> {
 public:
  /// Makes an event. The event is complete until it is recorded.
  static Result<CudaEvent> try_make(const CudaEventOptions& options = {}) {
    tenon_cuda_event_options c{};
    c.struct_size = sizeof c;
    c.flags = options.interprocess ? std::uint32_t{TENON_CUDA_EVENT_INTERPROCESS} : 0U;
    c.device = options.device;
    return detail::make<CudaEvent>([&](tenon_cuda_event** out, tenon_error** err) {
      return tenon_cuda_event_new(&c, out, err);
    });
  }

  /// Opens another process's event, on the device on which it was made. Both events are then the
  /// same mark, whichever process records it. The process that made the event cannot open it, and
  /// must keep it until all other processes have released it.
  static Result<CudaEvent> try_from_ipc_handle(const CudaEventHandle& handle,
                                               std::int32_t device = 0) {
    tenon_cuda_event_options c{};
    c.struct_size = sizeof c;
    c.device = device;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(handle.data());
    return detail::make<CudaEvent>([&](tenon_cuda_event** out, tenon_error** err) {
      return tenon_cuda_event_from_ipc_handle(bytes, &c, out, err);
    });
  }

  /// Records the event. The new mark stands behind the work that was given to `stream` until now,
  /// and replaces the older mark. The stream must belong to the event's context.
  Result<void> try_record(void* stream) {
    return detail::call(
        [&](tenon_error** err) { return tenon_cuda_event_record(get(), stream, err); });
  }

  /// Makes work that is given to `stream` from now on wait for the mark that was recorded last. The
  /// host does not wait.
  Result<void> try_wait(void* stream) const {
    return detail::call(
        [&](tenon_error** err) { return tenon_cuda_event_wait(get(), stream, err); });
  }

  /// Tells whether the event is complete. An event that was never recorded is complete.
  Result<bool> try_query() const {
    int out = 0;
    const Result<void> called =
        detail::call([&](tenon_error** err) { return tenon_cuda_event_query(get(), &out, err); });
    if (!called) return called.error();
    return out != 0;
  }

  /// Makes the host wait until the event is complete.
  Result<void> try_synchronize(const Wait& wait = {}) const {
    return detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
      return tenon_cuda_event_synchronize(get(), waiting, err);
    });
  }

  /// Gives the handle with which other processes open the event. Every call gives the same handle.
  Result<CudaEventHandle> try_ipc_handle() const {
    CudaEventHandle out{};
    auto* bytes = reinterpret_cast<std::uint8_t*>(out.data());
    const Result<void> called = detail::call(
        [&](tenon_error** err) { return tenon_cuda_event_ipc_handle(get(), bytes, err); });
    if (!called) return called.error();
    return out;
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static CudaEvent make(const CudaEventOptions& options = {}) { return try_make(options).value(); }
  static CudaEvent from_ipc_handle(const CudaEventHandle& handle, std::int32_t device = 0) {
    return try_from_ipc_handle(handle, device).value();
  }
  void record(void* stream) { try_record(stream).value(); }
  void wait(void* stream) const { try_wait(stream).value(); }
  bool query() const { return try_query().value(); }
  void synchronize(const Wait& wait = {}) const { try_synchronize(wait).value(); }
  CudaEventHandle ipc_handle() const { return try_ipc_handle().value(); }
#endif
};

TENON_CPP_END

#endif
