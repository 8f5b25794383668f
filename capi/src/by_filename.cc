// tenon/by_filename.h: lends storages by name and opens them, sweeps names and starts the manager
// (impl/names/by_filename.h, impl/names/manager.h).
#include <tenon/by_filename.h>

#include <cstring>

#include "boundary.h"
#include "by_fd.h"
#include "channel/deposit.h"
#include "handles.h"
#include "names/by_filename.h"
#include "names/held_files.h"
#include "names/manager.h"
#include "wait.h"

namespace tenon::capi {
namespace {

using names::FilenameOptions;
using names::NameClaim;
using storage::Storage;

constexpr size_t kManagerRoom = sizeof(tenon_filename_handle::manager);
constexpr size_t kNameRoom = sizeof(tenon_filename_handle::name);
static_assert(kManagerRoom == names::kManagerPathNbytes && kNameRoom == names::kNameNbytes);

// A wait for another process lasts 5 seconds unless the caller says otherwise. The other side
// answers at once or is in trouble.
Result<os::Wait> read_wait_here(const tenon_wait* wait) {
  if (wait == nullptr) return os::Wait{.timeout_ns = 5'000'000'000};
  return read_wait(wait);
}

Result<FilenameOptions> read_name_options(const tenon_filename_options* options) {
  tenon_filename_options given{};
  TENON_TRY(read_struct(options, "tenon_filename_options", &given));
  TENON_TRY(check_flags(given.flags,
                        TENON_FILENAME_TORCH | TENON_FILENAME_IN_FLIGHT | TENON_FILENAME_GROUP,
                        "tenon_filename_options"));
  FilenameOptions result;
  TENON_ASSIGN(result.access, read_access(given.access));
  result.torch = (given.flags & TENON_FILENAME_TORCH) != 0;
  result.in_flight = (given.flags & TENON_FILENAME_IN_FLIGHT) != 0;
  result.has_group = (given.flags & TENON_FILENAME_GROUP) != 0;
  TENON_TRY(check_argument(result.has_group || given.group == 0,
                           "a group is given, but not the flag GROUP"));
  result.group = given.group;
  if (given.mode != 0) result.mode = given.mode;
  if (given.directory != nullptr) result.directory = given.directory;
  if (given.prefix != nullptr) result.prefix = given.prefix;
  if (given.name != nullptr) {
    TENON_TRY(check_argument(given.name[0] != '\0', "the name is empty"));
    result.name = given.name;
  }
  if (given.manager != nullptr) {
    TENON_TRY(check_argument(std::strlen(given.manager) < kManagerRoom,
                             "the path of the manager is longer than 107 bytes"));
    result.manager = given.manager;
  }
  return result;
}

// Reads a handle. It comes from another process, so its arrays may lack the NUL.
Result<NameClaim> read_name_handle(const tenon_filename_handle* handle) {
  TENON_TRY(check_argument(handle != nullptr, "handle is NULL"));
  tenon_filename_handle given{};
  TENON_TRY(read_struct(handle, "tenon_filename_handle", &given));
  TENON_TRY(check_flags(given.reserved, 0, "tenon_filename_handle"));
  TENON_TRY(check_argument(std::memchr(given.manager, '\0', kManagerRoom) != nullptr,
                           "the handle's manager does not end with NUL"));
  TENON_TRY(check_argument(std::memchr(given.name, '\0', kNameRoom) != nullptr,
                           "the handle's name does not end with NUL"));
  NameClaim result;
  TENON_ASSIGN(result.access, read_access(given.access));
  result.offset = given.offset;
  result.nbytes = given.nbytes;
  result.manager = given.manager;
  result.name = given.name;
  return result;
}

Status write_name_handle(const NameClaim& claim, tenon_filename_handle* out) {
  tenon_filename_handle result{};
  result.access = static_cast<tenon_access>(claim.access);
  result.offset = claim.offset;
  result.nbytes = claim.nbytes;
  if (claim.manager.size() >= kManagerRoom || claim.name.size() >= kNameRoom)
    return Status(Code::kInternal, "a name or a manager's path has outgrown its handle");
  std::memcpy(result.manager, claim.manager.c_str(), claim.manager.size());
  std::memcpy(result.name, claim.name.c_str(), claim.name.size());
  write_struct(out, result);
  return Status::ok();
}

constexpr uint32_t kNameOpenFlags =
    TENON_OPEN_OTHER_USER | TENON_OPEN_NO_MANAGER | TENON_OPEN_DECREF;

}  // namespace
}  // namespace tenon::capi

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::os::Waiter;
using tenon::storage::Storage;
namespace names = tenon::names;
namespace share = tenon::share;

extern "C" {

tenon_status tenon_storage_new_filename(const tenon_filename_options* options, uint64_t nbytes,
                                        tenon_storage** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const names::FilenameOptions how, read_name_options(options));
    TENON_ASSIGN(Ref<Storage> storage, names::create_named(how, nbytes));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_status tenon_share_filename(tenon_storage* storage, const tenon_filename_options* options,
                                  const tenon_wait* wait, tenon_filename_handle* out,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_output(out, "tenon_filename_handle"));
    TENON_ASSIGN(const names::FilenameOptions how, read_name_options(options));
    TENON_ASSIGN(const tenon::os::Wait limit, read_wait_here(wait));
    Waiter waiter(limit);
    TENON_ASSIGN(const names::NameClaim lent,
                 names::lend_by_filename(Ref<Storage>::share(object(storage)), how, &waiter));
    return write_name_handle(lent, out);
  });
}

