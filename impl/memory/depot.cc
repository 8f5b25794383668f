#include "memory/depot.h"

#include <algorithm>
#include <cstring>

#include "base/make_room.h"
#include "memory/claims_page.h"
#include "memory/lease_page.h"
#include "memory/ledgers.h"
#include "os/limits.h"
#include "os/memfd.h"

namespace tenon::memory {
namespace {

// Objects are released outside the lock, in batches of this size, so that no memory is needed for a
// list.
constexpr size_t kBatchOfDeposits = 256;

Status exhausted(const char* what, const char* limit, uint64_t value) {
  return Status(Code::kResourceExhausted,
                format("%llu %s wait to be fetched or are held by who fetched them: let receivers "
                       "read first, or put several tensors into "
                       "one message",
                       as_llu(value), what))
      .with("limit", std::string(limit))
      .with("limit_value", value);
}

}  // namespace

Result<Ref<Depot>> Depot::create() {
  namespace page = claims_page;
  constexpr size_t kPageNbytes =
      page::page_nbytes(page::kMessages, page::kThings, lease_page::kSlots);
  auto depot = Ref<Depot>::adopt(new Depot());
  TENON_TRY(os::check_file_size(kPageNbytes));
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  TENON_ASSIGN(depot->page_fd_, os::create_memfd(nonce, kPageNbytes));
  TENON_ASSIGN(depot->page_, os::Mapping::create(os::Mapping::Kind::kSharedWritable,
                                                 depot->page_fd_.get(), 0, kPageNbytes));
  TENON_TRY(os::add_seals(depot->page_fd_.get(), os::kSealShrink | os::kSealGrow | os::kSealSeal));
  // The first page is made here by a write, which can fail, and not by a store, which cannot. The
  // other pages are made before they are first used.
  page::Header header{};
  header.magic = page::kMagic;
  header.version = page::kVersion;
  header.messages = page::kMessages;
  header.things = page::kThings;
  header.slots = lease_page::kSlots;
  std::array<std::byte, sizeof header> bytes;
  std::memcpy(bytes.data(), static_cast<const void*>(&header), sizeof header);
  TENON_TRY(os::write_file(depot->page_fd_.get(), 0, bytes.data(), bytes.size()));
  return depot;
}

Result<Ref<Depot>> Depot::inherit(os::Fd fd, uint32_t next_borrower) {
  namespace page = claims_page;
  constexpr size_t kPageNbytes =
      page::page_nbytes(page::kMessages, page::kThings, lease_page::kSlots);
  auto depot = Ref<Depot>::adopt(new Depot());
  depot->page_fd_ = std::move(fd);
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(depot->page_fd_.get()));
  if (!file.in_memory || file.nbytes != kPageNbytes)
    return Status(Code::kIncompatible,
                  "a claims page of another size than this version of Tenon makes");
  TENON_ASSIGN(depot->page_, os::Mapping::create(os::Mapping::Kind::kSharedWritable,
                                                 depot->page_fd_.get(), 0, kPageNbytes));
  depot->next_borrower_ = next_borrower;
  return depot;
}

std::vector<Depot::MessageSlot> Depot::pending() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<MessageSlot> places;
  for (uint32_t number = 0; number < messages_.size(); ++number) {
    const Message& message = messages_[number];
    if (message.remaining == 0) continue;
    const MessageSlot place{number, message.generation};
    if (is_pending(place)) places.push_back(place);
  }
  return places;
}

bool Depot::is_pending(MessageSlot place) const noexcept {
  return place.message < claims_page::kMessages &&
         claims_page::is_pending(page_.base(), place.message, place.generation);
}

uint32_t Depot::next_borrower() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return next_borrower_;
}

// Makes room for `more` leases, so that grant() cannot fail. The caller holds the lock.
Status Depot::make_slots(size_t more) {
  size_t free = 0;
  for (uint32_t at = free_slot_; at != kNone && free < more; at = slots_[at].message) ++free;
  const size_t fresh = more - free;
  if (fresh == 0) return Status::ok();
  if (slots_.size() + fresh > lease_page::kSlots)
    return exhausted("leases", "leases", lease_page::kSlots);
  // The words of the chain for the new slots may lie in pages of the file that do not exist yet.
  constexpr size_t kPage = 4096;
  constexpr size_t kChain = claims_page::chain_offset(claims_page::kMessages, claims_page::kThings);
  const size_t before = kChain + slots_.size() * sizeof(uint32_t);
  const size_t after = before + fresh * sizeof(uint32_t);
  const size_t first = (before + kPage - 1) / kPage * kPage;
  if (first < after)
    TENON_TRY(
        os::reserve_pages(page_fd_.get(), first, (after - first + kPage - 1) / kPage * kPage));
  make_room(&slots_, fresh);
  return Status::ok();
}

