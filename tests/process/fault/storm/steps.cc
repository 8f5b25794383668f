// The steps of a storm's peer. In a round it takes one at random, again and again.
#include <algorithm>

#include "process/fault/storm/peer.h"

namespace storm {
namespace {

constexpr size_t kMostHeld = 12;
constexpr size_t kMostOwn = 5;
// So many tensors over one storage make the descriptor too long for a packet.
constexpr size_t kManyTensors = 2000;

}  // namespace

void Peer::step() {
  if (hostile_) {
    size_t link = 0;
    if (random_.chance(50) && some_link(false, &link) != nullptr) {
      (void)receive(link, true);
    } else {
      harm();
    }
    return;
  }
  size_t link = 0;
  const uint64_t dice = random_.below(100);
  if (dice < 30) {
    lend();
  } else if (dice < 40) {
    lend_on();
  } else if (dice < 75) {
    if (some_link(false, &link) != nullptr) (void)receive(link, true);
  } else if (dice < 88) {
    if (!held_.empty()) let_go(random_.below(held_.size()));
  } else if (dice < 90) {
    if (!own_.empty()) release_own(random_.below(own_.size()));
  } else if (dice < 91) {
    if (!held_.empty() && forks_left_ > 0) fork_one();
  } else {
    if (!own_.empty()) check_own(own_[random_.below(own_.size())]);
    reap(false);
  }
  if (!held_.empty() && random_.chance(50)) check(held_[random_.below(held_.size())]);
}

Peer::Link* Peer::some_link(bool out, size_t* index) {
  const size_t first = links_.empty() ? 0 : random_.below(links_.size());
  for (size_t i = 0; i < links_.size(); ++i) {
    *index = (first + i) % links_.size();
    if (links_[*index].out == out && links_[*index].open()) return &links_[*index];
  }
  return nullptr;
}

// ---- lending

bool Peer::make(Own* out) {
  const uint64_t dice = random_.below(100);
  const size_t which = dice < 45 ? 0 : 1;
  const bool from_own_arena = dice < 70;
  // A frozen storage takes its segment with it, so an early reader would read unmapped memory.
  const bool frozen = dice >= 96 && !gives_back_early_;
  uint64_t nbytes = random_.up_to(uint64_t{1} << 16);
  if (from_own_arena && random_.chance(5)) nbytes = random_.up_to(capacities_[which] / 2);
  out->stamp = {seed_, ++generation_, nbytes};
  const tenon_wait wait =
      fault::wait_ns(random_.chance(50) ? 0 : static_cast<int64_t>(random_.up_to(1 << 21)));
  tenon_storage_options options{};
  options.struct_size = sizeof options;
  options.wait = &wait;
  options.arena = from_own_arena ? arenas_[which] : nullptr;
  if (frozen) {
    options.wait = nullptr;
    options.mode = TENON_MODE_FROZEN;
    std::vector<unsigned char> bytes(nbytes);
    fill(bytes.data(), out->stamp);
    expect(call(Op::kMake,
                [&](tenon_error** err) {
                  return tenon_storage_new_from(&options, bytes.data(), nbytes, &out->storage, err);
                }),
           {TENON_OK}, "tenon_storage_new_from");
    return true;
  }
  if (!from_own_arena)
    options.mode = random_.chance(50) ? TENON_MODE_SHARED : TENON_MODE_LENDER_WRITES;
  const fault::Outcome made = call(Op::kMake, [&](tenon_error** err) {
    return tenon_storage_new(&options, nbytes, &out->storage, err);
  });
  expect(made, {TENON_OK, TENON_RESOURCE_EXHAUSTED, TENON_TIMEOUT}, "tenon_storage_new");
  if (!made.ok()) {
    if (!from_own_arena || made.detail("limit") != "arena")
      expect(made, {}, "tenon_storage_new, and no arena is full");
    board_->full.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  void* data = nullptr;
  REQUIRE_OK(tenon_storage_data_mut(out->storage, &data, err));
  fill(data, out->stamp);
  return true;
}

void Peer::lend() {
  size_t link = 0;
  if (some_link(true, &link) == nullptr) return;
  std::vector<size_t> chosen;
  for (uint64_t n = random_.chance(80) ? 1 : 1 + random_.below(4); n > 0; --n) {
    if (own_.size() >= kMostOwn + 4) release_own(0);
    Own own;
    if (!make(&own)) break;
    own_.push_back(own);
    chosen.push_back(own_.size() - 1);
  }
  // Sometimes add a storage that was lent before.
  if (chosen.size() < own_.size() && random_.chance(30)) {
    const size_t more = random_.below(own_.size());
    if (std::find(chosen.begin(), chosen.end(), more) == chosen.end()) chosen.push_back(more);
  }
  if (chosen.empty()) return;
  tenon_message* message = nullptr;
  REQUIRE_OK(tenon_message_new(&message, err));
  std::vector<Stamp> stamps;
  const size_t copies =
      chosen.size() == 1 && own_[chosen[0]].stamp.nbytes <= 256 && random_.chance(20) ? kManyTensors
                                                                                      : 1;
  for (const size_t each : chosen) {
    tenon_tensor* tensor = fault::new_tensor(own_[each].storage);
    const std::vector<tenon_tensor*> tensors(copies, tensor);
    REQUIRE_OK(tenon_message_add(message, tensors.data(), nullptr, copies, nullptr, err));
    tenon_tensor_release(tensor);
    stamps.push_back(own_[each].stamp);
  }
  send(link, message, stamps);
  tenon_message_release(message);
  // Usually the lender lets go, so that only the borrower has the block.
  for (size_t i = own_.size(); i-- > 0;) {
    if (std::find(chosen.begin(), chosen.end(), i) != chosen.end() &&
        (own_.size() > kMostOwn || random_.chance(85)))
      release_own(i);
  }
}

void Peer::lend_on() {
  size_t link = 0;
  if (held_.empty() || some_link(true, &link) == nullptr) return;
  const Held& held = held_[random_.below(held_.size())];
  if (held.storages.empty()) return;
  tenon_message* message = nullptr;
  REQUIRE_OK(tenon_message_new(&message, err));
  for (tenon_storage* storage : held.storages) {
    tenon_tensor* tensor = fault::new_tensor(storage);
    REQUIRE_OK(tenon_message_add(message, &tensor, nullptr, 1, nullptr, err));
    tenon_tensor_release(tensor);
  }
  send(link, message, held.stamps);
  tenon_message_release(message);
  board_->forwarded.fetch_add(1, std::memory_order_relaxed);
}

// `message` may be null: then the call finishes what an earlier call left.
void Peer::send(size_t index, tenon_message* message, const std::vector<Stamp>& stamps) {
  Link& link = links_[index];
  if (message != nullptr)
    REQUIRE_OK(
        tenon_message_set_user_bytes(message, stamps.data(), stamps.size() * sizeof(Stamp), err));
  if (link.connection != nullptr) {
    const tenon_wait wait = fault::wait_ns(message == nullptr || random_.chance(50)
                                               ? 0
                                               : static_cast<int64_t>(random_.up_to(1 << 20)));
    const fault::Outcome sent = call(Op::kSend, [&](tenon_error** err) {
      return tenon_send(link.connection, message, &wait, err);
    });
    // RESOURCE_EXHAUSTED comes if a user who is not root has too many fds in flight.
    expect(sent,
           {TENON_OK, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_PEER_GONE, TENON_RESOURCE_EXHAUSTED},
           "tenon_send");
    if (sent.status == TENON_RESOURCE_EXHAUSTED && sent.detail("limit") != "RLIMIT_NOFILE")
      expect(sent, {}, "tenon_send");
    if (sent.status == TENON_PEER_GONE) drop(index);
    if (sent.ok() && message != nullptr)
      board_->lent.fetch_add(stamps.size(), std::memory_order_relaxed);
  } else if (link.raw >= 0 && message != nullptr) {
    tenon_descriptor* descriptor = nullptr;
    expect(call(Op::kSend,
                [&](tenon_error** err) {
                  return tenon_descriptor_new(message, nullptr, &descriptor, err);
                }),
           {TENON_OK}, "tenon_descriptor_new");
    size_t nbytes = 0;
    size_t n_fds = 0;
    const void* const bytes = tenon_descriptor_bytes(descriptor, &nbytes);
    const int32_t* const fds = tenon_descriptor_fds(descriptor, &n_fds);
    if (n_fds <= kMostFds && put(link.raw, bytes, nbytes, fds, n_fds))
      board_->descriptors.fetch_add(1, std::memory_order_relaxed);
    enter(Op::kRelease);
    tenon_descriptor_release(descriptor);
    leave();
  }
}

void Peer::release_own(size_t index) {
  check_own(own_[index]);
  tenon_storage* const storage = own_[index].storage;
  own_.erase(own_.begin() + static_cast<std::ptrdiff_t>(index));
  enter(Op::kRelease);
  tenon_storage_release(storage);
  leave();
}

void Peer::check_own(const Own& own) {
  if (hostile_) return;
  const uint64_t at = find_wrong(tenon_storage_data(own.storage), own.stamp);
  if (at == kAllRight) return;
  board_->wrong.fetch_add(1);
  board_->complain("wrong byte at %llu of %llu of its own block",
                   static_cast<unsigned long long>(at),
                   static_cast<unsigned long long>(own.stamp.nbytes));
  die(kWrongByte);
}

// ---- borrowing

bool Peer::receive_descriptor(Link* link, tenon_message** out) {
  std::vector<int> fds;
  static std::vector<unsigned char> bytes(size_t{1} << 18);  // more than a socket takes
  const ssize_t got = take(link->raw, bytes.data(), bytes.size(), MSG_DONTWAIT, &fds);
  if (got <= 0) {
    if (got == 0 || errno != EAGAIN) close(std::exchange(link->raw, -1));
    return false;
  }
  // Sometimes nobody opens the descriptor.
  if (!random_.chance(10)) {
    expect(call(Op::kReceive,
                [&](tenon_error** err) {
                  return tenon_descriptor_open(bytes.data(), static_cast<size_t>(got), fds.data(),
                                               fds.size(), nullptr, out, err);
                }),
           {TENON_OK}, "tenon_descriptor_open");
  }
  for (const int fd : fds) close(fd);
  return true;
}

// Returns false if no message came.
bool Peer::receive(size_t index, bool wait) {
  Link& link = links_[index];
  tenon_message* message = nullptr;
  if (link.raw >= 0) {
    if (!receive_descriptor(&link, &message)) return false;
  } else if (link.connection != nullptr) {
    const tenon_wait how_long = fault::wait_ns(
        wait && random_.chance(50) ? static_cast<int64_t>(random_.up_to(1 << 19)) : 0);
    const fault::Outcome got = call(Op::kReceive, [&](tenon_error** err) {
      return tenon_recv(link.connection, &how_long, &message, err);
    });
    expect(got, {TENON_OK, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_PEER_GONE}, "tenon_recv");
    if (got.status == TENON_PEER_GONE) drop(index);
    if (!got.ok()) return false;
  } else {
    return false;
  }
  if (message != nullptr) hold(index, message);
  return true;
}

void Peer::hold(size_t link, tenon_message* message) {
  while (held_.size() >= kMostHeld) let_go(random_.below(held_.size()));
  Held held;
  held.link = link;
  size_t nbytes = 0;
  const void* const stamps = tenon_message_user_bytes(message, &nbytes);
  held.stamps.resize(nbytes / sizeof(Stamp));
  REQUIRE(!held.stamps.empty() && nbytes % sizeof(Stamp) == 0);
  std::memcpy(held.stamps.data(), stamps, nbytes);
  REQUIRE(tenon_message_count(message) >= held.stamps.size());
  for (size_t i = 0; i < held.stamps.size(); ++i) {
    tenon_storage* const storage = tenon_tensor_storage(tenon_message_tensor(message, i));
    REQUIRE(tenon_storage_nbytes(storage) == held.stamps[i].nbytes);
    held.data.push_back(tenon_storage_data(storage));
    held.storages.push_back(tenon_storage_retain(storage));
  }
  const bool early = gives_back_early_ && links_[link].connection != nullptr;
  if (early || random_.chance(50)) {
    enter(Op::kRelease);
    tenon_message_release(message);
    leave();
  } else {
    held.message = message;
  }
  // This proves that the storm sees such a bug: from here on the peer reads memory that it has
  // given back.
  if (early) {
    for (tenon_storage* storage : held.storages) tenon_storage_release(storage);
    held.storages.clear();
  }
  board_->received.fetch_add(held.stamps.size(), std::memory_order_relaxed);
  held_.push_back(std::move(held));
  check(held_.back());
}

void Peer::check(const Held& held) {
  if (hostile_) return;  // it overwrites what it reads
  enter(Op::kRead);
  for (size_t i = 0; i < held.stamps.size(); ++i) {
    const Stamp& stamp = held.stamps[i];
    const uint64_t at = find_wrong(held.data[i], stamp);
    if (at == kAllRight) continue;
    Stamp found;
    std::memcpy(&found, held.data[i], std::min<uint64_t>(sizeof found, stamp.nbytes));
    const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
    board_->wrong.fetch_add(1);
    board_->complain(
        "wrong byte at %llu of a block of %llu bytes, generation %llu of %llx, that came over link "
        "%zu%s: there are now %llu bytes, "
        "generation %llu of %llx",
        number(at), number(stamp.nbytes), number(stamp.generation), number(stamp.seed), held.link,
        is_child_ ? ", in a child" : "", number(found.nbytes), number(found.generation),
        number(found.seed));
    die(kWrongByte);
  }
  board_->checked.fetch_add(held.stamps.size(), std::memory_order_relaxed);
  leave();
}

void Peer::let_go(size_t index) {
  check(held_[index]);
  const Held held = std::move(held_[index]);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  if (held.message != nullptr) {
    enter(Op::kRelease);
    tenon_message_release(held.message);
    leave();
  }
  for (tenon_storage* storage : held.storages) {
    enter(Op::kRelease);
    tenon_storage_release(storage);
    leave();
  }
}

void Peer::let_go_of_all() {
  while (!held_.empty()) let_go(held_.size() - 1);
}

// Received memory stays after that. An entry that was given back early is forgotten, because only
// the connection keeps its mapping.
void Peer::drop(size_t index) {
  Link& link = links_[index];
  if (gives_back_early_) {
    std::erase_if(
        held_, [index](const Held& each) { return each.link == index && each.storages.empty(); });
  }
  if (link.raw >= 0) close(std::exchange(link.raw, -1));
  enter(Op::kRelease);
  tenon_connection_release(std::exchange(link.connection, nullptr));
  leave();
}

}  // namespace storm