tenon_status tenon_open_filename(const tenon_filename_handle* handle_in,
                                 const tenon_open_options* options, const tenon_wait* wait,
                                 tenon_storage** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const names::NameClaim claim, read_name_handle(handle_in));
    tenon_open_options wanted{};
    TENON_TRY(read_struct(options, "tenon_open_options", &wanted));
    names::NameOpenOptions how;
    TENON_ASSIGN(how.open, read_open_flags(wanted.access, wanted.flags & ~kNameOpenFlags));
    how.other_user = (wanted.flags & TENON_OPEN_OTHER_USER) != 0;
    how.no_manager = (wanted.flags & TENON_OPEN_NO_MANAGER) != 0;
    how.received = (wanted.flags & TENON_OPEN_DECREF) != 0;
    TENON_ASSIGN(const tenon::os::Wait limit, read_wait_here(wait));
    Waiter waiter(limit);
    TENON_ASSIGN(Ref<Storage> storage, names::open_by_filename(claim, how, &waiter));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

tenon_status tenon_filename_incref(const tenon_filename_handle* handle_in,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(const names::NameClaim claim, read_name_handle(handle_in));
    return names::count_message(claim);
  });
}

tenon_status tenon_filename_decref(const tenon_filename_handle* handle_in,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(const names::NameClaim claim, read_name_handle(handle_in));
    return names::count_message_received(claim);
  });
}

void tenon_filename_leave() noexcept {
  names::leave_by_filename();
  tenon::channel::leave_deposits();
}

tenon_status tenon_filename_unlink(const char* name, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(name != nullptr, "name is NULL"));
    return names::unlink_filename(name);
  });
}

tenon_status tenon_filename_sweep(const tenon_sweep_options* options, tenon_sweep_result* out,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    tenon_sweep_options given{};
    TENON_TRY(read_struct(options, "tenon_sweep_options", &given));
    TENON_TRY(
        check_flags(given.flags, TENON_SWEEP_DRY_RUN | TENON_SWEEP_TORCH, "tenon_sweep_options"));
    TENON_TRY(check_flags(given.reserved, 0, "tenon_sweep_options"));
    TENON_TRY(check_argument(given.min_age_ns >= 0, "min_age_ns is negative"));
    if (out != nullptr) TENON_TRY(check_output(out, "tenon_sweep_result"));
    names::LookOptions how;
    how.remove = (given.flags & TENON_SWEEP_DRY_RUN) == 0;
    how.torch = (given.flags & TENON_SWEEP_TORCH) != 0;
    how.patience = 3;
    if (given.min_age_ns != 0) how.min_age_ns = given.min_age_ns;
    TENON_ASSIGN(
        const std::string directory,
        names::check_directory(given.directory != nullptr ? given.directory
                                                          : std::string(names::kSharedMemory)));
    TENON_ASSIGN(const names::SweepTotals found, names::sweep_names(directory, how));
    if (out == nullptr) return Status::ok();
    tenon_sweep_result result{};
    result.live = found.live;
    result.in_flight = found.in_flight;
    result.dead = found.dead;
    result.unsure = found.unsure;
    result.removed_nbytes = found.removed_nbytes;
    write_struct(out, result);
    return Status::ok();
  });
}

tenon_status tenon_manager_start(const char* program, const tenon_wait* wait, char out[108],
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon::os::Wait limit, read_wait_here(wait));
    Waiter waiter(limit);
    TENON_ASSIGN(const std::string path,
                 names::start_manager(program != nullptr ? program : "", &waiter));
    if (path.size() >= kManagerRoom)
      return Status(tenon::Code::kInternal, "the manager's path has outgrown its place");
    std::memcpy(out, path.c_str(), path.size() + 1);
    return Status::ok();
  });
}
}
