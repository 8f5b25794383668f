// These tests use small pages and transparent huge pages. They compare what was requested, what is
// mapped and what describe() says with the kernel's own files. backing_hugetlb_test.cc tests
// hugetlbfs, and backing_place_test.cc tests nodes and locks.
#include "memory/backing.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>

#include "os/limits.h"
#include "os/mapping.h"
#include "os/thp.h"
#include "unit/memory/backing_kit.h"

namespace tenon {
namespace {

using memory::Backing;
using memory::BackingRequest;
using memory::Mode;
using memory::Pages;
using test::Backed;
using test::kMiB;
using test::text_of;

constexpr char kShmemEnabled[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

class Backings : public test::Guarded {};

BackingRequest asking(Pages pages, bool exact = true) {
  BackingRequest request;
  request.pages = pages;
  request.exact = exact;
  return request;
}

bool is_filled_and_kept(const Backed& memory, uint64_t offset, uint64_t nbytes) {
  std::memset(memory.base + offset, 0x5a, nbytes);
  return std::all_of(memory.base + offset, memory.base + offset + nbytes,
                     [](std::byte b) { return b == std::byte{0x5a}; });
}

// Compares what describe() says with the kernel's figures.
void expect_truth(const Backed& memory) {
  const Backing told = memory.describe();
  test::Smaps seen = test::read_smaps(memory.base, memory.nbytes);
  EXPECT_EQ(told.resident_nbytes,
            seen.sums["Rss:"] + seen.sums["Shared_Hugetlb:"] + seen.sums["Private_Hugetlb:"]);
  EXPECT_EQ(told.huge_nbytes, seen.sums["ShmemPmdMapped:"] + seen.sums["Shared_Hugetlb:"] +
                                  seen.sums["Private_Hugetlb:"]);
  if (told.huge_nbytes > 0) EXPECT_EQ(told.pages, Pages::kThp);
  if (told.resident_nbytes > 0 && told.huge_nbytes == 0) EXPECT_EQ(told.pages, Pages::kSmall);
}

TEST_F(Backings, ARequestForNothingIsPlain) {
  EXPECT_TRUE(BackingRequest().is_plain());
  EXPECT_FALSE(asking(Pages::kSmall).is_plain());
  BackingRequest placed;
  placed.numa_node = 0;
  EXPECT_FALSE(placed.is_plain());
  BackingRequest locked;
  locked.lock = true;
  EXPECT_FALSE(locked.is_plain());
}

TEST_F(Backings, SmallPagesAreMapped) {
  Backed memory;
  const Status made = memory.make(asking(Pages::kSmall), 64 * kMiB);
  ASSERT_TRUE(made.is_ok()) << text_of(made);
  EXPECT_EQ(memory.got.pages, Pages::kSmall);
  EXPECT_EQ(memory.got.page_nbytes, os::page_nbytes());
  EXPECT_TRUE(memory.got.pages_refused.is_ok());
  EXPECT_EQ(memory.allocated(), 0U);
  const Status grown = memory.grow(0, 4 * kMiB);
  ASSERT_TRUE(grown.is_ok()) << text_of(grown);
  EXPECT_EQ(memory.allocated(), 4 * kMiB);
  EXPECT_EQ(memory.describe().pages, Pages::kSmall);
  EXPECT_TRUE(is_filled_and_kept(memory, 0, 4 * kMiB));
  EXPECT_EQ(memory.describe().resident_nbytes, 4 * kMiB);
  expect_truth(memory);
}

// The tests run for each mode in which huge pages are made: memory that everybody writes, memory
// that only the lender writes, and frozen memory that pwrite fills.
class HugePages : public test::Guarded, public ::testing::WithParamInterface<Mode> {};

void expect_huge_pages(Mode mode, Pages pages) {
  Backed memory;
  const Status made = memory.make(asking(pages), 64 * kMiB, mode);
  if (made.code() == Code::kUnsupported && pages == Pages::kThp) test::skip(text_of(made));
  ASSERT_TRUE(made.is_ok()) << text_of(made);
  const uint64_t wanted = 4 * os::thp_nbytes();
  const Status grown = memory.grow(0, wanted);
  ASSERT_TRUE(grown.is_ok()) << text_of(grown);
  test::skip_without_huge_memory(memory, wanted);
  ASSERT_EQ(memory.got.pages, Pages::kThp);
  ASSERT_EQ(memory.got.page_nbytes, os::thp_nbytes());
  EXPECT_EQ(memory.allocated(), wanted);
  EXPECT_EQ(memory.describe().huge_nbytes, wanted);
  expect_truth(memory);
  if (mode == Mode::kFrozen) {
    EXPECT_EQ(::pwrite(memory.fd.get(), "frozen", 6, 8192), 6);
    EXPECT_EQ(std::memcmp(memory.base + 8192, "frozen", 6), 0);
  } else {
    EXPECT_TRUE(is_filled_and_kept(memory, 0, wanted));
  }
  EXPECT_EQ(memory.allocated(), wanted);
  EXPECT_EQ(memory.describe().huge_nbytes, wanted);
}

TEST_P(HugePages, ThpIsReallyMapped) {
  IN_FORK_CHILD([] { expect_huge_pages(GetParam(), Pages::kThp); });
}

TEST_P(HugePages, AutoTakesWhatTheAdministratorOffers) {
  test::Setting setting(kShmemEnabled);
  if (setting.before() != "advise" && !setting.set("advise"))
    GTEST_SKIP() << "cannot change " << kShmemEnabled;
  IN_FORK_CHILD([] { expect_huge_pages(GetParam(), Pages::kAuto); });
}

INSTANTIATE_TEST_SUITE_P(Modes, HugePages,
                         ::testing::Values(Mode::kShared, Mode::kLenderWrites, Mode::kFrozen));

TEST_F(Backings, AutoTakesNoMoreThanTheAdministratorOffers) {
  const test::Setting setting(kShmemEnabled);
  if (setting.before() != "never" && setting.before() != "deny")
    GTEST_SKIP() << "shmem_enabled is " << setting.before();
  Backed memory;
  const Status made = memory.make(asking(Pages::kAuto), 64 * kMiB);
  ASSERT_TRUE(made.is_ok()) << text_of(made);
  if (os::shmem_thp_setting().find("always") == std::string::npos)
    EXPECT_EQ(memory.got.pages, Pages::kSmall);
  EXPECT_TRUE(memory.got.pages_refused.is_ok()) << "nothing was asked for by name";
}

TEST_F(Backings, DeniedHugePagesAreAnErrorOrAStepDown) {
  // No other test changes the setting meanwhile, because the error quotes it.
  const test::Setting alone(kShmemEnabled);
  IN_FORK_CHILD([] {
    // This denies huge pages to this process, as the setting deny does to all.
    if (::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) test::skip("no PR_SET_THP_DISABLE");
    Result<Backing> exact = memory::choose_pages(asking(Pages::kThp), Mode::kShared);
    ASSERT_EQ(exact.status().code(), Code::kUnsupported) << text_of(exact.status());
    EXPECT_EQ(exact.status().detail("shmem_enabled"), os::shmem_thp_setting())
        << text_of(exact.status());
    Result<Backing> lower = memory::choose_pages(asking(Pages::kThp, false), Mode::kShared);
    ASSERT_TRUE(lower.is_ok()) << text_of(lower.status());
    EXPECT_EQ(lower.value().pages, Pages::kSmall);
    EXPECT_EQ(lower.value().pages_refused.code(), Code::kUnsupported);
  });
}

// The library remembers that huge pages are possible only as long as the administrator's setting
// stays.
TEST_F(Backings, AChangedSettingIsSeen) {
  test::Setting setting(kShmemEnabled);
  if (setting.before() != "never" || !setting.set("advise"))
    GTEST_SKIP() << "shmem_enabled is not never, or cannot be changed";
  IN_FORK_CHILD([&] {
    const uint64_t page = os::thp_nbytes();
    Backed memory;
    ASSERT_TRUE(memory.make(asking(Pages::kAuto), page).is_ok());
    ASSERT_TRUE(memory.grow(0, page).is_ok());
    test::skip_without_huge_memory(memory, page);
    EXPECT_EQ(memory::choose_pages(asking(Pages::kAuto), Mode::kShared).value().pages, Pages::kThp);
    ASSERT_TRUE(setting.set("never"));
    EXPECT_EQ(memory::choose_pages(asking(Pages::kAuto), Mode::kShared).value().pages,
              Pages::kSmall);
    ASSERT_TRUE(setting.set("advise"));
    EXPECT_EQ(memory::choose_pages(asking(Pages::kAuto), Mode::kShared).value().pages, Pages::kThp);
  });
}

// Growth in small and large pieces, which end inside pages, misses no page and makes no page twice.
TEST_F(Backings, GrowthInOddPieces) {
  IN_FORK_CHILD([] {
    for (const Pages pages : {Pages::kSmall, Pages::kThp}) {
      Backed memory;
      const Status made = memory.make(asking(pages, false), 64 * kMiB);
      ASSERT_TRUE(made.is_ok()) << text_of(made);
      const uint64_t pieces[] = {100, 4096, 3 * kMiB - 4196, 20 * kMiB + 1, 64, 7 * kMiB};
      uint64_t at = 0;
      for (const uint64_t piece : pieces) {
        const Status grown = memory.grow(at, piece);
        ASSERT_TRUE(grown.is_ok()) << text_of(grown);
        EXPECT_TRUE(std::all_of(memory.base + at, memory.base + at + piece,
                                [](std::byte b) { return b == std::byte{0}; }));
        EXPECT_TRUE(is_filled_and_kept(memory, at, piece));
        at += piece;
        EXPECT_GE(memory.allocated(), at);
      }
      EXPECT_LE(memory.allocated(), round_up(at, std::max(os::thp_nbytes(), os::page_nbytes())));
      EXPECT_TRUE(std::all_of(memory.base, memory.base + at,
                              [](std::byte b) { return b == std::byte{0x5a}; }));
      expect_truth(memory);
    }
  });
}

// Huge pages were promised, but every page that came is small. describe() does not repeat the
// promise.
TEST_F(Backings, DescribeTakesBackWhatDidNotCome) {
  Backed memory;
  const Status made = memory.make(asking(Pages::kSmall), 64 * kMiB);
  ASSERT_TRUE(made.is_ok()) << text_of(made);
  Backing promised = memory.got;
  promised.pages = Pages::kThp;
  promised.page_nbytes = 2 * kMiB;
  EXPECT_EQ(memory::describe(memory.base, memory.nbytes, promised).pages, Pages::kThp)
      << "no page is there to say otherwise";
  ASSERT_TRUE(memory.grow(0, 4 * kMiB).is_ok());
  EXPECT_TRUE(is_filled_and_kept(memory, 0, 4 * kMiB));
  const Backing told = memory::describe(memory.base, memory.nbytes, promised);
  EXPECT_EQ(told.pages, Pages::kSmall);
  EXPECT_EQ(told.page_nbytes, os::page_nbytes());
  EXPECT_EQ(told.pages_refused.code(), Code::kResourceExhausted);
}

TEST_F(Backings, NoSuchKind) {
  BackingRequest request;
  request.pages = static_cast<Pages>(4);
  EXPECT_EQ(memory::choose_pages(request, Mode::kShared).status().code(), Code::kInvalidArgument);
}

// The kernel raises a signal when a file grows past RLIMIT_FSIZE. The probes for huge pages must
// not cause it.
TEST_F(Backings, AFileSizeLimit) {
  IN_FORK_CHILD([] {
    const rlimit limit{kMiB, kMiB};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (const Pages pages : {Pages::kAuto, Pages::kThp, Pages::kHugetlb}) {
      Result<Backing> lower = memory::choose_pages(asking(pages, false), Mode::kShared);
      ASSERT_TRUE(lower.is_ok()) << text_of(lower.status());
      EXPECT_EQ(lower.value().pages, Pages::kSmall);
      if (pages == Pages::kAuto) continue;
      const Result<Backing> exact = memory::choose_pages(asking(pages), Mode::kShared);
      if (exact.status().code() == Code::kUnsupported) continue;
      EXPECT_EQ(exact.status().code(), Code::kResourceExhausted) << text_of(exact.status());
      EXPECT_EQ(exact.status().detail("limit"), "RLIMIT_FSIZE") << text_of(exact.status());
    }
  });
}

TEST_F(Backings, WithoutAnFdNothingIsRememberedWrongly) {
  IN_FORK_CHILD([] {
    {
      const test::NoFdLeft none;
      Result<Backing> blind = memory::choose_pages(asking(Pages::kThp, false), Mode::kShared);
      ASSERT_TRUE(blind.is_ok()) << text_of(blind.status());
      EXPECT_EQ(blind.value().pages, Pages::kSmall);
      EXPECT_FALSE(blind.value().pages_refused.is_ok());
    }
    EXPECT_GT(os::thp_nbytes(), 0U);
  });
}

// A container may hide /proc and /sys. Tenon then knows less, but only a request for a kind of page
// by name fails.
TEST_F(Backings, WithoutProcAndSys) {
  IN_FORK_CHILD([] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      test::skip("no mount namespace");
    if (::mount("none", "/proc", "tmpfs", 0, nullptr) != 0 ||
        ::mount("none", "/sys", "tmpfs", 0, nullptr) != 0)
      test::skip("no mount");
    for (const Pages pages : {Pages::kAuto, Pages::kThp, Pages::kHugetlb}) {
      Backed memory;
      BackingRequest request = asking(pages, false);
      request.numa_node = 0;
      request.lock = true;
      const Status made = memory.make(request, 8 * kMiB);
      ASSERT_TRUE(made.is_ok()) << text_of(made);
      EXPECT_NE(memory.got.pages, Pages::kHugetlb);
      if (pages == Pages::kHugetlb) EXPECT_FALSE(memory.got.pages_refused.is_ok());
      ASSERT_TRUE(memory.grow(0, kMiB).is_ok());
      EXPECT_TRUE(is_filled_and_kept(memory, 0, kMiB));
      const Backing told = memory.describe();
      EXPECT_EQ(told.pages, memory.got.pages);
      EXPECT_EQ(told.numa_node, memory.got.numa_node);
      EXPECT_EQ(told.resident_nbytes, 0U) << "nobody can say";
    }
    EXPECT_EQ(memory::choose_pages(asking(Pages::kHugetlb), Mode::kShared).status().code(),
              Code::kUnsupported);
  });
}

}  // namespace
}  // namespace tenon
