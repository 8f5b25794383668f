/// @file
/// CUDA: these functions tell whether this process can use CUDA, and lend and open device memory as
/// PyTorch does. tenon/by_cuda.h has the details, such as when memory is given back.
#ifndef TENON_CPP_BY_CUDA_HPP
#define TENON_CPP_BY_CUDA_HPP

#include <tenon/by_cuda.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/storage.hpp>
#include <tenon/cpp/text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

TENON_CPP_BEGIN

/// Tells whether this process can use CUDA. If it cannot, the result is Code::kUnsupported with the
/// reason. A child of fork of a process that had started CUDA's driver can never use it. The first
/// call starts the driver, which can take a tenth of a second and more. The outcome is kept until
/// the process ends, except for failures that may be temporary. The call makes no context.
inline Result<void> try_cuda_available() { return detail::call(tenon_cuda_available); }

/// The transport of a handle: how the driver lets the memory travel. PyTorch opens only kIpc.
enum class CudaTransport : tenon_cuda_transport {
  /// In a handle: an empty storage. As an option: the first of the other transports by which the
  /// memory can travel.
  kNoMemory = TENON_CUDA_NO_MEMORY,
  /// An IPC handle (cuIpcGetMemHandle) of memory from cudaMalloc. It is PyTorch's default.
  kIpc = TENON_CUDA_IPC,
  /// An fd for each piece of memory that was mapped piece by piece.
  kFd = TENON_CUDA_FD,
  /// The fabric handle of one such piece.
  kFabric = TENON_CUDA_FABRIC,
  /// An fd of the memory pool from which the memory comes.
  kPool = TENON_CUDA_POOL
};

/// The form of an IPC handle: which versions of PyTorch write its bytes. Tenon reads all forms.
enum class CudaForm : tenon_cuda_form {
  /// PyTorch up to 2.4 writes this form. Every later version reads it too, except for some builds
  /// of mid-2024.
  kA = TENON_CUDA_FORM_A,
  /// The excepted builds of mid-2024 write this form.
  kB = TENON_CUDA_FORM_B,
  /// PyTorch 2.6 and 2.7 write this form.
  kC = TENON_CUDA_FORM_C,
  /// PyTorch 2.8 to 2.12 write this form.
  kD = TENON_CUDA_FORM_D,
  /// PyTorch 2.13 and later write this form.
  kE = TENON_CUDA_FORM_E
};

/// How to lend device memory.
struct ShareCudaOptions {
  /// The transport to use.
  CudaTransport transport = CudaTransport::kNoMemory;
  /// The form of an IPC handle.
  CudaForm form = CudaForm::kA;
  /// Also lend a read-only storage, although its receiver can write to it. Without this, a
  /// read-only storage gives kPermission.
  bool let_write = false;
};

/// How to open device memory.
struct OpenCudaOptions {
  /// The device's ordinal in this process's numbering. It replaces the device that the handle
  /// names.
  std::optional<std::int32_t> device = std::nullopt;
  /// Make the device refuse writes by this process. Only kFd and kFabric can do this.
  bool read_only = false;
  /// Keep the memory open in the driver for the next handle of the same memory, until
  /// cuda_collect().
  bool keep_open = false;
  /// Also fetch PyTorch's expandable segments from another user's process.
  bool other_user = false;
};

/// A handle with which another process can open device memory: the eight items of PyTorch's tuple
/// and a few more fields. A CudaHandle is a plain value, but it is for one receiver, which opens it
/// once.
struct CudaHandle {
  /// The transport. When a handle is opened, this field is ignored, because the bytes in `memory`
  /// say the transport.
  CudaTransport transport = CudaTransport::kNoMemory;
  /// The device's ordinal in the sender's numbering.
  std::int32_t device = 0;
  /// The UUID of the device, which takes precedence over the ordinal. PyTorch's tuple has none.
  std::optional<std::array<std::byte, 16>> uuid = std::nullopt;
  /// The size of the storage in bytes.
  std::uint64_t nbytes = 0;
  /// Where the storage begins, in bytes from the address to which the memory handle leads.
  std::uint64_t offset = 0;
  /// The name of the counter file. "" for an empty storage.
  std::string counter = {};
  /// The index of the counter in its file.
  std::uint64_t slot = 0;
  /// If true, the bytes are valid once the event is complete. Otherwise they are valid already.
  bool event_required = false;
  /// The event's handle.
  std::array<std::byte, 64> event = {};
  /// The memory handle. It is empty for an empty storage.
  std::vector<std::byte> memory = {};
  /// For kFd and kPool: the fds that must be sent with the handle, in this order. In the handle of
  /// a lent storage they belong to the library and are open until the storage's last release. A
  /// receiver stores its own fds here, and closes them itself.
  std::vector<std::int32_t> fds = {};
  friend bool operator==(const CudaHandle&, const CudaHandle&) = default;
};

