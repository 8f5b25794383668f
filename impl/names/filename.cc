#include "names/filename.h"

#include <sys/types.h>

#include <array>
#include <charconv>

#include "os/memfd.h"

namespace tenon::names {
namespace {

constexpr size_t kLeafMax = 255;
constexpr std::string_view kTorchPrefix = "torch_";

Status bad_name(std::string_view text, const char* why) {
  const std::string shown(text.substr(0, kNameNbytes));
  return Status(Code::kInvalidArgument, format("the name '%s' %s", shown.c_str(), why))
      .with("path", shown);
}

bool is_leaf(std::string_view leaf) noexcept {
  return !leaf.empty() && leaf != "." && leaf != ".." && leaf.find('/') == std::string_view::npos &&
         leaf.find('\0') == std::string_view::npos;
}

}  // namespace

Status name_error(const std::string& path, const Status& cause) {
  Status status(cause.code(), format("%s: %s", path.c_str(), cause.message().c_str()));
  for (const Detail& detail : cause.info()->details) {
    if (detail.key != "path" && detail.key != "fd")
      status = std::move(status).with(detail.key.c_str(), detail.value);
  }
  return std::move(status).with("path", path).caused_by(cause);
}

Status refuse_name(const std::string& path, Code code, const std::string& why) {
  return Status(code, format("%s %s", path.c_str(), why.c_str())).with("path", path);
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
  if (text.front() != '/')
    return bad_name(
        text,
        "does not begin with a slash: write /NAME for a name in /dev/shm, or an absolute path");
  if (text.size() >= kNameNbytes) return bad_name(text, "is longer than 255 bytes");
  const size_t slash = text.rfind('/');
  Filename result;
  result.leaf = text.substr(slash + 1);
  result.directory = slash == 0 ? kSharedMemory : text.substr(0, slash);
  if (!is_leaf(result.leaf)) return bad_name(text, "does not end in the name of a file");
  return result;
}

Result<Filename> choose_filename(std::string_view directory, std::string_view prefix,
                                 std::string_view leaf) {
  Filename result;
  TENON_ASSIGN(result.directory, check_directory(directory));
  if (!leaf.empty()) {
    if (!is_leaf(leaf)) return bad_name(leaf, "has a slash in it, or is no name of a file");
    result.leaf = leaf;
  } else {
    TENON_ASSIGN(const os::Nonce random, os::random_nonce());
    result.leaf = std::string(prefix) + os::hex(random);
    if (!is_leaf(result.leaf)) return bad_name(prefix, "has a slash in it and cannot begin a name");
  }
  if (result.leaf.size() > kLeafMax) return bad_name(result.leaf, "is longer than 255 bytes");
  if (result.text().size() >= kNameNbytes)
    return bad_name(result.text(), "is longer than 255 bytes with its directory");
  return result;
}

int32_t maker_of_torch_name(std::string_view leaf) noexcept {
  if (!leaf.starts_with(kTorchPrefix)) return 0;
  leaf.remove_prefix(kTorchPrefix.size());
  std::array<uint64_t, 3> parts{};
  size_t count = 0;
  for (bool more = true; more; ++count) {
    if (count == parts.size()) return 0;
    const auto [end, error] = std::from_chars(leaf.data(), leaf.data() + leaf.size(), parts[count]);
    if (error != std::errc()) return 0;
    leaf.remove_prefix(static_cast<size_t>(end - leaf.data()));
    more = !leaf.empty();
    if (more && leaf.front() != '_') return 0;
    if (more) leaf.remove_prefix(1);
  }
  return count >= 2 && parts[0] <= uint64_t{INT32_MAX} ? static_cast<int32_t>(parts[0]) : 0;
}

}  // namespace tenon::names
