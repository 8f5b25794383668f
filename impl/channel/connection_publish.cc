// The functions of Connection for a publisher (publish/publisher.h). A published message crosses in
// the ring, where it can be withdrawn. Things that the peer must know before cross on the socket,
// in a frame that nobody withdraws: fds of segments, tokens, and the numbers of segments that the
// peer can forget. The code calls this frame the announcement. A message that is too long for a
// slot crosses on the socket too, and a marker in the ring takes its place.
#include <algorithm>
#include <cstring>

#include "base/make_room.h"
#include "channel/connection.h"
#include "channel/connection_calls.h"
#include "channel/lease_block.h"
#include "channel/outgoing.h"
#include "os/socket.h"

namespace tenon::channel {

using tensor::DescriptorContent;
using tensor::Message;
using tensor::Reach;
using tensor::SegmentRecord;

Status Connection::begin_publishing() {
  TENON_TRY(check_process());
  const std::lock_guard<std::mutex> lock(send_mutex_);
  publishing_ = std::make_unique<Publishing>(options_.ring_geometry.capacity);
  TENON_TRY(offer_ring());
  // Without the watch nothing would report that the peer is gone.
  if (!ring_watch_) TENON_TRY(gone_fd().status());
  frames_.ring()->expect_reader();
  bool full = false;
  return frames_.hand_over(frames_.enqueued(), &full);
}

Connection::Standing Connection::standing() noexcept {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  RingSender& ring = *frames_.ring();
  Standing standing;
  standing.waiting = ring.waiting();
  standing.is_stuck = !frames_.idle();
  standing.has_room = !standing.is_stuck && standing.waiting < ring.geometry().capacity;
  standing.is_gone = ring_watch_->is_gone();
  standing.has_joined = ring.has_joined();
  standing.has_left = ring.has_left();
  standing.is_asleep = ring.is_asleep();
  return standing;
}

void Connection::flush_some() noexcept {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  try {
    bool full = false;
    (void)frames_.hand_over(frames_.enqueued(), &full);
  } catch (...) {
    // No memory for the error: the frames stay, and a later call tries again.
  }
}

memory::Borrower Connection::borrower() noexcept {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  return lending_.borrower();
}

// Moves the fds, the tokens and the forgotten numbers of a message into a frame of their own. The
// message then names only what the peer knows by that frame.
Status Connection::announce(Outgoing* out, Announcement* announcement) {
  DescriptorContent& content = out->packed.content;
  DescriptorContent news;
  news.sender_pid = content.sender_pid;
  news.boot_id = content.boot_id;
  news.pid_namespace = content.pid_namespace;
  news.forgotten = std::move(content.forgotten);
  content.forgotten.clear();
  for (SegmentRecord& record : content.segments) {
    if (record.reach != Reach::kFd) continue;
    news.segments.push_back(record);
    record.reach = Reach::kKnown;
    record.fd_index = 0;
  }
  FrameParts parts{.descriptor = true, .announces = true};
  std::vector<std::byte> block;
  const LeaseBlock& granted = out->grant.block();
  if (!granted.tokens.empty()) {
    parts.leases = true;
    block = encode_lease_block({granted.account, granted.tokens, {}});
    out->block = encode_lease_block({granted.account, {}, granted.slots});
  }
  OutFrame& frame = announcement->frame;
  frame.by_socket = true;
  frame.fds = std::move(out->frame.fds);
  out->frame.fds.clear();
  frame.payload = tensor::encode_descriptor(news, block.size());
  std::copy(block.begin(), block.end(), frame.payload.begin());
  return shape(&parts, &frame, &announcement->carried);
}

Status Connection::prepare_publish(const Message& message, bool* is_blocked) {
  TENON_TRY(check_process());
  Publishing& publishing = *publishing_;
  publishing.lock = std::unique_lock<std::mutex>(send_mutex_);
  struct Undo {
    Connection* connection;
    ~Undo() {
      if (connection != nullptr) connection->drop_prepared();
    }
  } undo{this};
  RingSender& ring = *frames_.ring();
  Outgoing& out = publishing.out.emplace(&scratch_);
  TENON_TRY(pack(message, &out));
  if (out.parts.devices)
    return Status(Code::kUnsupported,
                  "memory of a device cannot be published: send it over a connection");
  number_segments(&out);
  DescriptorContent& content = out.packed.content;
  const bool has_news = !out.frame.fds.empty() || !out.grant.block().tokens.empty();
  const bool has_forgotten = !content.forgotten.empty();
  bool is_writable = true;
  if (has_news || has_forgotten) is_writable = os::is_writable(socket_);
  // Numbers that the peer can forget are not urgent: with a full socket they are sent with a later
  // message.
  const bool is_delayed = !has_news && !is_writable;
  if (is_delayed) content.forgotten.clear();
  if (has_news || (has_forgotten && !is_delayed))
    TENON_TRY(announce(&out, &publishing.announcement.emplace()));
  OutFrame& frame = out.frame;
  frame.payload = tensor::encode_descriptor(content, out.block.size());
  std::copy(out.block.begin(), out.block.end(), frame.payload.begin());
  const uint64_t position = ring.position();
  if (frame.payload.size() > ring.geometry().room()) {
    out.parts.held = true;
    frame.by_socket = true;
    frame.payload.insert(frame.payload.begin(), kPositionNbytes, std::byte{});
    std::memcpy(frame.payload.data(), &position, sizeof position);
    publishing.marker.emplace().kind = kMarker;
    if (is_writable) is_writable = os::is_writable(socket_);
  }
  TENON_TRY(shape(&out.parts, &frame, &out.carried));
  // publish_prepared() must not fail, so all memory that it needs is reserved from here on. For the
  // same reason nothing below returns an error.
  Publishing::Leases& leases = publishing.leases_of(position);
  leases.ledger = out.grant.ledger();
  leases.slots.assign(out.grant.block().slots.begin(), out.grant.block().slots.end());
  sent_.prepare(&out.added);
  frames_.make_room(3);
  *is_blocked = !is_writable && (publishing.announcement || publishing.marker);
  undo.connection = nullptr;
  return Status::ok();
}

void Connection::publish_prepared() noexcept {
  Publishing& publishing = *publishing_;
  Outgoing& out = *publishing.out;
  CarriedTokens tokens = lending_.commit(&out.grant);
  if (publishing.announcement) {
    Announcement& news = *publishing.announcement;
    if (news.carried) {
      // The frame may wait in the queue for longer than the storages live.
      news.carried->segments = std::move(out.packed.segments);
      news.carried->tokens = std::move(tokens);
    }
    news.frame.keep_alive = std::move(news.carried);
    frames_.enqueue(std::move(news.frame));
  }
  out.frame.keep_alive = std::move(out.carried);
  frames_.enqueue(std::move(out.frame));
  if (publishing.marker) frames_.enqueue(std::move(*publishing.marker));
  sent_.commit(&out.added, publishing.announcement.has_value());
  try {
    bool full = false;
    (void)frames_.hand_over(frames_.enqueued(), &full);
  } catch (...) {
    // No memory for the error: flush_some() tries again.
  }
  publishing.clear();
  publishing.lock.unlock();
}

void Connection::drop_prepared() noexcept {
  if (!publishing_->lock.owns_lock()) return;
  publishing_->clear();
  publishing_->lock.unlock();
}

// Asks what became of the message that the peer had begun to take when it was withdrawn. If the
// peer refused it, `back` gets its leases. With `must_know` an honest peer has decided by now, and
// the question is over in any case: a peer that has not decided keeps the leases, as if it had
// taken the message. The caller holds the send mutex.
void Connection::resolve_begun(std::vector<TakenBack>* back, uint64_t* withdrawn, bool must_know) {
  Publishing& publishing = *publishing_;
  if (!publishing.begun) return;
  const RingSender::Fate fate = frames_.ring()->fate_of(*publishing.begun);
  if (fate == RingSender::Fate::kUnknown && !must_know) return;
  if (fate == RingSender::Fate::kRefused) {
    ++*withdrawn;
    TakenBack& one = back->emplace_back();
    one.ledger = std::move(publishing.begun_leases.ledger);
    one.slots = std::move(publishing.begun_leases.slots);
  }
  publishing.begun.reset();
  publishing.begun_leases = {};
}

bool Connection::withdraw_oldest(std::vector<TakenBack>* back, uint64_t* withdrawn) {
  constexpr size_t kMostBack = 3;  // no call below adds more than one
  make_room(back, kMostBack);
  const std::lock_guard<std::mutex> lock(send_mutex_);
  Publishing& publishing = *publishing_;
  resolve_begun(back, withdrawn, false);
  uint64_t position = 0;
  const RingSender::Withdrawn what = frames_.ring()->withdraw_oldest(&position);
  if (what == RingSender::Withdrawn::kNone) return false;
  const bool is_begun = what == RingSender::Withdrawn::kBegun;
  resolve_begun(back, withdrawn, is_begun);
  Publishing::Leases& leases = publishing.leases_of(position);
  if (is_begun) {
    publishing.begun = position;
    publishing.begun_leases = std::exchange(leases, {});
    resolve_begun(back, withdrawn, false);
    return true;
  }
  ++*withdrawn;
  TakenBack& one = back->emplace_back();
  one.ledger = std::move(leases.ledger);
  one.slots = std::exchange(leases.slots, {});
  return true;
}

void Connection::take_all_back(std::vector<TakenBack>* back) {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  const RingSender& ring = *frames_.ring();
  Publishing& publishing = *publishing_;
  const uint64_t waiting = frames_.ring()->waiting();
  make_room(back, waiting + 1);
  if (publishing.begun && ring.fate_of(*publishing.begun) == RingSender::Fate::kUnknown) {
    // The peer ended while it took this message.
    TakenBack& one = back->emplace_back();
    one.ledger = std::move(publishing.begun_leases.ledger);
    one.slots = std::exchange(publishing.begun_leases.slots, {});
    publishing.begun.reset();
  }
  // The peer has ended or left, so it has decided about every other message that it had begun to
  // take.
  uint64_t withdrawn = 0;
  resolve_begun(back, &withdrawn, true);
  for (uint64_t position = ring.position() - waiting; position < ring.position(); ++position) {
    Publishing::Leases& leases = publishing.leases_of(position);
    TakenBack& one = back->emplace_back();
    one.ledger = std::move(leases.ledger);
    one.slots = std::exchange(leases.slots, {});
  }
}

void Connection::wait_for_room() noexcept {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  frames_.ring()->wait_for_room();
}

void Connection::stop_waiting_for_room() noexcept {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  frames_.ring()->stop_waiting();
}

}  // namespace tenon::channel