namespace detail {

// The result borrows the fds, and borrows a memory handle that is longer than the C struct's field.
inline Result<tenon_cuda_handle> c_handle(const CudaHandle& handle) {
  tenon_cuda_handle c{};
  c.struct_size = sizeof c;
  c.transport = static_cast<tenon_cuda_transport>(handle.transport);
  c.device = handle.device;
  c.nbytes = handle.nbytes;
  c.offset = handle.offset;
  c.slot = handle.slot;
  c.event_required = handle.event_required ? 1 : 0;
  if (handle.uuid) std::memcpy(c.uuid, handle.uuid->data(), sizeof c.uuid);
  std::memcpy(c.event, handle.event.data(), sizeof c.event);
  if (handle.memory.size() > std::numeric_limits<std::uint32_t>::max())
    return wrong("the memory handle has " + std::to_string(handle.memory.size()) + " bytes");
  c.memory_nbytes = static_cast<std::uint32_t>(handle.memory.size());
  if (handle.memory.size() > sizeof c.memory) {
    c.long_memory = reinterpret_cast<const std::uint8_t*>(handle.memory.data());
  } else {
    std::copy(handle.memory.begin(), handle.memory.end(), reinterpret_cast<std::byte*>(c.memory));
  }
  c.fds = handle.fds.empty() ? nullptr : handle.fds.data();
  c.n_fds = static_cast<std::uint32_t>(handle.fds.size());
  if (const Result<void> done = put(handle.counter, c.counter, "the counter's name"); !done)
    return done.error();
  return c;
}

inline CudaHandle cuda_handle(const tenon_cuda_handle& c) {
  CudaHandle handle;
  handle.transport = static_cast<CudaTransport>(c.transport);
  handle.device = c.device;
  if (std::any_of(std::begin(c.uuid), std::end(c.uuid),
                  [](std::uint8_t byte) { return byte != 0; })) {
    std::memcpy(handle.uuid.emplace().data(), c.uuid, sizeof c.uuid);
  }
  handle.nbytes = c.nbytes;
  handle.offset = c.offset;
  handle.counter = c.counter;
  handle.slot = c.slot;
  handle.event_required = c.event_required != 0;
  std::memcpy(handle.event.data(), c.event, sizeof c.event);
  const auto* memory = reinterpret_cast<const std::byte*>(c.memory);
  handle.memory.assign(memory, memory + c.memory_nbytes);
  handle.fds.assign(c.fds, c.fds + c.n_fds);
  return handle;
}

}  // namespace detail

/// Lends a storage on a CUDA device. No byte is copied. `stream` (a CUstream or a cudaStream_t) is
/// the stream in which the bytes were written. Work that was given to the stream until now is
/// complete before the receiver's work begins.
inline Result<CudaHandle> try_share_cuda(const Storage& storage, void* stream,
                                         const ShareCudaOptions& options = {}) {
  tenon_cuda_options c{};
  c.struct_size = sizeof c;
  c.flags = options.let_write ? std::uint32_t{TENON_CUDA_LET_WRITE} : 0;
  c.form = static_cast<tenon_cuda_form>(options.form);
  c.transport = static_cast<tenon_cuda_transport>(options.transport);
  const Result<tenon_cuda_handle> out =
      detail::fill<tenon_cuda_handle>([&](tenon_cuda_handle* handle, tenon_error** err) {
        return tenon_share_cuda(storage.get(), stream, &c, handle, err);
      });
  if (!out) return out.error();
  return detail::cuda_handle(*out);
}

/// Opens device memory that Tenon or PyTorch lends. If this process already holds the bytes, or
/// lent them itself, the result is the same storage. Work that is given to `stream` from now on
/// waits, on the device, for the sender's work. The storage counts as used in `stream`. The sender
/// gets the memory back after the storage's last release, once the work in its streams is complete.
inline Result<Storage> try_open_cuda(const CudaHandle& handle, void* stream,
                                     const OpenCudaOptions& options = {}) {
  const Result<tenon_cuda_handle> from = detail::c_handle(handle);
  if (!from) return from.error();
  tenon_cuda_options c{};
  c.struct_size = sizeof c;
  if (options.device) {
    c.flags = std::uint32_t{TENON_CUDA_ON_DEVICE};
    c.device = *options.device;
  }
  if (options.read_only) c.flags |= std::uint32_t{TENON_CUDA_READ_ONLY};
  if (options.keep_open) c.flags |= std::uint32_t{TENON_CUDA_KEEP_OPEN};
  if (options.other_user) c.flags |= std::uint32_t{TENON_CUDA_OTHER_USER};
  return detail::make<Storage>([&](tenon_storage** out, tenon_error** err) {
    return tenon_open_cuda(&*from, stream, &c, out, err);
  });
}

/// Gives up a handle that its receiver will not open, so that the sender gets its memory back. The
/// receiver calls this function. The counter changes as it does when a handle is opened and its
/// storage released. The call does not need CUDA. If the counter's file was removed with its
/// sender, nothing happens.
inline Result<void> try_release_cuda_counter(const std::string& counter, std::uint64_t slot) {
  if (!detail::is_c_text(counter)) return detail::has_nul("the counter's name");
  return detail::call(
      [&](tenon_error** err) { return tenon_release_cuda_counter(counter.c_str(), slot, err); });
}

/// Gives back device memory that is not used any more. The call checks all memory that was released
/// in this process and still had a receiver or a stream, and closes memory that was only kept open.
/// It returns for how many storages the memory must still wait.
inline std::uint64_t cuda_collect() noexcept { return tenon_cuda_collect(); }

#ifndef TENON_NO_EXCEPTIONS
// Each function throws the error that its try_ form returns.
inline void cuda_available() { try_cuda_available().value(); }
inline CudaHandle share_cuda(const Storage& storage, void* stream,
                             const ShareCudaOptions& options = {}) {
  return try_share_cuda(storage, stream, options).value();
}
inline Storage open_cuda(const CudaHandle& handle, void* stream,
                         const OpenCudaOptions& options = {}) {
  return try_open_cuda(handle, stream, options).value();
}
inline void release_cuda_counter(const std::string& counter, std::uint64_t slot) {
  try_release_cuda_counter(counter, slot).value();
}
#endif

TENON_CPP_END

#endif
