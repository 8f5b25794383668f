/// @file
/// Storages: the memory that Tenon lends. tenon/storage.h has the details.
#ifndef TENON_CPP_STORAGE_HPP
#define TENON_CPP_STORAGE_HPP

#include <tenon/by_cuda.h>
#include <tenon/cuda_pinned.h>
#include <tenon/storage.h>
#include <tenon/cpp/arena.hpp>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/wait.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

TENON_CPP_BEGIN

/// Says who may write to a storage once it is shared. The mode is chosen when the storage is made,
/// and the kernel enforces it.
enum class Mode : tenon_mode {
  /// The lender and its borrowers may write.
  kShared = TENON_MODE_SHARED,
  /// Only the lender may write. The kernel refuses every borrower's write.
  kLenderWrites = TENON_MODE_LENDER_WRITES,
  /// The storage is filled with write() and then frozen. Afterwards nobody can write to it.
  kFrozen = TENON_MODE_FROZEN
};

/// The device on which bytes lie, in DLPack's numbers: {1, 0} is the CPU and {2, N} is CUDA device
/// N. An empty object has {0, 0}.
struct Device {
  std::int32_t type = 0;
  std::int32_t id = 0;
  bool is_cpu() const noexcept { return type == 1; }
  friend bool operator==(const Device&, const Device&) = default;
};

/// How to make a storage.
struct StorageOptions {
  Mode mode = Mode::kShared;
  /// The storage gets a segment of its own: a borrower can reach no other storage through it.
  bool isolated = false;
  /// The storage lies in ordinary memory of this process and cannot be lent.
  bool private_memory = false;
  /// All bytes of the new storage are 0.
  bool zeroed = false;
  /// The caller promises to write all bytes before it lends or reads them, so a reused block that
  /// was lent before is not cleared. If the promise is broken, a borrower can read bytes that were
  /// lent to another borrower. Together with `zeroed` it is an error.
  bool will_fill = false;
  /// The alignment in bytes, a power of two up to 4096. 0 means 64.
  std::uint64_t alignment = 0;
  /// The arena to allocate from, borrowed for the call. The storage gets the arena's mode. Null
  /// means one of the library's own arenas.
  const Arena* arena = nullptr;
  /// How long to wait for room when the arena is full. With nothing set the call does not wait.
  Wait wait = {};
};

namespace detail {

inline Device device_of(const tenon_storage* storage) noexcept {
  const tenon_device device = tenon_storage_device(storage);
  return {device.type, device.id};
}

// Fails if the bytes are on a device, because a span must not hold an address of a device. An empty
// object has no address and passes.
inline Result<void> for_host(const Device& device) {
  // This shortcut avoids a call into the library for each of thousands of tensors.
  if (device.is_cpu()) return {};
  return call(
      [&](tenon_error** err) { return tenon_device_check_host({device.type, device.id}, err); });
}

// Finds out why a storage gives out no bytes. It returns ok if the storage is empty, and an error
// if the storage was dropped because its lender is gone.
inline Result<void> check_lender(const tenon_storage* storage) {
  return call([&](tenon_error** err) { return tenon_storage_check_lender(storage, err); });
}

inline tenon_storage_options c_options(const StorageOptions& options) noexcept {
  tenon_storage_options c{};
  c.struct_size = sizeof c;
  c.mode = static_cast<tenon_mode>(options.mode);
  c.flags = (options.isolated ? std::uint32_t{TENON_STORAGE_ISOLATED} : 0U) |
            (options.private_memory ? std::uint32_t{TENON_STORAGE_PRIVATE} : 0U) |
            (options.zeroed ? std::uint32_t{TENON_STORAGE_ZEROED} : 0U) |
            (options.will_fill ? std::uint32_t{TENON_STORAGE_WILL_FILL} : 0U);
  c.alignment = options.alignment;
  c.arena = options.arena == nullptr ? nullptr : options.arena->get();
  return c;
}

// Keeps wrapped memory alive. The C library calls end() once.
template <class Keeper>
struct Kept {
  Keeper keeper;
  static void end(void* context) noexcept {
    const std::unique_ptr<Kept> self(static_cast<Kept*>(context));
    if constexpr (std::is_invocable_v<Keeper&>) guarded([&] { std::invoke(self->keeper); });
  }
};

}  // namespace detail

