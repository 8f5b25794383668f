// Fd owns a file descriptor and closes it. Closing an fd that came from another process does not
// depend on that process: close_foreign() bounds the wait.
#pragma once

#include <unistd.h>

#include <utility>

namespace tenon::os {

// Closes an fd that another process made. If the close may have to wait, another thread does it
// (os/foreign.h), and this call waits for that thread for at most 200 ms. Without memory or a
// thread it closes the fd itself. Takes LockRank::kForeignFds, the last but one in the lock order,
// so the caller may hold any ranked lock but kForeignFds and kLentNames.
void close_foreign(int number) noexcept;

// A forked child has fds of its own to the same files, and closes only these.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int number) noexcept : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)), foreign_(other.foreign_) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
      foreign_ = other.foreign_;
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const noexcept { return number_; }
  bool is_open() const noexcept { return number_ >= 0; }
  [[nodiscard]] int detach() noexcept { return std::exchange(number_, -1); }
  // Notes that the fd came from another process, so that close_foreign() closes it.
  void mark_foreign() noexcept { foreign_ = true; }
  void reset() noexcept {
    if (number_ < 0) return;
    const int number = std::exchange(number_, -1);
    foreign_ ? close_foreign(number) : static_cast<void>(::close(number));
  }

 private:
  int number_ = -1;
  bool foreign_ = false;
};

}  // namespace tenon::os
