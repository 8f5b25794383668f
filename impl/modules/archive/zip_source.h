// The source from which an archive is read. It gives a view of the bytes in memory, and a way to
// copy them that fails if a file was cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "storage/storage.h"

namespace tenon::archive {

// A source never changes. Any number of threads may read it.
class ZipSource : public Counted {
 public:
  // Copies bytes. The caller has checked that the range is inside. CORRUPT if the bytes are no
  // longer there.
  virtual Status read(uint64_t offset, void* to, uint64_t nbytes) const = 0;
  // Returns the bytes for views. If they are a file's, they can change or vanish (SIGBUS) at any
  // time. So check and use only bytes that read() has copied.
  const std::byte* base() const noexcept { return base_; }
  uint64_t nbytes() const noexcept { return nbytes_; }
  // The name for messages: the path, if there is one.
  const std::string& name() const noexcept { return name_; }
  // Returns a storage over a range, which other processes can borrow, if the source lies in shared
  // memory. Null: it does not, so a view of the source is private to this process.
  virtual Result<Ref<storage::Storage>> shared_view(uint64_t /*offset*/,
                                                    uint64_t /*nbytes*/) const {
    return Ref<storage::Storage>();
  }
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

// A source in memory that the caller leaves unchanged as long as the source exists. read() loads
// from it, so it must not be a mapping of a file that can be cut short.
class MemorySource : public ZipSource {
 public:
  static Ref<ZipSource> create(std::span<const std::byte> bytes);
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override;

 private:
  explicit MemorySource(std::span<const std::byte> bytes);
};

// A source that owns its memory, such as the inflated bytes of a compressed record.
class OwnedSource final : public ZipSource {
 public:
  static Ref<ZipSource> create(std::string name, std::vector<std::byte> bytes);
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override;

 private:
  OwnedSource(std::string name, std::vector<std::byte> bytes);

  // Moving the vector into the object does not change the address of its bytes.
  std::vector<std::byte> bytes_;
};

}  // namespace tenon::archive