// The caller holds the lock, and has called make_slots().
void Depot::grant(uint32_t number, std::span<Leased* const> objects, uint32_t* slots) noexcept {
  Message& message = messages_[number];
  (void)begin_leases(objects);
  const auto next_of = [&](uint32_t slot) -> std::atomic<uint32_t>& {
    return claims_page::next_slot(page_.base(), claims_page::kMessages, claims_page::kThings, slot);
  };
  for (size_t i = 0; i < objects.size(); ++i) {
    uint32_t slot = free_slot_;
    if (slot != kNone) {
      free_slot_ = slots_[slot].message;
      slots_[slot] = {objects[i], number};
    } else {
      slot = static_cast<uint32_t>(slots_.size());
      slots_.push_back({objects[i], number});
    }
    if (message.slots.empty()) {
      next_of(slot).store(claims_page::kNoSlot, std::memory_order_relaxed);
    } else {
      next_of(slot).store(next_of(message.slots[0]).load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
      next_of(message.slots[0]).store(slot, std::memory_order_release);
    }
    message.slots.push_back(slot);
    slots[i] = slot;
  }
  message.remaining += static_cast<uint32_t>(objects.size());
  count_leases(static_cast<int64_t>(objects.size()));
}

Result<Depot::MessageSlot> Depot::deposit(std::span<Leased* const> objects, uint32_t* slots) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_new = free_messages_.empty();
  if (is_new && messages_.size() >= claims_page::kMessages)
    return exhausted("messages", "messages", claims_page::kMessages);
  TENON_TRY(make_slots(objects.size()));
  if (is_new) {
    // Makes room in `free_messages_` for every message, because finish() must not need memory.
    make_room(&free_messages_, messages_.size() + 1 - free_messages_.size());
    const size_t at = claims_page::kClaimsOffset + messages_.size() * sizeof(claims_page::Word);
    if (at % 4096 == 0) TENON_TRY(os::reserve_pages(page_fd_.get(), at, 4096));
    messages_.emplace_back();
    free_messages_.push_back(static_cast<uint32_t>(messages_.size() - 1));
  }
  const uint32_t number = free_messages_.back();
  Message& message = messages_[number];
  message.slots.reserve(objects.size());
  free_messages_.pop_back();
  message.cursor = 0;
  // finish() has closed a message that had been over.
  if (is_new) claims_page::close(page_.base(), number, message.generation);
  grant(number, objects, slots);
  const uint32_t next =
      free_messages_.empty() ? static_cast<uint32_t>(messages_.size()) : free_messages_.back();
  if (next < claims_page::kMessages)
    next_claim_.store(&claims_page::claim_word(page_.base(), next), std::memory_order_relaxed);
  return MessageSlot{number, message.generation};
}

Status Depot::add(MessageSlot place, std::span<Leased* const> objects, uint32_t* slots) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_there(place))
    return Status(Code::kInvalidArgument, "the deposit was withdrawn, or is fetched already");
  TENON_TRY(make_slots(objects.size()));
  make_room(&messages_[place.message].slots, objects.size());
  grant(place.message, objects, slots);
  return Status::ok();
}

void Depot::open(MessageSlot place) noexcept {
  claims_page::open(page_.base(), place.message, place.generation);
}

bool Depot::is_unfetched(MessageSlot place) const noexcept {
  return claims_page::look(page_.base(), place.message) ==
         claims_page::Claim{place.generation, claims_page::kUnfetched};
}

bool Depot::has_slot(MessageSlot place, uint32_t slot) const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_there(place) && slot < slots_.size() && slots_[slot].object != nullptr &&
         slots_[slot].message == place.message;
}

uint64_t Depot::count_pending() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t count = 0;
  for (uint32_t number = 0; number < messages_.size(); ++number)
    count += messages_[number].remaining > 0 && is_pending({number, messages_[number].generation})
                 ? 1
                 : 0;
  return count;
}

// Ends the lease of a slot that has one. The caller holds the lock.
Leased* Depot::end_lease_of(uint32_t slot) noexcept {
  Leased* const object = std::exchange(slots_[slot].object, nullptr);
  const uint32_t message = slots_[slot].message;
  if (--messages_[message].remaining == 0) finish(message);
  return object;
}

void Depot::finish(uint32_t number) noexcept {
  Message& message = messages_[number];
  ++message.generation;
  for (const uint32_t slot : message.slots) slots_[slot].message = std::exchange(free_slot_, slot);
  message.slots.clear();
  claims_page::close(page_.base(), number, message.generation);
  free_messages_.push_back(number);  // has room: deposit() made it
}

