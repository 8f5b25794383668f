// Screen takes over the terminal for `tenon top`, and restores it in the end.
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

// One thread uses it, because only the signal mask of that thread changes. A process has one screen
// at a time.
class Screen {
 public:
  // Whether standard output is a terminal that understands escape sequences.
  static bool is_there();
  // Switches to the alternate screen, reads keys as they are typed (if standard input is a
  // terminal), and turns signals into events. The destructor undoes all of this. Fails if signals
  // cannot become events. The terminal is unchanged then.
  static Result<Screen> take();
  Screen(Screen&& other) noexcept;
  Screen& operator=(Screen&&) = delete;
  ~Screen();

  // Draws as many of the lines as the screen has room for, each cut at its edge.
  void draw(const std::vector<std::string>& lines);
  enum class Event { kTime, kQuit, kResized };
  // Waits for an event until that moment of CLOCK_MONOTONIC. kQuit: the key q, the end of the
  // input, or a signal that would end the program.
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
