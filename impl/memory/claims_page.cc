#include "memory/claims_page.h"

#include <cstring>
#include <string>

namespace tenon::memory::claims_page {

Result<Counts> check_header(std::span<const std::byte, sizeof(Header)> bytes, uint64_t file_nbytes,
                            uint32_t slots_wanted) {
  uint32_t messages = 0;
  uint32_t things = 0;
  uint32_t slots = 0;
  TENON_TRY(check_page_header(bytes, kClaimsPage));
  std::memcpy(&messages, bytes.data() + offsetof(Header, messages), sizeof messages);
  std::memcpy(&things, bytes.data() + offsetof(Header, things), sizeof things);
  std::memcpy(&slots, bytes.data() + offsetof(Header, slots), sizeof slots);
  if (messages == 0 || messages > kMostMessages || things == 0 || things > kMostMessages ||
      slots != slots_wanted || file_nbytes != page_nbytes(messages, things, slots))
    return Status(Code::kCorrupt, "a claims page of another size than it says")
        .with("field", std::string(kClaimsPage.field));
  return Counts{messages, things};
}

}  // namespace tenon::memory::claims_page
