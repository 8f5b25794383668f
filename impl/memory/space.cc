#include "memory/space.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace tenon::memory {
namespace {

constexpr uint64_t kFine = 1024;  // up to here a class is a multiple of 64
constexpr uint64_t kLentBit = 1;

struct Found {
  uint64_t offset;
  uint64_t nbytes;
  bool was_lent;
};

// Of a size that size_class() gave.
size_t class_index(uint64_t class_nbytes) noexcept {
  if (class_nbytes <= kFine) return class_nbytes / kBlockAlignment;
  const auto log = static_cast<unsigned>(std::bit_width(class_nbytes - 1)) - 1;
  const uint64_t step = (uint64_t{1} << log) / 8;
  return kFine / kBlockAlignment + (size_t{log} - 10) * 8 + (class_nbytes - (uint64_t{1} << log)) / step;
}

uint64_t class_of_index(size_t index) noexcept {
  constexpr size_t kFineClasses = kFine / kBlockAlignment;
  if (index <= kFineClasses) return index * kBlockAlignment;
  const size_t log = 10 + (index - kFineClasses - 1) / 8;
  const size_t steps = (index - kFineClasses - 1) % 8 + 1;
  return (uint64_t{1} << log) + steps * ((uint64_t{1} << log) / 8);
}

}  // namespace

uint64_t size_class(uint64_t nbytes, uint64_t alignment) noexcept {
  const uint64_t rounded = round_up(nbytes, alignment);
  if (rounded <= kFine) return rounded;
  const uint64_t step = (uint64_t{1} << (static_cast<unsigned>(std::bit_width(rounded - 1)) - 1)) / 8;
  return round_up(round_up(rounded, step), alignment);
}

bool Space::take_free(uint64_t class_nbytes, uint64_t alignment, Piece* out) {
  const size_t index = class_index(class_nbytes);
  if (index < classes_.size() && !classes_[index].empty()) {
    Offsets& offsets = classes_[index];
    const uint64_t offset = offsets.back() & ~kLentBit;
    if (offset % alignment == 0) {
      *out = {offset, (offsets.back() & kLentBit) != 0};
      offsets.pop_back();
      free_nbytes_ -= class_nbytes;
      return true;
    }
  }
  // The smallest that is large enough: what is left of it stays in one piece.
  for (auto at = ranges_.lower_bound(class_nbytes); at != ranges_.end(); ++at) {
    const uint64_t begin = at->second & ~kLentBit;
    const bool was_lent = (at->second & kLentBit) != 0;
    const uint64_t offset = round_up(begin, alignment);
    const uint64_t end = begin + at->first;
    if (offset + class_nbytes > end) continue;
    ranges_.erase(at);
    free_nbytes_ -= end - begin;
    *out = {offset, was_lent};
    if (offset > begin) insert_range(begin, offset - begin, was_lent);
    if (offset + class_nbytes < end) insert_range(offset + class_nbytes, end - offset - class_nbytes, was_lent);
    return true;
  }
  return false;
}

void Space::insert_range(uint64_t offset, uint64_t nbytes, bool was_lent) {
  ranges_.emplace(nbytes, offset | (was_lent ? kLentBit : 0));
  free_nbytes_ += nbytes;
}

bool Space::peek_front(uint64_t class_nbytes, uint64_t alignment, uint64_t* offset) const noexcept {
  *offset = round_up(front_, alignment);
  return range_inside(*offset, class_nbytes, nbytes_);
}

Space::Piece Space::take_front(uint64_t offset, uint64_t class_nbytes) noexcept {
  if (offset > front_) {
    try {
      insert_range(front_, offset - front_, front_ < lent_below_);
      changed_ = true;
    } catch (...) {
      // No memory to remember what alignment skips: it is lost until the next reset.
    }
  }
  front_ = offset + class_nbytes;
  touched_ = std::max(touched_, front_);
  return {offset, offset < lent_below_};
}

void Space::give_back(uint64_t offset, uint64_t class_nbytes, bool was_lent) {
  if (was_lent) lent_below_ = std::max(lent_below_, offset + class_nbytes);
  changed_ = true;
  const size_t index = class_index(class_nbytes);
  if (index >= classes_.size()) classes_.resize(index + 1);
  classes_[index].push_back(offset | (was_lent ? kLentBit : 0));
  free_nbytes_ += class_nbytes;
}

bool Space::consolidate() {
  if (!changed_) return false;
  std::vector<Found> all;
  size_t count = ranges_.size();
  for (const Offsets& offsets : classes_) count += offsets.size();
  all.reserve(count);
  for (size_t index = 0; index < classes_.size(); ++index) {
    for (const uint64_t entry : classes_[index]) all.push_back({entry & ~kLentBit, class_of_index(index), (entry & kLentBit) != 0});
  }
  for (const auto& [nbytes, entry] : ranges_) all.push_back({entry & ~kLentBit, nbytes, (entry & kLentBit) != 0});
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.offset < b.offset; });
  size_t kept = 0;
  for (const Found& each : all) {
    if (kept > 0 && all[kept - 1].offset + all[kept - 1].nbytes == each.offset) {
      all[kept - 1].nbytes += each.nbytes;
      all[kept - 1].was_lent |= each.was_lent;
    } else {
      all[kept++] = each;
    }
  }
  all.resize(kept);
  if (!all.empty() && all.back().offset + all.back().nbytes == front_) {
    front_ = all.back().offset;
    all.pop_back();
  }
  std::multimap<uint64_t, uint64_t> joined;
  for (const Found& each : all) joined.emplace(each.nbytes, each.offset | (each.was_lent ? kLentBit : 0));
  ranges_.swap(joined);
  free_nbytes_ = 0;
  for (const Found& each : all) free_nbytes_ += each.nbytes;
  for (Offsets& offsets : classes_) offsets.clear();
  changed_ = false;
  return true;
}

void Space::reset() noexcept {
  for (Offsets& offsets : classes_) offsets.clear();
  ranges_.clear();
  free_nbytes_ = 0;
  front_ = 0;
  changed_ = false;
}

uint64_t Space::largest_free() const noexcept {
  uint64_t largest = ranges_.empty() ? 0 : ranges_.rbegin()->first;
  for (size_t index = classes_.size(); index > 0; --index) {
    if (!classes_[index - 1].empty()) return std::max(largest, class_of_index(index - 1));
  }
  return largest;
}

}  // namespace tenon::memory
