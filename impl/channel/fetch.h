// Fetches deposited messages (deposit.h) by their tickets.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_set>

#include "base/counted.h"
#include "base/status.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "memory/holding.h"
#include "os/mapping.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "storage/storage.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"

namespace tenon::channel {

struct FetchOptions {
  share::OpenOptions open;
  tensor::DescriptorLimits limits;
};

// The message of a ticket, which is its caller's from then on. From a lender that this process has
// met, and of whose segments it knows those that the message needs, no system call is made; else
// the lender is asked once. NOT_FOUND: it was fetched before, or withdrawn. PEER_GONE: its lender
// is gone, and had not been met.
Result<std::unique_ptr<tensor::Message>> fetch(std::span<const std::byte> ticket,
                                               const FetchOptions& options, const os::Wait& wait);

struct Link;

// A message that is fetched piece by piece, by the head of a Deposit and the tickets of its
// storages. What was not opened is given back when it ends.
class Fetched {
 public:
  static Result<std::unique_ptr<Fetched>> create(std::span<const std::byte> head,
                                                 const FetchOptions& options, const os::Wait& wait);
  Fetched(const Fetched&) = delete;
  Fetched& operator=(const Fetched&) = delete;
  ~Fetched();
  Result<Ref<storage::Storage>> open(std::span<const std::byte> storage, const os::Wait& wait);

 private:
  Fetched() noexcept = default;
  Result<Ref<storage::Storage>> open_own(const StorageTicket& storage);
  Ticket ticket_;
  FetchOptions options_;
  Ref<memory::Depot> own_;  // null: another process's
  std::shared_ptr<Link> link_;
  Ref<memory::Holding> holding_;  // under which the message was claimed; null: it was not
  std::shared_ptr<os::Mapping> page_;
  uint32_t mark_ = 0;
  uint32_t number_ = 0;  // of this process, with which it claimed
  uint32_t n_messages_ = 0;
  uint32_t n_things_ = 0;
  void look_at_slots();
  bool has_looked_ = false;
  std::unordered_set<uint32_t> left_;         // the message's slots that were not opened
  std::unordered_set<uint32_t> opened_here_;  // of an own message: those that were
};

}  // namespace tenon::channel
