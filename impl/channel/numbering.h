// Which segments crossed a connection. Both ends number them by the sender's serial. The sender
// says with each message which of the numbers it will not use again (their segments are gone
// there); until then the receiver holds the segment, so that a number it was told of can always be
// followed.
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
  // Segments whose fds a message carries, and that cross with it.
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
  // What the message, of those segments, has to say is gone. Kept until commit(): the peer holds a
  // segment that it is never told about for ever.
  const std::vector<uint64_t>& collect_forgotten(const Added& added,
                                                 std::span<const tensor::SegmentRecord> used);
  // Takes all the memory that commit() needs.
  void prepare(Added* added);
  // The message is in the queue: from now on its numbers are known there.
  void commit(Added* added) noexcept;

 private:
  std::unordered_map<uint64_t, size_t> indices_;  // number -> index into list_
  std::vector<std::pair<uint64_t, Weak<memory::Segment>>> list_;
  size_t sweep_ = 0;
  std::vector<uint64_t> forgotten_;
};

// The receiver's side.
class ReceivedNumbers {
 public:
  ReceivedNumbers(share::OpenOptions open, uint64_t max_segments) noexcept
      : open_(std::move(open)), max_segments_(max_segments) {}

  // What a peer may have open where nobody says a number: half of RLIMIT_NOFILE and a quarter of
  // vm.max_map_count, so that no one peer takes all of them, and never more than 65,536.
  static uint64_t default_max_segments() noexcept;
  // What a message brings; the fds of its segments begin at `first_fd`.
  Status add(const tensor::DescriptorContent& content, InFrame* frame, size_t first_fd);
  Status resolve(const tensor::DescriptorContent& content, std::vector<tensor::Resolved>* out);
  // fds were dropped or refused, and why: from now on a number without a segment is no proof of a
  // bad peer.
  void lose(const Status& why) { lost_ = why; }
  // Lets go of all segments: the lender is gone, so no message will come that uses them.
  void forget_all() noexcept { entries_.clear(); }
  bool has_lost() const noexcept { return !lost_.is_ok(); }

 private:
  // A segment held because the peer numbered it, and counted as such: what only connections hold is
  // needed by nobody here, and holding each other's segments for ever is what two ends that send
  // the same one to and fro would do otherwise.
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
      if (segment_) segment_->numbered.fetch_sub(1, std::memory_order_relaxed);
      segment_ = std::move(segment);
      if (segment_) segment_->numbered.fetch_add(1, std::memory_order_relaxed);
    }
    const Ref<memory::Segment>& get() const noexcept { return segment_; }

   private:
    Ref<memory::Segment> segment_;
  };

  // A segment that the peer has numbered.
  struct Entry {
    os::Fd fd;  // until it is mapped; for private opens it stays
    Numbered segment;
    memory::Access access = memory::Access::kAuto;
    uint64_t nbytes = 0;
  };

  share::OpenOptions open_;
  uint64_t max_segments_;
  std::unordered_map<uint64_t, Entry, KeyedHash> entries_;
  uint64_t crossed_ = 0;  // numbers that ever came with an fd, at the least
  Status lost_;
};

}  // namespace tenon::channel
