#include "memory/peer_page.h"

#include <cstring>
#include <string>

#include "os/memfd.h"

namespace tenon::memory {
namespace {

constexpr size_t kVersionOffset = 8;

Status refuse_page(const PageKind& kind, const char* why) {
  return Status(Code::kCorrupt, why).with("field", std::string(kind.field));
}

}  // namespace

Result<uint64_t> check_page_file(int fd, const PageKind& kind, PageUse use, uint64_t least_nbytes) {
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd));
  constexpr unsigned kNeeded = os::kSealShrink | os::kSealGrow;
  constexpr unsigned kForbidden = os::kSealWrite | os::kSealFutureWrite;
  const bool can_be_used =
      use == PageUse::kRead || (file.writable && (file.seals & kForbidden) == 0);
  if (!file.in_memory || (file.seals & kNeeded) != kNeeded || !can_be_used)
    return refuse_page(kind, kind.unsealed);
  if (os::is_of_huge_pages(fd)) return refuse_page(kind, kind.of_huge_pages);
  if (file.nbytes < least_nbytes) return refuse_page(kind, kind.too_short);
  return file.nbytes;
}

Status check_page_header(std::span<const std::byte> header, const PageKind& kind) {
  uint32_t version = 0;
  uint64_t incompat = 0;
  std::memcpy(&version, header.data() + kVersionOffset, sizeof version);
  std::memcpy(&incompat, header.data() + kind.incompat_offset, sizeof incompat);
  if (std::memcmp(header.data(), kind.magic.data(), kind.magic.size()) != 0)
    return refuse_page(kind, format("%s without its magic", kind.name).c_str());
  if (version != kind.version || incompat != 0)
    return Status(Code::kIncompatible, format("%s of version %u", kind.name, version))
        .with("field", std::string(kind.field));
  return Status::ok();
}

}  // namespace tenon::memory
