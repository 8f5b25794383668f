// The counters of PyTorch's CUDA protocol (docs/format/cuda.md). torch_message.cc takes them, and
// by_cuda.cc and the C API (release_cuda_counter()) release them. A counter file is a named file in
// PyTorch's layout, with room for 10,000 counters of 64 bits behind its 64-byte head. The sender of
// a message sets one counter to 1. The receiver subtracts 1 when it has let go of the memory.
// Nobody tells the sender, which reads the counter now and then.
//
// A counter file of this process is held like every named file (held_files.h), so a sweep removes
// the file if its maker was killed.
//
// The sender's functions take LockRank::kCudaCounter. In a forked child the next counter begins a
// new file, and a CudaCounter of the parent is leaked with its memory. A CudaCounterHold is neither
// made nor destroyed there, because its lock has no rank.
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

namespace tenon::device {

inline constexpr uint32_t kCudaCounters = 10'000;

// The sender's side of one message's counter. A counter file keeps its name as long as one of its
// counters is held.
class CudaCounter {
 public:
  CudaCounter() noexcept = default;
  // Takes the next counter and sets it to 1. The errors, such as RESOURCE_EXHAUSTED, and the lock
  // rule are those of names::create_named_segment().
  static Result<CudaCounter> create();
  CudaCounter(CudaCounter&& other) noexcept = default;
  CudaCounter& operator=(CudaCounter&& other) noexcept = default;
  CudaCounter(const CudaCounter&) = delete;
  CudaCounter& operator=(const CudaCounter&) = delete;
  ~CudaCounter() = default;

  // For PyTorch's tuple: the name of the file, "/leaf", and the number of the counter in the file.
  std::string name() const;
  uint32_t slot() const noexcept { return slot_; }
  // Whether the receiver has let go, once or more often. The load is an acquire: the receiver's
  // reads of the memory happened before.
  bool is_released() const noexcept;

 private:
  CudaCounter(Ref<memory::Segment> file, uint32_t slot) noexcept
      : file_(std::move(file)), slot_(slot) {}
  Ref<memory::Segment> file_;
  uint32_t slot_ = 0;
};

// No more counters are taken from the current file. The file goes with the last of its counters
// that is held. A fork hook calls this in the child, when every lock is free, because the parent
// goes on with the file.
void end_cuda_counter_file() noexcept;

// Subtracts 1 from a counter, as a receiver does once for each message. Opens the file that has the
// name at this moment. A missing file is success, because its maker is gone. INVALID_ARGUMENT for a
// name outside /dev/shm or a slot beyond the file. CORRUPT for a file that is no counter file, and
// for a counter that is not above 0. PERMISSION: this process may not write the file, which another
// user may own. The call can block for about 1 s (kLookTries) while another process checks whether
// the file is dead, and then returns WOULD_BLOCK.
//
// A counter file has exactly the size that Tenon and PyTorch make. Tenon's has Tenon's magic and
// the prefix "tenon-cuda-". PyTorch's has a name of the form torch_PID_... and a head that is zero
// behind its count. No other file is written, so that a stranger's name does not lead to somebody's
// tensor by mistake.
Status release_cuda_counter(std::string_view name, uint64_t slot);

struct CudaCounterFile;

// The receiver's side of one message's counter. After keep() the destructor decrements the counter.
// Without keep() the message stays as valid as it was, because opening it may still fail.
//
// The constructor finds, checks and maps the file as release_cuda_counter() does, and can block as
// long. One mapping serves all held counters of a file. So letting go is an atomic step in memory,
// and neither opens nor closes a file, which would wake every process that watches /dev/shm.
//
// Decrementing is safe after the sender unlinked the file, ended or was killed: then no process
// observes it. A new file that gets the same name is never mistaken for the mapped file. If the
// file is missing, or is no counter file, when the message is opened, the counter is never
// decremented.
//
// The constructor throws std::bad_alloc alone. Other failures are noted for the destructor, which
// blocks as long as the constructor if it has to open the file.
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
  // Not empty: the file could not be opened for a reason that may pass, such as a lack of fds. The
  // destructor then opens the counter file that has this name at that moment.
  std::string name_;
  uint64_t slot_;
};

}  // namespace tenon::device
