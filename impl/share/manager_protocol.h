// The 68 bytes that a client of PyTorch's shared-memory manager sends, and what comes back
// (docs/format/filename.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::share {

inline constexpr size_t kManagerMessageNbytes = 68;
inline constexpr size_t kManagerNameMax = 59;  // bytes, with the leading slash, without the NUL
inline constexpr std::array<char, 2> kManagerReply = {'O', 'K'};

enum class ManagerOp : uint8_t { kRegister = 0, kDeallocate = 1 };

struct ManagerMessage {
  int32_t pid = 0;  // what the client says: never trusted
  ManagerOp op = ManagerOp::kRegister;
  std::string name;  // "/leaf"
};

// Nothing for bytes that are no such message: an op that is neither, a name without its slash, with
// another one, "/", "/.", "/..", or without NUL.
std::optional<ManagerMessage> decode_manager_message(
    std::span<const std::byte, kManagerMessageNbytes> bytes);
// INVALID_ARGUMENT for a name that does not fit.
Result<std::array<std::byte, kManagerMessageNbytes>> encode_manager_message(
    const ManagerMessage& message);

}  // namespace tenon::share
