// tenon/storage.h: storages and the memory behind them (impl/storage/storage.h).
#include <tenon/storage.h>

#include "base/checked.h"
#include "boundary.h"
#include "handles.h"
#include "share/storage_at.h"
#include "storage/host_access.h"
#include "wait.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::storage::Mode;
using tenon::storage::Storage;
using tenon::storage::StorageOptions;

namespace {

static_assert(static_cast<uint32_t>(Mode::kShared) == TENON_MODE_SHARED &&
              static_cast<uint32_t>(Mode::kLenderWrites) == TENON_MODE_LENDER_WRITES &&
              static_cast<uint32_t>(Mode::kFrozen) == TENON_MODE_FROZEN);

Status read_storage_options(const tenon_storage_options* options, uint32_t known_flags,
                            StorageOptions* out) {
  tenon_storage_options given{};
  TENON_TRY(read_struct(options, "tenon_storage_options", &given));
  TENON_TRY(check_flags(given.flags, known_flags, "tenon_storage_options"));
  TENON_TRY(check_argument(given.mode <= TENON_MODE_FROZEN,
                           "the mode is none of SHARED, LENDER_WRITES and FROZEN"));
  if (given.alignment != 0) {
    TENON_TRY(check_argument(tenon::is_power_of_two(given.alignment) && given.alignment <= 4096,
                             "the alignment is no power of two up to 4096"));
    out->alignment = given.alignment;
  }
  out->mode = static_cast<Mode>(given.mode);
  out->isolated = (given.flags & TENON_STORAGE_ISOLATED) != 0;
  out->is_private = (given.flags & TENON_STORAGE_PRIVATE) != 0;
  out->zeroed = (given.flags & TENON_STORAGE_ZEROED) != 0;
  out->read_only = (given.flags & TENON_STORAGE_READ_ONLY) != 0;
  out->will_fill = (given.flags & TENON_STORAGE_WILL_FILL) != 0;
  TENON_TRY(check_argument(!out->zeroed || !out->will_fill,
                           "the flags ZEROED and WILL_FILL of a storage exclude each other: give "
                           "ZEROED for bytes that are 0, or "
                           "WILL_FILL if you write all of them"));
  if (given.arena == nullptr) return Status::ok();
  TENON_TRY(check_argument(!out->is_private && !out->isolated,
                           "a storage in an arena is neither PRIVATE nor ISOLATED"));
  out->arena = object(given.arena);
  const Mode mode = out->arena->options().mode;
  TENON_TRY(
      check_argument(given.mode == 0 || out->mode == mode, "the mode is not that of the arena"));
  out->mode = mode;
  if (given.wait != nullptr) {
    TENON_ASSIGN(out->wait, read_wait(given.wait));
  }
  return Status::ok();
}

constexpr uint32_t kNewFlags =
    TENON_STORAGE_ISOLATED | TENON_STORAGE_PRIVATE | TENON_STORAGE_ZEROED | TENON_STORAGE_WILL_FILL;

}  // namespace

