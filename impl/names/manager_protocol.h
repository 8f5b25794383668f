// Encodes and decodes the 68 bytes that a client of a shared-memory manager sends, in PyTorch's
// protocol (docs/format/manager.md). The client (manager.cc) and the program tenon-manager use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::names {

inline constexpr size_t kManagerMessageNbytes = 68;
// In bytes, with the leading slash and without the NUL.
inline constexpr size_t kManagerNameMax = 59;
// The manager's answer to a registration.
inline constexpr std::array<char, 2> kManagerReply = {'O', 'K'};

enum class ManagerOp : uint8_t { kRegister = 0, kDeallocate = 1 };

struct ManagerMessage {
  int32_t pid = 0;  // the pid that the client claims; never trusted
  ManagerOp op = ManagerOp::kRegister;
  std::string name;  // "/leaf"
};

// Gives nothing for bytes that are no such message: an unknown op, or a name that has no leading
// slash, has a second slash, is "/", "/." or "/..", or does not end in a NUL.
std::optional<ManagerMessage> decode_manager_message(
    std::span<const std::byte, kManagerMessageNbytes> bytes);
// INVALID_ARGUMENT, with the detail path, for a name that decode_manager_message() would refuse.
Result<std::array<std::byte, kManagerMessageNbytes>> encode_manager_message(
    const ManagerMessage& message);

}  // namespace tenon::names
