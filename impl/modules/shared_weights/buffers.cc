#include "modules/shared_weights/buffers.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/make_room.h"
#include "base/process_state.h"
#include "memory/spare.h"
#include "modules/shared_weights/packets.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "os/named_file.h"
#include "os/thp.h"
#include "share/by_fd.h"

namespace tenon::shared_weights {

using memory::Segment;

namespace {

constexpr unsigned kBufferSeals =
    os::kSealShrink | os::kSealGrow | os::kSealFutureWrite | os::kSealSeal;
// A buffer for weights of less than half its size would waste memory.
constexpr uint64_t kMostTimesLarger = 2;

struct KeptBuffer {
  std::string directory;
  std::string name;
  std::unique_ptr<Buffer> buffer;
  uint64_t version = 0;
  uint64_t view_serial = 0;  // of the segment that open_view() made
  bool is_open_here = true;  // this process has the version
  bool is_of(const Place& place) const noexcept {
    return directory == place.directory && name == place.name;
  }
};

// The buffers whose version a process may have. Their end unmaps memory, so no lock is held then.
struct BufferState : ProcessState<LockRank::kWeightBuffers> {
  std::vector<KeptBuffer> kept;
  void in_child() noexcept { kept.clear(); }
};

BufferState& buffer_state() noexcept { return process_state<BufferState>(); }

// This process has let go of a version. If it has no other one of the name, its buffers go.
void leave_version(uint64_t view_serial) noexcept {
  BufferState& state = buffer_state();
  for (;;) {
    std::unique_ptr<Buffer> gone;  // unmapped without the lock
    const std::lock_guard<std::mutex> lock(state.mutex);
    const auto left = std::ranges::find(state.kept, view_serial, &KeptBuffer::view_serial);
    if (left == state.kept.end()) return;
    left->is_open_here = false;
    const auto is_same = [&](const KeptBuffer& each) {
      return each.directory == left->directory && each.name == left->name;
    };
    const auto is_used = [&](const KeptBuffer& each) { return is_same(each) && each.is_open_here; };
    if (std::ranges::any_of(state.kept, is_used)) return;
    // The buffer by which the others are found goes last.
    auto next = std::ranges::find_if(
        state.kept, [&](const auto& each) { return is_same(each) && &each != &*left; });
    if (next == state.kept.end()) next = left;
    gone = std::move(next->buffer);
    state.kept.erase(next);
  }
}

// Notices that the last tensor of a version in this process is gone.
class BufferTail : public memory::SegmentTail {
 public:
  void before_unmap(Segment* segment) noexcept override { serial_ = segment->serial(); }
  void after_unmap() noexcept override {
    if (generation_ == fork_generation()) leave_version(serial_);
  }

 private:
  uint64_t serial_ = 0;
  const uint64_t generation_ = fork_generation();
};

Result<std::unique_ptr<Buffer>> no_buffer() { return std::unique_ptr<Buffer>(); }

}  // namespace

Result<std::unique_ptr<Buffer>> Buffer::create(uint64_t nbytes) {
  return memory::with_spare([&]() -> Result<std::unique_ptr<Buffer>> {
    TENON_TRY(os::check_file_size(nbytes));
    std::unique_ptr<Buffer> made(new Buffer());
    TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
    TENON_ASSIGN(made->fd_, ForkClosed::make([&] { return os::create_memfd(nonce, nbytes); }));
    const uint64_t huge = os::thp_nbytes();
    const bool may_be_huge = huge != 0 && nbytes >= huge;
    TENON_ASSIGN(made->memory_,
                 os::Mapping::create(os::Mapping::Kind::kSharedWritable, made->fd_.get(), 0, nbytes,
                                     may_be_huge ? huge : 0));
    TENON_TRY(made->memory_.keep_from_children());
    if (may_be_huge) os::advise_thp(made->base(), nbytes, true);
    TENON_TRY(os::add_seals(made->fd_.get(), kBufferSeals));
    return made;
  });
}

Buffer::~Buffer() {
  // Something else may lie at the address by now.
  if (generation_ != fork_generation()) memory_.forget();
}

Result<Ref<Segment>> Buffer::open_view() const {
  TENON_ASSIGN(os::Fd fd, os::reopen_read_only(fd_.get()));
  share::OpenOptions how;
  how.access = memory::Access::kReadOnly;
  return share::open_segment(fd.get(), memory::Access::kReadOnly, nbytes(), nbytes(), how, &fd);
}

bool Buffer::is_viewed() const {
  // The kernel counts the read-only descriptions of a memfd, so the lease is asked for by one.
  Result<os::Fd> fd = os::reopen_read_only(fd_.get());
  if (!fd.is_ok()) return true;
  const os::Alone alone = os::take_lease(fd.value().get());
  if (alone == os::Alone::kYes) os::drop_lease(fd.value().get());
  return alone != os::Alone::kYes;
}

bool has_buffers(const Place& place) {
  BufferState& state = buffer_state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return std::ranges::any_of(state.kept, [&](const auto& each) { return each.is_of(place); });
}

Result<std::unique_ptr<Buffer>> find_free_buffer(const Place& place, uint64_t nbytes) {
  TENON_ASSIGN(const uint64_t newest, newest_version(place));
  std::vector<KeptBuffer> free;
  {
    BufferState& state = buffer_state();
    const std::lock_guard<std::mutex> lock(state.mutex);
    make_room(&free, state.kept.size());
    const auto is_free = [&](const KeptBuffer& each) {
      return each.is_of(place) && !each.is_open_here && each.version < newest &&
             remove_unheld_version(place, each.version) && !each.buffer->is_viewed();
    };
    for (auto each = state.kept.begin(); each != state.kept.end();) {
      if (!is_free(*each)) {
        ++each;
        continue;
      }
      free.push_back(std::move(*each));
      each = state.kept.erase(each);
    }
  }
  for (KeptBuffer& each : free) {
    const uint64_t size = each.buffer->nbytes();
    if (size >= nbytes && size / kMostTimesLarger <= nbytes) return std::move(each.buffer);
  }
  return no_buffer();
}

void keep_buffer(const Place& place, std::unique_ptr<Buffer> buffer, uint64_t version,
                 Segment* view) noexcept {
  if (version == kFirstVersion) return;
  try {
    auto tail = std::make_unique<BufferTail>();
    KeptBuffer kept{place.directory, place.name, std::move(buffer), version, view->serial()};
    {
      BufferState& state = buffer_state();
      const std::lock_guard<std::mutex> lock(state.mutex);
      make_room(&state.kept, 1);
      state.kept.push_back(std::move(kept));
    }
    view->attach_tail(std::move(tail));
  } catch (...) {
    // No memory: the next version gets memory of its own.
  }
}

}  // namespace tenon::shared_weights
