// Events: marks in CUDA streams, by which streams of this process and of others, and the host, wait for each other.
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

/// How an event is made.
struct CudaEventOptions {
  std::int32_t device = 0;    ///< ordinal in this process's numbering
  bool interprocess = false;  ///< it has an IPC handle, by which other processes open it
};

/// A CUipcEventHandle or cudaIpcEventHandle_t, byte for byte.
using CudaEventHandle = std::array<std::byte, 64>;

/// A mark in a CUDA stream, of its device's primary context; a copy is the same event. A stream is a CUstream or a cudaStream_t. Events
/// measure no time. After fork the child may close it, and everything else is Code::kUnsupported.
class CudaEvent : public detail::Counted<CudaEvent, tenon_cuda_event, tenon_cuda_event_retain, tenon_cuda_event_release> {
 public:
  /// An event, which is complete until it is recorded.
  static Result<CudaEvent> try_make(const CudaEventOptions& options = {}) {
    tenon_cuda_event_options c{};
    c.struct_size = sizeof c;
    c.flags = options.interprocess ? std::uint32_t{TENON_CUDA_EVENT_INTERPROCESS} : 0U;
    c.device = options.device;
    return detail::make<CudaEvent>([&](tenon_cuda_event** out, tenon_error** err) { return tenon_cuda_event_new(&c, out, err); });
  }

  /// Open another process's event, on the device where it was made: both then mean the same mark, whichever of them records it. The process
  /// that made it cannot open it, and has to keep it until all others have let go.
  static Result<CudaEvent> try_from_ipc_handle(const CudaEventHandle& handle, std::int32_t device = 0) {
    tenon_cuda_event_options c{};
    c.struct_size = sizeof c;
    c.device = device;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(handle.data());
    return detail::make<CudaEvent>(
        [&](tenon_cuda_event** out, tenon_error** err) { return tenon_cuda_event_from_ipc_handle(bytes, &c, out, err); });
  }

  /// Mark what was given to the stream until now; an older mark is forgotten. The stream is of the event's context.
  Result<void> try_record(void* stream) {
    return detail::call([&](tenon_error** err) { return tenon_cuda_event_record(get(), stream, err); });
  }

  /// Let what is given to the stream from now on wait for the mark that was recorded last. The host does not wait.
  Result<void> try_wait(void* stream) const {
    return detail::call([&](tenon_error** err) { return tenon_cuda_event_wait(get(), stream, err); });
  }

  /// Whether the event is complete. One that nobody recorded is.
  Result<bool> try_query() const {
    int out = 0;
    const Result<void> called = detail::call([&](tenon_error** err) { return tenon_cuda_event_query(get(), &out, err); });
    if (!called) return called.error();
    return out != 0;
  }

  /// Wait here, on the host, until the event is complete.
  Result<void> try_synchronize(const Wait& wait = {}) const {
    return detail::waiting(wait,
                           [&](const tenon_wait* waiting, tenon_error** err) { return tenon_cuda_event_synchronize(get(), waiting, err); });
  }

  /// The handle by which other processes open the event, the same each time.
  Result<CudaEventHandle> try_ipc_handle() const {
    CudaEventHandle out{};
    auto* bytes = reinterpret_cast<std::uint8_t*>(out.data());
    const Result<void> called = detail::call([&](tenon_error** err) { return tenon_cuda_event_ipc_handle(get(), bytes, err); });
    if (!called) return called.error();
    return out;
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each throws what its try_ form returns.
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
