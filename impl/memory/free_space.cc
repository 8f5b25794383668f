#include "memory/free_space.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/checked.h"

namespace tenon::memory {
namespace {

constexpr uint64_t kFine = 1024;  // below this, each multiple of 64 has a bin of its own
constexpr unsigned kFineLog = 10;
constexpr uint64_t kLentBit = 1;
constexpr uint64_t kCoarseFrom = uint64_t{128} << 30;
constexpr uint64_t kCoarseAlignment = 4096;
// How many freed blocks of a bin are looked at.
constexpr size_t kMostLooks = 4;

// From kFine on there are eight bins for each power of two. A bin has the sizes from its own up to
// the next bin's.
size_t bin_of(uint64_t nbytes) noexcept {
  if (nbytes < kFine) return nbytes / kBlockAlignment;
  const auto log = static_cast<unsigned>(std::bit_width(nbytes)) - 1;
  return kFine / kBlockAlignment + size_t{log - kFineLog} * 8 + ((nbytes >> (log - 3)) & 7);
}

}  // namespace

uint64_t block_nbytes(uint64_t nbytes, uint64_t alignment) noexcept {
  return round_up(nbytes, nbytes < kCoarseFrom ? alignment : std::max(alignment, kCoarseAlignment));
}

bool FreeSpace::take_from_bin(size_t index, uint64_t nbytes, uint64_t alignment,
                              Piece* out) noexcept {
  if (index >= bins_.size()) return false;
  Bin& bin = bins_[index];
  const size_t last = bin.size() - std::min(bin.size(), kMostLooks);
  for (size_t at = bin.size(); at > last; --at) {
    const Freed& found = bin[at - 1];
    const uint64_t offset = found.offset & ~kLentBit;
    if (found.nbytes < nbytes || found.nbytes - nbytes > nbytes / 8 || offset % alignment != 0)
      continue;
    *out = {offset, found.nbytes, (found.offset & kLentBit) != 0};
    bin.erase(bin.begin() + static_cast<std::ptrdiff_t>(at - 1));
    free_nbytes_ -= out->nbytes;
    return true;
  }
  return false;
}

bool FreeSpace::take_free(uint64_t nbytes, uint64_t alignment, Piece* out) {
  const size_t bin = bin_of(nbytes);
  if (take_from_bin(bin, nbytes, alignment, out) || take_from_bin(bin + 1, nbytes, alignment, out))
    return true;
  // The smallest piece that is large enough is taken. The rest stays free, in front of the block
  // and behind it.
  for (auto at = ranges_.lower_bound(nbytes); at != ranges_.end(); ++at) {
    const uint64_t begin = at->second & ~kLentBit;
    const bool was_lent = (at->second & kLentBit) != 0;
    const uint64_t offset = round_up(begin, alignment);
    const uint64_t end = begin + at->first;
    const uint64_t end_of_block = offset + nbytes;
    if (end_of_block > end) continue;
    // The entry of the piece becomes the entry of one rest. Only a second rest needs memory, so it
    // is inserted first. If there is no memory, nothing has changed.
    if (offset > begin && end_of_block < end)
      insert_range(end_of_block, end - end_of_block, was_lent);
    auto entry = ranges_.extract(at);
    free_nbytes_ -= end - begin;
    const uint64_t rest = offset > begin ? begin : end_of_block;
    entry.key() = (offset > begin ? offset : end) - rest;
    if (entry.key() > 0) {
      entry.mapped() = rest | (was_lent ? kLentBit : 0);
      free_nbytes_ += entry.key();
      ranges_.insert(std::move(entry));
    }
    *out = {offset, nbytes, was_lent};
    return true;
  }
  return false;
}

void FreeSpace::insert_range(uint64_t offset, uint64_t nbytes, bool was_lent) {
  ranges_.emplace(nbytes, offset | (was_lent ? kLentBit : 0));
  free_nbytes_ += nbytes;
}

bool FreeSpace::peek_front(uint64_t nbytes, uint64_t alignment, uint64_t* offset) const noexcept {
  *offset = round_up(front_, alignment);
  return range_inside(*offset, nbytes, nbytes_);
}

FreeSpace::Piece FreeSpace::take_front(uint64_t offset, uint64_t nbytes) noexcept {
  if (offset > front_) {
    try {
      insert_range(front_, offset - front_, front_ < lent_below_);
      changed_ = true;
    } catch (...) {
      // No memory to remember the bytes that alignment skips: they are lost until the next reset.
    }
  }
  front_ = offset + nbytes;
  touched_ = std::max(touched_, front_);
  return {offset, nbytes, offset < lent_below_};
}

void FreeSpace::give_back(uint64_t offset, uint64_t nbytes, bool was_lent) {
  if (was_lent) lent_below_ = std::max(lent_below_, offset + nbytes);
  changed_ = true;
  const size_t index = bin_of(nbytes);
  if (index >= bins_.size()) bins_.resize(index + 1);
  bins_[index].push_back({offset | (was_lent ? kLentBit : 0), nbytes});
  free_nbytes_ += nbytes;
}

bool FreeSpace::consolidate() {
  if (!changed_) return false;
  std::vector<Piece> all;
  size_t count = ranges_.size();
  for (const Bin& bin : bins_) count += bin.size();
  all.reserve(count);
  const auto add = [&all](uint64_t offset, uint64_t nbytes) {
    all.push_back({offset & ~kLentBit, nbytes, (offset & kLentBit) != 0});
  };
  for (const Bin& bin : bins_) {
    for (const Freed& each : bin) add(each.offset, each.nbytes);
  }
  for (const auto& [nbytes, offset] : ranges_) add(offset, nbytes);
  std::sort(all.begin(), all.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  size_t kept = 0;
  for (const Piece& each : all) {
    if (kept > 0 && all[kept - 1].offset + all[kept - 1].nbytes == each.offset) {
      all[kept - 1].nbytes += each.nbytes;
      all[kept - 1].was_lent |= each.was_lent;
    } else {
      all[kept++] = each;
    }
  }
  all.resize(kept);
  uint64_t front = front_;
  if (!all.empty() && all.back().offset + all.back().nbytes == front) {
    front = all.back().offset;
    all.pop_back();
  }
  std::multimap<uint64_t, uint64_t> joined;
  for (const Piece& each : all)
    joined.emplace(each.nbytes, each.offset | (each.was_lent ? kLentBit : 0));
  // Nothing fails from here on. If the front moved earlier and an entry could not be made, the last
  // piece would be given out twice.
  front_ = front;
  ranges_.swap(joined);
  free_nbytes_ = 0;
  for (const Piece& each : all) free_nbytes_ += each.nbytes;
  for (Bin& bin : bins_) bin.clear();
  changed_ = false;
  return true;
}

void FreeSpace::reset() noexcept {
  for (Bin& bin : bins_) bin.clear();
  ranges_.clear();
  free_nbytes_ = 0;
  front_ = 0;
  changed_ = false;
}

uint64_t FreeSpace::largest_free() const noexcept {
  uint64_t largest = ranges_.empty() ? 0 : ranges_.rbegin()->first;
  const auto top =
      std::find_if(bins_.rbegin(), bins_.rend(), [](const Bin& bin) { return !bin.empty(); });
  if (top == bins_.rend()) return largest;
  for (const Freed& each : *top) largest = std::max(largest, each.nbytes);
  return largest;
}

}  // namespace tenon::memory