Leased* Depot::take(uint32_t slot, uint32_t borrower) noexcept {
  if (slot >= slots_.size() || slots_[slot].object == nullptr) return nullptr;
  const uint32_t message = slots_[slot].message;
  const claims_page::Claim wanted{messages_[message].generation, borrower};
  return claims_page::look(page_.base(), message) == wanted ? end_lease_of(slot) : nullptr;
}

// Ends leases of a message whose leases nobody gives back one by one any more. The caller holds the
// lock.
size_t Depot::take_rest(uint32_t number, std::span<Leased*> out) noexcept {
  Message& message = messages_[number];
  const uint32_t generation = message.generation;
  size_t count = 0;
  while (count < out.size() && message.generation == generation &&
         message.cursor < message.slots.size()) {
    const uint32_t slot = message.slots[message.cursor++];
    if (slots_[slot].object != nullptr) out[count++] = end_lease_of(slot);
  }
  return count;
}

size_t Depot::take_claimed(uint32_t borrower, uint32_t* cursor, std::span<Leased*> out) noexcept {
  size_t count = 0;
  for (; *cursor < messages_.size() && count < out.size(); ++*cursor) {
    const Message& message = messages_[*cursor];
    if (message.remaining == 0) continue;
    if (claims_page::look(page_.base(), *cursor) !=
        claims_page::Claim{message.generation, borrower})
      continue;
    count += take_rest(*cursor, out.subspan(count));
    if (count == out.size()) break;  // this one may have more
  }
  return count;
}

bool Depot::withdraw(MessageSlot place) noexcept {
  if (!made_by_this_process()) return false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_there(place)) return false;
    // A message that was never opened is closed already.
    const claims_page::Claim closed{place.generation, claims_page::kClosed};
    if (!claims_page::claim(page_.base(), place.message, place.generation, claims_page::kClosed) &&
        claims_page::look(page_.base(), place.message) != closed)
      return false;
  }
  end_message(place);
  return true;
}

bool Depot::claim_here(MessageSlot place) noexcept {
  if (!made_by_this_process()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_there(place) &&
         claims_page::claim(page_.base(), place.message, place.generation, kHere);
}

void Depot::end_message(MessageSlot place) noexcept {
  if (!made_by_this_process()) return;
  std::array<Leased*, kBatchOfDeposits> batch;
  size_t count = 0;
  do {
    count = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_there(place)) count = take_rest(place.message, batch);
    }
    end_leases({batch.data(), count});
    count_leases(-static_cast<int64_t>(count));
  } while (count > 0);
}

Result<uint32_t> Depot::add_borrower() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (next_borrower_ == claims_page::kClosed)
    return exhausted("numbers of receivers", "borrowers", claims_page::kClosed - 1);
  return next_borrower_++;
}

Result<Depot::Number> Depot::number_thing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  make_room(&free_things_, size_t{next_thing_} + 1 - free_things_.size());
  if (free_things_.empty() && next_thing_ == claims_page::kThings)
    return exhausted("segments", "segments", claims_page::kThings);
  Number number{0, next_serial_};
  if (free_things_.empty()) {
    const size_t at = claims_page::things_offset(claims_page::kMessages) +
                      size_t{next_thing_} * sizeof(claims_page::Word);
    if (at % 4096 == 0) TENON_TRY(os::reserve_pages(page_fd_.get(), at, 4096));
    number.thing = next_thing_++;
  } else {
    number.thing = free_things_.back();
    free_things_.pop_back();
  }
  ++next_serial_;
  claims_page::thing_word(page_.base(), claims_page::kMessages, number.thing)
      .store(number.serial, std::memory_order_release);
  return number;
}

void Depot::end_thing(Number number) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  claims_page::thing_word(page_.base(), claims_page::kMessages, number.thing)
      .store(0, std::memory_order_release);
  claims_page::header(page_.base()).ended.fetch_add(1, std::memory_order_release);
  free_things_.push_back(number.thing);  // has room: number_thing() made it
}

Depot::Totals Depot::totals_of(uint32_t borrower) const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  Totals totals;
  for (const Slot& slot : slots_) {
    if (slot.object == nullptr) continue;
    const claims_page::Claim wanted{messages_[slot.message].generation, borrower};
    if (claims_page::look(page_.base(), slot.message) != wanted) continue;
    ++totals.leases;
    totals.nbytes += slot.object->leased_nbytes();
  }
  return totals;
}

}  // namespace tenon::memory
