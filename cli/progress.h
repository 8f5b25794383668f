// Progress is a bar on the terminal that shows the progress of a long write. It appears on stderr
// after half a second, unless the job runs in the background, and disappears when the write ends.
// ExportFile (export_file.h) has one.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::cli {

// One thread uses it.
class Progress {
 public:
  // `what` names the job, for example by a path. `expected_nbytes` may be approximate.
  Progress(std::string what, uint64_t expected_nbytes);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(uint64_t nbytes);
  // Removes the bar.
  void clear();

 private:
  void draw(int64_t now_ns);

  const std::string what_;
  const uint64_t expected_nbytes_;
  const bool is_wanted_;  // stderr is a terminal on which a line can be erased
  uint64_t done_ = 0;
  int64_t next_ns_;  // CLOCK_MONOTONIC; no bar is drawn before
  bool is_shown_ = false;
};

}  // namespace tenon::cli
