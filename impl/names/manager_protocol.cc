#include "names/manager_protocol.h"

#include <algorithm>
#include <cstring>

namespace tenon::names {
namespace {

constexpr size_t kPidAt = 0;
constexpr size_t kOpAt = 4;
constexpr size_t kNameAt = 5;
constexpr size_t kNameRoom = kManagerNameMax + 1;
static_assert(kNameAt + kNameRoom <= kManagerMessageNbytes);

bool is_name(std::string_view name) noexcept {
  if (name.size() < 2 || name.size() > kManagerNameMax || name.front() != '/') return false;
  const std::string_view leaf = name.substr(1);
  return leaf != "." && leaf != ".." && leaf.find('/') == std::string_view::npos &&
         leaf.find('\0') == std::string_view::npos;
}

}  // namespace

std::optional<ManagerMessage> decode_manager_message(
    std::span<const std::byte, kManagerMessageNbytes> bytes) {
  ManagerMessage message;
  std::memcpy(&message.pid, bytes.data() + kPidAt, sizeof message.pid);
  const auto op = static_cast<ManagerOp>(bytes[kOpAt]);
  if (op != ManagerOp::kRegister && op != ManagerOp::kDeallocate) return std::nullopt;
  message.op = op;
  const char* name = reinterpret_cast<const char*>(bytes.data()) + kNameAt;
  const char* end = std::find(name, name + kNameRoom, '\0');
  if (end == name + kNameRoom) return std::nullopt;
  message.name.assign(name, end);
  if (!is_name(message.name)) return std::nullopt;
  return message;
}

Result<std::array<std::byte, kManagerMessageNbytes>> encode_manager_message(
    const ManagerMessage& message) {
  if (!is_name(message.name)) {
    const bool slashed = message.name.size() >= 2 && message.name.front() == '/';
    const char* why = message.name.size() > kManagerNameMax
                          ? "is longer than the 59 bytes that a manager takes"
                      : slashed ? "is not the name of one file in one directory"
                                : "does not begin with a slash, or is nothing else";
    // The message stays on one line, whatever bytes the name has.
    std::string shown = message.name.substr(0, kManagerNameMax);
    std::replace_if(
        shown.begin(), shown.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
    return Status(Code::kInvalidArgument, format("the name '%s' %s", shown.c_str(), why))
        .with("path", shown);
  }
  std::array<std::byte, kManagerMessageNbytes> bytes{};
  std::memcpy(bytes.data() + kPidAt, &message.pid, sizeof message.pid);
  bytes[kOpAt] = static_cast<std::byte>(message.op);
  std::memcpy(bytes.data() + kNameAt, message.name.data(), message.name.size());
  return bytes;
}

}  // namespace tenon::names
