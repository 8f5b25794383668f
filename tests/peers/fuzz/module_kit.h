// Helpers of the fuzz targets of modules, packages and weights.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "modules/value/tensor_value.h"
#include "peers/fuzz/require.h"

namespace tenon::fuzz {

// Requires that a failure has a message, and a code that a file can cause. INVALID_ARGUMENT is
// allowed only if an argument of the call came from the file.
inline void demand_refusal(const Status& status, bool may_be_invalid_argument) {
  const Code code = status.code();
  const bool is_typed = code == Code::kCorrupt || code == Code::kUnsupported ||
                        code == Code::kResourceExhausted ||
                        (may_be_invalid_argument && code == Code::kInvalidArgument);
  require(is_typed && !status.message().empty(), "an unexpected refusal", status.message());
}

// Reads every byte. The sum only shows that two storages have the same bytes.
inline uint64_t sum_of_bytes(const value::StorageValue& storage) {
  uint64_t sum = 0;
  for (uint64_t i = 0; storage.data() != nullptr && i < storage.nbytes(); ++i)
    sum += static_cast<uint64_t>(storage.data()[i]);
  return sum;
}

// A memory file with the bytes, for functions that open a path.
class MemoryFile {
 public:
  MemoryFile(const void* data, size_t nbytes) : fd_(memfd_create("tenon_fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, data, nbytes) == static_cast<ssize_t>(nbytes), "no memory file");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace tenon::fuzz
