#include "channel/segment_numbers.h"

#include <algorithm>
#include <string>

#include "base/make_room.h"
#include "os/limits.h"

namespace tenon::channel {
namespace {

using memory::Segment;
using tensor::DescriptorContent;
using tensor::Reach;
using tensor::SegmentRecord;

Status corrupt_number(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("frame"));
}

// Whether nobody needs the segment: it is gone, or only connections that were sent it hold it.
bool is_unneeded(const Weak<Segment>& segment) noexcept {
  const Ref<Segment> alive = segment.lock();
  return !alive ||
         alive->strong_count() - 1 <= alive->idle_references.load(std::memory_order_relaxed);
}

}  // namespace

const std::vector<uint64_t>& SentNumbers::collect_forgotten(const Added& added,
                                                            std::span<const SegmentRecord> used) {
  // Two entries are checked for each added segment, and two for the message. So dead entries are
  // removed faster than new ones are added, and no call checks all of them.
  for (size_t looks = 2 + 2 * added.size(); looks > 0 && !list_.empty(); --looks) {
    if (sweep_ >= list_.size()) sweep_ = 0;
    auto& [number, segment] = list_[sweep_];
    // Other connections use the segment and let go of it meanwhile, so the two counts in
    // is_unneeded() are not of one moment. A segment that this very message uses is needed,
    // whatever the counts say.
    const auto is_this = [&, id = number](const SegmentRecord& each) { return each.id == id; };
    if (!is_unneeded(segment) || std::any_of(used.begin(), used.end(), is_this)) {
      ++sweep_;
      continue;
    }
    forgotten_.push_back(number);
    indices_.erase(number);
    if (sweep_ + 1 != list_.size()) {
      std::swap(list_[sweep_], list_.back());
      indices_[list_[sweep_].first] = sweep_;
    }
    list_.pop_back();
  }
  return forgotten_;
}

void SentNumbers::prepare(Added* added) {
  make_room(&list_, added->size());
  indices_.reserve(indices_.size() + added->size());
  for (size_t i = 0; i < added->size(); ++i)
    added->indices_.emplace(added->entries_[i].first, list_.size() + i);
}

void SentNumbers::commit(Added* added, bool has_told) noexcept {
  indices_.merge(added->indices_);
  for (auto& entry : added->entries_) list_.push_back(std::move(entry));
  if (has_told) forgotten_.clear();
}

uint64_t ReceivedNumbers::default_max_segments() noexcept {
  const uint64_t most = std::min(
      {tensor::DescriptorLimits().max_segments, os::max_map_count() / 4, os::fd_limit() / 2});
  return std::max<uint64_t>(most, 1);
}

Status ReceivedNumbers::add(const DescriptorContent& content, InFrame* frame, size_t first_fd) {
  // A peer forgets only numbers that crossed. How many numbers a refused message brought is not
  // known.
  if (content.forgotten.size() > crossed_ + (lost_.is_ok() ? 0 : max_segments_))
    return corrupt_number("a message that forgets more segments than crossed this connection");
  for (const uint64_t number : content.forgotten) entries_.erase(number);
  // Counts the open fds. An fd that an earlier try put into the table has left the frame.
  const auto more = static_cast<size_t>(std::count_if(
      frame->fds.begin() + static_cast<std::ptrdiff_t>(std::min(first_fd, frame->fds.size())),
      frame->fds.end(), [](const os::Fd& fd) { return fd.is_open(); }));
  if (entries_.size() + more > max_segments_) {
    lost_ = Status(Code::kResourceExhausted,
                   format("the peer would have %zu segments open here, and %llu are accepted",
                          entries_.size() + more, static_cast<unsigned long long>(max_segments_)))
                .with("limit", std::string("max_segments"))
                .with("limit_value", max_segments_);
    return lost_;
  }
  for (const SegmentRecord& record : content.segments) {
    if (record.reach == Reach::kProc)
      return corrupt_number("a segment that is reached through /proc, in a connection");
    if (record.reach == Reach::kKnown || record.reach == Reach::kDevice) continue;
    if (record.id == 0) return corrupt_number("a segment without a number");
    ++crossed_;
    const size_t at = first_fd + record.fd_index;
    // Either the fd was dropped, and the number stays without a segment, or an earlier try put the
    // fd into the table.
    if (at >= frame->fds.size() || !frame->fds[at].is_open()) continue;
    // try_emplace() needs memory, so it comes before the fd moves.
    Entry& entry = entries_.try_emplace(record.id).first->second;
    entry.fd = std::move(frame->fds[at]);
    entry.segment.set(nullptr);
    entry.access = static_cast<memory::Access>(record.access);
    entry.nbytes = record.nbytes;
  }
  return Status::ok();
}

Status ReceivedNumbers::resolve(const DescriptorContent& content,
                                std::vector<tensor::Resolved>* out) {
  const std::vector<uint64_t> needed = tensor::needed_nbytes(content);
  out->reserve(content.segments.size());
  for (size_t i = 0; i < content.segments.size(); ++i) {
    if (content.segments[i].reach == Reach::kDevice) {
      out->emplace_back();  // not in this table: a handle comes with every message
      continue;
    }
    const auto found = entries_.find(content.segments[i].id);
    if (found == entries_.end()) {
      if (lost_.is_ok()) return corrupt_number("a segment that never crossed this connection");
      return lost_;
    }
    Entry& entry = found->second;
    tensor::Resolved one;
    if (open_.is_private()) {
      one.fd = entry.fd.get();
    } else {
      if (!entry.segment.get() || entry.segment.get()->nbytes() < needed[i]) {
        // The fd moves only if the opening succeeds. So a limit that is met now can be raised, and
        // the next message can use the fd.
        if (!entry.fd.is_open()) return corrupt_number("a storage that lies outside its segment");
        TENON_ASSIGN(Ref<Segment> opened,
                     share::open_segment(entry.fd.get(), entry.access, entry.nbytes, needed[i],
                                         open_, &entry.fd));
        entry.segment.set(std::move(opened));
      }
      one.segment = entry.segment.get();
    }
    out->push_back(std::move(one));
  }
  return Status::ok();
}

}  // namespace tenon::channel
