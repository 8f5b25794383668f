#include "os/huge_pages.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <string_view>

#include "os/limits.h"
#include "os/numa.h"
#include "os/small_file.h"

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 0x0004U
#endif

namespace tenon::os {
namespace {

constexpr char kPools[] = "/sys/kernel/mm/hugepages";
// MFD_HUGE_SHIFT: the position of the page size's logarithm in the flags of memfd_create.
constexpr unsigned kSizeShift = 26;

std::string pool_name(uint64_t page_nbytes) {
  return format("hugepages-%llukB", as_llu(page_nbytes / 1024));
}

std::string sizes_text() {
  std::string text;
  for (const uint64_t size : huge_page_sizes())
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text.empty() ? "none" : text;
}

Status no_such_size(uint64_t page_nbytes) {
  return Status(Code::kInvalidArgument,
                format("no huge pages of %llu bytes on this machine (it has: %s)",
                       as_llu(page_nbytes), sizes_text().c_str()))
      .with("huge_page_nbytes", page_nbytes)
      .with("sizes", sizes_text());
}

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { closedir(directory); }
};

}  // namespace

uint64_t default_huge_page_nbytes() {
  return find_field(read_small_file("/proc/meminfo"), "Hugepagesize:", 0) * 1024;
}

std::vector<uint64_t> huge_page_sizes() {
  std::vector<uint64_t> sizes;
  constexpr std::string_view prefix = "hugepages-";
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(kPools));
  if (directory == nullptr) return sizes;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name(entry->d_name);
    if (!name.starts_with(prefix)) continue;
    if (const uint64_t kib = parse_number(name.substr(prefix.size()), 0); kib != 0)
      sizes.push_back(kib * 1024);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

HugePagePool huge_page_pool(uint64_t page_nbytes) {
  HugePagePool pool;
  const std::string directory = std::string(kPools) + "/" + pool_name(page_nbytes) + "/";
  const auto read_count = [&](const char* name) {
    return parse_number(read_small_file(directory + name), 0);
  };
  const std::string total = read_small_file(directory + "nr_hugepages");
  pool.known = !total.empty();
  pool.total = parse_number(total, 0);
  const uint64_t free_count = read_count("free_hugepages");
  pool.free = free_count - std::min(free_count, read_count("resv_hugepages"));
  const uint64_t most_surplus = read_count("nr_overcommit_hugepages");
  pool.could_grow = most_surplus - std::min(most_surplus, read_count("surplus_hugepages"));
  pool.limit = page_nbytes == default_huge_page_nbytes() ? "vm.nr_hugepages"
                                                         : pool_name(page_nbytes) + "/nr_hugepages";
  return pool;
}

Result<Fd> create_hugetlb_memfd(const Nonce& nonce, uint64_t nbytes, uint64_t page_nbytes) {
  // A logarithm of 0 would mean the default size.
  if (page_nbytes <= 1 || !std::has_single_bit(page_nbytes)) return no_such_size(page_nbytes);
  if (nbytes % page_nbytes != 0) {
    return Status(Code::kInvalidArgument,
                  format("%llu bytes are no multiple of the huge page (%llu bytes)", as_llu(nbytes),
                         as_llu(page_nbytes)))
        .with("huge_page_nbytes", page_nbytes);
  }
  const std::string name = memfd_name(nonce);
  const unsigned size_flag = static_cast<unsigned>(std::countr_zero(page_nbytes)) << kSizeShift;
  // No MFD_NOEXEC_SEAL: a file of hugetlbfs is never executable, and older kernels refuse the pair.
  Fd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | size_flag));
  if (!fd.is_open()) {
    const int error = errno;
    const std::vector<uint64_t> sizes = huge_page_sizes();
    if (error == ENODEV ||
        (!sizes.empty() && std::find(sizes.begin(), sizes.end(), page_nbytes) == sizes.end()))
      return no_such_size(page_nbytes);
    if (error == EINVAL || error == ENOSYS) {
      return Status(Code::kUnsupported,
                    "this kernel has no hugetlb pages for memfds (Linux 4.16 has, if configured)")
          .with("errno", error);
    }
    return with_fd_limit(errno_status(error, "a new memfd of huge pages"));
  }
  if (ftruncate(fd.get(), static_cast<off_t>(nbytes)) != 0)
    return errno_status(errno, format("a memfd of huge pages, %llu bytes", as_llu(nbytes)));
  return fd;
}

Status reserve_huge_pages(int fd, uint64_t offset, uint64_t nbytes, uint64_t page_nbytes,
                          int32_t numa_node) {
  while (fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(nbytes)) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    if (error != ENOSPC && error != ENOMEM)
      return errno_status(error, format("taking %llu bytes of huge pages", as_llu(nbytes)));
    const HugePagePool pool = huge_page_pool(page_nbytes);
    std::string limit = pool.limit;
    // The pool has free pages, so another limit was reached.
    if (pool.known && pool.free > 0)
      limit = numa_node >= 0 ? format("huge pages of NUMA node %d", numa_node) : "hugetlb cgroup";
    return Status(
               Code::kResourceExhausted,
               format(
                   "no huge pages for %llu bytes: %s (%llu pages of %llu bytes, %llu of them free)",
                   as_llu(nbytes), limit.c_str(), as_llu(pool.total), as_llu(page_nbytes),
                   as_llu(pool.free)))
        .with("errno", error)
        .with("limit", limit)
        .with("limit_value", pool.total)
        .with("free", pool.free)
        .with("huge_page_nbytes", page_nbytes)
        .with("wanted", nbytes);
  }
  return Status::ok();
}

Status probe_huge_page(uint64_t page_nbytes, int32_t numa_node, bool* seal_holds) {
  TENON_TRY(check_file_size(page_nbytes));
  TENON_ASSIGN(const Nonce nonce, random_nonce());
  TENON_ASSIGN(const Fd fd, create_hugetlb_memfd(nonce, page_nbytes, page_nbytes));
  const auto map = [&] {
    return mmap(nullptr, page_nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(),
                0);
  };
  void* const base = map();
  if (base == MAP_FAILED) return mapping_limit_status(page_nbytes);
  auto* const first = static_cast<std::byte*>(base);
  // If binding fails here, the caller gets the same error later.
  if (numa_node >= 0) static_cast<void>(bind_to_node(first, page_nbytes, numa_node).is_ok());
  Status taken = reserve_huge_pages(fd.get(), 0, page_nbytes, page_nbytes, numa_node);
  if (taken.is_ok()) {
    *static_cast<volatile std::byte*>(first) = std::byte{1};
    *seal_holds = add_seals(fd.get(), kSealFutureWrite).is_ok();
    if (void* const again = *seal_holds ? map() : MAP_FAILED; again != MAP_FAILED) {
      *seal_holds = false;
      munmap(again, page_nbytes);
    }
  }
  munmap(base, page_nbytes);
  return taken;
}

}  // namespace tenon::os
