// What a peer of the storm does with memory that another peer sends it (class Peer).
#include <algorithm>
#include <cstring>

#include "process/cuda/storm/peer.h"

namespace storm {

static constexpr size_t kMostHeld = 12;

CUstream DevicePeer::some_stream() { return streams_[random_.below(streams_.size())]; }

// Returns false if no message came.
bool DevicePeer::receive(LinkEnd* link, bool may_open) {
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
void DevicePeer::give_back_unopened(const Message& message) {
  const fault::Outcome back = call(kUnopened, [&](tenon_error** err) {
    return tenon_release_cuda_counter(message.handle.counter, message.handle.slot, err);
  });
  expect(back, {TENON_OK}, "tenon_release_cuda_counter");
  count(kGivenBackUnopened);
}

bool DevicePeer::pass_on(const Message& message) {
  LinkEnd* const link = some_link(&links_, true, &random_);
  if (link == nullptr || !send(link, message)) return false;
  count(kPassedOn);
  return true;
}

void DevicePeer::open(const Message& message) {
  while (held_.size() >= kMostHeld) let_go(random_.below(held_.size()));
  Held held;
  held.stream = some_stream();
  held.stamp = message.stamp;
  held.sender = message.sender;
  tenon_cuda_handle handle = message.handle;
  if (plan_.does_not_wait) handle.event_required = 0;
  const fault::Outcome opened = call(kOpen, [&](tenon_error** err) {
    return tenon_open_cuda(&handle, held.stream, nullptr, &held.storage, err);
  });
  if (!opened.ok()) {
    // The driver forgets the memory and the events that a dead process exported. An opener that
    // comes too late gets an error.
    if (!is_sender_dead(message.sender))
      expect(opened, {}, "tenon_open_cuda, and its sender lives");
    count(kSenderGone);
    give_back_unopened(message);
    return;
  }
  if (tenon_storage_nbytes(held.storage) != message.stamp.nbytes) {
    fail("a storage of " + std::to_string(tenon_storage_nbytes(held.storage)) + " bytes, and " +
         std::to_string(message.stamp.nbytes) + " were sent");
  }
  if (plan_.gives_back_early)
    (void)tenon_release_cuda_counter(handle.counter, handle.slot, nullptr);
  held.pointer =
      static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(tenon_storage_data(held.storage)));
  count(message.sender == index_ ? kOpenedOwn : kOpened);
  held_.push_back(held);
  if (random_.chance(80)) check(&held_.back());
}

// Wrong bytes have one excuse: the sender was killed before its stream had written them. Then no
// process ever saw the right bytes, and the driver treats the event of a dead process as complete.
bool DevicePeer::is_right(const unsigned char* bytes, Held* held) {
  const uint64_t at = find_wrong(bytes, held->stamp);
  if (at == kAllRight) {
    held->was_right = true;
    count_checked();
    return true;
  }
  if (!held->was_right && held->sender != index_ && is_sender_dead(held->sender)) {
    count(kUnfinished);
    return false;
  }
  fail_wrong(bytes, held->stamp, at,
             "that peer " + std::to_string(held->sender) + " sent" +
                 (held->was_right ? ", where it was right before" : ""));
}

void DevicePeer::check(Held* held) {
  std::vector<unsigned char> bytes(held->stamp.nbytes);
  enter(kUse);
  CUstream stream = held->stream;
  if (random_.chance(30)) {
    // Another stream has not waited for the sender's stream. The library also does not know that it
    // uses the storage until record_stream is called.
    must(driver().cuStreamSynchronize(held->stream), "cuStreamSynchronize");
    stream = some_stream();
    const fault::Outcome recorded = fault::call(
        [&](tenon_error** err) { return tenon_storage_record_stream(held->storage, stream, err); });
    expect(recorded, {TENON_OK}, "tenon_storage_record_stream");
  }
  must(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(bytes.data()), held->pointer,
                              bytes.size(), stream),
       "cuMemcpyAsync");
  must(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
  leave();
  (void)is_right(bytes.data(), held);
}

// Releases a held storage, half of the time while a copy of it is running.
void DevicePeer::let_go(size_t index) {
  Held held = held_[index];
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  if (random_.chance(50)) {
    auto reading = std::make_unique<Reading>();
    reading->bytes.resize(held.stamp.nbytes);
    reading->stream = held.stream;
    reading->from = held;
    enter(kUse);
    must(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(reading->bytes.data()), held.pointer,
                                held.stamp.nbytes, held.stream),
         "cuMemcpyAsync");
    leave();
    readings_.push_back(std::move(reading));
  }
  enter(kRelease);
  tenon_storage_release(held.storage);
  leave();
}

void DevicePeer::finish_reading(bool all) {
  while (!readings_.empty() && (all || readings_.size() > 4)) {
    const std::unique_ptr<Reading> reading = std::move(readings_.front());
    readings_.erase(readings_.begin());
    enter(kUse);
    must(driver().cuStreamSynchronize(reading->stream), "cuStreamSynchronize");
    leave();
    (void)is_right(reading->bytes.data(), &reading->from);
  }
}

}  // namespace storm
