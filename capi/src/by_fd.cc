#include "by_fd.h"

#include "boundary.h"
#include "handles.h"
#include "memory/spare.h"
#include "os/fd.h"

namespace tenon::capi {

static_assert(static_cast<uint32_t>(memory::Access::kAuto) == TENON_ACCESS_AUTO &&
              static_cast<uint32_t>(memory::Access::kReadOnly) == TENON_ACCESS_READ_ONLY &&
              static_cast<uint32_t>(memory::Access::kWritable) == TENON_ACCESS_WRITABLE);

Result<memory::Access> read_access(tenon_access access) {
  TENON_TRY(check_argument(access <= TENON_ACCESS_WRITABLE,
                           "the access is none of AUTO, READ_ONLY and WRITABLE"));
  return static_cast<memory::Access>(access);
}

Result<memory::Access> read_share_options(const tenon_share_options* options) {
  tenon_share_options given{};
  TENON_TRY(read_struct(options, "tenon_share_options", &given));
  TENON_TRY(check_flags(given.flags, 0, "tenon_share_options"));
  return read_access(given.access);
}

Result<share::OpenOptions> read_open_flags(tenon_access access, uint32_t flags) {
  TENON_TRY(check_flags(
      flags, TENON_OPEN_PRIVATE_COW | TENON_OPEN_PRIVATE_COPY | TENON_OPEN_ALLOW_UNSEALED,
      "tenon_open_options"));
  share::OpenOptions result;
  TENON_ASSIGN(result.access, read_access(access));
  result.private_cow = (flags & TENON_OPEN_PRIVATE_COW) != 0;
  result.private_copy = (flags & TENON_OPEN_PRIVATE_COPY) != 0;
  result.allow_unsealed = (flags & TENON_OPEN_ALLOW_UNSEALED) != 0;
  TENON_TRY(check_argument(!result.private_cow || !result.private_copy,
                           "PRIVATE_COW and PRIVATE_COPY exclude each other"));
  return result;
}

}  // namespace tenon::capi

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::storage::Storage;

extern "C" {

tenon_status tenon_share_fd(tenon_storage* storage, const tenon_share_options* options,
                            tenon_fd_handle* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_output(out, "tenon_fd_handle"));
    TENON_ASSIGN(const tenon::memory::Access access, read_share_options(options));
    TENON_ASSIGN(const tenon::share::Lend lend,
                 tenon::share::lend(Ref<Storage>::share(object(storage)), access, false));
    tenon_fd_handle result{};
    result.fd = -1;
    if (lend.fd >= 0) {
      TENON_ASSIGN(tenon::os::Fd fd,
                   tenon::memory::with_spare([&] { return tenon::os::duplicate(lend.fd); }));
      result.fd = fd.detach();
    }
    result.access = static_cast<tenon_access>(lend.access);
    result.offset = lend.offset;
    result.nbytes = lend.nbytes;
    result.segment_nbytes = lend.segment_nbytes;
    write_struct(out, result);
    return Status::ok();
  });
}

tenon_status tenon_open_fd(const tenon_fd_handle* handle_in, const tenon_open_options* options,
                           tenon_storage** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(handle_in != nullptr, "handle is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon_fd_handle given{};
    TENON_TRY(read_struct(handle_in, "tenon_fd_handle", &given));
    tenon_open_options wanted{};
    TENON_TRY(read_struct(options, "tenon_open_options", &wanted));
    TENON_ASSIGN(const tenon::share::OpenOptions how,
                 read_open_flags(wanted.access, wanted.flags & ~uint32_t{TENON_OPEN_ADOPT_FD}));
    TENON_ASSIGN(const tenon::memory::Access claimed, read_access(given.access));
    const tenon::share::Claim claim{claimed, given.offset, given.nbytes, given.segment_nbytes};
    TENON_ASSIGN(Ref<Storage> opened, tenon::share::open_by_fd(given.fd, claim, how, nullptr));
    // The fd is adopted last, so it stays the caller's if anything before fails or throws.
    tenon::os::Fd adopted((wanted.flags & TENON_OPEN_ADOPT_FD) != 0 ? given.fd : -1);
    adopted.mark_foreign();
    *out = handle<tenon_storage>(opened.detach());
    return Status::ok();
  });
}

void tenon_fd_handle_close(tenon_fd_handle* handle_in) noexcept {
  if (handle_in == nullptr || handle_in->fd < 0) return;
  const tenon::os::Fd closing(handle_in->fd);
  handle_in->fd = -1;
}
}
