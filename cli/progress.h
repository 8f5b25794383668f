// A bar on the terminal that shows how far a long write is. It appears on stderr after half a
// second, and it goes when the write ends.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::cli {

class Progress {
 public:
  // `what` is what the bar is about, such as a path. `expected_nbytes` may be a little wrong.
  Progress(std::string what, uint64_t expected_nbytes);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(uint64_t nbytes);
  // Takes the bar away.
  void clear();

 private:
  void draw(int64_t now_ns);

  const std::string what_;
  const uint64_t expected_nbytes_;
  const bool is_wanted_;  // stderr is a terminal that can take a line away
  uint64_t done_ = 0;
  int64_t next_ns_;  // no bar is drawn before
  bool is_shown_ = false;
};

}  // namespace tenon::cli