extern "C" {

tenon_status tenon_storage_new(const tenon_storage_options* options, uint64_t nbytes,
                               tenon_storage** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    StorageOptions given;
    TENON_TRY(read_storage_options(options, kNewFlags, &given));
    TENON_ASSIGN(Ref<Storage> storage, Storage::create(given, nbytes));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_status tenon_storage_new_from(const tenon_storage_options* options, const void* data,
                                    uint64_t nbytes, tenon_storage** out,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(check_argument(data != nullptr || nbytes == 0, "data is NULL"));
    StorageOptions given;
    TENON_TRY(read_storage_options(options, kNewFlags, &given));
    TENON_ASSIGN(Ref<Storage> storage, Storage::create_from(given, data, nbytes));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_status tenon_storage_wrap(void* data, uint64_t nbytes, void (*release)(void* context),
                                void* context, const tenon_storage_options* options,
                                tenon_storage** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(check_argument(data != nullptr || nbytes == 0, "data is NULL"));
    TENON_TRY(check_argument(nbytes <= UINT64_MAX - reinterpret_cast<uintptr_t>(data),
                             "data + nbytes passes the end of the address space"));
    StorageOptions given;
    TENON_TRY(read_storage_options(options, TENON_STORAGE_READ_ONLY, &given));
    TENON_ASSIGN(Ref<Storage> storage, Storage::wrap(data, nbytes, release, context, given));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_storage* tenon_storage_retain(tenon_storage* storage) noexcept {
  if (storage != nullptr) object(storage)->retain();
  return storage;
}

void tenon_storage_release(tenon_storage* storage) noexcept {
  if (storage != nullptr) object(storage)->release();
}

const void* tenon_storage_data(const tenon_storage* storage) noexcept {
  if (storage == nullptr || object(storage)->is_dropped()) return nullptr;
  // The argument is const because the bytes are. Remembering the address does not change the
  // storage for its users.
  tenon::share::remember_address(const_cast<Storage*>(object(storage)));
  return object(storage)->data();
}

tenon_status tenon_storage_at(const void* address, uint64_t nbytes, tenon_storage** out,
                              uint64_t* offset, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    Ref<Storage> storage = tenon::share::find_storage_at(address, nbytes);
    if (!storage) {
      // Callers look up the tensors of PyTorch one by one, and most are not found. Making a message
      // that nobody reads would take most of the time.
      if (err == nullptr) return Status(tenon::Code::kNotFound, std::string());
      return Status(tenon::Code::kNotFound,
                    tenon::format("no storage of this process has the %llu bytes at %p: the "
                                  "storage has ended, its address was never "
                                  "given out, or the memory is not Tenon's",
                                  tenon::as_llu(nbytes), address));
    }
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    const uint64_t first = reinterpret_cast<uintptr_t>(storage->data());
    if (offset != nullptr) *offset = reinterpret_cast<uintptr_t>(address) - first;
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_status tenon_storage_check_lender(const tenon_storage* storage, tenon_error** err) noexcept {
  if (storage == nullptr || !object(storage)->is_dropped()) return TENON_OK;
  return boundary(err, [&] { return object(storage)->check_lender(); });
}

tenon_status tenon_storage_data_mut(tenon_storage* storage, void** out,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(*out, object(storage)->data_mut());
    tenon::share::remember_address(object(storage));
    return Status::ok();
  });
}

uint64_t tenon_storage_nbytes(const tenon_storage* storage) noexcept {
  return storage == nullptr ? 0 : object(storage)->nbytes();
}

tenon_device tenon_storage_device(const tenon_storage* storage) noexcept {
  if (storage == nullptr) return {0, 0};
  const auto device = object(storage)->device();
  return {device.type, device.id};
}

tenon_status tenon_device_check_host(tenon_device device, tenon_error** err) noexcept {
  if (device.type == 0) return TENON_OK;  // the device of a NULL storage
  return boundary(err, [&] { return tenon::storage::check_host({device.type, device.id}); });
}

tenon_mode tenon_storage_mode(const tenon_storage* storage) noexcept {
  return storage == nullptr || object(storage)->is_private()
             ? tenon_mode{TENON_MODE_SHARED}
             : static_cast<tenon_mode>(object(storage)->mode());
}

int tenon_storage_is_read_only(const tenon_storage* storage) noexcept {
  return storage != nullptr && object(storage)->is_read_only() ? 1 : 0;
}

int tenon_storage_is_shared(const tenon_storage* storage) noexcept {
  return storage != nullptr && object(storage)->is_shared() ? 1 : 0;
}

int tenon_storage_is_sealed(const tenon_storage* storage) noexcept {
  return storage != nullptr && object(storage)->is_sealed() ? 1 : 0;
}

int tenon_storage_same_memory(const tenon_storage* a, const tenon_storage* b) noexcept {
  return a != nullptr && b != nullptr && object(a)->same_memory(*object(b)) ? 1 : 0;
}

uint64_t tenon_storage_id(const tenon_storage* storage) noexcept {
  return storage == nullptr ? 0 : object(storage)->id();
}

uint64_t tenon_storage_use_count(const tenon_storage* storage) noexcept {
  return storage == nullptr ? 0 : object(storage)->strong_count();
}

tenon_status tenon_storage_write(tenon_storage* storage, uint64_t offset, const void* data,
                                 uint64_t nbytes, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(data != nullptr || nbytes == 0, "data is NULL"));
    return object(storage)->write(offset, data, nbytes);
  });
}

tenon_status tenon_storage_read(const tenon_storage* storage, uint64_t offset, void* data,
                                uint64_t nbytes, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(data != nullptr || nbytes == 0, "data is NULL"));
    return object(storage)->read(offset, data, nbytes);
  });
}

tenon_status tenon_storage_freeze(tenon_storage* storage, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    return object(storage)->freeze();
  });
}

uint64_t tenon_storage_trim(void) noexcept { return tenon::memory::trim_arena(); }
}
