// The tests of page backing share these helpers. They make memory that is backed as a segment is,
// read the kernel's figures about the memory without Tenon, and change settings of the machine for
// a while.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "base/checked.h"
#include "memory/backing.h"
#include "os/memfd.h"
#include "unit/memory/units.h"
#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace tenon::test {

inline constexpr int kSkipped = 77;

// Memory that is made as an arena makes it: sealed for its mode, mapped at an address where huge
// pages are possible, and advised.
struct Backed {
  memory::BackingRequest request;
  memory::Backing got;
  os::Fd fd;
  std::byte* base = nullptr;
  uint64_t nbytes = 0;
  memory::Mode mode = memory::Mode::kShared;

  Backed() = default;
  Backed(const Backed&) = delete;
  Backed& operator=(const Backed&) = delete;
  ~Backed() { let_go(); }

  Status make(const memory::BackingRequest& wanted, uint64_t size,
              memory::Mode sealed_as = memory::Mode::kShared) {
    let_go();
    request = wanted;
    mode = sealed_as;
    TENON_ASSIGN(got, memory::choose_pages(request, mode));
    nbytes = round_up(size, got.page_nbytes);
    TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
    TENON_ASSIGN(fd, memory::create_backed_memfd(nonce, nbytes, got));
    void* room = ::mmap(nullptr, nbytes + got.page_nbytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return errno_status(errno, "room");
    auto* const begin = static_cast<std::byte*>(room);
    const uint64_t before = round_up(reinterpret_cast<uintptr_t>(room), got.page_nbytes) -
                            reinterpret_cast<uintptr_t>(room);
    ::munmap(begin, before);
    ::munmap(begin + before + nbytes, got.page_nbytes - before);
    base = begin + before;
    const bool frozen = mode == memory::Mode::kFrozen;
    if (::mmap(base, nbytes, frozen ? PROT_READ : PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd.get(), 0) == MAP_FAILED)
      return errno_status(errno, "mapping");
    TENON_TRY(os::add_seals(fd.get(),
                            os::kSealShrink | os::kSealGrow |
                                (mode == memory::Mode::kLenderWrites ? os::kSealFutureWrite : 0U)));
    return memory::apply_backing(base, nbytes, request, &got);
  }
  Status grow(uint64_t offset, uint64_t size) {
    return memory::make_pages(fd.get(), base, offset, size, got);
  }
  void let_go() {
    if (base != nullptr) ::munmap(base, nbytes);
    base = nullptr;
    fd = os::Fd();
    got = memory::Backing();
  }
  memory::Backing describe() const { return memory::describe(base, nbytes, got); }
  uint64_t allocated() const {
    struct stat info{};
    ::fstat(fd.get(), &info);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }
};

inline std::string text_of(const Status& status) {
  std::string text = std::string(code_name(status.code())) + ": " + status.message();
  if (status.info() != nullptr)
    for (const Detail& entry : status.info()->details)
      text += " [" + entry.key + "=" + entry.value + "]";
  return text;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline uint64_t read_count(const std::string& path) {
  return std::strtoull(read_text(path).c_str(), nullptr, 10);
}

// The fields of /proc/self/smaps for all mappings in a range. `sums` adds up the fields in bytes.
// `flags` holds VmFlags of the first mapping, with a blank at each end.
struct Smaps {
  std::map<std::string, uint64_t> sums;
  std::string flags;
};

inline Smaps read_smaps(const std::byte* base, uint64_t nbytes) {
  Smaps found;
  std::ifstream file("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    unsigned long long begin = 0;
    unsigned long long end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      inside = begin >= reinterpret_cast<uintptr_t>(base) &&
               end <= reinterpret_cast<uintptr_t>(base) + nbytes;
      continue;
    }
    std::istringstream words(line);
    std::string key;
    unsigned long long kib = 0;
    if (!inside || !(words >> key)) continue;
    if (key == "VmFlags:" && found.flags.empty()) found.flags = line.substr(8) + " ";
    if (words >> kib) found.sums[key] += kib * 1024;
  }
  return found;
}

// Runs the body in a child, which may lower limits, change its user, or lose its file systems. The
// child ends with status 77 after it has printed why it cannot run the test.
#define IN_FORK_CHILD(...)                                                             \
  do {                                                                                 \
    ::tenon::test::ForkChild in_child([&](int) {                                       \
      __VA_ARGS__();                                                                   \
      std::fflush(nullptr);                                                            \
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);                                  \
    });                                                                                \
    const int in_child_status = in_child.reap();                                       \
    if (in_child_status == ::tenon::test::kSkipped) GTEST_SKIP() << "said by a child"; \
    EXPECT_EQ(in_child_status, 0);                                                     \
  } while (false)