struct StorageAt;

/// A contiguous range of bytes on one device, with a reference count. A copy of the object is
/// another reference to the same bytes. == tells whether two objects refer to the same storage.
class Storage
    : public detail::Counted<Storage, tenon_storage, tenon_storage_retain, tenon_storage_release> {
 public:
  /// Makes a storage of `nbytes` bytes. 0 is allowed. The memory is reserved before the call
  /// returns, so a machine that has no memory left causes an error here and not a SIGBUS later. The
  /// bytes are unspecified unless options.zeroed is set. A full arena gives kResourceExhausted, and
  /// after a wait kTimeout. The detail "holders" then says which processes hold its memory.
  static Result<Storage> try_make(std::uint64_t nbytes, const StorageOptions& options = {}) {
    return born(options, [&](const tenon_storage_options* c, tenon_storage** out,
                             tenon_error** err) { return tenon_storage_new(c, nbytes, out, err); });
  }

  /// Makes a storage that holds a copy of `bytes`. A storage of Mode::kFrozen is frozen when the
  /// call returns.
  static Result<Storage> try_make_from(std::span<const std::byte> bytes,
                                       const StorageOptions& options = {}) {
    return born(options,
                [&](const tenon_storage_options* c, tenon_storage** out, tenon_error** err) {
                  return tenon_storage_new_from(c, bytes.data(), bytes.size(), out, err);
                });
  }

  /// Makes a private storage over memory that the caller provides. It cannot be lent. The storage
  /// keeps `keeper` until its last reference is released. On the thread that releases that
  /// reference, `keeper` is then called, if it can be called without arguments, and destroyed. So
  /// `keeper` can be a lambda that frees the memory, a unique_ptr, a shared_ptr or a vector. If
  /// try_wrap fails, `keeper` is destroyed and not called. If the call of `keeper` throws in
  /// close(), close() throws the same exception. Outside close() the exception goes to the handler
  /// of set_deleter_exception_handler. The destructor of `keeper` must not throw.
  template <class Keeper>
  static Result<Storage> try_wrap(std::span<std::byte> bytes, Keeper keeper) {
    return wrap_any(bytes.data(), bytes.size(), std::move(keeper), 0);
  }

  /// Like try_wrap, for memory that must not be written: the storage is read-only.
  template <class Keeper>
  static Result<Storage> try_wrap_read_only(std::span<const std::byte> bytes, Keeper keeper) {
    // With the flag READ_ONLY nobody writes through this pointer.
    return wrap_any(const_cast<std::byte*>(bytes.data()), bytes.size(), std::move(keeper),
                    TENON_STORAGE_READ_ONLY);
  }

  /// Finds the storage that has the `nbytes` bytes at `address`. Use this function for an address
  /// that another library gives back. A storage is found once its address was given out by one of
  /// the functions below, by a tensor's data or by DLPack. Private and empty storages are not
  /// found, which is kNotFound. StorageAt is defined below this class.
  static Result<StorageAt> try_at(const void* address, std::uint64_t nbytes = 1);

  /// Gives the bytes for reading, borrowed from the storage. It fails with kUnsupported if the
  /// bytes are not in memory of the CPU, and with kPeerGone if the storage was dropped because its
  /// lender is gone.
  Result<std::span<const std::byte>> try_bytes() const& {
    if (const Result<void> host = detail::for_host(device()); !host) return host.error();
    const void* const data = tenon_storage_data(get());
    if (data == nullptr) {
      if (const Result<void> lender = detail::check_lender(get()); !lender) return lender.error();
    }
    return std::span<const std::byte>(static_cast<const std::byte*>(data), size());
  }
  Result<std::span<const std::byte>> try_bytes() const&& = delete;

  /// Gives the bytes for reading, for a storage that is known to be on the CPU. For any other
  /// storage it raises the error that try_bytes returns.
  std::span<const std::byte> bytes() const& { return try_bytes().value(); }
  std::span<const std::byte> bytes() const&& = delete;

  /// Gives the bytes for writing, borrowed from the storage. It fails with kPermission if the
  /// storage is read-only, and in the same cases as try_bytes.
  Result<std::span<std::byte>> try_bytes_mut() & {
    if (const Result<void> host = detail::for_host(device()); !host) return host.error();
    void* data = nullptr;
    const Result<void> called =
        detail::call([&](tenon_error** err) { return tenon_storage_data_mut(get(), &data, err); });
    if (!called) return called.error();
    return std::span<std::byte>(static_cast<std::byte*>(data), size());
  }
  Result<std::span<std::byte>> try_bytes_mut() && = delete;

  /// The size in bytes.
  std::uint64_t nbytes() const noexcept { return tenon_storage_nbytes(get()); }
  /// The device on which the bytes lie.
  Device device() const noexcept { return detail::device_of(get()); }
  /// The mode that was chosen when the storage was made, or that the seals of an opened segment
  /// enforce.
  Mode mode() const noexcept { return static_cast<Mode>(tenon_storage_mode(get())); }
  /// Whether this process must not write through memory.
  bool is_read_only() const noexcept { return tenon_storage_is_read_only(get()) != 0; }
  /// Whether the bytes lie in memory that can be lent.
  bool is_shared() const noexcept { return tenon_storage_is_shared(get()) != 0; }
  /// Whether the kernel guarantees the segment's size, so that no process can cut the memory short
  /// and reading it never causes a SIGBUS for that reason.
  bool is_sealed() const noexcept { return tenon_storage_is_sealed(get()) != 0; }
  /// A number that no other storage of this process ever gets. 0 for an empty object.
  std::uint64_t id() const noexcept { return tenon_storage_id(get()); }
  /// The number of strong references at this moment, for tests and debugging.
  std::uint64_t use_count() const noexcept { return tenon_storage_use_count(get()); }
  /// Whether both storages lie over the same bytes, whatever their access.
  bool same_memory(const Storage& other) const noexcept {
    return tenon_storage_same_memory(get(), other.get()) != 0;
  }
  /// Whether both objects refer to the same storage.
  friend bool operator==(const Storage& a, const Storage& b) noexcept { return a.get() == b.get(); }

  /// Copies bytes into the storage, starting at byte `offset`. Only this function can fill a
  /// storage of Mode::kFrozen after it was made.
  Result<void> try_write(std::span<const std::byte> bytes, std::uint64_t offset = 0) {
    return detail::call([&](tenon_error** err) {
      return tenon_storage_write(get(), offset, bytes.data(), bytes.size(), err);
    });
  }

  /// Copies bytes out of the storage, from byte `offset` on, as many as `room` holds. If the file
  /// under the storage was cut short, this function returns an error where a load would cause a
  /// SIGBUS.
  Result<void> try_read(std::span<std::byte> room, std::uint64_t offset = 0) const {
    return detail::call([&](tenon_error** err) {
      return tenon_storage_read(get(), offset, room.data(), room.size(), err);
    });
  }

  /// Freezes a storage of Mode::kFrozen. From then on the kernel refuses every write by any
  /// process.
  Result<void> try_freeze() {
    return detail::call([&](tenon_error** err) { return tenon_storage_freeze(get(), err); });
  }

  /// For a storage on a CUDA device: records that work in `stream` (a CUstream or a cudaStream_t)
  /// uses the storage. The memory is given back only after all work that was given to `stream`
  /// before the storage's last release has completed. The host does not wait for it.
  Result<void> try_record_stream(void* stream) const {
    return detail::call(
        [&](tenon_error** err) { return tenon_storage_record_stream(get(), stream, err); });
  }

  /// For a storage on a CUDA device: makes work that is given to `stream` from now on wait for the
  /// work that was given until now to the streams in which the storage is used. Call it before
  /// using the storage in another stream. The host does not wait, and `stream` is not recorded.
  Result<void> try_order_stream(void* stream) const {
    return detail::call(
        [&](tenon_error** err) { return tenon_storage_order_stream(get(), stream, err); });
  }

  /// Lets a CUDA device access the bytes, which are shared memory of the host, and gives the
  /// address at which the device finds them. A second call gives the same address. The whole
  /// segment is registered with the driver until the segment ends; see tenon/cuda_pinned.h.
  Result<void*> try_pin(std::int32_t device = 0) const {
    void* out = nullptr;
    const Result<void> called = detail::call(
        [&](tenon_error** err) { return tenon_storage_pin(get(), device, &out, err); });
    if (!called) return called.error();
    return out;
  }

  /// Whether this process has pinned the segment in which the bytes lie.
  bool is_pinned() const noexcept { return tenon_storage_is_pinned(get()) != 0; }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static StorageAt at(const void* address, std::uint64_t nbytes = 1);
  static Storage make(std::uint64_t nbytes, const StorageOptions& options = {}) {
    return try_make(nbytes, options).value();
  }
  static Storage make_from(std::span<const std::byte> bytes, const StorageOptions& options = {}) {
    return try_make_from(bytes, options).value();
  }
  template <class Keeper>
  static Storage wrap(std::span<std::byte> bytes, Keeper keeper) {
    return try_wrap(bytes, std::move(keeper)).value();
  }
  template <class Keeper>
  static Storage wrap_read_only(std::span<const std::byte> bytes, Keeper keeper) {
    return try_wrap_read_only(bytes, std::move(keeper)).value();
  }
  std::span<std::byte> bytes_mut() & { return try_bytes_mut().value(); }
  std::span<std::byte> bytes_mut() && = delete;
  void write(std::span<const std::byte> bytes, std::uint64_t offset = 0) {
    try_write(bytes, offset).value();
  }
  void read(std::span<std::byte> room, std::uint64_t offset = 0) const {
    try_read(room, offset).value();
  }
  void freeze() { try_freeze().value(); }
  void record_stream(void* stream) const { try_record_stream(stream).value(); }
  void order_stream(void* stream) const { try_order_stream(stream).value(); }
  void* pin(std::int32_t device = 0) const { return try_pin(device).value(); }
#endif

 private:
  std::size_t size() const noexcept { return static_cast<std::size_t>(nbytes()); }

  template <class Function>
  static Result<Storage> born(const StorageOptions& options, Function&& function) {
    tenon_storage_options c = detail::c_options(options);
    tenon_storage* out = nullptr;
    const Result<void> called =
        detail::waiting(options.wait, [&](const tenon_wait* wait, tenon_error** err) {
          c.wait = wait;
          return function(&c, &out, err);
        });
    if (!called) return called.error();
    return adopt(out);
  }

  template <class Keeper>
  static Result<Storage> wrap_any(void* data, std::size_t nbytes, Keeper keeper,
                                  std::uint32_t flags) {
    using Kept = detail::Kept<Keeper>;
    tenon_storage_options c{};
    c.struct_size = sizeof c;
    c.flags = flags;
    std::unique_ptr<Kept> kept(new Kept{std::move(keeper)});
    Result<Storage> result = detail::make<Storage>([&](tenon_storage** out, tenon_error** err) {
      return tenon_storage_wrap(data, nbytes, &Kept::end, kept.get(), &c, out, err);
    });
    if (result) (void)kept.release();
    return result;
  }
};

/// A storage, and the offset of an address in it.
struct StorageAt {
  Storage storage;
  /// Where the address lies, in bytes from the start of the storage.
  std::uint64_t offset = 0;
};

inline Result<StorageAt> Storage::try_at(const void* address, std::uint64_t nbytes) {
  std::uint64_t offset = 0;
  Result<Storage> storage = detail::make<Storage>([&](tenon_storage** out, tenon_error** err) {
    return tenon_storage_at(address, nbytes, out, &offset, err);
  });
  if (!storage) return storage.error();
  return StorageAt{std::move(storage).value(), offset};
}

#ifndef TENON_NO_EXCEPTIONS
inline StorageAt Storage::at(const void* address, std::uint64_t nbytes) {
  return try_at(address, nbytes).value();
}
#endif

/// Returns kept memory to the system: free memory that the library keeps for later storages. The
/// result is the number of bytes that were returned.
inline std::uint64_t trim() noexcept { return tenon_storage_trim(); }

TENON_CPP_END

template <>
struct std::hash<tenon::Storage> {
  std::size_t operator()(const tenon::Storage& storage) const noexcept {
    return std::hash<std::uint64_t>()(storage.id());
  }
};

#endif
