// The counters of PyTorch's CUDA protocol (docs/format/cuda.md): a named file in PyTorch's layout,
// with room for 10,000 counters of 64 bits behind its 64-byte head. The sender of a message sets
// one to 1, its receiver takes 1 away when it has let go of the memory, and the sender looks now
// and then: nobody tells it.
//
// A file of this process is held like every named file (names.h), so that one whose maker was
// killed is swept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "os/mapping.h"

namespace tenon::share {

inline constexpr uint32_t kCudaCounters = 10'000;

// A message's counter, on its sender's side. As long as one of a file's is held the file has its
// name.
class CudaCounter {
 public:
  CudaCounter() noexcept = default;
  // Set to 1. RESOURCE_EXHAUSTED and others as for a named file.
  static Result<CudaCounter> create();
  CudaCounter(CudaCounter&& other) noexcept = default;
  CudaCounter& operator=(CudaCounter&& other) noexcept = default;
  CudaCounter(const CudaCounter&) = delete;
  CudaCounter& operator=(const CudaCounter&) = delete;
  ~CudaCounter() = default;

  // For the tuple: "/leaf", and the place in the file.
  std::string name() const;
  uint32_t slot() const noexcept { return slot_; }
  // The receiver let go, or did so more than once. Acquire: what it read of the memory was before.
  bool is_released() const noexcept;

 private:
  CudaCounter(Ref<memory::Segment> file, uint32_t slot) noexcept
      : file_(std::move(file)), slot_(slot) {}
  Ref<memory::Segment> file_;
  uint32_t slot_ = 0;
};

// No counter is handed out from the file that is in use now any more: it goes with those that are
// held.
void end_cuda_counter_file() noexcept;

// What a receiver does at the end: once for each message, by the file that has the name then. No
// such file is success, since its maker is gone. INVALID_ARGUMENT for a name that is none in
// /dev/shm, or a slot beyond the file; CORRUPT for what is no counter file, or a counter that is
// not above 0. Only a file of the very size that both sides make is written, so that a name from a
// stranger does not lead to somebody's tensor by a slip.
Status release_cuda_counter(std::string_view name, uint64_t slot);

struct CudaCounterFile;

// A message's counter, on its receiver's side: once it is kept it goes down when this goes, and not
// before, for until then opening can fail and leaves the message as good as it was. The file is
// looked for when the message is opened, is checked as above, and stays mapped once for all of its
// counters that are held. So letting go is a step in memory, and neither opens a file nor closes
// one, which would wake every process that watches /dev/shm.
//
// A sender that takes the name away, ends or is killed takes nothing from the mapping: then the
// step is one that nobody sees. The file that has its name next is never taken for it. What is gone
// or no counter file when the message is opened is let be for good.
class CudaCounterHold {
 public:
  CudaCounterHold(std::string_view name, uint64_t slot);
  CudaCounterHold(const CudaCounterHold&) = delete;
  CudaCounterHold& operator=(const CudaCounterHold&) = delete;
  ~CudaCounterHold();
  void keep() noexcept { is_kept_ = true; }

 private:
  void let_go() const;
  bool is_kept_ = false;
  std::shared_ptr<const CudaCounterFile> file_;
  // The file could not be opened for want of something: it is tried again at the end.
  std::string name_;
  uint64_t slot_;
};

}  // namespace tenon::share