[[noreturn]] inline void skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  std::fflush(nullptr);
  ::_exit(kSkipped);
}

// Returns how many bytes of shared memory are huge pages if Tenon has no part in it. The pages are
// made on the first access, or, with `collapse`, on request.
inline uint64_t huge_without_tenon(uint64_t nbytes, bool collapse) {
  const uint64_t page = read_count("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
  const os::Fd fd(::memfd_create("control", MFD_CLOEXEC));
  if (page == 0 || !fd.is_open() || ::ftruncate(fd.get(), static_cast<off_t>(nbytes)) != 0)
    return 0;
  void* const room =
      ::mmap(nullptr, nbytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return 0;
  auto* const base =
      static_cast<std::byte*>(room) +
      (round_up(reinterpret_cast<uintptr_t>(room), page) - reinterpret_cast<uintptr_t>(room));
  uint64_t huge = 0;
  if (::mmap(base, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd.get(),
             0) != MAP_FAILED) {
    ::madvise(base, nbytes, MADV_HUGEPAGE);
    for (uint64_t at = 0; at < nbytes; at += page)
      *static_cast<volatile std::byte*>(base + at) = std::byte{1};
    if (collapse) ::madvise(base, nbytes, MADV_COLLAPSE);
    huge = read_smaps(base, nbytes).sums["ShmemPmdMapped:"];
  }
  ::munmap(room, nbytes + page);
  return huge;
}

// Skips a test of huge pages if the machine has none. The kernel makes huge pages only while the
// machine's free memory lies in large pieces. If the first `wanted` bytes of the memory are not
// huge pages, this function makes the memory again, a few times. If that never helps, and the
// kernel also failed to make huge pages without Tenon, the child skips its test. Otherwise the test
// goes on, and finds the error.
inline void skip_without_huge_memory(Backed& memory, uint64_t wanted) {
  using memory::Pages;
  const auto is_huge = [&] {
    return memory.got.pages == Pages::kThp && memory.describe().huge_nbytes >= wanted;
  };
  bool in_small_pieces = false;
  for (int tries = 0; !is_huge() && tries < 5; ++tries) {
    const bool collapse =
        memory.got.pages == Pages::kThp ? memory.got.collapse : memory.request.pages == Pages::kThp;
    if (huge_without_tenon(wanted, collapse) < wanted) in_small_pieces = true;
    ::usleep(100'000);
    const Status again = memory.make(memory.request, memory.nbytes, memory.mode);
    if (again.code() == Code::kUnsupported) continue;  // the page with which Tenon tried was small
    ASSERT_TRUE(again.is_ok()) << text_of(again);
    const Status grown = memory.grow(0, wanted);
    ASSERT_TRUE(grown.is_ok()) << text_of(grown);
  }
  if (in_small_pieces && !is_huge()) skip("this machine's memory is in small pieces");
}

// Locks a file below /proc/sys or /sys. set() writes another text into the file, and the destructor
// restores the old text. The lock admits one Setting of a file at a time. If two processes changed
// the file at the same time, the last one would restore the text that the first one had set.
class Setting {
 public:
  explicit Setting(std::string path)
      : path_(std::move(path)), lock_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (lock_.is_open()) ::flock(lock_.get(), LOCK_EX);
    before_ = read_text(path_);
    if (const size_t open = before_.find('['); open != std::string::npos)
      before_ = before_.substr(open + 1, before_.find(']') - open - 1);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() {
    if (changed_) write(before_);
  }
  const std::string& before() const { return before_; }
  bool set(const std::string& text) {
    changed_ = write(text);
    return changed_;
  }

 private:
  bool write(const std::string& text) const {
    const os::Fd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    return fd.is_open() &&
           ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  std::string path_;
  os::Fd lock_;
  std::string before_;
  bool changed_ = false;
};

}  // namespace tenon::test
