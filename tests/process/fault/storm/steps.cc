// The steps of a peer of the storm of leases. In a round the peer takes one at random, again and
// again.
#include <algorithm>

#include "process/fault/storm/peer.h"

namespace storm {
namespace {

constexpr size_t kMostHeld = 12;
constexpr size_t kMostOwn = 5;
// So many tensors over one storage make the descriptor too long for a packet.
constexpr size_t kManyTensors = 2000;

}  // namespace

void LeasePeer::step() {
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
    if (!held_.empty()) fork_child(1 << 24);
  } else {
    if (!own_.empty()) check_own(own_[random_.below(own_.size())]);
    reap(false);
  }
  if (!held_.empty() && random_.chance(50)) check(held_[random_.below(held_.size())]);
}

LeasePeer::Link* LeasePeer::some_link(bool out, size_t* index) {
  const size_t first = links_.empty() ? 0 : random_.below(links_.size());
  for (size_t i = 0; i < links_.size(); ++i) {
    *index = (first + i) % links_.size();
    if (links_[*index].out == out && links_[*index].open()) return &links_[*index];
  }
  return nullptr;
}

// ---- lending

bool LeasePeer::make(Own* out) {
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
    expect(call(kMake,
                [&](tenon_error** err) {
                  return tenon_storage_new_from(&options, bytes.data(), nbytes, &out->storage, err);
                }),
           {TENON_OK}, "tenon_storage_new_from");
    return true;
  }
  if (!from_own_arena)
    options.mode = random_.chance(50) ? TENON_MODE_SHARED : TENON_MODE_LENDER_WRITES;
  const fault::Outcome made = call(kMake, [&](tenon_error** err) {
    return tenon_storage_new(&options, nbytes, &out->storage, err);
  });
  expect(made, {TENON_OK, TENON_RESOURCE_EXHAUSTED, TENON_TIMEOUT}, "tenon_storage_new");
  if (!made.ok()) {
    if (!from_own_arena || made.detail("limit") != "arena")
      expect(made, {}, "tenon_storage_new, and no arena is full");
    count(kFull);
    return false;
  }
  void* data = nullptr;
  REQUIRE_OK(tenon_storage_data_mut(out->storage, &data, err));
  fill(data, out->stamp);
  return true;
}

void LeasePeer::lend() {
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
  // Usually the lender releases its storage, so that only the borrower has the block.
  for (size_t i = own_.size(); i-- > 0;) {
    if (std::find(chosen.begin(), chosen.end(), i) != chosen.end() &&
        (own_.size() > kMostOwn || random_.chance(85)))
      release_own(i);
  }
}

void LeasePeer::lend_on() {
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
  count(kForwarded);
}

// With a null `message`, the call sends what earlier calls left in the queue.
void LeasePeer::send(size_t index, tenon_message* message, const std::vector<Stamp>& stamps) {
  Link& link = links_[index];
  if (message != nullptr)
    REQUIRE_OK(
        tenon_message_set_user_bytes(message, stamps.data(), stamps.size() * sizeof(Stamp), err));
  if (link.connection != nullptr) {
    const tenon_wait wait = fault::wait_ns(message == nullptr || random_.chance(50)
                                               ? 0
                                               : static_cast<int64_t>(random_.up_to(1 << 20)));
    const fault::Outcome sent = call(
        kSend, [&](tenon_error** err) { return tenon_send(link.connection, message, &wait, err); });
    // RESOURCE_EXHAUSTED comes if a user who is not root has too many fds in flight.
    expect(sent,
           {TENON_OK, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_PEER_GONE, TENON_RESOURCE_EXHAUSTED},
           "tenon_send");
    if (sent.status == TENON_RESOURCE_EXHAUSTED && sent.detail("limit") != "RLIMIT_NOFILE")
      expect(sent, {}, "tenon_send");
    if (sent.status == TENON_PEER_GONE) drop(index);
    if (sent.ok() && message != nullptr) count(kLent, stamps.size());
  } else if (link.raw >= 0 && message != nullptr) {
    tenon_descriptor* descriptor = nullptr;
    expect(call(kSend,
                [&](tenon_error** err) {
                  return tenon_descriptor_new(message, nullptr, &descriptor, err);
                }),
           {TENON_OK}, "tenon_descriptor_new");
    size_t nbytes = 0;
    size_t n_fds = 0;
    const void* const bytes = tenon_descriptor_bytes(descriptor, &nbytes);
    const int32_t* const fds = tenon_descriptor_fds(descriptor, &n_fds);
    if (n_fds <= kMostFds && put(link.raw, bytes, nbytes, fds, n_fds)) count(kDescriptors);
    enter(kRelease);
    tenon_descriptor_release(descriptor);
    leave();
  }
}

void LeasePeer::release_own(size_t index) {
  check_own(own_[index]);
  tenon_storage* const storage = own_[index].storage;
  own_.erase(own_.begin() + static_cast<std::ptrdiff_t>(index));
  enter(kRelease);
  tenon_storage_release(storage);
  leave();
}

void LeasePeer::check_own(const Own& own) {
  if (hostile_) return;
  const void* const bytes = tenon_storage_data(own.storage);
  if (const uint64_t at = find_wrong(bytes, own.stamp); at != kAllRight)
    fail_wrong(bytes, own.stamp, at, "its own");
}

