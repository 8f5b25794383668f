#include "modules/archive/zip_names.h"

#include <algorithm>

#include "tensor/name.h"

namespace tenon::archive {

namespace {

// Whether the name has no fault at first sight, which holds for nearly all names: ASCII, and no
// component is empty or begins with a dot.
bool is_plain(std::string_view name) noexcept {
  bool at_start = true;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '.') {
      if (at_start) return false;
    } else if (byte < 0x20 || byte >= 0x7F || c == '\\') {
      return false;
    }
    at_start = c == '/';
  }
  return !at_start;
}

}  // namespace

const char* find_name_fault(std::string_view name) noexcept {
  if (name.empty()) return "is empty";
  if (name.size() > kMostNameNbytes) return "is longer than 4096 bytes";
  if (is_plain(name)) return nullptr;
  if (name.front() == '/') return "is absolute";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = name.find('/', begin);
    const std::string_view component = name.substr(begin, end - begin);
    if (component.empty()) return "has an empty component";
    if (component == "." || component == "..") return "has a component that is \".\" or \"..\"";
    if (end == std::string_view::npos) break;
    begin = end + 1;
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return "has a control character in it";
    if (c == '\\') return "has a backslash in it";
  }
  return tensor::is_valid_name(name) ? nullptr : "is not UTF-8";
}

const char* find_prefix_fault(std::string_view prefix) noexcept {
  if (prefix.find('/') != std::string_view::npos) return "has a slash in it";
  return find_name_fault(prefix);
}

std::string safe_name(std::string_view name) {
  const bool is_utf8 = tensor::is_valid_name(name);
  std::string safe;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find_first_of("/\\", begin), name.size());
    std::string component(name.substr(begin, end - begin));
    begin = end + 1;
    if (component.empty() || component == ".") continue;
    if (component == "..") component = "_";
    for (char& c : component) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !is_utf8)) c = '_';
    }
    if (safe.size() + component.size() >= kMostNameNbytes) break;
    safe += (safe.empty() ? "" : "/") + component;
  }
  return find_name_fault(safe) == nullptr ? safe : "_";
}

}  // namespace tenon::archive
