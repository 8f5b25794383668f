#include "process/cuda/storm/peer.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "cuda/context.h"
#include "process/cuda/storm/left.h"
#include "support/storm/deadline.h"

namespace storm {

void DevicePeer::must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) fail(std::string(what) + " failed with " + std::to_string(result));
}

// ---- orders

void DevicePeer::begin(uint32_t /*role*/, const std::vector<LinkEnd>& links) {
  links_ = links;
  // The fake reads these variables when it is loaded.
  if (plan_.latency_us > 0)
    setenv("FAKE_CUDA_LATENCY", ("stream=" + std::to_string(plan_.latency_us)).c_str(), 1);
  if (plan_.events > 0) setenv("FAKE_CUDA_IPC_EVENTS", std::to_string(plan_.events).c_str(), 1);
}

void DevicePeer::start() {
  enter(kStart);
  const auto found = tenon::cuda::driver();
  if (!found.is_ok()) fail("no CUDA: " + found.status().message());
  auto context = tenon::cuda::primary_context(driver(), 0);
  REQUIRE(context.is_ok());
  must(driver().cuCtxPushCurrent(context.value()), "cuCtxPushCurrent");
  for (size_t i = 1; i < streams_.size(); ++i)
    must(driver().cuStreamCreate(&streams_[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  leave();
}

// First all peers stop sending, and then each releases what it has.
void DevicePeer::settle(uint32_t phase, uint32_t dead) {
  if (phase == 1) let_go_of_all();
  if (phase == 2) get_back(dead);
}

// Releases what other peers sent: what this peer holds, and what still arrives.
void DevicePeer::let_go_of_all() {
  for (LinkEnd& link : links_) {
    while (!link.out && receive(&link, false)) {
    }
  }
  while (!held_.empty()) let_go(held_.size() - 1);
  finish_reading(true);
  for (const auto& allocation : allocations_) {
    for (const auto& block : allocation->blocks) {
      if (block->tensor != nullptr) release_own(block.get());
    }
  }
  enter(kSettling);
}

void DevicePeer::count_live(int32_t kind, const char* what) {
  if (const uint64_t left = STORM_LEDGER(fake_cuda_live)(kind, getpid()); left != 0)
    fail("nobody is lent anything any more, and it has " + std::to_string(left) + " " + what);
}

// Nobody holds a storage any more. So each block is back, except perhaps a block of which a dead
// peer had a message, because only the receiver can decrement its counter.
void DevicePeer::get_back(uint32_t dead) {
  const auto count_blocks = [&](bool certain) {
    uint64_t blocks = 0;
    for (const auto& allocation : allocations_) {
      for (const auto& block : allocation->blocks) {
        if (!block->wrapped) continue;
        const bool dead_had_it =
            std::any_of(block->messages.begin(), block->messages.end(),
                        [&](uint32_t number) { return ((*custody_)[index_][number] & dead) != 0; });
        if (!certain || !dead_had_it) ++blocks;
      }
    }
    return blocks;
  };
  // Waits for pending returns. All streams have passed, but a returned block shows only when it is
  // collected.
  uint64_t waiting = 0;
  for (const Deadline deadline(board_->slots, kSoonNs); !deadline.is_over(); usleep(200)) {
    waiting = tenon_cuda_collect();
    if (count_blocks(true) == 0 && waiting == count_blocks(false)) break;
  }
  const uint64_t wrapped = count_blocks(false);
  if (count_blocks(true) != 0 || waiting != wrapped || wraps_ - frees_ != wrapped)
    fail("nobody holds anything, and of " + std::to_string(wraps_) + " blocks " +
         std::to_string(frees_) + " came back; " + std::to_string(waiting) +
         " wait on, and the dead had " + std::to_string(wrapped - count_blocks(true)));
  free_unused(true);
  count_live(FAKE_CUDA_IPC_OPEN, "openings of memory");
  count_live(FAKE_CUDA_EVENT_IMPORT, "openings of events");
  if (wrapped == 0) {
    count_live(FAKE_CUDA_ALLOCATION, "allocations");
    count(kAllBack);
  }
  count(kKept, wrapped);
}

// Ends in an orderly way, while blocks that dead peers had stay lent.
void DevicePeer::end() {
  for (size_t i = 1; i < streams_.size(); ++i)
    must(driver().cuStreamDestroy(streams_[i]), "cuStreamDestroy");
  for (const LinkEnd& link : links_) close(link.socket);
}

// ---- steps

void DevicePeer::step() {
  const uint64_t dice = random_.below(100);
  if (dice < 30) {
    lend();
  } else if (dice < 70) {
    if (LinkEnd* const link = some_link(&links_, false, &random_); link != nullptr)
      (void)receive(link, true);
  } else if (dice < 82) {
    if (!held_.empty()) let_go(random_.below(held_.size()));
  } else if (dice < 85) {
    if (Block* const block = some_block(true); block != nullptr) release_own(block);
  } else if (dice < 88) {
    if (Block* const block = some_block(true); block != nullptr) check_own(*block);
  } else if (dice < 92) {
    enter(kCollect);
    (void)tenon_cuda_collect();
    leave();
    free_unused(false);
  } else if (dice < 93) {
    fork_child(1 << 20);
  } else {
    reap(false);
  }
  finish_reading(random_.chance(5));
  if (!held_.empty() && random_.chance(40)) check(&held_[random_.below(held_.size())]);
}

// Returns false if the socket is full, or if its reader is gone.
bool DevicePeer::send(LinkEnd* link, const Message& message) {
  std::atomic<uint32_t>& custody = (*custody_)[message.sender][message.number];
  custody.fetch_or(1U << index_);
  custody.fetch_or(1U << link->other);
  return put(link->socket, &message, sizeof message, nullptr, 0);
}

// A forked child cannot use the driver, and can only release what it inherited. These releases must
// give nothing back, neither to a sender nor to the driver. The parent and the other peers would
// notice a block that came back too early.
void DevicePeer::be_child() {
  for (const LinkEnd& link : links_) close(link.socket);
  const uint64_t frees = frees_;
  for (const Held& held : held_) tenon_storage_release(held.storage);
  for (const auto& allocation : allocations_) {
    for (const auto& block : allocation->blocks) {
      if (block->tensor != nullptr) tenon_tensor_release(block->tensor);
    }
  }
  if (frees_ != frees) fail("a child of fork gave a block of its parent's back");
}

}  // namespace storm
