#include "os/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "os/fd.h"

namespace tenon::os {

std::string read_small_file(const std::string& path, bool* no_fd) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd.is_open()) {
    if (no_fd != nullptr && (errno == EMFILE || errno == ENFILE)) *no_fd = true;
    return text;
  }
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

uint64_t parse_number(std::string_view text, uint64_t otherwise) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : otherwise;
}

uint64_t find_field(std::string_view text, std::string_view key, uint64_t otherwise) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(key)) return parse_number(line.substr(key.size()), otherwise);
    at = end + 1;
  }
  return otherwise;
}

}  // namespace tenon::os
