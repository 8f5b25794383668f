#include "memory/claims_page.h"

#include <cstring>
#include <string>

namespace tenon::memory::claims_page {
namespace {

Status corrupt_ticket(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("ticket"));
}

}  // namespace

Result<Counts> check_header(std::span<const std::byte, sizeof(Header)> bytes, uint64_t file_nbytes,
                            uint32_t slots_wanted) {
  uint32_t version = 0;
  uint32_t messages = 0;
  uint32_t things = 0;
  uint32_t slots = 0;
  uint64_t incompat = 0;
  std::memcpy(&version, bytes.data() + offsetof(Header, version), sizeof version);
  std::memcpy(&messages, bytes.data() + offsetof(Header, messages), sizeof messages);
  std::memcpy(&things, bytes.data() + offsetof(Header, things), sizeof things);
  std::memcpy(&slots, bytes.data() + offsetof(Header, slots), sizeof slots);
  std::memcpy(&incompat, bytes.data() + offsetof(Header, incompat), sizeof incompat);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return corrupt_ticket("a claims page without its magic");
  if (version != kVersion || incompat != 0)
    return Status(Code::kIncompatible, format("a claims page of version %u", version))
        .with("field", std::string("ticket"));
  if (messages == 0 || messages > kMostMessages || things == 0 || things > kMostMessages ||
      slots != slots_wanted || file_nbytes != page_nbytes(messages, things, slots))
    return corrupt_ticket("a claims page of another size than it says");
  return Counts{messages, things};
}

}  // namespace tenon::memory::claims_page
