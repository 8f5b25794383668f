// What an archive is read from: bytes that lie in memory, and a way to copy them that tells of a
// file that was cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/status.h"

namespace tenon::archive {

class ZipSource : public Counted {
 public:
  // The caller has checked that the range is inside. CORRUPT if the bytes are there no more.
  virtual Status read(uint64_t offset, void* to, uint64_t nbytes) const = 0;
  // For views. The bytes of a file can go (SIGBUS) and change at any time: whatever is believed was
  // copied by read().
  const std::byte* base() const noexcept { return base_; }
  uint64_t nbytes() const noexcept { return nbytes_; }
  // For messages: the path, if there is one.
  const std::string& name() const noexcept { return name_; }
  // Whether base() is a mapping of a file.
  virtual bool is_file() const noexcept { return false; }

 protected:
  ZipSource(std::string name, const std::byte* base, uint64_t nbytes) noexcept
      : name_(std::move(name)), base_(base), nbytes_(nbytes) {}

 private:
  std::string name_;
  const std::byte* base_;
  uint64_t nbytes_;
};

// Memory that the caller keeps as it is for as long as the source is there.
class MemorySource : public ZipSource {
 public:
  static Ref<ZipSource> create(std::span<const std::byte> bytes);
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override;

 private:
  explicit MemorySource(std::span<const std::byte> bytes);
};

}  // namespace tenon::archive