// ---- borrowing

bool LeasePeer::receive_descriptor(Link* link, tenon_message** out) {
  std::vector<int> fds;
  static std::vector<unsigned char> bytes(size_t{1} << 18);  // more than a socket takes
  const ssize_t got = take(link->raw, bytes.data(), bytes.size(), MSG_DONTWAIT, &fds);
  if (got <= 0) {
    if (got == 0 || errno != EAGAIN) close(std::exchange(link->raw, -1));
    return false;
  }
  // Sometimes nobody opens the descriptor.
  if (!random_.chance(10)) {
    expect(call(kReceive,
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
bool LeasePeer::receive(size_t index, bool wait) {
  Link& link = links_[index];
  tenon_message* message = nullptr;
  if (link.raw >= 0) {
    if (!receive_descriptor(&link, &message)) return false;
  } else if (link.connection != nullptr) {
    const tenon_wait how_long = fault::wait_ns(
        wait && random_.chance(50) ? static_cast<int64_t>(random_.up_to(1 << 19)) : 0);
    const fault::Outcome got = call(kReceive, [&](tenon_error** err) {
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

void LeasePeer::hold(size_t link, tenon_message* message) {
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
    enter(kRelease);
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
  count(kReceived, held.stamps.size());
  held_.push_back(std::move(held));
  check(held_.back());
}

void LeasePeer::check(const Held& held) {
  if (hostile_) return;  // a hostile peer overwrites what it reads
  enter(kRead);
  for (size_t i = 0; i < held.stamps.size(); ++i) {
    if (const uint64_t at = find_wrong(held.data[i], held.stamps[i]); at != kAllRight)
      fail_wrong(held.data[i], held.stamps[i], at,
                 "that came over link " + std::to_string(held.link));
  }
  count_checked(held.stamps.size());
  leave();
}

void LeasePeer::let_go(size_t index) {
  check(held_[index]);
  const Held held = std::move(held_[index]);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  if (held.message != nullptr) {
    enter(kRelease);
    tenon_message_release(held.message);
    leave();
  }
  for (tenon_storage* storage : held.storages) {
    enter(kRelease);
    tenon_storage_release(storage);
    leave();
  }
}

void LeasePeer::let_go_of_all() {
  while (!held_.empty()) let_go(held_.size() - 1);
}

// Drops a link. Memory that came over it stays. An entry that was given back early is forgotten,
// because only the connection keeps its mapping.
void LeasePeer::drop(size_t index) {
  Link& link = links_[index];
  if (gives_back_early_) {
    std::erase_if(
        held_, [index](const Held& each) { return each.link == index && each.storages.empty(); });
  }
  if (link.raw >= 0) close(std::exchange(link.raw, -1));
  enter(kRelease);
  tenon_connection_release(std::exchange(link.connection, nullptr));
  leave();
}

// ---- children and hostile borrowers

// The child reads the memory that its parent held, even after the parent's end, and then ends in
// one of several ways.
void LeasePeer::be_child() {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (random_.chance(70)) drop(i);
  }
  const int64_t deadline = now_ns() + static_cast<int64_t>(random_.up_to(1 << 24));
  while (now_ns() < deadline) {
    if (held_.empty()) break;
    const size_t which = random_.below(held_.size());
    check(held_[which]);
    if (random_.chance(5)) let_go(which);
    usleep(50);
  }
  for (const Held& each : held_) check(each);
}

// Overwrites everything that a borrower can write: its lease pages and its bells.
void LeasePeer::harm() {
  enter(kHarm);
  const std::vector<unsigned char*> pages = lease_pages();
  for (unsigned char* page : pages) {
    const bool all = random_.chance(10);
    for (size_t i = 0; i < (all ? tenon::test::kLeasePageNbytes / 8 : 500); ++i) {
      const size_t word = all                  ? i
                          : random_.chance(50) ? random_.below(2048)
                                               : random_.below(tenon::test::kLeasePageNbytes / 8);
      __atomic_store_n(reinterpret_cast<uint64_t*>(page) + word, random_.next(), __ATOMIC_RELAXED);
    }
    // These are the words of the first slots, where the leases are.
    for (size_t i = 0; i < 4; ++i) {
      __atomic_store_n(reinterpret_cast<uint64_t*>(page + 4096), random_.next(), __ATOMIC_RELAXED);
      __atomic_store_n(reinterpret_cast<uint64_t*>(page + 4096 + 8192) + i, random_.next(),
                       __ATOMIC_RELAXED);
    }
    if (random_.chance(20))
      __atomic_store_n(reinterpret_cast<uint32_t*>(page + 128), 1U, __ATOMIC_RELAXED);
    count(kScribbles);
  }
  std::array<char, 4096> noise{};
  for (int fd = 3; fd < 256; ++fd) {
    int type = 0;
    socklen_t length = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) continue;
    bool is_link = false;
    for (const Link& link : links_) is_link |= tenon_connection_fd(link.connection) == fd;
    if (!is_link)
      (void)::send(fd, noise.data(), 1 + random_.below(noise.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  leave();
}

}  // namespace storm
