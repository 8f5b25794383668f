// CUDA: whether this process can use it, and lending device memory as PyTorch lends it. tenon/by_cuda.h says what keeps the memory.
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

/// Whether this process can use CUDA: true, or Code::kUnsupported with the reason. Never in a child of fork of a process that had started
/// CUDA's driver. The first call starts the driver, and can take a tenth of a second and more; what came of it is kept until the process
/// ends, but for refusals that can pass. No context is made.
inline Result<void> try_cuda_available() { return detail::call(tenon_cuda_available); }

/// By which way a handle leads to the memory. PyTorch opens kIpc only.
enum class CudaTransport : tenon_cuda_transport {
  kNoMemory = TENON_CUDA_NO_MEMORY,  ///< of an empty storage; as an option: as the memory can travel, the first of the others that it can
  kIpc = TENON_CUDA_IPC,             ///< cuIpcGetMemHandle: of cudaMalloc's memory; PyTorch's default
  kFd = TENON_CUDA_FD,               ///< an fd for each piece of memory that is mapped piece by piece
  kFabric = TENON_CUDA_FABRIC,       ///< the fabric handle of one such piece
  kPool = TENON_CUDA_POOL            ///< an fd of the memory pool
};

/// The bytes of an IPC handle, by the versions of PyTorch that write them. All are read.
enum class CudaForm : tenon_cuda_form {
  kA = TENON_CUDA_FORM_A,  ///< up to 2.4; every later one reads it too, but for some builds of mid-2024
  kB = TENON_CUDA_FORM_B,  ///< those builds
  kC = TENON_CUDA_FORM_C,  ///< 2.6, 2.7
  kD = TENON_CUDA_FORM_D,  ///< 2.8 to 2.12
  kE = TENON_CUDA_FORM_E   ///< 2.13 and later
};

/// How device memory is lent.
struct ShareCudaOptions {
  CudaTransport transport = CudaTransport::kNoMemory;  ///< the way to take
  CudaForm form = CudaForm::kA;                        ///< of an IPC handle
  bool let_write = false;  ///< a read-only storage, too, though its receiver can write it; else that is kPermission
};

/// How device memory is opened.
struct OpenCudaOptions {
  std::optional<std::int32_t> device = std::nullopt;  ///< ordinal in this process's numbering, whatever the handle says
  bool read_only = false;                             ///< so that the device refuses this process's writes; by kFd and kFabric only
  bool keep_open = false;   ///< what the driver opened stays so, for the next handle of the same memory, until cuda_collect()
  bool other_user = false;  ///< fetch PyTorch's expandable segments from another user's process, too
};

/// How to reach device memory: the eight items of PyTorch's tuple, and what it lacks. A value, but for one receiver, who opens it once.
struct CudaHandle {
  CudaTransport transport = CudaTransport::kNoMemory;            ///< of a handle that is opened not looked at: the memory handle says it
  std::int32_t device = 0;                                       ///< ordinal in the sender's numbering
  std::optional<std::array<std::byte, 16>> uuid = std::nullopt;  ///< of the device, which wins over the ordinal; PyTorch's tuple has none
  std::uint64_t nbytes = 0;                                      ///< bytes of the storage
  std::uint64_t offset = 0;                                      ///< bytes from where the memory handle leads
  std::string counter = {};                                      ///< name of the counter's file; "" for an empty storage
  std::uint64_t slot = 0;                                        ///< index of the counter in its file
  bool event_required = false;                                   ///< the bytes are good once the event has passed; else they are already
  std::array<std::byte, 64> event = {};                          ///< the event's handle
  std::vector<std::byte> memory = {};                            ///< the memory handle; none for an empty storage
  /// kFd, kPool: the fds that go with it, to be sent in this order. Of a lent storage they are the library's, and open until its last
  /// release; a receiver puts his own here, and closes them himself.
  std::vector<std::int32_t> fds = {};
  friend bool operator==(const CudaHandle&, const CudaHandle&) = default;
};

namespace detail {

// Borrows the fds, and a memory handle that is longer than C's room for it.
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
  if (const Result<void> done = put(handle.counter, c.counter, "the counter's name"); !done) return done.error();
  return c;
}

inline CudaHandle cuda_handle(const tenon_cuda_handle& c) {
  CudaHandle handle;
  handle.transport = static_cast<CudaTransport>(c.transport);
  handle.device = c.device;
  if (std::any_of(std::begin(c.uuid), std::end(c.uuid), [](std::uint8_t byte) { return byte != 0; })) {
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

/// Lend a storage on a CUDA device. No byte is copied. `stream`, a CUstream or a cudaStream_t, is the one in which the bytes were written:
/// what was given to it until now is done before work of the receiver's begins.
inline Result<CudaHandle> try_share_cuda(const Storage& storage, void* stream, const ShareCudaOptions& options = {}) {
  tenon_cuda_options c{};
  c.struct_size = sizeof c;
  c.flags = options.let_write ? std::uint32_t{TENON_CUDA_LET_WRITE} : 0;
  c.form = static_cast<tenon_cuda_form>(options.form);
  c.transport = static_cast<tenon_cuda_transport>(options.transport);
  const Result<tenon_cuda_handle> out = detail::fill<tenon_cuda_handle>(
      [&](tenon_cuda_handle* handle, tenon_error** err) { return tenon_share_cuda(storage.get(), stream, &c, handle, err); });
  if (!out) return out.error();
  return detail::cuda_handle(*out);
}

/// Open device memory that Tenon or PyTorch lends. Bytes that this process holds already, or that it sent, come back as the same storage.
/// What is given to `stream` from now on waits for the sender's work, on the device; the storage counts as used in that stream. Its last
/// release, once the streams have passed, gives the memory back to the sender.
inline Result<Storage> try_open_cuda(const CudaHandle& handle, void* stream, const OpenCudaOptions& options = {}) {
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
  return detail::make<Storage>([&](tenon_storage** out, tenon_error** err) { return tenon_open_cuda(&*from, stream, &c, out, err); });
}

/// Take a message back that will not be opened, on its receiver's side: what opening and releasing it would do to its counter. Needs no
/// CUDA. Of a file that is gone with its sender: nothing.
inline Result<void> try_release_cuda_counter(const std::string& counter, std::uint64_t slot) {
  if (!detail::is_c_text(counter)) return detail::has_nul("the counter's name");
  return detail::call([&](tenon_error** err) { return tenon_release_cuda_counter(counter.c_str(), slot, err); });
}

/// Give device memory back that nobody uses any more: look at all that was released here and still had a receiver or a stream; and close
/// what was only kept open. Returns how many storages' memory waits on.
inline std::uint64_t cuda_collect() noexcept { return tenon_cuda_collect(); }

#ifndef TENON_NO_EXCEPTIONS
// Each throws what its try_ form returns.
inline void cuda_available() { try_cuda_available().value(); }
inline CudaHandle share_cuda(const Storage& storage, void* stream, const ShareCudaOptions& options = {}) {
  return try_share_cuda(storage, stream, options).value();
}
inline Storage open_cuda(const CudaHandle& handle, void* stream, const OpenCudaOptions& options = {}) {
  return try_open_cuda(handle, stream, options).value();
}
inline void release_cuda_counter(const std::string& counter, std::uint64_t slot) { try_release_cuda_counter(counter, slot).value(); }
#endif

TENON_CPP_END

#endif
