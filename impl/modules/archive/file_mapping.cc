#include "modules/archive/file_mapping.h"

#include "os/file_stream.h"
#include "os/memfd.h"

namespace tenon::archive {

FileMapping::FileMapping(std::string name, os::Fd fd, os::Mapping mapping) noexcept
    : ZipSource(std::move(name), mapping.base(), mapping.nbytes()),
      fd_(std::move(fd)),
      mapping_(std::move(mapping)) {}

Result<Ref<ZipSource>> FileMapping::open(const std::string& path) {
  TENON_ASSIGN(os::Fd fd, os::open_to_read(path));
  TENON_ASSIGN(const os::FileInfo info, os::stat_file(fd.get()));
  return map(path, std::move(fd), info.nbytes);
}

Result<Ref<ZipSource>> FileMapping::open(int fd) {
  TENON_ASSIGN(const os::FileInfo info, os::inspect_file(fd));
  if (!info.regular || !info.readable) {
    const char* const why = info.regular ? "is not open for reading"
                                         : "is no regular file, so it cannot be mapped: read it to "
                                           "its end, and import the bytes";
    return Status(Code::kInvalidArgument, format("fd %d %s", fd, why)).with("fd", fd);
  }
  TENON_ASSIGN(os::Fd own, os::duplicate(fd));
  return map(format("fd %d", fd), std::move(own), info.nbytes);
}

Result<Ref<ZipSource>> FileMapping::map(std::string name, os::Fd fd, uint64_t nbytes) {
  os::Mapping mapping;  // an empty file cannot be mapped, and its reader refuses it
  if (nbytes > 0) {
    TENON_ASSIGN(mapping,
                 os::Mapping::create(os::Mapping::Kind::kSharedReadOnly, fd.get(), 0, nbytes));
  }
  return Ref<ZipSource>::adopt(new FileMapping(std::move(name), std::move(fd), std::move(mapping)));
}

Status FileMapping::read(uint64_t offset, void* to, uint64_t nbytes) const {
  return os::read_at(fd_.get(), offset, to, nbytes, name());
}

void FileMapping::dispose() noexcept {
  mapping_ = {};
  fd_.reset();
}

}  // namespace tenon::archive
