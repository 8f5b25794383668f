#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "os/clock.h"
#include "output.h"

namespace tenon::cli {
namespace {

constexpr int64_t kFirstAfterNs = 500'000'000;
constexpr int64_t kBetweenNs = 100'000'000;
constexpr size_t kBarColumns = 20;
constexpr std::string_view kEraseLine = "\r\x1b[K";

bool is_terminal() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

// Whether this job runs in the background. There a bar would disturb the user's typing.
bool is_in_background() {
  const pid_t foreground = tcgetpgrp(STDERR_FILENO);
  return foreground > 0 && foreground != getpgrp();
}

size_t columns_of_terminal() {
  constexpr size_t kDefault = 80;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefault;
}

std::string bar_text(uint64_t percent) {
  const size_t filled = kBarColumns * percent / 100;
  return "[" + std::string(filled, '#') + std::string(kBarColumns - filled, ' ') + "]";
}

}  // namespace

Progress::Progress(std::string what, uint64_t expected_nbytes)
    : what_(std::move(what)),
      expected_nbytes_(expected_nbytes),
      is_wanted_(is_terminal()),
      next_ns_(os::monotonic_ns() + kFirstAfterNs) {}

void Progress::add(uint64_t nbytes) {
  done_ += nbytes;
  if (!is_wanted_) return;
  const int64_t now = os::monotonic_ns();
  if (now < next_ns_ || is_in_background()) return;
  draw(now);
}

void Progress::draw(int64_t now_ns) {
  next_ns_ = now_ns + kBetweenNs;
  is_shown_ = true;
  const uint64_t all = std::max({done_, expected_nbytes_, uint64_t{1}});
  const auto percent =
      static_cast<uint64_t>(static_cast<double>(done_) / static_cast<double>(all) * 100);
  const std::string numbers = format("%3d%% ", static_cast<int>(percent)) + size_text(done_) +
                              " of about " + size_text(all);
  const size_t columns = columns_of_terminal();
  // The last column stays free, because some terminals wrap there.
  std::string line = bar_text(percent) + " " + numbers;
  if (line.size() + 1 > columns) line = format("%3d%%", static_cast<int>(percent));
  const std::string path = " " + safe_text(what_);
  if (line.size() + path.size() < columns) line += path;
  std::fputs((std::string(kEraseLine) + line).c_str(), stderr);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!is_shown_) return;
  is_shown_ = false;
  std::fputs(std::string(kEraseLine).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace tenon::cli
