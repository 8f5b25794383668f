#include "share/filename.h"

#include <sys/types.h>

#include "os/memfd.h"

namespace tenon::share {
namespace {

constexpr size_t kLeafMax = 255;

Status bad_name(std::string_view text, const char* why) {
  const std::string shown(text.substr(0, kNameNbytes));
  return Status(Code::kInvalidArgument, format("the name '%s' %s", shown.c_str(), why)).with("path", shown);
}

bool is_leaf(std::string_view leaf) noexcept {
  return !leaf.empty() && leaf != "." && leaf != ".." && leaf.find('/') == std::string_view::npos &&
         leaf.find('\0') == std::string_view::npos;
}

}  // namespace

Status name_error(const std::string& path, const Status& cause) {
  Status status(cause.code(), format("%s: %s", path.c_str(), cause.message().c_str()));
  for (const Detail& detail : cause.info()->details) {
    if (detail.key != "path" && detail.key != "fd") status = std::move(status).with(detail.key, detail.value);
  }
  return std::move(status).with("path", path).caused_by(cause);
}

Result<std::string> check_directory(std::string_view directory) {
  std::string result(directory);
  while (result.size() > 1 && result.back() == '/') result.pop_back();
  if (result.size() < 2 || result.front() != '/' || result.find('\0') != std::string::npos)
    return bad_name(directory, "is no absolute path of a directory that names can be in");
  return result;
}

std::string Filename::text() const { return directory == kSharedMemory ? "/" + leaf : path(); }

Result<Filename> parse_filename(std::string_view text) {
  if (text.empty()) return bad_name(text, "is empty");
  if (text.front() != '/') return bad_name(text, "does not begin with a slash");
  if (text.size() >= kNameNbytes) return bad_name(text, "is longer than 255 bytes");
  const size_t slash = text.rfind('/');
  Filename result;
  result.leaf = text.substr(slash + 1);
  result.directory = slash == 0 ? kSharedMemory : text.substr(0, slash);
  if (!is_leaf(result.leaf)) return bad_name(text, "does not end in the name of a file");
  return result;
}

Result<Filename> choose_filename(std::string_view directory, std::string_view prefix, std::string_view leaf) {
  Filename result;
  TENON_ASSIGN(result.directory, check_directory(directory));
  if (!leaf.empty()) {
    if (!is_leaf(leaf)) return bad_name(leaf, "has a slash in it, or is no name of a file");
    result.leaf = leaf;
  } else {
    TENON_ASSIGN(const os::Nonce random, os::random_nonce());
    result.leaf = prefix;
    static constexpr char digits[] = "0123456789abcdef";
    for (const uint8_t byte : random) {
      result.leaf.push_back(digits[byte >> 4]);
      result.leaf.push_back(digits[byte & 15]);
    }
    if (!is_leaf(result.leaf)) return bad_name(prefix, "has a slash in it and cannot begin a name");
  }
  if (result.leaf.size() > kLeafMax) return bad_name(result.leaf, "is longer than 255 bytes");
  if (result.text().size() >= kNameNbytes) return bad_name(result.text(), "is longer than 255 bytes with its directory");
  return result;
}

}  // namespace tenon::share
