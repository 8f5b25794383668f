#include "os/smaps.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "os/fd.h"
#include "os/small_file.h"

namespace tenon::os {
namespace {

// Reads a file line by line, because the whole file is megabytes in a process with many mappings.
class Lines {
 public:
  explicit Lines(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}

  // Returns false at the end. The line is valid until the next call. A line that is longer than the
  // buffer (a path) comes in parts.
  bool next(std::string_view* line) {
    for (;;) {
      const std::string_view waiting(buffer_.data() + begin_, end_ - begin_);
      const size_t length = waiting.find('\n');
      if (length != std::string_view::npos || waiting.size() == buffer_.size()) {
        *line = waiting.substr(0, length);
        begin_ += std::min(line->size() + 1, waiting.size());
        return true;
      }
      std::memmove(buffer_.data(), waiting.data(), waiting.size());
      begin_ = 0;
      end_ = waiting.size();
      if (!fd_.is_open()) return false;
      const ssize_t got = read(fd_.get(), buffer_.data() + end_, buffer_.size() - end_);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      end_ += static_cast<size_t>(got);
    }
  }

 private:
  Fd fd_;
  std::array<char, 8192> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// Parses the first line of a mapping, such as "7f00-7f80 rw-s …". Returns false for the lines after
// it.
bool parse_range(std::string_view line, uint64_t* begin, uint64_t* end) {
  const char* const start =
      line.data();  // NOLINT(bugprone-suspicious-stringview-data-usage): `stop` goes with it
  const char* const stop = start + line.size();
  const auto [dash, error] = std::from_chars(start, stop, *begin, 16);
  if (error != std::errc() || dash == stop || *dash != '-') return false;
  const auto [blank, error_too] = std::from_chars(dash + 1, stop, *end, 16);
  return error_too == std::errc() && blank != stop && *blank == ' ';
}

struct OneMapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t resident = 0;
  uint64_t pmd_mapped = 0;
  uint64_t hugetlb = 0;
  uint64_t page = 0;
  bool is_locked = false;
};

void read_smaps_line(std::string_view line, OneMapping* one) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view key = line.substr(0, colon);
  const std::string_view value = line.substr(colon + 1);
  const auto nbytes = [&] { return parse_number(value, 0) * 1024; };
  if (key == "Rss") one->resident += nbytes();
  if (key == "KernelPageSize") one->page = nbytes();
  if (key == "ShmemPmdMapped" || key == "FilePmdMapped") one->pmd_mapped += nbytes();
  if (key == "Shared_Hugetlb" || key == "Private_Hugetlb") one->hugetlb += nbytes();
  if (key == "VmFlags") one->is_locked = value.find(" lo") != std::string_view::npos;
}

void add(const OneMapping& one, uint64_t begin, uint64_t end, MappedPages* sum) {
  sum->known = true;
  sum->page_nbytes = std::max(sum->page_nbytes, one.page);
  const uint64_t resident = one.resident + one.hugetlb;
  sum->resident_nbytes += resident;
  sum->huge_nbytes += one.pmd_mapped + one.hugetlb;
  if (one.is_locked || one.hugetlb > 0) {
    sum->locked_nbytes += std::min(end, one.end) - std::max(begin, one.begin);
  } else {
    sum->unlocked_resident_nbytes += resident;
  }
}

}  // namespace

MappedPages inspect_pages(const std::byte* base, uint64_t nbytes) {
  MappedPages sum;
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const uint64_t end = begin + nbytes;
  Lines lines("/proc/self/smaps");
  std::string_view line;
  OneMapping one;  // the mapping whose lines are being read, if it is in the range
  while (lines.next(&line)) {
    uint64_t line_begin = 0;
    uint64_t line_end = 0;
    if (!parse_range(line, &line_begin, &line_end)) {
      if (one.end != 0) read_smaps_line(line, &one);
      continue;
    }
    if (one.end != 0) add(one, begin, end, &sum);
    one = OneMapping();
    if (line_begin >= end) return sum;
    if (line_end > begin) {
      one.begin = line_begin;
      one.end = line_end;
    }
  }
  if (one.end != 0) add(one, begin, end, &sum);
  return sum;
}

}  // namespace tenon::os
