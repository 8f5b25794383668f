// A ring beside a socket: frames without fds cross in shared memory, with no system call while both
// ends are awake. All other frames still cross on the socket, and both keep one order. FrameSocket
// (frames.h) has a ring for each direction that its sender wants one for. docs/format/ring.md
// specifies the protocol, and ring_page.h the memory.
//
// The sender makes both files, and sends their fds in a frame of kind kRing. It puts frames into
// the ring once the receiver says that it reads the ring.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "channel/ring_page.h"
#include "os/fd.h"
#include "os/mapping.h"
#include "os/spin.h"

namespace tenon::channel {

// INVALID_ARGUMENT: no ring has such sizes.
Status check_geometry(const ring_page::Geometry& geometry);

// The sender's end. The connection's send mutex guards it. It checks what it reads of the
// receiver's page, so a hostile receiver can only make this sender wait, ring in vain, or use the
// socket.
class RingSender {
 public:
  // Makes and seals the two files. INVALID_ARGUMENT: no ring has such sizes. Otherwise the errors
  // of os::create_memfd() and of mapping, and RESOURCE_EXHAUSTED if there is no memory for the
  // pages.
  static Result<std::unique_ptr<RingSender>> create(const ring_page::Geometry& geometry);
  // Gives the fds that the receiver gets, once: the sender's file and the receiver's page. The
  // caller keeps the result until the kernel has sent them. Its end closes them.
  std::shared_ptr<std::array<os::Fd, 2>> take_fds() noexcept { return std::move(fds_); }

  // Sets the count of frames that began to cross on the socket before there was a ring.
  void begin_at(uint64_t by_socket) noexcept;
  // Puts a frame into the ring. False: it must cross on the socket, because it is too long, the
  // ring is full, or the receiver does not read the ring (yet).
  bool put(uint16_t kind, std::span<const std::byte> payload) noexcept;
  // Counts a frame that crosses on the socket. Call it before the frame's first byte leaves.
  void count_by_socket() noexcept;
  // Whether the receiver may sleep, and has not been rung for that sleep yet. Ask after put(). The
  // caller then rings on the socket, because later calls are false until the next sleep.
  bool must_ring() noexcept;

  // Whether the receiver reads the ring, so that frames can be put into it.
  bool is_read() noexcept;
  // Makes is_read() true before the receiver has come. It then takes the frames that lie in the
  // ring.
  void expect_reader() noexcept { is_read_ = true; }
  // Whether the receiver said that it reads the ring, and whether it said that it has left.
  bool has_joined() const noexcept { return receiver().ready.load(std::memory_order_acquire) != 0; }
  bool has_left() const noexcept {
    return receiver().ready.load(std::memory_order_acquire) == ring_page::kLeft;
  }
  bool is_asleep() const noexcept {
    return receiver().asleep.load(std::memory_order_relaxed) % 2 != 0;
  }
  uint64_t position() const noexcept { return next_; }  // how many frames were ever put
  // How many messages wait in the ring. It is no more than the capacity, whatever the receiver
  // says.
  uint64_t waiting() noexcept;
  const ring_page::Geometry& geometry() const noexcept { return geometry_; }
  // Says to the receiver that this sender waits for room. The receiver then rings on the socket
  // when it has taken a frame. Call waiting() once more after this call, and only then sleep.
  void wait_for_room() noexcept;
  void stop_waiting() noexcept;

  // Withdraws the oldest frame that waits, and gives its position. kWithdrawn: the receiver will
  // never see it. kBegun: the receiver has begun to take it, and fate_of() will tell. kNone: no
  // frame waits.
  //
  // If a frame was kBegun, ask for its fate before and after the next withdraw_oldest(), whether or
  // not it is known. A receiver takes one frame at a time. So if the next one is kBegun too, the
  // fate of the first is known then, and Receiver::refused still has it.
  enum class Withdrawn { kNone, kWithdrawn, kBegun };
  Withdrawn withdraw_oldest(uint64_t* position) noexcept;
  // What became of a frame that the receiver had begun with when it was withdrawn. kUnknown: the
  // receiver still has to decide.
  enum class Fate { kUnknown, kTaken, kRefused };
  Fate fate_of(uint64_t position) const noexcept;

 private:
  RingSender(const ring_page::Geometry& geometry, os::Mapping file, os::Mapping page) noexcept
      : geometry_(geometry), file_(std::move(file)), page_(std::move(page)) {}
  ring_page::Header& header() const noexcept { return ring_page::header(file_.base()); }
  ring_page::Receiver& receiver() const noexcept { return ring_page::receiver(page_.base()); }

