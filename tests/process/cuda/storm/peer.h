// A process of the storm of device memory, for one round (world.cc makes the peers, engine.h drives
// them). It lends blocks of its own allocations to other peers, and opens the blocks that they
// send. It copies an opened block to the host by the driver, checks every byte and gives the block
// back. It also passes messages on unopened.
#pragma once

#include <cuda.h>
#include <dlpack/dlpack.h>
#include <tenon/tenon.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "support/storm/peer.h"

namespace storm {

inline const tenon::cuda::Driver& driver() { return *tenon::cuda::driver().value(); }

// The calls that a peer announces with Peer::enter(), so that a kill can hit it in one of them.
// kOps in world.cc names them.
enum DeviceOp : uint32_t {
  kStart = kFirstOp,
  kWrap,
  kShare,
  kOpen,
  kUse,
  kRelease,
  kUnopened,
  kCollect,
  kEndOfOps
};
// The figures of the storm's report (Peer::count()). kCounts in world.cc says what each counts.
enum DeviceCount : uint32_t {
  kWrapped,
  kFreed,
  kAllocations,
  kAllocationsFreed,
  kShared,
  kWithoutEvent,
  kFilesEnded,
  kPassedOn,
  kOpened,
  kOpenedOwn,
  kGivenBackUnopened,
  kSenderGone,
  kUnfinished,
  kKept,
  kAllBack,
  kEndOfCounts
};

inline constexpr uint32_t kPeers = 6;
inline constexpr uint32_t kMessages = 4096;  // of one peer in one round

// The peers that ever had a message, by its sender and its number. A peer's bit is set before the
// message is handed over to it.
using Custody = std::array<std::array<std::atomic<uint32_t>, kMessages>, kPeers>;

// What the world wants of a peer. The last two members are planted faults (kBreaks in world.cc),
// which the storm must find.
struct PeerPlan {
  uint32_t latency_us = 0;        // of each operation in a stream
  uint32_t events = 0;            // interprocess events that the driver grants; 0: no limit
  bool gives_back_early = false;  // decrements its counter as it opens
  bool does_not_wait = false;     // its stream does not wait for the event
};

// Peers send this to each other.
struct Message {
  tenon_cuda_handle handle;
  Stamp stamp;
  uint32_t sender;
  uint32_t number;
};

class DevicePeer : public Peer {
 public:
  DevicePeer(const Seat& seat, const PeerPlan& plan, Custody* custody)
      : Peer(seat), plan_(plan), custody_(custody) {}

 protected:
  void begin(uint32_t role, const std::vector<LinkEnd>& links) override;
  void start() override;
  void step() override;
  void settle(uint32_t phase, uint32_t dead) override;
  void end() override;
  void be_child() override;

 private:
  // A range of an allocation. It is wrapped as a tensor until the library gives it back
  // (came_back()). A Block never moves, because `managed` points to it.
  struct Block {
    DevicePeer* peer = nullptr;
    CUdeviceptr pointer = 0;
    uint64_t room = 0;
    Stamp stamp;
    std::vector<unsigned char> bytes;  // copied to the device; kept until the stream is done
    CUstream stream = nullptr;         // the stream that wrote the block
    DLManagedTensorVersioned managed{};
    int64_t shape = 0;
    bool wrapped = false;
    tenon_tensor* tensor = nullptr;  // null: the block has not come back yet
    std::vector<uint32_t> messages;  // their numbers
  };
  struct Allocation {
    CUdeviceptr base = 0;
    std::vector<std::unique_ptr<Block>> blocks;
  };
  struct Held {
    tenon_storage* storage = nullptr;
    CUdeviceptr pointer = 0;
    CUstream stream = nullptr;
    Stamp stamp;
    uint32_t sender = 0;
    bool was_right = false;
  };
  // A copy to the host that still runs, while the peer has already given the block back.
  struct Reading {
    std::vector<unsigned char> bytes;
    CUstream stream = nullptr;
    Held from;
  };

  // ---- peer.cc
  void must(CUresult result, const char* what);
  // Whether the sender is dead, or dying and dead soon. The driver may forget the exports of a
  // dying process before the process has ended.
  bool is_sender_dead(uint32_t peer) const {
    return peer != index_ && is_dead(board_->slots[peer].pid);
  }
  void let_go_of_all();
  void get_back(uint32_t dead);
  void count_live(int32_t kind, const char* what);
  bool send(LinkEnd* link, const Message& message);

  // ---- lending (lending.cc)
  void lend();
  Block* some_block(bool wrapped);
  Allocation* new_allocation();
  void write(Block* block);
  void release_own(Block* block);
  void check_own(const Block& block);
  void free_unused(bool all);
  static void came_back(DLManagedTensorVersioned* managed);

  // ---- borrowing (borrowing.cc)
  bool receive(LinkEnd* link, bool may_open);
  void give_back_unopened(const Message& message);
  bool pass_on(const Message& message);
  void open(const Message& message);
  CUstream some_stream();
  bool is_right(const unsigned char* bytes, Held* held);
  void check(Held* held);
  void let_go(size_t index);
  void finish_reading(bool all);

  PeerPlan plan_;
  Custody* custody_;
  uint32_t sent_ = 0;
  uint64_t generation_ = 0;
  uint64_t wraps_ = 0;
  uint64_t frees_ = 0;
  std::array<CUstream, 3> streams_{};  // the first is the default stream
  std::vector<LinkEnd> links_;
  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::vector<Held> held_;
  std::vector<std::unique_ptr<Reading>> readings_;
};

}  // namespace storm
