// tenon/deposit.h: deposits messages and fetches them by their tickets (impl/channel/deposit*.h,
// impl/channel/fetch*.h).
#include <fcntl.h>
#include <tenon/deposit.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "boundary.h"
#include "by_fd.h"
#include "channel/deposit.h"
#include "channel/deposit_keeper.h"
#include "channel/deposit_limits.h"
#include "channel/deposit_watch.h"
#include "channel/fetch.h"
#include "channel/fetch_pieces.h"
#include "handles.h"
#include "os/named_file.h"
#include "wait.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::channel::Deposit;
using tenon::channel::Fetched;
using tenon::channel::FetchOptions;
using tenon::storage::Storage;

namespace {

using Bytes = std::span<const std::byte>;

// The most bytes of a ticket: more than any ticket that Tenon writes.
constexpr size_t kMostTicketNbytes = size_t{128} << 20;
constexpr uint64_t kMostPidfds = 1024;

tenon::Result<Bytes> read_bytes(const void* bytes, size_t nbytes) {
  TENON_TRY(check_argument(bytes != nullptr || nbytes == 0, "bytes is NULL"));
  TENON_TRY(check_argument(nbytes <= kMostTicketNbytes, "nbytes is over 128 MiB"));
  return Bytes(static_cast<const std::byte*>(bytes), nbytes);
}

tenon::Result<FetchOptions> read_fetch_options(const tenon_open_options* options) {
  tenon_open_options given{};
  TENON_TRY(read_struct(options, "tenon_open_options", &given));
  FetchOptions how;
  TENON_ASSIGN(how.open, read_open_flags(given.access, given.flags));
  return how;
}

}  // namespace

extern "C" {

tenon_status tenon_message_deposit(const tenon_message* message, tenon_ticket** out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto ticket = std::make_unique<std::vector<std::byte>>();
    TENON_ASSIGN(*ticket, tenon::channel::deposit(*object(message)));
    *out = handle<tenon_ticket>(ticket.release());
    return Status::ok();
  });
}

const void* tenon_ticket_bytes(const tenon_ticket* ticket, size_t* nbytes) noexcept {
  if (nbytes != nullptr) *nbytes = ticket == nullptr ? 0 : object(ticket)->size();
  return ticket == nullptr ? nullptr : object(ticket)->data();
}

void tenon_ticket_release(tenon_ticket* ticket) noexcept { delete object(ticket); }

tenon_status tenon_ticket_withdraw(const void* bytes, size_t nbytes, int* withdrawn,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(const Bytes ticket, read_bytes(bytes, nbytes));
    TENON_ASSIGN(const bool taken, tenon::channel::withdraw(ticket));
    if (withdrawn != nullptr) *withdrawn = taken ? 1 : 0;
    return Status::ok();
  });
}

tenon_status tenon_ticket_watch(const void* bytes, size_t nbytes, int32_t fd, int64_t grace_ns,
                                tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(fd >= 0, "fd is negative"));
    TENON_TRY(check_argument(grace_ns >= 0, "grace_ns is negative"));
    TENON_ASSIGN(const Bytes ticket, read_bytes(bytes, nbytes));
    return tenon::channel::watch_deposit(ticket, fd, grace_ns);
  });
}

tenon_status tenon_message_fetch(const void* bytes, size_t nbytes,
                                 const tenon_open_options* options, const tenon_wait* wait,
                                 tenon_message** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const Bytes ticket, read_bytes(bytes, nbytes));
    TENON_ASSIGN(const FetchOptions how, read_fetch_options(options));
    TENON_ASSIGN(const tenon::os::Wait how_long, read_wait(wait));
    TENON_ASSIGN(auto message, tenon::channel::fetch(ticket, how, how_long));
    *out = handle<tenon_message>(message.release());
    return Status::ok();
  });
}

tenon_status tenon_deposit_limits_set(const tenon_deposit_limits* limits,
                                      tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(limits != nullptr, "limits is NULL"));
    tenon_deposit_limits given{};
    TENON_TRY(read_struct(limits, "tenon_deposit_limits", &given));
    TENON_TRY(check_argument(given.max_unfetched_ns >= 0, "max_unfetched_ns is negative"));
    return tenon::channel::set_deposit_limits(
        {given.max_unfetched_segments, given.max_unfetched_nbytes, given.max_unfetched_ns});
  });
}

