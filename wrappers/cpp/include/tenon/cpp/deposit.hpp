/// @file
/// Deposits: messages for receivers that are not known yet, such as the readers of a queue.
/// tenon/deposit.h has the details.
#ifndef TENON_CPP_DEPOSIT_HPP
#define TENON_CPP_DEPOSIT_HPP

#include <tenon/deposit.h>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/wait.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

TENON_CPP_BEGIN

/// The ticket of a deposited message. The message stays deposited when the ticket ends.
class Ticket : public detail::Owned<Ticket, tenon_ticket, tenon_ticket_release> {
 public:
  /// The bytes that the program must send, borrowed from the ticket.
  std::span<const std::byte> bytes() const& noexcept {
    std::size_t nbytes = 0;
    const void* data = tenon_ticket_bytes(get(), &nbytes);
    return {static_cast<const std::byte*>(data), data == nullptr ? 0 : nbytes};
  }
  std::span<const std::byte> bytes() const&& = delete;
};

/// Deposits a message. The message and its tensors may be released afterwards. This process keeps
/// the deposited message until it is fetched or withdrawn.
inline Result<Ticket> try_deposit(const Message& message) {
  return detail::make<Ticket>([&](tenon_ticket** out, tenon_error** err) {
    return tenon_message_deposit(message.get(), out, err);
  });
}

/// Takes back a message of this process by the bytes of its ticket. The result is false if the
/// message was fetched or withdrawn before.
inline Result<bool> try_withdraw(std::span<const std::byte> ticket) {
  int withdrawn = 0;
  const Result<void> called = detail::call([&](tenon_error** err) {
    return tenon_ticket_withdraw(ticket.data(), ticket.size(), &withdrawn, err);
  });
  if (!called) return called.error();
  return withdrawn != 0;
}

/// Takes a message of this process back when its carrier has dropped the ticket unread. `fd` is the
/// read end of a pipe whose write end travels with the ticket. It hangs up when the ticket is read,
/// and when its carrier ends with the ticket unread. If nobody has fetched the message `grace`
/// later, it is taken back. tenon_ticket_watch says more. Once the call has succeeded, the library
/// owns the fd. After a failure it is still the caller's.
inline Result<void> try_watch(std::span<const std::byte> ticket, int fd,
                              std::chrono::nanoseconds grace) {
  return detail::call([&](tenon_error** err) {
    return tenon_ticket_watch(ticket.data(), ticket.size(), fd, grace.count(), err);
  });
}

/// Fetches the message of a ticket. The error kNotFound means that the message was fetched before
/// or withdrawn. The error kPeerGone means that the lender is gone, and that this process has not
/// met it or lacks a segment of the message. `wait` says how long to wait for a lender that does
/// not answer: for ever if nothing is set. If the wait ends first, the message stays unfetched.
inline Result<Message> try_fetch(std::span<const std::byte> ticket, const OpenOptions& options = {},
                                 const Wait& wait = {}) {
  const tenon_open_options c = detail::c_options(options);
  tenon_message* out = nullptr;
  const Result<void> called =
      detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
        return tenon_message_fetch(ticket.data(), ticket.size(), &c, waiting, &out, err);
      });
  if (!called) return called.error();
  return Message::adopt(out);
}

/// A message that is deposited in pieces, for a program that learns of the message's storages one
/// by one. The message stays deposited when the Deposit ends.
class Deposit : public detail::Owned<Deposit, tenon_deposit, tenon_deposit_release> {
 public:
  /// Begins a message.
  static Result<Deposit> try_make() { return detail::make<Deposit>(tenon_deposit_new); }

  /// The bytes with which a receiver begins, borrowed from the Deposit. They must not leave this
  /// process before all storages are added.
  std::span<const std::byte> head() const& noexcept {
    std::size_t nbytes = 0;
    const void* data = tenon_deposit_head(get(), &nbytes);
    return {static_cast<const std::byte*>(data), data == nullptr ? 0 : nbytes};
  }
  std::span<const std::byte> head() const&& = delete;

  /// Adds a storage, which the message keeps. The result is the storage's record, by which the
  /// receiver opens the storage.
  Result<std::vector<std::byte>> try_add(const Storage& storage, Access access = Access::kAuto) {
    std::vector<std::byte> record(TENON_DEPOSIT_RECORD_NBYTES);
    std::size_t nbytes = 0;
    const Result<void> called = detail::call([&](tenon_error** err) {
      return tenon_deposit_add(get(), storage.get(), static_cast<tenon_access>(access),
                               record.data(), &nbytes, err);
    });
    if (!called) return called.error();
    record.resize(nbytes);
    return record;
  }

  /// Takes the message back. The result is false if it was fetched or withdrawn before, and for an
  /// empty object.
  bool withdraw() noexcept { return tenon_deposit_withdraw(get()) != 0; }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Deposit make() { return try_make().value(); }
  std::vector<std::byte> add(const Storage& storage, Access access = Access::kAuto) {
    return try_add(storage, access).value();
  }
#endif
};