  ring_page::Geometry geometry_;
  os::Mapping file_;
  os::Mapping page_;
  std::shared_ptr<std::array<os::Fd, 2>> fds_;
  bool is_read_ = false;
  uint64_t next_ = 0;    // the position of the next frame
  uint64_t oldest_ = 0;  // every frame before it was taken or withdrawn
  uint64_t by_socket_ = 0;
  uint32_t rung_ = 0;  // the value of Receiver::asleep for which the receiver was rung
  uint32_t cpu_ = 0;   // as Header::cpu
};

// The receiver's end. The connection's receive mutex guards it, except where a function says
// otherwise. It copies and checks all that it reads of the sender's file.
class RingReceiver {
 public:
  // Maps the two files of a ring, whose fds the sender sent. The caller may close the fds
  // afterwards. CORRUPT or INCOMPATIBLE with detail "field" = "ring": they are no ring. Otherwise
  // the errors of mapping.
  static Result<std::unique_ptr<RingReceiver>> open(std::span<os::Fd, 2> fds);
  // Says to the sender that this side reads the ring. The sender uses it from then on.
  void ready() noexcept;
  // Says to the sender that this side reads the ring no more.
  void leave() noexcept;
  // The position of the next frame, and how many frames were withdrawn before this side took them.
  // Any thread may ask.
  uint64_t position() const noexcept { return next_.load(std::memory_order_relaxed); }
  uint64_t missed() const noexcept { return missed_.load(std::memory_order_relaxed); }
  const ring_page::Geometry& geometry() const noexcept { return geometry_; }

  struct Taken {
    uint16_t kind = 0;
    // There were frames, but the sender withdrew each of them meanwhile, several times in this
    // call. Call take() again, and take no frame off the socket before.
    bool is_overtaken = false;
  };
  // Takes the next frame, if the ring has it and all frames that come before it on the socket have
  // been taken. `by_socket` is the number of frames that this side has taken from the socket. No
  // value: the ring is empty, or the socket's next frame comes first. CORRUPT: the sender wrote
  // what cannot be.
  Result<std::optional<Taken>> take(uint64_t by_socket, std::vector<std::byte>* payload);
  // Whether the sender waits for room, and has not been rung for that wait yet. Ask after take().
  // The caller then rings on the socket, because later calls are false until the next wait.
  bool must_ring() noexcept;

  // Whether the sender has begun to send a frame over the socket that this side has not taken.
  bool expects_socket(uint64_t by_socket) const noexcept {
    return header().by_socket.load(std::memory_order_acquire) != by_socket;
  }
  // Whether the ring has a frame, or one was withdrawn and there may be others behind it. The slot
  // of a frame that was withdrawn can have a later one by now. Any thread may ask.
  bool has_news() const noexcept {
    const uint64_t next = position();
    return slot(next)->load(std::memory_order_seq_cst) == next + 1 ||
           header().withdrawn.load(std::memory_order_relaxed) > next;
  }
  // Whether there is a frame in the ring or on the socket, or one was withdrawn.
  bool sees_anything(uint64_t by_socket) const noexcept {
    return has_news() || expects_socket(by_socket);
  }
  // Looks for a while whether there is anything. False: it is time to sleep.
  bool spin(uint64_t by_socket) noexcept;
  // Says to the sender that this side may sleep. Call sees_anything() once more after this call,
  // and then wait for the socket. wake_up() takes it back.
  void fall_asleep() noexcept;
  void wake_up() noexcept;

 private:
  RingReceiver(const ring_page::Geometry& geometry, os::Mapping file, os::Mapping page) noexcept
      : geometry_(geometry), file_(std::move(file)), page_(std::move(page)) {}
  const ring_page::Header& header() const noexcept {
    return ring_page::header(static_cast<const std::byte*>(file_.base()));
  }
  ring_page::Receiver& receiver() const noexcept { return ring_page::receiver(page_.base()); }
  const ring_page::Word* slot(uint64_t position) const noexcept;
  void note_refused(uint64_t position) noexcept;
  void refuse(uint64_t position) noexcept;

  ring_page::Geometry geometry_;
  os::Mapping file_;
  os::Mapping page_;
  // The position of the next frame. Only the thread that receives writes it.
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> missed_{0};
  uint32_t refusals_ = 0;  // how often an entry of Receiver::refused was written
  uint32_t asleep_ = 0;    // as Receiver::asleep
  uint32_t rung_ = 0;      // the value of Header::waits for which the sender was rung
  os::Spin spin_;
};

}  // namespace tenon::channel
