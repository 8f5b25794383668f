#include "screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "os/clock.h"
#include "output.h"

namespace tenon::cli {
namespace {

// The sequences that switch to the alternate screen, without cursor and wrapping, and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};

size_t rows_of_terminal() noexcept {
  constexpr size_t kDefault = 24;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kDefault;
}

}  // namespace

bool Screen::is_there() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && term != nullptr && *term != '\0' &&
         std::string_view(term) != "dumb";
}

Result<Screen> Screen::take() {
  Screen screen;
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int each : kSignals) sigaddset(&wanted, each);
  screen.signals_ = os::Fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!screen.signals_.is_open()) return errno_status(errno, "signals as events");
  if (sigprocmask(SIG_BLOCK, &wanted, &screen.mask_before_) != 0)
    return errno_status(errno, "blocking signals");
  screen.taken_ = true;
  // This works in the foreground only. The kernel stops a background process that changes the
  // terminal.
  if (isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &screen.before_) == 0) {
    termios now = screen.before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    now.c_cc[VMIN] = 0;
    now.c_cc[VTIME] = 0;
    now.c_cc[VSUSP] = _POSIX_VDISABLE;  // a stopped program would leave the terminal changed
    screen.keys_ = tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
  }
  print_text(kEnter);
  std::fflush(stdout);
  return screen;
}

Screen::Screen(Screen&& other) noexcept
    : taken_(std::exchange(other.taken_, false)),
      keys_(other.keys_),
      before_(other.before_),
      mask_before_(other.mask_before_),
      signals_(std::move(other.signals_)) {}

Screen::~Screen() {
  if (!taken_) return;
  print_text(kLeave);
  std::fflush(stdout);
  if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Screen::draw(const std::vector<std::string>& lines) {
  // Each line is overwritten and its rest cleared, then the part below is cleared. So nothing
  // flickers.
  std::string text = "\x1b[H";
  const size_t rows = rows_of_terminal();
  for (size_t i = 0; i < std::min(lines.size(), rows); ++i) {
    if (i > 0) text += "\r\n";
    text += lines[i] + "\x1b[K";
  }
  text += "\x1b[J";
  print_text(text);
  std::fflush(stdout);
}

Screen::Event Screen::read_keys() {
  char keys[64];
  const ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
  if (got < 0) return errno == EINTR || errno == EAGAIN ? Event::kTime : Event::kQuit;
  if (got == 0) return Event::kQuit;
  const std::string_view typed(keys, static_cast<size_t>(got));
  return typed.find_first_of("qQ") != std::string_view::npos ? Event::kQuit : Event::kTime;
}

Screen::Event Screen::wait_until(int64_t moment_ns) {
  while (true) {
    const int64_t left_ms = (moment_ns - os::monotonic_ns() + 999'999) / 1'000'000;
    pollfd fds[] = {{signals_.get(), POLLIN, 0}, {keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
    const int ready = poll(fds, 2, static_cast<int>(std::clamp<int64_t>(left_ms, 0, INT32_MAX)));
    if (ready < 0 && errno != EINTR) return Event::kQuit;
    if (ready == 0 && left_ms <= 0) return Event::kTime;
    if (ready <= 0) continue;
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      return info.ssi_signo == SIGWINCH ? Event::kResized : Event::kQuit;
    if (fds[1].revents != 0 && read_keys() == Event::kQuit) return Event::kQuit;
  }
}

}  // namespace tenon::cli
