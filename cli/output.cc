#include "output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace tenon::cli {
namespace {

bool g_colour = false;

// The code point at `at`, and its size in bytes. The size is 0 if it is not well-formed.
struct Decoded {
  uint32_t point = 0;
  size_t nbytes = 0;
};

Decoded decode(std::string_view text, size_t at) noexcept {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return {first, 1};
  const size_t nbytes = first >= 0xf0 && first < 0xf5   ? 4
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xc2 && first < 0xe0 ? 2
                                                        : 0;
  if (nbytes == 0 || at + nbytes > text.size()) return {};
  uint32_t point = first & (0xffU >> (nbytes + 1));
  for (size_t i = 1; i < nbytes; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {};
    point = point << 6 | (byte(at + i) & 0x3fU);
  }
  const uint32_t least = nbytes == 2 ? 0x80 : nbytes == 3 ? 0x800 : 0x10000;
  if (point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return {};
  return {point, nbytes};
}

// Whether the code point is a control character, or an invisible character that reorders or hides
// the text around it.
bool is_harmful(uint32_t point) noexcept {
  struct Range {
    uint32_t first, last;
  };
  constexpr Range kRanges[] = {{0x00, 0x1f},     {0x7f, 0x9f},      {0xad, 0xad},
                               {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                               {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                               {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [point](Range r) { return point >= r.first && point <= r.last; });
}

size_t columns_of(std::string_view text) noexcept {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

size_t terminal_columns() noexcept {
  constexpr size_t kDefault = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return std::clamp<size_t>(size.ws_col, 60, 140);
}

}  // namespace

void choose_colour(ColourWish wish) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0';
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  g_colour = wish == ColourWish::kAlways ||
             (wish == ColourWish::kAuto && isatty(STDOUT_FILENO) == 1 && !refused && !dumb);
}

std::string paint(Colour colour, std::string_view text) {
  const char* code = nullptr;
  switch (colour) {
    case Colour::kNone: return std::string(text);
    case Colour::kGreen: code = "32"; break;
    case Colour::kYellow: code = "33"; break;
    case Colour::kRed: code = "31"; break;
    case Colour::kBlue: code = "34"; break;
    case Colour::kBold: code = "1"; break;
  }
  if (!g_colour || text.empty()) return std::string(text);
  return format("\x1b[%sm%.*s\x1b[0m", code, static_cast<int>(text.size()), text.data());
}

std::string safe_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode(text, at);
    const size_t nbytes = std::max<size_t>(next.nbytes, 1);
    const bool like_ours = text[at] == '\\' && text.substr(at + 1, 1) == "x";
    if (next.nbytes == 0 || is_harmful(next.point)) {
      for (size_t i = 0; i < nbytes; ++i)
        out += format("\\x%02x", static_cast<uint8_t>(text[at + i]));
    } else {
      out += text.substr(at, nbytes);
      if (like_ours) out += '\\';
    }
    at += nbytes;
  }
  return out;
}

std::string cut_text(const std::string& text, size_t columns) {
  if (columns_of(text) <= columns) return text;
  size_t at = 0;
  for (size_t left = columns - 1; left > 0 && at < text.size(); --left)
    at += std::max<size_t>(decode(text, at).nbytes, 1);
  return text.substr(0, at) + "…";
}

std::string count_text(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string plural_text(uint64_t count, const char* one, const char* many) {
  return count_text(count) + " " + (count == 1 ? one : many);
}

std::string size_text(uint64_t nbytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto value = static_cast<double>(nbytes);
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  // The number has one digit after the point, and none if it is whole.
  std::string text = format("%.1f", value);
  if (text.ends_with(".0")) text.erase(text.size() - 2);
  return text + " " + kUnits[unit];
}

std::string age_text(int64_t nanoseconds) {
  const int64_t seconds = std::max<int64_t>(nanoseconds, 0) / 1'000'000'000;
  const auto both = [](int64_t large, const char* large_unit, int64_t small,
                       const char* small_unit) {
    std::string text = format("%lld %s", static_cast<long long>(large), large_unit);
    if (small != 0) text += format(" %lld %s", static_cast<long long>(small), small_unit);
    return text;
  };
  if (seconds < 60) return both(seconds, "s", 0, "");
  if (seconds < 3600) return both(seconds / 60, "min", seconds % 60, "s");
  if (seconds < 86400) return both(seconds / 3600, "h", seconds / 60 % 60, "min");
  return both(seconds / 86400, "d", seconds / 3600 % 24, "h");
}

std::vector<std::string> Table::lines() const {
  std::vector<std::string> result;
  std::vector<size_t> widths;
  widths.reserve(columns_.size());
  for (const Column& column : columns_) widths.push_back(columns_of(column.title));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i].text));
  }
  const auto add_row = [&](const std::vector<Cell>& row) {
    // Empty cells at the end of a row would only print blanks.
    size_t used = row.size();
    while (used > 0 && row[used - 1].text.empty()) --used;
    std::string line;
    for (size_t i = 0; i < used; ++i) {
      const std::string padding(widths[i] - columns_of(row[i].text), ' ');
      if (i > 0) line += "  ";
      if (columns_[i].right) line += padding;
      line += paint(row[i].colour, row[i].text);
      if (!columns_[i].right && i + 1 < used) line += padding;
    }
    result.push_back(std::move(line));
  };
  std::vector<Cell> titles;
  titles.reserve(columns_.size());
  for (const Column& column : columns_) titles.push_back({column.title, Colour::kBold});
  add_row(titles);
  for (const auto& row : rows_) add_row(row);
  return result;
}

void Table::print() const {
  for (const std::string& line : lines()) print_text(line + "\n");
}

void print_wrapped(std::string_view text, size_t indent) {
  const size_t width = terminal_columns();
  std::string line;
  size_t used = indent;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (used > indent && used + 1 + columns_of(word) > width) {
      line += "\n" + std::string(indent, ' ');
      used = indent;
    }
    if (used > indent) {
      line += ' ';
      ++used;
    }
    line += word;
    used += columns_of(word);
    at = end + 1;
  }
  print_text(line + "\n");
}

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& json) {
  print_text(json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
}

void print_error(std::string_view text) {
  // This keeps the order of the two streams if both go to one terminal.
  std::fflush(stdout);
  const std::string line = "tenon: " + safe_text(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_error(const Status& status) {
  std::string text = status.message();
  for (auto cause = status.info() ? status.info()->cause : nullptr; cause; cause = cause->cause) {
    // Most messages contain the words of their cause.
    if (text.find(cause->message) == std::string::npos) text += ": " + cause->message;
  }
  print_error(text);
}

Json status_json(const Status& status) {
  Json details = Json::object();
  for (const Detail& detail : status.info()->details) details[detail.key] = detail.value;
  return {{"code", code_name(status.code())},
          {"message", status.message()},
          {"details", std::move(details)}};
}

Status flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return Status::ok();
  return errno_status(errno == 0 ? EIO : errno, "writing the output");
}

}  // namespace tenon::cli
