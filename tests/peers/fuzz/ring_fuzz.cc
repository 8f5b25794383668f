// libFuzzer target: it reads any bytes as what the other end of a ring can write. A hostile sender
// writes its whole file, and a hostile receiver its page, between the steps of the honest end. Each
// step must end in an error or in a frame that fits a slot.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "channel/frame_ring.h"
#include "os/memfd.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
namespace page = channel::ring_page;

constexpr page::Geometry kSmall{2, 64};
constexpr size_t kMostSteps = 64;

// A file of memory that the fuzzer may write while an end of a ring maps it.
class HostileFile {
 public:
  explicit HostileFile(uint64_t nbytes) : nbytes_(nbytes) {
    Result<os::Nonce> nonce = os::random_nonce();
    require(nonce.is_ok(), "no random numbers");
    Result<os::Fd> made = os::create_memfd(nonce.value(), nbytes);
    require(made.is_ok(), "no memory");
    fd = std::move(made).value();
    require(os::add_seals(fd.get(), os::kSealShrink | os::kSealGrow).is_ok(), "no seals");
    map(fd.get());
  }
  HostileFile(int other, uint64_t nbytes) : nbytes_(nbytes) { map(other); }
  HostileFile(const HostileFile&) = delete;
  HostileFile& operator=(const HostileFile&) = delete;
  ~HostileFile() { ::munmap(base_, nbytes_); }

  void write(uint64_t offset, std::span<const std::byte> bytes) noexcept {
    if (offset >= nbytes_ || bytes.empty()) return;
    std::memcpy(static_cast<std::byte*>(base_) + offset, bytes.data(),
                std::min<uint64_t>(bytes.size(), nbytes_ - offset));
  }
  page::Word& word(uint64_t index) noexcept {
    return static_cast<page::Word*>(base_)[index % (nbytes_ / sizeof(page::Word))];
  }

  os::Fd fd;

 private:
  void map(int from) {
    base_ = ::mmap(nullptr, nbytes_, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
    require(base_ != MAP_FAILED, "no mapping");
  }
  void* base_ = nullptr;
  uint64_t nbytes_;
};

// The input as numbers. After its end, all numbers are 0.
class Numbers {
 public:
  explicit Numbers(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  bool is_over() const noexcept { return bytes_.empty(); }
  uint64_t next(size_t width) noexcept {
    uint64_t number = 0;
    const size_t nbytes = std::min(width, bytes_.size());
    if (nbytes > 0) std::memcpy(&number, bytes_.data(), nbytes);
    bytes_ = bytes_.subspan(nbytes);
    return number;
  }
  // A number that is near the positions of a young ring, or any number.
  uint64_t near_position() noexcept {
    const uint64_t number = next(1);
    return number < 0xf0 ? number % 16 : next(8);
  }

 private:
  std::span<const std::byte> bytes_;
};

// Takes frames out of a ring, until there is none or the ring is refused. The sender may write one
// word between.
void take_all(channel::RingReceiver& receiver, HostileFile& file, Numbers numbers) {
  std::vector<std::byte> payload;
  for (size_t step = 0; step < kMostSteps; ++step) {
    auto taken = receiver.take(numbers.near_position(), &payload);
    if (!taken.is_ok()) return fuzz::require_refusal(taken.status(), {Code::kCorrupt}, {"field"});
    require(payload.size() <= receiver.geometry().room(), "more bytes than a slot has");
    (void)receiver.sees_anything(step);
    (void)receiver.must_ring();
    receiver.fall_asleep();
    receiver.wake_up();
    if (numbers.is_over() && !taken.value()) return;
    file.word(numbers.next(1)).store(numbers.near_position());
  }
}

// The bytes are a sender's file, the header included.
void open_any_file(std::span<const std::byte> bytes) {
  HostileFile file(page::kSlotsOffset + 4096), other(page::kReceiverNbytes);
  file.write(0, bytes);
  std::array<os::Fd, 2> fds = {os::Fd(::dup(file.fd.get())), os::Fd(::dup(other.fd.get()))};
  auto receiver = channel::RingReceiver::open(std::span<os::Fd, 2>(fds));
  if (!receiver.is_ok())
    return fuzz::require_refusal(receiver.status(), {Code::kCorrupt, Code::kIncompatible},
                                 {"field"});
  require(receiver.value()->geometry().nbytes() <= page::kSlotsOffset + 4096,
          "a geometry that does not fit");
  receiver.value()->ready();
  take_all(*receiver.value(), file, Numbers(bytes.subspan(std::min<size_t>(bytes.size(), 64))));
}

// The bytes are what follows a right header, and what the sender writes later.
void take_any_slots(std::span<const std::byte> bytes) {
  HostileFile file(kSmall.nbytes()), other(page::kReceiverNbytes);
  page::Header header{};
  header.magic = page::kMagic;
  header.version = page::kVersion;
  header.capacity = kSmall.capacity;
  header.slot_nbytes = kSmall.slot_nbytes;
  file.write(0, std::as_bytes(std::span(&header, 1)));
  std::array<os::Fd, 2> fds = {os::Fd(::dup(file.fd.get())), os::Fd(::dup(other.fd.get()))};
  auto receiver = channel::RingReceiver::open(std::span<os::Fd, 2>(fds));
  require(receiver.is_ok(), "a right header is refused", receiver.status().message());
  const size_t nbytes = std::min<size_t>(bytes.size(), kSmall.nbytes() - 64);
  file.write(64, bytes.first(nbytes));
  take_all(*receiver.value(), file, Numbers(bytes));
}

// The bytes are what a receiver writes into its page between the sender's steps.
void send_beside_any_page(std::span<const std::byte> bytes) {
  auto made = channel::RingSender::create(kSmall);
  require(made.is_ok(), "no ring", made.status().message());
  channel::RingSender& sender = *made.value();
  const auto fds = sender.take_fds();
  HostileFile other((*fds)[1].get(), page::kReceiverNbytes);
  Numbers numbers(bytes);
  const std::array<std::byte, 64> payload{};
  for (size_t step = 0; step < kMostSteps && !numbers.is_over(); ++step) {
    const uint64_t action = numbers.next(1);
    const uint64_t before = sender.position();
    uint64_t position = 0;
    switch (action % 8) {
      case 0:
      case 1: other.word(action / 8).store(numbers.near_position()); break;
      case 2: {
        const bool is_put =
            sender.put(1, std::span(payload).first(numbers.next(1) % (payload.size() + 1)));
        require(sender.position() == before + (is_put ? 1 : 0), "a position that no frame has");
        break;
      }
      case 3:
        if (sender.withdraw_oldest(&position) != channel::RingSender::Withdrawn::kNone)
          require(position < before && position + kSmall.capacity >= before,
                  "a frame is withdrawn that is not in the ring");
        break;
      case 4: (void)sender.fate_of(numbers.near_position()); break;
      case 5: (void)sender.must_ring(); break;
      case 6: sender.wait_for_room(); break;
      default: sender.count_by_socket(); break;
    }
    require(sender.waiting() <= kSmall.capacity, "more frames wait than the ring has slots");
    require(sender.waiting() <= sender.position(), "frames wait that were never put");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes) {
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + nbytes);
  open_any_file(bytes);
  take_any_slots(bytes);
  send_beside_any_page(bytes);
  return 0;
}