/// A message that is fetched in pieces. When the Fetched ends, the storages that were not opened
/// are given back. Storages that were opened stay.
class Fetched : public detail::Owned<Fetched, tenon_fetched, tenon_fetched_release> {
 public:
  /// Begins to fetch a message by the head of its Deposit. From then on no other receiver can fetch
  /// it. `options` and `wait` are as for fetch.
  static Result<Fetched> try_make(std::span<const std::byte> head, const OpenOptions& options = {},
                                  const Wait& wait = {}) {
    const tenon_open_options c = detail::c_options(options);
    tenon_fetched* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_fetched_new(head.data(), head.size(), &c, waiting, &out, err);
        });
    if (!called) return called.error();
    return adopt(out);
  }

  /// Opens a storage by its record, under its lease. A record can be opened once.
  Result<Storage> try_storage(std::span<const std::byte> record, const Wait& wait = {}) {
    tenon_storage* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_fetched_storage(get(), record.data(), record.size(), waiting, &out, err);
        });
    if (!called) return called.error();
    return Storage::adopt(out);
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Fetched make(std::span<const std::byte> head, const OpenOptions& options = {},
                      const Wait& wait = {}) {
    return try_make(head, options, wait).value();
  }
  Storage storage(std::span<const std::byte> record, const Wait& wait = {}) {
    return try_storage(record, wait).value();
  }
#endif
};

/// Limits of the messages of this process that wait to be fetched. tenon/deposit.h explains each
/// limit.
struct DepositLimits {
  /// The most segments that receivers may still ask for. A deposit that needs one more is
  /// kResourceExhausted. 0 means half of the most fds that this process may open.
  std::uint64_t max_unfetched_segments = 0;
  /// The most bytes in the storages of unfetched messages. A deposit that exceeds this limit
  /// withdraws the oldest messages, but never the newest one. 0 means no limit.
  std::uint64_t max_unfetched_nbytes = 0;
  /// The age at which an unfetched message is withdrawn. 0 means never.
  std::chrono::nanoseconds max_unfetched_time = std::chrono::nanoseconds::zero();
};

/// Sets the limits of this process and of the children that it forks from now on.
inline Result<void> try_set_deposit_limits(const DepositLimits& limits) {
  tenon_deposit_limits c{};
  c.struct_size = sizeof c;
  c.max_unfetched_segments = limits.max_unfetched_segments;
  c.max_unfetched_nbytes = limits.max_unfetched_nbytes;
  c.max_unfetched_ns = limits.max_unfetched_time.count();
  return detail::call([&](tenon_error** err) { return tenon_deposit_limits_set(&c, err); });
}

/// Figures about the messages of this process that wait to be fetched. tenon/deposit.h explains
/// each figure.
using DepositStats = tenon_deposit_stats;

/// Gives the figures of this process's deposits.
inline Result<DepositStats> try_deposit_stats() {
  return detail::fill<DepositStats>(tenon_deposit_stats_get);
}

/// How a keeper keeps messages that are not fetched yet.
struct KeepOptions {
  /// The longest time that the keeper stays. Unset means 60 seconds.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  /// The pidfds of processes that may fetch, borrowed for the call.
  std::span<const std::int32_t> pidfds = {};
  /// The path of a file on which processes that may fetch hold a shared flock.
  std::optional<std::string> family = std::nullopt;
  /// The path of tenon-manager. Unset has the same meaning as in manager_start.
  std::optional<std::string> program = std::nullopt;
};

/// Hands the unfetched messages of this process to a keeper, which is a process of its own. The
/// result is how many messages the keeper has. Make this call last, and while no other thread
/// deposits. The keeper ends when all messages are fetched or its time is over. If `pidfds` or
/// `family` is set, the keeper also ends when none of these processes is left.
inline Result<std::size_t> try_hand_over_deposits(const KeepOptions& options = {}) {
  if (!detail::is_c_text(options.family)) return detail::has_nul("the family's path");
  if (!detail::is_c_text(options.program)) return detail::has_nul("the program");
  tenon_keep_options c{};
  c.struct_size = sizeof c;
  // In the C struct 0 means the default.
  if (options.timeout) c.timeout_ns = options.timeout->count() == 0 ? 1 : options.timeout->count();
  c.pidfds = options.pidfds.data();
  c.n_pidfds = options.pidfds.size();
  c.family = detail::c_text(options.family);
  c.program = detail::c_text(options.program);
  std::size_t kept = 0;
  const Result<void> called =
      detail::call([&](tenon_error** err) { return tenon_deposit_hand_over(&c, &kept, err); });
  if (!called) return called.error();
  return kept;
}

#ifndef TENON_NO_EXCEPTIONS
// Each function throws the error that its try_ form returns.
inline Ticket deposit(const Message& message) { return try_deposit(message).value(); }
inline bool withdraw(std::span<const std::byte> ticket) { return try_withdraw(ticket).value(); }
inline void watch(std::span<const std::byte> ticket, int fd, std::chrono::nanoseconds grace) {
  try_watch(ticket, fd, grace).value();
}
inline Message fetch(std::span<const std::byte> ticket, const OpenOptions& options = {},
                     const Wait& wait = {}) {
  return try_fetch(ticket, options, wait).value();
}
inline void set_deposit_limits(const DepositLimits& limits) {
  try_set_deposit_limits(limits).value();
}
inline DepositStats deposit_stats() { return try_deposit_stats().value(); }
inline std::size_t hand_over_deposits(const KeepOptions& options = {}) {
  return try_hand_over_deposits(options).value();
}
#endif

TENON_CPP_END

#endif
