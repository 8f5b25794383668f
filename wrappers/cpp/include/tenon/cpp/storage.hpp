// Storages: counted bytes, born shareable.
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

/// Who may write to a shared storage. Chosen at birth, kept by the kernel.
enum class Mode : tenon_mode {
  kShared = TENON_MODE_SHARED,               ///< lender and borrowers write
  kLenderWrites = TENON_MODE_LENDER_WRITES,  ///< only the lender writes; borrowers cannot, whatever they try
  kFrozen = TENON_MODE_FROZEN                ///< filled with write, then frozen: nobody writes again
};

/// Where bytes lie, in DLPack's numbers: {1, 0} is the CPU, {2, N} CUDA device N; {0, 0} of an empty object.
struct Device {
  std::int32_t type = 0;
  std::int32_t id = 0;
  bool is_cpu() const noexcept { return type == 1; }
  friend bool operator==(const Device&, const Device&) = default;
};

/// How a storage is made.
struct StorageOptions {
  Mode mode = Mode::kShared;
  bool isolated = false;         ///< a segment of its own: a borrower can reach nothing but this storage
  bool private_memory = false;   ///< ordinary memory of this process; cannot be lent
  bool zeroed = false;           ///< all bytes 0 at birth
  std::uint64_t alignment = 0;   ///< bytes, a power of two up to 4096; 0: 64
  const Arena* arena = nullptr;  ///< borrowed for the call; where it is born, in its mode; null: in the library's own
  Wait wait = {};                ///< how long a full arena is waited for; with nothing set: not at all
};

namespace detail {

inline Device device_of(const tenon_storage* storage) noexcept {
  const tenon_device device = tenon_storage_device(storage);
  return {device.type, device.id};
}

// An address of a device is none for a span; an empty object has none.
inline Result<void> for_host(const Device& device) {
  if (device.is_cpu()) return {};  // of which there are thousands to be read without a call each
  return call([&](tenon_error** err) { return tenon_device_check_host({device.type, device.id}, err); });
}

// Of a storage that gives out no bytes: empty, or dropped with its lender.
inline Result<void> check_lender(const tenon_storage* storage) {
  return call([&](tenon_error** err) { return tenon_storage_check_lender(storage, err); });
}

inline tenon_storage_options c_options(const StorageOptions& options) noexcept {
  tenon_storage_options c{};
  c.struct_size = sizeof c;
  c.mode = static_cast<tenon_mode>(options.mode);
  c.flags = (options.isolated ? std::uint32_t{TENON_STORAGE_ISOLATED} : 0U) |
            (options.private_memory ? std::uint32_t{TENON_STORAGE_PRIVATE} : 0U) |
            (options.zeroed ? std::uint32_t{TENON_STORAGE_ZEROED} : 0U);
  c.alignment = options.alignment;
  c.arena = options.arena == nullptr ? nullptr : options.arena->get();
  return c;
}

// What keeps wrapped memory alive. The C library calls end() once.
template <class Keeper>
struct Kept {
  Keeper keeper;
  static void end(void* context) noexcept {
    const std::unique_ptr<Kept> self(static_cast<Kept*>(context));
    if constexpr (std::is_invocable_v<Keeper&>) guarded([&] { std::invoke(self->keeper); });
  }
};

}  // namespace detail

/// Counted, contiguous bytes. A copy of the object is one more reference to the same bytes; == asks whether it is the same storage.
class Storage : public detail::Counted<Storage, tenon_storage, tenon_storage_retain, tenon_storage_release> {
 public:
  /// Make a storage of `nbytes` bytes; 0 is allowed. Its memory is reserved before this returns: a full machine is an error here and no
  /// SIGBUS later. The bytes are unspecified unless options.zeroed. A full arena is kResourceExhausted, with who holds what as the detail
  /// "holders"; after a wait it is kTimeout.
  static Result<Storage> try_make(std::uint64_t nbytes, const StorageOptions& options = {}) {
    return born(options, [&](const tenon_storage_options* c, tenon_storage** out, tenon_error** err) {
      return tenon_storage_new(c, nbytes, out, err);
    });
  }