tenon_status tenon_deposit_stats_get(tenon_deposit_stats* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_output(out, "tenon_deposit_stats"));
    const tenon::channel::DepositStats now = tenon::channel::deposit_stats();
    tenon_deposit_stats stats{};
    stats.messages = now.messages;
    stats.segments = now.segments;
    stats.expired = now.expired;
    write_struct(out, stats);
    return Status::ok();
  });
}

tenon_status tenon_deposit_new(tenon_deposit** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(std::unique_ptr<Deposit> deposit, Deposit::create());
    *out = handle<tenon_deposit>(deposit.release());
    return Status::ok();
  });
}

const void* tenon_deposit_head(const tenon_deposit* deposit, size_t* nbytes) noexcept {
  if (nbytes != nullptr) *nbytes = deposit == nullptr ? 0 : object(deposit)->head().size();
  return deposit == nullptr ? nullptr : object(deposit)->head().data();
}

tenon_status tenon_deposit_add(tenon_deposit* deposit, tenon_storage* storage, tenon_access access,
                               void* out, size_t* nbytes, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(deposit != nullptr, "deposit is NULL"));
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(out != nullptr && nbytes != nullptr, "out or nbytes is NULL"));
    TENON_ASSIGN(const tenon::memory::Access wanted, read_access(access));
    TENON_ASSIGN(const std::vector<std::byte> record,
                 object(deposit)->add(Ref<Storage>::share(object(storage)), wanted));
    std::memcpy(out, record.data(), record.size());
    *nbytes = record.size();
    return Status::ok();
  });
}

int tenon_deposit_withdraw(tenon_deposit* deposit) noexcept {
  return deposit != nullptr && object(deposit)->withdraw() ? 1 : 0;
}

void tenon_deposit_release(tenon_deposit* deposit) noexcept { delete object(deposit); }

tenon_status tenon_fetched_new(const void* head, size_t nbytes, const tenon_open_options* options,
                               const tenon_wait* wait, tenon_fetched** out,
                               tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const Bytes bytes, read_bytes(head, nbytes));
    TENON_ASSIGN(const FetchOptions how, read_fetch_options(options));
    TENON_ASSIGN(const tenon::os::Wait how_long, read_wait(wait));
    TENON_ASSIGN(std::unique_ptr<Fetched> fetched, Fetched::create(bytes, how, how_long));
    *out = handle<tenon_fetched>(fetched.release());
    return Status::ok();
  });
}

tenon_status tenon_fetched_storage(tenon_fetched* fetched, const void* record, size_t nbytes,
                                   const tenon_wait* wait, tenon_storage** out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(fetched != nullptr, "fetched is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const Bytes bytes, read_bytes(record, nbytes));
    TENON_ASSIGN(const tenon::os::Wait how_long, read_wait(wait));
    TENON_ASSIGN(Ref<Storage> storage, object(fetched)->open(bytes, how_long));
    *out = handle<tenon_storage>(storage.detach());
    return Status::ok();
  });
}

void tenon_fetched_release(tenon_fetched* fetched) noexcept { delete object(fetched); }

tenon_status tenon_deposit_hand_over(const tenon_keep_options* options, size_t* n_kept,
                                     tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    tenon_keep_options given{};
    TENON_TRY(read_struct(options, "tenon_keep_options", &given));
    TENON_TRY(check_argument(given.timeout_ns >= 0, "timeout_ns is negative"));
    TENON_TRY(check_argument(given.pidfds != nullptr || given.n_pidfds == 0, "pidfds is NULL"));
    TENON_TRY(check_argument(given.n_pidfds <= kMostPidfds, "n_pidfds is over 1024"));
    tenon::channel::KeepOptions how;
    if (given.timeout_ns > 0) how.ns = given.timeout_ns;
    how.relatives = {given.pidfds, static_cast<size_t>(given.n_pidfds)};
    tenon::os::Fd family;
    if (given.family != nullptr) {
      // The file is opened anew, because the keeper's lock must not be shared with this process and
      // its children.
      TENON_ASSIGN(family, tenon::os::open_name(AT_FDCWD, given.family, false));
      how.family = family.get();
    }
    if (given.program != nullptr) how.program = given.program;
    TENON_ASSIGN(const size_t kept, tenon::channel::hand_over_deposits(how));
    if (n_kept != nullptr) *n_kept = kept;
    return Status::ok();
  });
}
}
