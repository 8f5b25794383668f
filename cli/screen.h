// A terminal that a program takes over for a while, and leaves as it was.
#pragma once

#include <signal.h>
#include <termios.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::cli {

class Screen {
 public:
  // Standard output is a terminal that knows escape sequences.
  static bool is_there();
  // The other screen, keys as they are typed (if standard input is a terminal), signals as events.
  // Undone when it goes.
  static Result<Screen> take();
  Screen(Screen&& other) noexcept;
  Screen& operator=(Screen&&) = delete;
  ~Screen();

  // As many of the lines as it has room for, each cut at its edge.
  void draw(const std::vector<std::string>& lines);
  enum class Event { kTime, kQuit, kResized };
  // Until that moment of CLOCK_MONOTONIC at most. Quit: the key q, the end of the input, or a
  // signal that would end the program.
  Event wait_until(int64_t moment_ns);

 private:
  Screen() = default;
  Event read_keys();

  bool taken_ = false;
  bool keys_ = false;
  termios before_{};
  sigset_t mask_before_{};
  os::Fd signals_;
};

}  // namespace tenon::cli