  /// Make a storage that holds a copy of `bytes`. With Mode::kFrozen it comes back frozen.
  static Result<Storage> try_make_from(std::span<const std::byte> bytes, const StorageOptions& options = {}) {
    return born(options, [&](const tenon_storage_options* c, tenon_storage** out, tenon_error** err) {
      return tenon_storage_new_from(c, bytes.data(), bytes.size(), out, err);
    });
  }

  /// Make a private storage over memory that belongs to somebody else; it cannot be lent. `keeper` is kept until the last reference goes,
  /// and is then, on the thread that gave that back, called if it can be called with nothing, and destroyed: a lambda that frees, a
  /// unique_ptr, a shared_ptr, a vector. If this fails it is destroyed and not called. What a call of it throws comes out of close(), or
  /// else goes to the handler of set_deleter_exception_handler. Its destructor must not throw.
  template <class Keeper>
  static Result<Storage> try_wrap(std::span<std::byte> bytes, Keeper keeper) {
    return wrap_any(bytes.data(), bytes.size(), std::move(keeper), 0);
  }

  /// As try_wrap, for memory that must not be written: the storage is read-only.
  template <class Keeper>
  static Result<Storage> try_wrap_read_only(std::span<const std::byte> bytes, Keeper keeper) {
    // The flag is the promise that nobody writes through it.
    return wrap_any(const_cast<std::byte*>(bytes.data()), bytes.size(), std::move(keeper), TENON_STORAGE_READ_ONLY);
  }

  /// The bytes, to read; borrowed from the storage. Fails with kUnsupported if they are not the CPU's, and with kPeerGone if the
  /// lender is gone and its connection drops what it lent.
  Result<std::span<const std::byte>> try_bytes() const& {
    if (const Result<void> host = detail::for_host(device()); !host) return host.error();
    const void* const data = tenon_storage_data(get());
    if (data == nullptr) {
      if (const Result<void> lender = detail::check_lender(get()); !lender) return lender.error();
    }
    return std::span<const std::byte>(static_cast<const std::byte*>(data), size());
  }
  Result<std::span<const std::byte>> try_bytes() const&& = delete;

  /// The same for a storage that is known to be the CPU's: of another, raises what try_bytes returns.
  std::span<const std::byte> bytes() const& { return try_bytes().value(); }
  std::span<const std::byte> bytes() const&& = delete;

  /// The bytes, to write; borrowed from the storage. Fails with kPermission if it is read-only, and as try_bytes does.
  Result<std::span<std::byte>> try_bytes_mut() & {
    if (const Result<void> host = detail::for_host(device()); !host) return host.error();
    void* data = nullptr;
    const Result<void> called = detail::call([&](tenon_error** err) { return tenon_storage_data_mut(get(), &data, err); });
    if (!called) return called.error();
    return std::span<std::byte>(static_cast<std::byte*>(data), size());
  }
  Result<std::span<std::byte>> try_bytes_mut() && = delete;

  /// The size in bytes.
  std::uint64_t nbytes() const noexcept { return tenon_storage_nbytes(get()); }
  /// Where the bytes lie.
  Device device() const noexcept { return detail::device_of(get()); }
  /// Chosen at birth, or what the seals of an opened segment enforce.
  Mode mode() const noexcept { return static_cast<Mode>(tenon_storage_mode(get())); }
  /// Whether this process must not write through memory.
  bool is_read_only() const noexcept { return tenon_storage_is_read_only(get()) != 0; }
  /// Whether the bytes lie in memory that can be lent.
  bool is_shared() const noexcept { return tenon_storage_is_shared(get()) != 0; }
  /// Whether the kernel holds the segment's size, so that reading can never meet SIGBUS.
  bool is_sealed() const noexcept { return tenon_storage_is_sealed(get()) != 0; }
  /// A number never given to another storage of this process; 0 if empty.
  std::uint64_t id() const noexcept { return tenon_storage_id(get()); }
  /// Strong references at this moment, for tests and debugging.
  std::uint64_t use_count() const noexcept { return tenon_storage_use_count(get()); }
  /// Whether both lie over the same bytes, whatever the access.
  bool same_memory(const Storage& other) const noexcept { return tenon_storage_same_memory(get(), other.get()) != 0; }
  /// Whether both are the same storage.
  friend bool operator==(const Storage& a, const Storage& b) noexcept { return a.get() == b.get(); }

