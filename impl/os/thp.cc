#include "os/thp.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>

#include "os/fd.h"
#include "os/limits.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "os/small_file.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; Debian 12's headers may be older
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace tenon::os {
namespace {

constexpr char kSettings[] = "/sys/kernel/mm/transparent_hugepage/";

// Returns the word in brackets: "never" for "always [never] deny".
std::string chosen_word(const std::string& text) {
  const size_t open = text.find('[');
  const size_t close = open == std::string::npos ? open : text.find(']', open);
  return close == std::string::npos ? std::string() : text.substr(open + 1, close - open - 1);
}

// A memfd of the size of one huge page, mapped at an address where a huge page fits. The kernel
// chooses such an address by itself only where shared memory gets huge pages without asking.
class Probe {
 public:
  Result<std::byte*> map() {
    const uint64_t nbytes = thp_nbytes();
    TENON_TRY(check_file_size(nbytes));
    TENON_ASSIGN(const Nonce nonce, random_nonce());
    TENON_ASSIGN(fd_, create_memfd(nonce, nbytes));
    TENON_ASSIGN(page_,
                 Mapping::create(Mapping::Kind::kSharedWritable, fd_.get(), 0, nbytes, nbytes));
    return page_.base();
  }
  // Call this after touching one byte. The allocated size of the file shows which kind of page it
  // got.
  Result<bool> is_huge() const {
    TENON_ASSIGN(const FileInfo file, stat_file(fd_.get()));
    return file.allocated_nbytes >= thp_nbytes();
  }
  int fd() const noexcept { return fd_.get(); }

 private:
  Fd fd_;
  Mapping page_;
};

}  // namespace

Result<ThpBy> probe_thp(bool may_collapse) {
  if (thp_nbytes() == 0) return ThpBy::kNothing;
  Probe probe;
  TENON_ASSIGN(std::byte* const base, probe.map());
  advise_thp(base, thp_nbytes(), true);
  Status made = populate(base, page_nbytes());
  if (!made.is_ok() && made.code() != Code::kUnsupported) return made;
  // Before Linux 5.14 the touch below makes the page, and could end in a signal. Once a page exists
  // it cannot.
  if (!made.is_ok()) TENON_TRY(reserve_pages(probe.fd(), 0, page_nbytes()));
  *static_cast<volatile std::byte*>(base) = std::byte{1};
  TENON_ASSIGN(const bool by_fault, probe.is_huge());
  if (by_fault) return ThpBy::kFault;
  if (!may_collapse || !collapse(base, thp_nbytes())) return ThpBy::kNothing;
  TENON_ASSIGN(const bool by_collapse, probe.is_huge());
  return by_collapse ? ThpBy::kCollapse : ThpBy::kNothing;
}

uint64_t thp_nbytes() {
  // The value is kept only if it could be read, which is impossible at the fd limit.
  static std::atomic<uint64_t> known{0};
  uint64_t nbytes = known.load(std::memory_order_relaxed);
  if (nbytes == 0) {
    nbytes = parse_number(read_small_file(std::string(kSettings) + "hpage_pmd_size"), 0);
    known.store(nbytes, std::memory_order_relaxed);
  }
  return nbytes;
}

std::string shmem_thp_setting() {
  const std::string all = chosen_word(read_small_file(std::string(kSettings) + "shmem_enabled"));
  const std::string size = format("hugepages-%llukB/shmem_enabled",
                                  static_cast<unsigned long long>(thp_nbytes() / 1024));
  const std::string one = chosen_word(read_small_file(kSettings + size));  // since Linux 6.11
  return one.empty() ? all : all + ", " + one;
}

void advise_thp(std::byte* base, uint64_t nbytes, bool wanted) noexcept {
  static_cast<void>(madvise(base, nbytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
}

Status populate(std::byte* base, uint64_t nbytes) {
  for (const int advice : {MADV_POPULATE_WRITE, MADV_POPULATE_READ}) {
    int done = madvise(base, nbytes, advice);
    while (done != 0 && (errno == EINTR || errno == EAGAIN)) done = madvise(base, nbytes, advice);
    if (done == 0) return Status::ok();
    // EFAULT means that the fault would have been a signal: there is no memory, or no space in the
    // file system.
    const int error = errno == EFAULT ? ENOMEM : errno;
    if (error != EINVAL)
      return errno_status(
          error, format("making %llu bytes of pages", static_cast<unsigned long long>(nbytes)));
  }  // EINVAL: a read-only mapping, or a kernel before 5.14
  return Status(Code::kUnsupported,
                "this kernel cannot make the pages of a mapping (Linux 5.14 can)")
      .with("errno", EINVAL);
}

bool collapse(std::byte* base, uint64_t nbytes) noexcept {
  return madvise(base, nbytes, MADV_COLLAPSE) == 0;
}

}  // namespace tenon::os
