#include "modules/archive/zip_source.h"

#include <cstring>

namespace tenon::archive {

MemorySource::MemorySource(std::span<const std::byte> bytes)
    : ZipSource("the archive", bytes.data(), bytes.size()) {}

Ref<ZipSource> MemorySource::create(std::span<const std::byte> bytes) {
  return Ref<ZipSource>::adopt(new MemorySource(bytes));
}

Status MemorySource::read(uint64_t offset, void* to, uint64_t nbytes) const {
  if (nbytes > 0) std::memcpy(to, base() + offset, nbytes);
  return Status::ok();
}

OwnedSource::OwnedSource(std::string name, std::vector<std::byte> bytes)
    : ZipSource(std::move(name), bytes.data(), bytes.size()), bytes_(std::move(bytes)) {}

Ref<ZipSource> OwnedSource::create(std::string name, std::vector<std::byte> bytes) {
  return Ref<ZipSource>::adopt(new OwnedSource(std::move(name), std::move(bytes)));
}

Status OwnedSource::read(uint64_t offset, void* to, uint64_t nbytes) const {
  if (nbytes > 0) std::memcpy(to, base() + offset, nbytes);
  return Status::ok();
}

}  // namespace tenon::archive