  /// Copy bytes in, from byte `offset` of the storage on. The only way to fill one of Mode::kFrozen.
  Result<void> try_write(std::span<const std::byte> bytes, std::uint64_t offset = 0) {
    return detail::call([&](tenon_error** err) { return tenon_storage_write(get(), offset, bytes.data(), bytes.size(), err); });
  }

  /// Copy as many bytes out as `room` has. Gives an error and no SIGBUS if the file below was cut short.
  Result<void> try_read(std::span<std::byte> room, std::uint64_t offset = 0) const {
    return detail::call([&](tenon_error** err) { return tenon_storage_read(get(), offset, room.data(), room.size(), err); });
  }

  /// End the filling of a storage of Mode::kFrozen: the kernel refuses every later write, by anybody.
  Result<void> try_freeze() {
    return detail::call([&](tenon_error** err) { return tenon_storage_freeze(get(), err); });
  }

  /// Of a storage on a CUDA device: work in that stream (a CUstream or a cudaStream_t) uses it, and what was given to the stream until the
  /// storage's last release has passed before the memory is given back. The host does not wait for it.
  Result<void> try_record_stream(void* stream) const {
    return detail::call([&](tenon_error** err) { return tenon_storage_record_stream(get(), stream, err); });
  }

  /// Of a storage on a CUDA device: what is given to that stream from now on comes after what was given until now to the streams in which
  /// the storage is used. For whoever uses it in yet another stream; the host does not wait, and the stream is not recorded.
  Result<void> try_order_stream(void* stream) const {
    return detail::call([&](tenon_error** err) { return tenon_storage_order_stream(get(), stream, err); });
  }

  /// Let a CUDA device reach the bytes, which are shared memory of the host, and give the address by which it does; again, the same one.
  /// The whole segment is registered with the driver until it goes: see tenon/cuda_pinned.h.
  Result<void*> try_pin(std::int32_t device = 0) const {
    void* out = nullptr;
    const Result<void> called = detail::call([&](tenon_error** err) { return tenon_storage_pin(get(), device, &out, err); });
    if (!called) return called.error();
    return out;
  }

  /// Whether this process has pinned the segment in which the bytes lie.
  bool is_pinned() const noexcept { return tenon_storage_is_pinned(get()) != 0; }

#ifndef TENON_NO_EXCEPTIONS
  // Each throws what its try_ form returns.
  static Storage make(std::uint64_t nbytes, const StorageOptions& options = {}) { return try_make(nbytes, options).value(); }
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
  void write(std::span<const std::byte> bytes, std::uint64_t offset = 0) { try_write(bytes, offset).value(); }
  void read(std::span<std::byte> room, std::uint64_t offset = 0) const { try_read(room, offset).value(); }
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
    const Result<void> called = detail::waiting(options.wait, [&](const tenon_wait* wait, tenon_error** err) {
      c.wait = wait;
      return function(&c, &out, err);
    });
    if (!called) return called.error();
    return adopt(out);
  }

  template <class Keeper>
  static Result<Storage> wrap_any(void* data, std::size_t nbytes, Keeper keeper, std::uint32_t flags) {
    using Kept = detail::Kept<Keeper>;
    tenon_storage_options c{};
    c.struct_size = sizeof c;
    c.flags = flags;
    std::unique_ptr<Kept> kept(new Kept{std::move(keeper)});
    Result<Storage> result = detail::make<Storage>(
        [&](tenon_storage** out, tenon_error** err) { return tenon_storage_wrap(data, nbytes, &Kept::end, kept.get(), &c, out, err); });
    if (result) (void)kept.release();
    return result;
  }
};

/// Give memory back to the system that is kept warm for later storages. Returns the bytes given back.
inline std::uint64_t trim() noexcept { return tenon_storage_trim(); }

TENON_CPP_END

template <>
struct std::hash<tenon::Storage> {
  std::size_t operator()(const tenon::Storage& storage) const noexcept { return std::hash<std::uint64_t>()(storage.id()); }
};

#endif
