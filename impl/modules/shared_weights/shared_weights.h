// Weights that the processes of a machine share under a name. The first process that opens the name
// loads the file, and every other process maps the same memory. No server has to run: each process
// that has the weights can hand them on (member.h). docs/format/shared_weights.md specifies the
// protocol. A tenon_shared_weights of the C API is a SharedWeights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "modules/shared_weights/member.h"
#include "modules/shared_weights/place.h"
#include "modules/weights/weights.h"
#include "os/wait.h"

namespace tenon::shared_weights {

struct OpenOptions {
  Access access;
  uint64_t max_nbytes = 0;  // the largest file that is loaded; 0: no limit
  // The CUDA device in whose memory the weights lie. Nothing: they lie in the CPU's memory.
  std::optional<int32_t> device;
  // The most bytes that all weights in the directory may have when this process loads. 0: no limit.
  uint64_t budget_nbytes = 0;
  // Called on the thread of the opener while it loads or waits for the process that loads.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Waits until the fd is readable. The process that makes it so may be this very process.
Status wait_served(os::Waiter* waiter, int fd, const char* awaited);

// Any thread may call its functions. A forked child may use its copy, which hands nothing on.
class SharedWeights final : public Counted {
 public:
  // Opens the weights that have this name, or loads the file if no process has them. Without `path`
  // nothing is loaded. `wait` bounds the wait for other processes. A load ends early only by its
  // cancel.
  // NOT_FOUND: there is no path, and no process has the weights; or there is no such file or
  // directory. PERMISSION: the name stands for another file or another version of the file (details
  // path, pid, field), or the server is another user's, or does not admit this user.
  // RESOURCE_EXHAUSTED: over `max_nbytes` or `budget_nbytes` (detail "limit"), or no memory.
  // TIMEOUT with the detail pid: a process that has the weights does not answer. CORRUPT: the file
  // changed while it was loaded; or what serves the name is not Tenon. Also the errors of
  // choose_place() and of weights::Weights::open().
  static Result<Ref<SharedWeights>> open(const std::optional<std::string>& path,
                                         const std::string& name, const OpenOptions& options,
                                         const os::Wait& wait);

  // Waits until there is a newer version than this object's, and returns the newest one of which
  // this process knows. WOULD_BLOCK, TIMEOUT, CANCELLED, INTERRUPTED. UNSUPPORTED in a child of
  // fork.
  Result<uint64_t> wait_changed(const os::Wait& wait) const;
  Result<int> changed_fd() const { return member_->changed_fd(); }

  const weights::Weights& weights() const noexcept { return *weights_; }
  const memory::Segment& segment() const noexcept { return *segment_; }
  bool loaded_here() const noexcept { return loaded_here_; }
  Member::Info info() const { return member_->info(); }

  SharedWeights(Ref<memory::Segment> segment, Ref<weights::Weights> weights,
                std::shared_ptr<Member> member, bool loaded_here)
      : segment_(std::move(segment)),
        weights_(std::move(weights)),
        member_(std::move(member)),
        loaded_here_(loaded_here) {}

 private:
  ~SharedWeights() override = default;
  void dispose() noexcept override {
    weights_ = nullptr;
    segment_ = nullptr;
  }

  Ref<memory::Segment> segment_;
  Ref<weights::Weights> weights_;
  const std::shared_ptr<Member> member_;
  const bool loaded_here_;
};

}  // namespace tenon::shared_weights
