// What a peer of the storm does with memory that another peer sends it (class Peer).
#include <algorithm>
#include <cstring>

#include "cuda/driver.h"
#include "process/cuda/storm/peer.h"
#include "process/fault/storm/wire.h"

namespace storm::device {
namespace {

constexpr size_t kMostHeld = 12;

}  // namespace

CUstream Peer::some_stream() { return streams_[random_.below(streams_.size())]; }

// Returns false if no message came.
bool Peer::receive(Link* link, bool may_open) {
  Message message{};
  std::vector<int> none;
  if (take(link->socket, &message, sizeof message, MSG_DONTWAIT, &none) !=
      static_cast<ssize_t>(sizeof message))
    return false;
  const uint64_t dice = random_.below(100);
  if (!may_open || dice < 6) {
    give_back_unopened(message);
  } else if (dice >= 14 || !pass_on(message)) {
    open(message);
  }
  return true;
}

// Gives the message back. It also succeeds when the sender is dead, whether its file still exists
// or not.
void Peer::give_back_unopened(const Message& message) {
  const fault::Outcome back = call(Op::kUnopened, [&](tenon_error** err) {
    return tenon_release_cuda_counter(message.handle.counter, message.handle.slot, err);
  });
  if (!back.ok()) fail("tenon_release_cuda_counter", back);
  board_->unopened.fetch_add(1, std::memory_order_relaxed);
}

bool Peer::pass_on(const Message& message) {
  Link* const link = some_link(true);
  if (link == nullptr || !send(link, message)) return false;
  board_->passed_on.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Peer::open(const Message& message) {
  while (held_.size() >= kMostHeld) let_go(random_.below(held_.size()));
  Held held;
  held.stream = some_stream();
  held.stamp = message.stamp;
  held.sender = message.sender;
  tenon_cuda_handle handle = message.handle;
  if (broken_ == Break::kDoNotWait) handle.event_required = 0;
  const fault::Outcome opened = call(Op::kOpen, [&](tenon_error** err) {
    return tenon_open_cuda(&handle, held.stream, nullptr, &held.storage, err);
  });
  if (!opened.ok()) {
    // The driver forgets the memory and the events that a dead process exported. An opener that
    // comes too late gets an error.
    if (!is_dead(message.sender)) fail("tenon_open_cuda, and its sender lives", opened);
    board_->sender_gone.fetch_add(1, std::memory_order_relaxed);
    give_back_unopened(message);
    return;
  }
  if (tenon_storage_nbytes(held.storage) != message.stamp.nbytes) {
    board_->complain("a storage of %llu bytes, and %llu were sent",
                     static_cast<unsigned long long>(tenon_storage_nbytes(held.storage)),
                     static_cast<unsigned long long>(message.stamp.nbytes));
    die(kFailed);
  }
  if (broken_ == Break::kGiveBackEarly)
    (void)tenon_release_cuda_counter(handle.counter, handle.slot, nullptr);
  held.pointer =
      static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(tenon_storage_data(held.storage)));
  (message.sender == index_ ? board_->opened_own : board_->opened)
      .fetch_add(1, std::memory_order_relaxed);
  held_.push_back(held);
  if (random_.chance(80)) check(&held_.back());
}

// Wrong bytes have one excuse: the sender was killed before its stream had written them. Then no
// process ever saw the right bytes, and the driver treats the event of a dead process as complete.
bool Peer::is_right(const unsigned char* bytes, Held* held) {
  const uint64_t at = find_wrong(bytes, held->stamp);
  if (at == kAllRight) {
    held->was_right = true;
    board_->checked.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (!held->was_right && held->sender != index_ && is_dead(held->sender)) {
    board_->unfinished.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  Stamp found;
  std::memcpy(&found, bytes, std::min<uint64_t>(sizeof found, held->stamp.nbytes));
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  board_->wrong.fetch_add(1);
  board_->complain(
      "wrong byte at %llu of a block of %llu bytes, generation %llu of %llx, that peer %u sent%s: "
      "there are now %llu bytes, generation "
      "%llu "
      "of %llx",
      number(at), number(held->stamp.nbytes), number(held->stamp.generation),
      number(held->stamp.seed), held->sender, held->was_right ? ", where it was right before" : "",
      number(found.nbytes), number(found.generation), number(found.seed));
  die(kWrongByte);
}

void Peer::check(Held* held) {
  std::vector<unsigned char> bytes(held->stamp.nbytes);
  enter(Op::kUse);
  CUstream stream = held->stream;
  if (random_.chance(30)) {
    // Another stream has not waited for the sender's stream. The library also does not know that it
    // uses the storage until record_stream is called.
    must(driver().cuStreamSynchronize(held->stream), "cuStreamSynchronize");
    stream = some_stream();
    const fault::Outcome recorded = fault::call(
        [&](tenon_error** err) { return tenon_storage_record_stream(held->storage, stream, err); });
    if (!recorded.ok()) fail("tenon_storage_record_stream", recorded);
  }
  must(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(bytes.data()), held->pointer,
                              bytes.size(), stream),
       "cuMemcpyAsync");
  must(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
  leave();
  (void)is_right(bytes.data(), held);
}

// Releases a held storage, half of the time while a copy of it is running.
void Peer::let_go(size_t index) {
  Held held = held_[index];
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  if (random_.chance(50)) {
    auto reading = std::make_unique<Reading>();
    reading->bytes.resize(held.stamp.nbytes);
    reading->stream = held.stream;
    reading->from = held;
    enter(Op::kUse);
    must(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(reading->bytes.data()), held.pointer,
                                held.stamp.nbytes, held.stream),
         "cuMemcpyAsync");
    leave();
    readings_.push_back(std::move(reading));
  }
  enter(Op::kRelease);
  tenon_storage_release(held.storage);
  leave();
}

void Peer::finish_reading(bool all) {
  while (!readings_.empty() && (all || readings_.size() > 4)) {
    const std::unique_ptr<Reading> reading = std::move(readings_.front());
    readings_.erase(readings_.begin());
    enter(Op::kUse);
    must(driver().cuStreamSynchronize(reading->stream), "cuStreamSynchronize");
    leave();
    (void)is_right(reading->bytes.data(), &reading->from);
  }
}

}  // namespace storm::device
