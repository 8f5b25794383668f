// The kill storm of leased device memory, on the fake driver.
//
// Three processes form a ring. The first lends blocks of an arena or of a pool to the second, the
// second lends them on to the third, and the third sends some back home. The message of each block
// says what must lie in it, and every process that has the block checks it again and again. One,
// two or all three are killed at random instructions. The survivors then release everything. The
// lender must get all blocks back within seconds, and when all processes have ended the device must
// get its memory back.
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>

#include "device/arena.h"
#include "process/cuda/connected_kit.h"
#include "process/cuda/storm/left.h"
#include "support/storm/engine.h"

namespace cuda_test {
namespace {

enum Op : uint32_t { kAllocate = storm::kFirstOp, kWrite, kCheck, kSend, kReceive, kRelease };
constexpr std::array kRingOps = {"allocating", "writing",   "checking",
                                 "sending",    "receiving", "releasing"};
enum Count : uint32_t { kLent, kLentOn, kCameHome, kFull, kEmptied };
constexpr std::array kRingCounts = {"blocks lent", "lent on", "came home", "times without room",
                                    "lenders that lived to have all back"};
constexpr std::array kRingPhases = {storm::Phase{"let go of what it had"}};
// The planted fault: the second process uses blocks that it has given back.
constexpr std::array kRingBreaks = {storm::Break{"give-back-early"}};
constexpr uint32_t kRingPeers = 3;
constexpr uint64_t kArena = uint64_t{1} << 18;

// A block and its number. The first and the last eight bytes of the block must equal the number,
// which its message says.
struct Held {
  Ref<Storage> storage;
  uint64_t number = 0;
};

// The source of the lender's blocks: an arena, or a pool that allocates each block.
class Blocks {
 public:
  explicit Blocks(CudaTransport transport) {
    if (transport == CudaTransport::kPool) {
      pool_ = make_pool();
    } else {
      arena_ = CudaArena::create({.device = 0, .transport = transport, .capacity_nbytes = kArena})
                   .value();
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() {
    if (pool_ != nullptr) (void)driver().cuMemPoolDestroy(pool_);
  }
  uint64_t most_nbytes() const { return (arena_ ? arena_->stats().capacity_nbytes : kArena) / 6; }
  uint64_t used() const { return arena_ ? arena_->stats().used_nbytes : in_pool_; }
  // Returns null if there is no room.
  Ref<Storage> allocate(uint64_t nbytes, int64_t timeout_ns) {
    if (arena_) {
      Result<Ref<Storage>> made = arena_->allocate(nbytes, {.timeout_ns = timeout_ns});
      return made.is_ok() ? std::move(made).value() : nullptr;
    }
    if (in_pool_ >= 16) (void)collect_cuda();
    if (in_pool_ >= 16) return nullptr;
    ++in_pool_;
    auto* const block = new Block{this, allocate_from(pool_, nbytes)};
    return wrap_cuda(as_data(block->pointer), nbytes, 0, give_back, block, false).value();
  }

 private:
  struct Block {
    Blocks* from;
    CUdeviceptr pointer;
  };
  static void give_back(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    if (driver().cuMemFreeAsync(block->pointer, nullptr) != CUDA_SUCCESS) std::abort();
    --block->from->in_pool_;
  }
  Ref<CudaArena> arena_;
  CUmemoryPool pool_ = nullptr;
  uint64_t in_pool_ = 0;
};

class RingPeer : public storm::Peer {
 public:
  RingPeer(const storm::Seat& seat, CudaTransport transport, bool is_broken)
      : Peer(seat), transport_(transport), is_broken_(is_broken && index_ == 1) {}

 protected:
  void begin(uint32_t /*role*/, const std::vector<storm::LinkEnd>& links) override {
    for (const storm::LinkEnd& each : links)
      (each.out ? to_ : from_) = Socket::adopt(each.socket, {});
  }

  void start() override {
    use_device();
    if (is_lender()) blocks_.emplace(transport_);
  }

  void step() override {
    if (is_lender()) {
      lend();
    } else {
      borrow();
    }
    if (!held_.empty()) check(held_[random_.below(held_.size())]);
    look_at_what_was_given_back();
  }

  void settle(uint32_t /*phase*/, uint32_t /*dead*/) override { let_go_of_all(); }

  // The borrowers end while the lender waits for its blocks. If they lived on, they would have to
  // go on collecting, because what they lent on comes back to them first.
  void end() override {
    if (is_lender()) get_back();
    from_ = nullptr;
    blocks_.reset();
  }

 private:
  bool is_lender() const { return index_ == 0; }
  void must(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) fail(std::string(what) + " failed with " + std::to_string(result));
  }

  uint64_t number_at(CUdeviceptr pointer) {
    uint64_t number = 0;
    must(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(&number), pointer, sizeof number,
                                nullptr),
         "cuMemcpyAsync");
    must(driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
    return number;
  }

  void check(const Held& held) {
    enter(kCheck);
    const uint64_t last = held.storage->nbytes() - sizeof held.number;
    if (number_at(pointer_of(held.storage)) != held.number ||
        number_at(pointer_of(held.storage) + last) != held.number)
      fail_wrong("another's bytes are in a block that is held");
    leave();
    count_checked();
  }

  // Returns false if the next process is gone.
  bool send(const Held& held) {
    enter(kSend);
    Result<std::unique_ptr<Message>> message = message_of({held.storage});
    if (!message.is_ok()) fail(message.status().message());
    (void)message.value()->set_user_bytes(std::as_bytes(std::span(&held.number, 1)));
    const Status sent = to_->send(message.value().get(), {.timeout_ns = 0});
    leave();
    if (sent.is_ok() || sent.code() == Code::kWouldBlock) return true;
    if (sent.code() != Code::kPeerGone) fail(sent.message());
    return false;
  }

  // Returns false if no message came, or if the process before is gone.
  bool receive(Held* out, int64_t timeout_ns) {
    if (gone_) return false;
    enter(kReceive);
    Result<std::unique_ptr<Message>> message = from_->recv({.timeout_ns = timeout_ns});
    leave();
    if (!message.is_ok()) {
      const Code code = message.status().code();
      // The driver forgets the memory and the events of a killed process. A borrower that opens too
      // late gets this error.
      const bool late = code == Code::kInvalidArgument || code == Code::kPeerGone;
      if (code != Code::kWouldBlock && code != Code::kTimeout && !late)
        fail(message.status().message());
      gone_ = code == Code::kPeerGone;
      return false;
    }
    out->storage = message.value()->items()[0].tensor->storage();
    std::memcpy(&out->number, message.value()->user_bytes().data(), sizeof out->number);
    return true;
  }

  void hold(Held held) {
    held_.push_back(std::move(held));
    while (held_.size() > 8) drop_one();
  }
  void drop_one() {
    if (held_.empty()) return;
    const size_t which = random_.below(held_.size());
    Held held = std::move(held_[which]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
    check(held);
    if (is_broken_) given_back_.emplace_back(pointer_of(held.storage), held.number);
    enter(kRelease);
    held = {};
    leave();
  }
  // Reads through pointers that outlived their storages, as a faulty program might.
  void look_at_what_was_given_back() {
    for (const auto& [pointer, number] : given_back_) {
      uint64_t now = 0;
      if (driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(&now), pointer, sizeof now, nullptr) !=
          CUDA_SUCCESS)
        continue;
      must(driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
      if (now != number) fail_wrong("another's bytes are in a block that was given back");
    }
  }

  void lend() {
    enter(kAllocate);
    const uint64_t nbytes = 16 + random_.below(blocks_->most_nbytes());
    Ref<Storage> made = blocks_->allocate(nbytes, random_.below(4) == 0 ? 200'000 : 0);
    leave();
    if (made) {
      Held held{std::move(made), (seed_ << 20) + ++number_};
      // Waits until the bytes are written: if the lender is killed, no other process would write
      // them.
      enter(kWrite);
      for (const uint64_t at : {uint64_t{0}, nbytes - sizeof number_}) {
        must(driver().cuMemcpyAsync(pointer_of(held.storage) + at,
                                    reinterpret_cast<uintptr_t>(&held.number), sizeof held.number,
                                    nullptr),
             "cuMemcpyAsync");
        must(driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
      }
      leave();
      count(kLent);
      if (!to_gone_ && !send(held)) to_gone_ = true;
      if (random_.below(3) == 0) hold(std::move(held));
    } else {
      count(kFull);
      drop_one();
    }
    if (Held home; receive(&home, 0)) {
      count(kCameHome);
      check(home);
      hold(std::move(home));
    }
  }

  void borrow() {
    Held held;
    if (!receive(&held, 500'000)) return;
    check(held);
    if (random_.below(2) == 0 && transport_ != CudaTransport::kIpc) {
      (void)send(held);
      if (index_ == 1) count(kLentOn);
    }
    hold(std::move(held));
  }

  void let_go_of_all() {
    held_.clear();
    to_ = nullptr;
    for (Held rest; receive(&rest, 0); rest = {}) {
    }
    if (is_lender()) return;
    from_ = nullptr;
    (void)wait_until([] { return collect_cuda() == 0; }, std::chrono::seconds(5));
  }

  void get_back() {
    for (int i = 0; blocks_->used() != 0; ++i) {
      if (i == 100'000)
        fail("seconds after everybody let go the lender does not have all blocks back");
      (void)collect_cuda();
      if (Held late; true) (void)receive(&late, 0);
      usleep(100);
    }
    count(kEmptied);
  }

  CudaTransport transport_;
  bool is_broken_;
  Connection::Owned from_;
  Connection::Owned to_;
  std::optional<Blocks> blocks_;
  uint64_t number_ = 0;
  std::vector<Held> held_;
  std::vector<std::pair<CUdeviceptr, uint64_t>> given_back_;
  bool gone_ = false;
  bool to_gone_ = false;
};

class Ring : public storm::World {
 public:
  Ring()
      : storm::World({.n_peers = kRingPeers,
                      .ops = kRingOps,
                      .counts = kRingCounts,
                      .phases = kRingPhases,
                      .breaks = kRingBreaks}) {
    setenv("FAKE_CUDA_WORLD", folder_.path().c_str(), 1);
  }

  void plan(storm::Plan* plan) override {
    storm::Random& random = plan->random;
    static constexpr std::array kTransports = {CudaTransport::kIpc, CudaTransport::kFd,
                                               CudaTransport::kFd, CudaTransport::kPool};
    transport_ = kTransports[random.below(kTransports.size())];
    for (uint32_t i = 0; i < kRingPeers; ++i) plan->links.push_back({i, (i + 1) % kRingPeers});
    // Some processes are killed while they start. Most are killed after a certain amount of work,
    // so that the speed of the machine does not matter.
    plan->checks = random.below(4) == 0 ? 0 : 1 + random.below(120);
    plan->rest_us = broken != nullptr ? 50'000 : static_cast<uint32_t>(random.below(3'000));
    if (broken != nullptr) return;
    // The lender is killed less often than the others.
    std::array<bool, kRingPeers> is_killed{};
    for (uint64_t n = 1 + random.below(3); n > 0; --n) {
      const uint32_t who = random.below(5) == 0 ? 0 : 1 + static_cast<uint32_t>(random.below(2));
      if (std::exchange(is_killed[who], true)) continue;
      plan->add_kill(who, {kAllocate, kWrite, kSend, kSend, kReceive, kRelease},
                     {kReceive, kReceive, kCheck, kRelease});
    }
  }

  std::unique_ptr<storm::Peer> make_peer(const storm::Seat& seat) override {
    return std::make_unique<RingPeer>(seat, transport_, broken != nullptr);
  }

  std::string left() override { return storm::left_on_devices(); }

  // In a short run, as under a sanitizer, it can happen that no block was sent home.
  std::string missed(uint64_t kills) override {
    for (const Count each : {kLentOn, kCameHome, kEmptied}) {
      if (board->counts[each] == 0 && (each != kCameHome || kills >= 1000))
        return std::string("no count of ") + kRingCounts[each];
    }
    return {};
  }

 private:
  cuda_test::World folder_;
  CudaTransport transport_ = CudaTransport::kIpc;
};

}  // namespace
}  // namespace cuda_test

std::unique_ptr<storm::World> storm::make_world() { return std::make_unique<cuda_test::Ring>(); }
