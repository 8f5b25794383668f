// A process of the storm of device memory, for one round. It lends blocks of its own allocations,
// and opens the blocks that it is sent. It reads them by the driver's copies, checks every byte and
// gives them back. It also passes messages on unopened.
#pragma once

#include <cuda.h>
#include <dlpack/dlpack.h>
#include <sys/types.h>
#include <tenon/tenon.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "cuda/driver.h"
#include "process/cuda/storm/board.h"
#include "process/cuda/storm/plan.h"
#include "process/fault/kit.h"
#include "process/fault/storm/pattern.h"

namespace storm::device {

inline const tenon::cuda::Driver& driver() { return *tenon::cuda::driver().value(); }

// The driver of the storm sends this, with the sockets of the links.
struct Order {
  char what = 0;  // R: run a round; S: stop sending; T: release all; U: check what is back; Q: end
  uint32_t n_links = 0;
  uint64_t seed = 0;
  uint32_t latency_us = 0;
  uint32_t events = 0;
  uint32_t dead = 0;  // U: one bit for each dead peer
  Break broken = Break::kNothing;
  std::array<bool, kMostLinks> out{};
  std::array<uint32_t, kMostLinks> other{};  // the peer at the link's other end
};

// Peers send this to each other.
struct Message {
  tenon_cuda_handle handle;
  Stamp stamp;
  uint32_t sender;
  uint32_t number;
};

class Peer {
 public:
  Peer(Board* board, uint32_t index, int control, uint64_t seed);
  [[noreturn]] void run();

 private:
  struct Link {
    bool out = false;
    uint32_t other = 0;
    int socket = -1;
  };
  // A range of an allocation, wrapped until the library gives it back. Its address never changes.
  struct Block {
    Peer* peer = nullptr;
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
  // A running copy from a block that was given back in the meantime.
  struct Reading {
    std::vector<unsigned char> bytes;
    CUstream stream = nullptr;
    Held from;
  };

  // ---- calls (peer.cc)
  template <typename Call>
  fault::Outcome call(Op op, Call&& function) {
    enter(op);
    fault::Outcome outcome = fault::call(function);
    leave();
    return outcome;
  }
  void enter(Op op) { slot_->enter(static_cast<uint32_t>(op)); }
  void leave() { slot_->leave(); }
  [[noreturn]] void die(int status);
  [[noreturn]] void fail(const char* what, const fault::Outcome& outcome);
  void must(CUresult result, const char* what);
  bool is_dead(uint32_t peer) const;

  // ---- orders (peer.cc)
  void take_order(char wanted, Order* order, std::vector<int>* fds);
  bool has_order() const;
  void say(char what);
  void begin(const Order& order, const std::vector<int>& fds);
  void start();
  void let_go_of_all();
  void settle(const Order& order);
  void end();
  void count_live(int32_t kind, const char* what);

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
  bool receive(Link* link, bool may_open);
  void give_back_unopened(const Message& message);
  bool pass_on(const Message& message);
  void open(const Message& message);
  CUstream some_stream();
  bool is_right(const unsigned char* bytes, Held* held);
  void check(Held* held);
  void let_go(size_t index);
  void finish_reading(bool all);

  // ---- others (peer.cc)
  void step();
  Link* some_link(bool out);
  bool send(Link* link, const Message& message);
  void fork_one();
  [[noreturn]] void be_child(uint64_t seed);
  void reap(bool wait);

  Board* board_;
  Slot* slot_;
  uint32_t index_;
  int control_;
  uint64_t seed_;
  Random random_;
  Break broken_ = Break::kNothing;
  int forks_left_ = 0;
  uint32_t sent_ = 0;
  uint64_t generation_ = 0;
  uint64_t wraps_ = 0;
  uint64_t frees_ = 0;
  std::array<CUstream, 3> streams_{};  // the first is the default stream
  std::vector<Link> links_;
  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::vector<Held> held_;
  std::vector<std::unique_ptr<Reading>> readings_;
  std::vector<pid_t> children_;
};

}  // namespace storm::device
