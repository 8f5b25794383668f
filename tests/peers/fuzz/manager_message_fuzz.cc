// libFuzzer target: it decodes any 68 bytes as a client's message to the manager. This must give
// nothing, or the name of one file that survives encoding and decoding.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "names/manager_protocol.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::names;
using Bytes = std::array<std::byte, kManagerMessageNbytes>;

void decode_and_check(const Bytes& bytes) {
  const std::optional<ManagerMessage> message = decode_manager_message(bytes);
  if (!message) return;
  const std::string& name = message->name;
  require(name.size() >= 2 && name.size() <= kManagerNameMax, "a name of no such length passed");
  require(name.front() == '/' && name.find('/', 1) == std::string::npos,
          "a name that is a path passed");
  require(name != "/." && name != "/..", "a folder passed");
  require(name.find('\0') == std::string::npos, "a NUL passed");
  require(message->op == ManagerOp::kRegister || message->op == ManagerOp::kDeallocate,
          "an op that is none passed");
  Result<Bytes> again = encode_manager_message(*message);
  require(again.is_ok(), "what was decoded cannot be encoded");
  // Bytes after the name's end are not compared.
  require(std::memcmp(again.value().data(), bytes.data(), 5 + name.size() + 1) == 0,
          "a second round gives other bytes");
  const std::optional<ManagerMessage> second = decode_manager_message(again.value());
  require(
      second && second->pid == message->pid && second->op == message->op && second->name == name,
      "a second round says something else");
}

}  // namespace

// The input is a stream of messages. The last one is filled up with zeros.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (size_t at = 0; at < size; at += kManagerMessageNbytes) {
    Bytes bytes{};
    std::memcpy(bytes.data(), data + at, std::min(size - at, bytes.size()));
    decode_and_check(bytes);
  }
  // The op is made valid, so that the name is tried.
  if (size >= kManagerMessageNbytes) {
    Bytes bytes{};
    std::memcpy(bytes.data(), data, bytes.size());
    bytes[4] &= std::byte{1};
    decode_and_check(bytes);
  }
  return 0;
}
