// Memory in which a publisher writes one version of weights after another, because fresh pages cost
// several times as much as the copy. Only this process can write a buffer. It writes a buffer anew
// when no process has the version that is in it. publish.cc takes buffers for
// TENON_SHARED_WEIGHTS_REUSE. docs/format/shared_weights.md ("Memory that is written again") says
// why no opener reads memory that is being written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "modules/shared_weights/fork_closed.h"
#include "modules/shared_weights/place.h"
#include "os/mapping.h"

namespace tenon::shared_weights {

// The memory is a memfd whose only writable mapping is this object's. A forked child has neither
// the mapping nor the fd, so it never writes. The object belongs to one thread at a time.
class Buffer {
 public:
  // UNSUPPORTED: the kernel (before 5.1) cannot keep other writers away. RESOURCE_EXHAUSTED: no
  // memory, fd or address space. Also the errors of os::create_memfd().
  static Result<std::unique_ptr<Buffer>> create(uint64_t nbytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint64_t nbytes() const noexcept { return memory_.nbytes(); }
  std::byte* base() const noexcept { return memory_.base(); }
  // The same memory, read-only, for the version that is in it now: what other processes get, and
  // what this process reads. It is in the identity cache. Call this once for each version, after
  // the buffer is written.
  Result<Ref<memory::Segment>> open_view() const;
  // Whether a process may have the memory open or mapped read-only, and be it a forked child or the
  // holder of a lent fd. True too if the kernel cannot tell (before Linux 5.3).
  bool is_viewed() const;

 private:
  Buffer() = default;
  ForkClosed fd_;
  os::Mapping memory_;
  const uint64_t generation_ = fork_generation();
};

// Whether this process keeps buffers of the name. If it keeps none, find_free_buffer() finds none.
bool has_buffers(const Place& place);
// Takes a buffer of the name that no process has any more, and that has at least `nbytes` bytes and
// at most twice as many. Null: there is none. Gives back all other buffers that are free. The
// caller has NAME.turn and NAME.lock.
Result<std::unique_ptr<Buffer>> find_free_buffer(const Place& place, uint64_t nbytes);
// Keeps the buffer of a version that is published, as long as this process has that version or
// another one whose buffer it keeps. `view` is what open_view() returned. The memory of version 1
// is not kept, because its holders have no NAME.hold.N. Without memory the buffer is not kept.
void keep_buffer(const Place& place, std::unique_ptr<Buffer> buffer, uint64_t version,
                 memory::Segment* view) noexcept;

}  // namespace tenon::shared_weights
