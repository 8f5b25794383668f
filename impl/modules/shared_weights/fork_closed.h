// File descriptors that a forked child closes at once. If a child kept the fd of a lock or of a
// connection, then the lock would last, and the connection would seem alive, after the death of the
// parent. All fds of the folder shared_weights are of this kind.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/make_room.h"
#include "base/process_state.h"
#include "base/status.h"
#include "os/fd.h"

namespace tenon::shared_weights {

// The numbers of all these fds. fork holds the lock, so no fd is open and not in the list when a
// child begins.
struct ForkClosedFds : ProcessState<LockRank::kForkClosedFds> {
  std::vector<int> numbers;
  void in_child() noexcept;
};

// A forked child that inherits the object does nothing with it.
class ForkClosed {
 public:
  ForkClosed() noexcept = default;
  ForkClosed(ForkClosed&& other) noexcept
      : number_(std::exchange(other.number_, -1)), generation_(other.generation_) {}
  ForkClosed& operator=(ForkClosed&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
      generation_ = other.generation_;
    }
    return *this;
  }
  ForkClosed(const ForkClosed&) = delete;
  ForkClosed& operator=(const ForkClosed&) = delete;
  ~ForkClosed() { reset(); }

  // `open` returns a Result<os::Fd> and does not block. The result is not open if that fd is not.
  template <typename Open>
  static Result<ForkClosed> make(Open open) {
    ForkClosedFds& all = process_state<ForkClosedFds>();
    const std::lock_guard<std::mutex> lock(all.mutex);
    make_room(&all.numbers, 1);
    TENON_ASSIGN(os::Fd fd, open());
    ForkClosed made;
    if (!fd.is_open()) return made;
    made.generation_ = fork_generation();
    made.number_ = fd.detach();
    all.numbers.push_back(made.number_);
    return made;
  }
  int get() const noexcept { return number_; }
  bool is_open() const noexcept { return number_ >= 0; }
  void reset() noexcept;

 private:
  int number_ = -1;
  uint64_t generation_ = 0;
};

}  // namespace tenon::shared_weights
