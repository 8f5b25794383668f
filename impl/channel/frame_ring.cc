#include "channel/frame_ring.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "memory/peer_page.h"
#include "os/clock.h"
#include "os/limits.h"
#include "os/memfd.h"

namespace tenon::channel {
namespace {

using os::Mapping;
using ring_page::Geometry;

bool is_possible(const Geometry& geometry) noexcept {
  return std::has_single_bit(geometry.capacity) && geometry.capacity <= ring_page::kMostCapacity &&
         geometry.slot_nbytes % 64 == 0 && geometry.slot_nbytes >= ring_page::kLeastSlotNbytes &&
         geometry.slot_nbytes <= ring_page::kMostSlotNbytes;
}

Status corrupt_ring(const char* why) {
  return Status(Code::kCorrupt, why).with("field", std::string("ring"));
}

// Makes a file of shared memory whose pages exist. The caller maps it, and then adds the seals.
Result<os::Fd> make_file(uint64_t nbytes) {
  TENON_TRY(os::check_file_size(nbytes));
  TENON_TRY(os::ask_headroom(nbytes));
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  TENON_ASSIGN(os::Fd fd, os::create_memfd(nonce, nbytes));
  TENON_TRY(os::reserve_pages(fd.get(), 0, nbytes));
  return fd;
}

constexpr memory::PageKind kRing{
    .magic = ring_page::kMagic,
    .version = ring_page::kVersion,
    .incompat_offset = offsetof(ring_page::Header, incompat),
    .name = "a ring",
    .unsealed = "a ring whose file is not sealed",
    .of_huge_pages = "a ring whose file is not sealed",
    .too_short = "a ring whose file is too short",
    .field = "ring",
};

// Checks one of the two files before it is mapped. Mapping refuses a receiver's page that cannot be
// written.
Status check_file(int fd, uint64_t nbytes) {
  return memory::check_page_file(fd, kRing, memory::PageUse::kRead, nbytes).status();
}

Result<Geometry> read_header(int fd) {
  std::array<std::byte, sizeof(ring_page::Header)> bytes;
  TENON_TRY(check_file(fd, bytes.size()));
  TENON_TRY(os::read_file(fd, 0, bytes.data(), bytes.size()));
  TENON_TRY(memory::check_page_header(bytes, kRing));
  const auto read = [&](size_t offset) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  const Geometry geometry{read(offsetof(ring_page::Header, capacity)),
                          read(offsetof(ring_page::Header, slot_nbytes))};
  if (!is_possible(geometry)) return corrupt_ring("a ring of a size that cannot be");
  return geometry;
}

}  // namespace

Status check_geometry(const Geometry& geometry) {
  if (is_possible(geometry)) return Status::ok();
  return invalid(
      format("a ring has a power of two of slots, at most %u, of a multiple of 64 bytes from %u to "
             "%u: not %u slots of %u bytes",
             ring_page::kMostCapacity, ring_page::kLeastSlotNbytes, ring_page::kMostSlotNbytes,
             geometry.capacity, geometry.slot_nbytes));
}

// ---- the sender

Result<std::unique_ptr<RingSender>> RingSender::create(const Geometry& geometry) {
  TENON_TRY(check_geometry(geometry));
  TENON_ASSIGN(os::Fd file, make_file(geometry.nbytes()));
  TENON_ASSIGN(os::Fd page, make_file(ring_page::kReceiverNbytes));
  TENON_ASSIGN(Mapping file_map,
               Mapping::create(Mapping::Kind::kSharedWritable, file.get(), 0, geometry.nbytes()));
  TENON_ASSIGN(Mapping page_map, Mapping::create(Mapping::Kind::kSharedReadOnly, page.get(), 0,
                                                 ring_page::kReceiverNbytes));
  constexpr unsigned kSeals = os::kSealShrink | os::kSealGrow | os::kSealSeal;
  // A kernel before 5.1 has no seal against later writers. There the receiver could write into this
  // ring, as it can into its own page.
  if (Status sealed = os::add_seals(file.get(), kSeals | os::kSealFutureWrite); !sealed.is_ok()) {
    if (sealed.code() != Code::kUnsupported) return sealed;
    TENON_TRY(os::add_seals(file.get(), kSeals));
  }
  TENON_TRY(os::add_seals(page.get(), kSeals));
  ring_page::Header& header = ring_page::header(file_map.base());
  header.version = ring_page::kVersion;
  header.capacity = geometry.capacity;
  header.slot_nbytes = geometry.slot_nbytes;
  header.magic = ring_page::kMagic;
  std::unique_ptr<RingSender> ring(
      new RingSender(geometry, std::move(file_map), std::move(page_map)));
  ring->fds_ = std::make_shared<std::array<os::Fd, 2>>();
  (*ring->fds_)[0] = std::move(file);
  (*ring->fds_)[1] = std::move(page);
  return ring;
}

bool RingSender::is_read() noexcept {
  if (!is_read_) is_read_ = receiver().ready.load(std::memory_order_acquire) != 0;
  return is_read_;
}

uint64_t RingSender::waiting() noexcept {
  // The receiver may write any number. A number that is out of range is ignored.
  const uint64_t passed = receiver().passed.load(std::memory_order_seq_cst);
  if (passed > oldest_ && passed <= next_) oldest_ = passed;
  return next_ - oldest_;
}

bool RingSender::put(uint16_t kind, std::span<const std::byte> payload) noexcept {
  if (!is_read() || payload.size() > geometry_.room()) return false;
  if (next_ - oldest_ >= geometry_.capacity && waiting() >= geometry_.capacity) return false;
  // The receiver reads the header's cache line for each frame. A store for each frame would take
  // the line away from it.
  if (const auto cpu = static_cast<uint32_t>(::sched_getcpu()); cpu != cpu_) {
    cpu_ = cpu;
    header().cpu.store(cpu, std::memory_order_relaxed);
  }
  ring_page::fill(ring_page::slot(file_.base(), geometry_, next_), next_,
                  {by_socket_, static_cast<uint32_t>(payload.size()), kind}, payload);
  ++next_;
  return true;
}

void RingSender::begin_at(uint64_t by_socket) noexcept {
  by_socket_ = by_socket;
  header().by_socket.store(by_socket, std::memory_order_release);
}

void RingSender::count_by_socket() noexcept { begin_at(by_socket_ + 1); }

bool RingSender::must_ring() noexcept {
  const uint32_t asleep = receiver().asleep.load(std::memory_order_seq_cst);
  if (asleep % 2 == 0 || asleep == rung_) return false;
  rung_ = asleep;
  header().rung_ns.store(static_cast<uint64_t>(os::monotonic_ns()), std::memory_order_relaxed);
  return true;
}

void RingSender::wait_for_room() noexcept {
  ring_page::Half& waits = header().waits;
  waits.store((waits.load(std::memory_order_relaxed) + 1) | 1U, std::memory_order_seq_cst);
}

void RingSender::stop_waiting() noexcept {
  ring_page::Half& waits = header().waits;
  waits.store((waits.load(std::memory_order_relaxed) + 1) & ~1U, std::memory_order_relaxed);
}

// The store to `withdrawn` and the load of `reading` here, and the store to `reading` and the load
// of `withdrawn` in take(), are all sequentially consistent. So either this side sees that the
// receiver has begun, or the receiver sees that the frame is withdrawn. A receiver that is already
// done has set `reading` to another value, with a release after its store to `passed`. So this side
// then sees it in `passed`.
RingSender::Withdrawn RingSender::withdraw_oldest(uint64_t* position) noexcept {
  if (waiting() == 0) return Withdrawn::kNone;
  *position = oldest_;
  header().withdrawn.store(oldest_ + 1, std::memory_order_seq_cst);
  const uint64_t reading = receiver().reading.load(std::memory_order_seq_cst);
  const uint64_t passed = receiver().passed.load(std::memory_order_acquire);
  const bool is_begun = reading == oldest_ + 1 || (passed > oldest_ && passed <= next_);
  ++oldest_;
  return is_begun ? Withdrawn::kBegun : Withdrawn::kWithdrawn;
}

// From the last check at which `reading` named this frame until the check after the next
// withdraw_oldest(), the receiver writes at most five entries of `refused` from this frame's on, as
// the model shows (tests/process/model/ring_withdraw.pml). So the entry of this frame is still
// there.
RingSender::Fate RingSender::fate_of(uint64_t position) const noexcept {
  if (receiver().reading.load(std::memory_order_acquire) == position + 1) return Fate::kUnknown;
  for (const ring_page::Word& each : receiver().refused) {
    if (each.load(std::memory_order_relaxed) == position + 1) return Fate::kRefused;
  }
  return Fate::kTaken;
}

// ---- the receiver

Result<std::unique_ptr<RingReceiver>> RingReceiver::open(std::span<os::Fd, 2> fds) {
  TENON_ASSIGN(const Geometry geometry, read_header(fds[0].get()));
  TENON_TRY(check_file(fds[0].get(), geometry.nbytes()));
  TENON_TRY(check_file(fds[1].get(), ring_page::kReceiverNbytes));
  TENON_ASSIGN(Mapping file,
               Mapping::create(Mapping::Kind::kSharedReadOnly, fds[0].get(), 0, geometry.nbytes()));
  TENON_ASSIGN(Mapping page, Mapping::create(Mapping::Kind::kSharedWritable, fds[1].get(), 0,
                                             ring_page::kReceiverNbytes));
  return std::unique_ptr<RingReceiver>(
      new RingReceiver(geometry, std::move(file), std::move(page)));
}

void RingReceiver::ready() noexcept {
  // A caller may poll the socket before its next receive.
  fall_asleep();
  receiver().ready.store(ring_page::kReads, std::memory_order_release);
}

void RingReceiver::leave() noexcept {
  receiver().ready.store(ring_page::kLeft, std::memory_order_release);
}

const ring_page::Word* RingReceiver::slot(uint64_t position) const noexcept {
  return ring_page::slot(static_cast<const std::byte*>(file_.base()), geometry_, position);
}

void RingReceiver::note_refused(uint64_t position) noexcept {
  std::array<ring_page::Word, 8>& refused = receiver().refused;
  refused[refusals_++ % refused.size()].store(position + 1, std::memory_order_relaxed);
}

// The receiver began with a frame that was withdrawn, and does not take it.
void RingReceiver::refuse(uint64_t position) noexcept {
  note_refused(position);
  receiver().reading.store(0, std::memory_order_release);
}

Result<std::optional<RingReceiver::Taken>> RingReceiver::take(uint64_t by_socket,
                                                              std::vector<std::byte>* payload) {
  // A sender that withdraws frames all the time must not keep this loop going.
  constexpr int kMostRounds = 4;
  for (int round = 0; round < kMostRounds; ++round) {
    uint64_t next = next_.load(std::memory_order_relaxed);
    const uint64_t withdrawn = header().withdrawn.load(std::memory_order_acquire);
    if (withdrawn > next) {
      missed_.fetch_add(withdrawn - next, std::memory_order_relaxed);
      next = withdrawn;
      next_.store(next, std::memory_order_relaxed);
      note_refused(withdrawn - 1);
      // seq_cst lets the sender see all earlier stores before this side notes another refusal. With
      // a weaker order any number of refusals could come between two calls of fate_of().
      receiver().passed.store(next, std::memory_order_seq_cst);
    }
    const auto is_withdrawn = [&] {
      return header().withdrawn.load(std::memory_order_acquire) > next;
    };
    const ring_page::Word* const from = slot(next);
    const uint64_t word = from->load(std::memory_order_acquire);
    if (word != next + 1) {
      // The slot is empty, or has the frame of one round earlier, or its frame was withdrawn.
      if (is_withdrawn()) continue;
      const bool is_old = word == 0 || word == next + 1 - geometry_.capacity;
      if (is_old) return std::optional<Taken>();
      return corrupt_ring("a ring whose slot has a position that is not its own");
    }
    const ring_page::SlotHead head = ring_page::read_head(from);
    if (head.nbytes > geometry_.room() || head.kind > UINT16_MAX) {
      if (is_withdrawn()) continue;
      return corrupt_ring("a ring whose slot says more than it can hold");
    }
    if (head.after > by_socket) {
      if (is_withdrawn()) continue;
      if (header().by_socket.load(std::memory_order_acquire) >= head.after)
        return std::optional<Taken>();
      return corrupt_ring("a ring whose slot waits for a frame that was not sent");
    }
    payload->resize(head.nbytes);
    receiver().reading.store(next + 1, std::memory_order_seq_cst);
    // The head that was read belongs to this frame if the frame is not withdrawn by now.
    if (header().withdrawn.load(std::memory_order_seq_cst) > next) {
      refuse(next);
      continue;
    }
    ring_page::copy(from, *payload);
    // If the frame was withdrawn, the sender may have filled the slot again during the copy. The
    // loads of the bytes acquire, so this load comes after them.
    if (from->load(std::memory_order_relaxed) != word) {
      refuse(next);
      continue;
    }
    next_.store(next + 1, std::memory_order_relaxed);
    receiver().passed.store(next + 1, std::memory_order_seq_cst);
    receiver().reading.store(0, std::memory_order_release);
    return std::optional<Taken>(Taken{static_cast<uint16_t>(head.kind)});
  }
  return std::optional<Taken>(Taken{.is_overtaken = true});
}

bool RingReceiver::must_ring() noexcept {
  const uint32_t waits = header().waits.load(std::memory_order_seq_cst);
  if (waits % 2 == 0 || waits == rung_) return false;
  rung_ = waits;
  return true;
}

bool RingReceiver::spin(uint64_t by_socket) noexcept {
  const bool same_cpu =
      header().cpu.load(std::memory_order_relaxed) == static_cast<uint32_t>(::sched_getcpu());
  return os::spin_for(&spin_, same_cpu, *slot(next_.load(std::memory_order_relaxed)),
                      [&] { return sees_anything(by_socket); });
}

void RingReceiver::fall_asleep() noexcept {
  asleep_ = (asleep_ + 1) | 1U;
  receiver().asleep.store(asleep_, std::memory_order_seq_cst);
}

void RingReceiver::wake_up() noexcept {
  if (asleep_ % 2 == 0) return;
  // The sender may have written any number, so the difference must be able to overflow.
  const uint64_t rung = header().rung_ns.load(std::memory_order_relaxed);
  spin_.woke(static_cast<int64_t>(static_cast<uint64_t>(os::monotonic_ns()) - rung));
  receiver().asleep.store(++asleep_, std::memory_order_relaxed);
}

}  // namespace tenon::channel
