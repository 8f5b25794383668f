// A file as an archive's source: mapped read-only, as long as anybody has a reference.
#pragma once

#include <string>

#include "archive/zip_source.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::archive {

// One fd and one mapping. The size is that at the opening. A file that is replaced by another of
// its name stays as it was here; what is written into it shows.
class FileMapping : public ZipSource {
 public:
  // NOT_FOUND, PERMISSION; INVALID_ARGUMENT if it is no regular file.
  static Result<Ref<ZipSource>> open(const std::string& path);
  // The fd stays the caller's, and its position as it is.
  static Result<Ref<ZipSource>> open(int fd);

  Status read(uint64_t offset, void* to, uint64_t nbytes) const override;
  bool is_file() const noexcept override { return true; }
  int fd() const noexcept { return fd_.get(); }

 private:
  FileMapping(std::string name, os::Fd fd, os::Mapping mapping) noexcept;
  static Result<Ref<ZipSource>> map(std::string name, os::Fd fd, uint64_t nbytes);
  void dispose() noexcept override;

  os::Fd fd_;
  os::Mapping mapping_;
};

}  // namespace tenon::archive
