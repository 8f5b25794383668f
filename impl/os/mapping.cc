#include "os/mapping.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/checked.h"
#include "os/fd.h"
#include "os/limits.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; Debian 12's headers may be older
#endif

namespace tenon::os {
namespace {

// Reserves address space at a multiple of `alignment`, which a MAP_FIXED mapping then replaces.
// Null: there is none, and the kernel chooses any place for the mapping.
void* find_aligned_place(uint64_t nbytes, uint64_t alignment) noexcept {
  const uint64_t length = round_up(nbytes, page_nbytes());
  void* const room = mmap(nullptr, length + alignment, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(room);
  const auto address = reinterpret_cast<uintptr_t>(room);
  const uint64_t before = round_up(address, alignment) - address;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + length, alignment - before);
  return begin + before;
}

}  // namespace

uint64_t page_nbytes() noexcept {
  static constinit std::atomic<uint64_t> known{0};
  uint64_t nbytes = known.load(std::memory_order_relaxed);
  if (nbytes == 0) {
    nbytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    known.store(nbytes, std::memory_order_relaxed);
  }
  return nbytes;
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, nbytes_);
}

Result<Mapping> Mapping::create(Kind kind, int fd, uint64_t offset, uint64_t nbytes,
                                uint64_t alignment) {
  int protection = PROT_READ | PROT_WRITE;
  // A shared mapping of hugetlb pages without MAP_NORESERVE takes its whole size out of the pool,
  // holes included.
  int flags = MAP_SHARED | MAP_NORESERVE;
  switch (kind) {
    case Kind::kSharedReadOnly: protection = PROT_READ; break;
    case Kind::kSharedWritable: break;
    case Kind::kPrivateCow: flags = MAP_PRIVATE | MAP_NORESERVE; break;
    case Kind::kAnonymous:
      flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
      fd = -1;
      break;
  }
  void* const place = alignment > page_nbytes() ? find_aligned_place(nbytes, alignment) : nullptr;
  if (place != nullptr) flags |= MAP_FIXED;
  void* base = mmap(place, nbytes, protection, flags, fd, static_cast<off_t>(offset));
  if (base == MAP_FAILED) {
    const int error = errno;
    if (place != nullptr) munmap(place, nbytes);
    Status status =
        errno_status(error, format("mapping %llu bytes", static_cast<unsigned long long>(nbytes)));
    if (error != ENOMEM) return status;
    return mapping_limit_status(nbytes);
  }
  Mapping mapping;
  mapping.base_ = static_cast<std::byte*>(base);
  mapping.nbytes_ = nbytes;
  return mapping;
}

Status Mapping::keep_from_children() const {
  if (madvise(base_, nbytes_, MADV_DONTFORK) == 0) return Status::ok();
  return errno_status(errno, "keeping a mapping from children of fork");
}

Status Mapping::populate_for_reading(uint64_t offset, uint64_t nbytes) const {
  while (madvise(base_ + offset, nbytes, MADV_POPULATE_READ) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL)
      return Status(Code::kUnsupported,
                    "this kernel cannot make pages ahead of a load (Linux 5.14 can)");
    return Status(Code::kResourceExhausted,
                  format("%llu bytes of a mapping have no pages, and none can be had",
                         static_cast<unsigned long long>(nbytes)))
        .with("errno", errno)
        .with("limit", std::string("vm.nr_hugepages"));
  }
  return Status::ok();
}

Status Mapping::populate() {
  for (uint64_t done = 0; done < nbytes_; done += kReserveChunk) {
    const uint64_t chunk = std::min(nbytes_ - done, kReserveChunk);
    TENON_TRY(ask_headroom(chunk));
    if (madvise(base_ + done, chunk, MADV_POPULATE_WRITE) == 0) continue;
    if (errno != EINVAL)
      return errno_status(errno, format("making %llu bytes of private memory",
                                        static_cast<unsigned long long>(chunk)));
    std::memset(base_ + done, 0, chunk);  // before Linux 5.14
  }
  return Status::ok();
}

}  // namespace tenon::os
