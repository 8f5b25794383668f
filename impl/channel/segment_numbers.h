// Notes which segments crossed a connection, so that the fd of each crosses once. Connection calls
// SentNumbers when it sends and ReceivedNumbers when it receives. The number of a segment is its
// serial in the sending process (Segment::serial()). With each message the sender names the numbers
// that it will not use again, because their segments are gone there or nothing but connections
// holds them. Until then the receiver holds the segment, so that every number that it was told
// leads to memory.
//
// The connection's mutex of the direction guards each object. A forked child only destroys them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/keyed_hash.h"
#include "base/status.h"
#include "channel/frames.h"
#include "memory/segment.h"
#include "os/fd.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/pack.h"

namespace tenon::channel {

// The sender's side.
class SentNumbers {
 public:
  // The segments that cross with one message, which carries their fds.
  class Added {
   public:
    size_t size() const noexcept { return entries_.size(); }
    void push_back(uint64_t number, memory::Segment* segment) {
      entries_.emplace_back(number, Weak<memory::Segment>(segment));
    }

   private:
    friend class SentNumbers;
    std::vector<std::pair<uint64_t, Weak<memory::Segment>>> entries_;
    std::unordered_map<uint64_t, size_t> indices_;
  };

  bool contains(uint64_t number) const { return indices_.contains(number); }
  // Returns the numbers that a message must name as not used again. `added` are the segments that
  // cross with this message, and `used` are all its segments. This call chooses none of them. The
  // numbers are kept until commit(), because the peer holds a segment for ever if it is not told.
  // So a number that an earlier, failed message named may be named together with its new fd. That
  // is harmless, because the receiver forgets before it adds.
  const std::vector<uint64_t>& collect_forgotten(const Added& added,
                                                 std::span<const tensor::SegmentRecord> used);
  // Allocates all memory that commit() needs, and computes places in the list. So call it after
  // collect_forgotten(), and call nothing that changes the list between prepare() and commit().
  // Without commit() `added` may be dropped.
  void prepare(Added* added);
  // The message is in the queue. From now on its numbers count as known to the peer. `has_told`:
  // the message names the numbers of collect_forgotten().
  void commit(Added* added, bool has_told = true) noexcept;

 private:
  std::unordered_map<uint64_t, size_t> indices_;  // number -> index into list_
  std::vector<std::pair<uint64_t, Weak<memory::Segment>>> list_;
  size_t sweep_ = 0;  // index in list_ at which collect_forgotten() goes on
  std::vector<uint64_t> forgotten_;
};

// The receiver's side.
class ReceivedNumbers {
 public:
  ReceivedNumbers(share::OpenOptions open, uint64_t max_segments) noexcept
      : open_(std::move(open)), max_segments_(max_segments) {}

  // How many segments a peer may have open here if nobody sets a number. The result is at most half
  // of RLIMIT_NOFILE and a quarter of vm.max_map_count, so that no one peer takes all of them, and
  // never more than 65,536.
  static uint64_t default_max_segments() noexcept;
  // Notes the segments that a message brings, and lets go of those that it names as not used again.
  // The fds of the message's segments begin at `first_fd`. CORRUPT: the peer breaks the protocol.
  // RESOURCE_EXHAUSTED with limit "max_segments": the peer would have too many segments open, and
  // has_lost() is true from now on. After std::bad_alloc the call can be repeated with the same
  // arguments.
  Status add(const tensor::DescriptorContent& content, InFrame* frame, size_t first_fd);
  // Finds the segments of a message, and maps those that are not mapped yet. CORRUPT: a number
  // never crossed, or a storage lies outside its segment. If fds were lost, a number without a
  // segment gives the status of lose() instead. After an error of mapping the fd stays, so a later
  // message can use the segment.
  Status resolve(const tensor::DescriptorContent& content, std::vector<tensor::Resolved>* out);
  // Fds were dropped or refused, for the reason `why`. From now on a number without a segment does
  // not prove that the peer is faulty.
  void lose(const Status& why) { lost_ = why; }
  // Lets go of all segments: the lender is gone, so no message will come that uses them.
  void forget_all() noexcept { entries_.clear(); }
  bool has_lost() const noexcept { return !lost_.is_ok(); }

 private:
  // Holds a segment because the peer numbered it, and counts that in Segment::idle_references. A
  // segment that only connections hold is needed by nobody here. Without the count, two ends that
  // send the same segment to and fro would hold each other's segments for ever.
  class Numbered {
   public:
    Numbered() noexcept = default;
    Numbered(Numbered&& other) noexcept : segment_(std::move(other.segment_)) {}
    Numbered& operator=(Numbered&& other) noexcept {
      std::swap(segment_, other.segment_);
      return *this;
    }
    Numbered(const Numbered&) = delete;
    Numbered& operator=(const Numbered&) = delete;
    ~Numbered() { set(nullptr); }
    void set(Ref<memory::Segment> segment) noexcept {
      if (segment_) segment_->idle_references.fetch_sub(1, std::memory_order_relaxed);
      segment_ = std::move(segment);
      if (segment_) segment_->idle_references.fetch_add(1, std::memory_order_relaxed);
    }
    const Ref<memory::Segment>& get() const noexcept { return segment_; }

   private:
    Ref<memory::Segment> segment_;
  };

  // A segment that the peer has numbered.
  struct Entry {
    // Open until the segment is mapped. The segment then takes the fd over, or the fd is closed if
    // this process had the segment already. For private openings the fd stays here.
    os::Fd fd;
    Numbered segment;
    memory::Access access = memory::Access::kAuto;
    uint64_t nbytes = 0;
  };

  share::OpenOptions open_;
  uint64_t max_segments_;
  std::unordered_map<uint64_t, Entry, KeyedHash> entries_;
  // How many segments came in messages that were not refused. A message cannot forget more than
  // these. If a receive ran out of memory and is tried again, its segments count twice.
  uint64_t crossed_ = 0;
  Status lost_;
};

}  // namespace tenon::channel
