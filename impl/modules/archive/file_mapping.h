// A file as the source of an archive (zip_source.h). It stays mapped read-only as long as a
// reference to it exists.
#pragma once

#include <string>

#include "modules/archive/zip_source.h"
#include "os/fd.h"
#include "os/mapping.h"

namespace tenon::archive {

// Holds one fd and one mapping. nbytes() is the size that the file had when it was opened. If
// another file is renamed over the path, this object keeps the old file. Bytes that are written
// into the file itself become visible here. If the file is cut short, read() fails with CORRUPT,
// and a load from base() raises SIGBUS. Any thread may call read().
class FileMapping : public ZipSource {
 public:
  // NOT_FOUND, PERMISSION. INVALID_ARGUMENT if it is not a regular file. RESOURCE_EXHAUSTED if no
  // fd is left, or no room for the mapping.
  static Result<Ref<ZipSource>> open(const std::string& path);
  // Duplicates the fd. The caller keeps its own, and the file position does not move.
  // INVALID_ARGUMENT also if the fd is not open for reading.
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
