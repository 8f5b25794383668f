// These tests use pages of hugetlbfs. The pages are really mapped, and address space without pages
// takes nothing from the pool. If the pool has no pages, the backing steps down to other pages.
#include <algorithm>
#include <cstring>

#include "memory/backing.h"
#include "memory/segment.h"
#include "os/huge_pages.h"
#include "os/mapping.h"
#include "os/smaps.h"
#include "support/must.h"
#include "unit/memory/backing_kit.h"

namespace tenon {
namespace {

using memory::Backing;
using memory::BackingRequest;
using memory::Mode;
using memory::Pages;
using test::Backed;
using test::kTiB;
using test::text_of;

class Hugetlb : public test::Guarded {};

BackingRequest asking_hugetlb(uint64_t page_nbytes = 0, bool exact = true) {
  BackingRequest request;
  request.pages = Pages::kHugetlb;
  request.huge_page_nbytes = page_nbytes;
  request.exact = exact;
  return request;
}

uint64_t free_pages() { return os::huge_page_pool(os::default_huge_page_nbytes()).free; }

// Keeps at least eight free pages of the default size in the pool, and keeps other tests from
// changing the pool.
class Pool {
 public:
  Pool() : setting_("/proc/sys/vm/nr_hugepages") {
    if (os::default_huge_page_nbytes() == 0) {
      why_ = "this kernel has no hugetlb pages";
    } else if (free_pages() < kPages) {
      setting_.set(std::to_string(std::strtoull(setting_.before().c_str(), nullptr, 10) + kPages));
      if (free_pages() < kPages)
        why_ = "the pool of huge pages has " + std::to_string(free_pages()) +
               " free, and cannot be filled";
    }
  }
  static constexpr uint64_t kPages = 8;
  const std::string& why_not() const { return why_; }

 private:
  test::Setting setting_;
  std::string why_;
};

#define NEEDS_POOL(pool) \
  const Pool pool;       \
  if (!(pool).why_not().empty()) GTEST_SKIP() << (pool).why_not()

// Returns a size of huge page of which the pool is empty, or 0 if every pool has pages.
uint64_t size_with_an_empty_pool() {
  for (const uint64_t size : os::huge_page_sizes()) {
    const os::HugePagePool pool = os::huge_page_pool(size);
    if (pool.free == 0 && pool.could_grow == 0) return size;
  }
  return 0;
}

TEST_F(Hugetlb, ATebibyteIsMappedAndOnlyItsPagesAreTaken) {
  NEEDS_POOL(pool);
  const uint64_t page = os::default_huge_page_nbytes();
  const uint64_t before = free_pages();
  for (const Mode mode : {Mode::kShared, Mode::kLenderWrites}) {
    Backed memory;
    const Status made = memory.make(asking_hugetlb(), kTiB, mode);
    ASSERT_TRUE(made.is_ok()) << text_of(made);
    EXPECT_EQ(memory.got.pages, Pages::kHugetlb);
    EXPECT_EQ(memory.got.page_nbytes, page);
    EXPECT_TRUE(memory.got.locked);
    EXPECT_EQ(free_pages(), before) << "a mapping of holes took pages";
    const Status grown = memory.grow(0, 3 * page);
    ASSERT_TRUE(grown.is_ok()) << text_of(grown);
    EXPECT_EQ(free_pages(), before - 3);
    EXPECT_EQ(memory.allocated(), 3 * page);
    std::memset(memory.base, 0x5a, 3 * page);
    const Backing told = memory.describe();
    EXPECT_EQ(told.pages, Pages::kHugetlb);
    EXPECT_EQ(told.page_nbytes, page);
    EXPECT_EQ(told.huge_nbytes, 3 * page);
    EXPECT_EQ(told.resident_nbytes, 3 * page);
    EXPECT_TRUE(told.locked);
    test::Smaps seen = test::read_smaps(memory.base, memory.nbytes);
    EXPECT_EQ(seen.sums["KernelPageSize:"], page);
    EXPECT_EQ(seen.sums["Shared_Hugetlb:"] + seen.sums["Private_Hugetlb:"], 3 * page);
    // A range that ends inside a page takes the complete page, and takes it once.
    ASSERT_TRUE(memory.grow(3 * page, 100).is_ok());
    ASSERT_TRUE(memory.grow(3 * page + 100, page - 100).is_ok());
    EXPECT_EQ(free_pages(), before - 4);
  }
  EXPECT_EQ(free_pages(), before) << "pages stayed behind";
}

TEST_F(Hugetlb, ABorrowerReadsAndCannotWrite) {
  NEEDS_POOL(pool);
  const uint64_t page = os::default_huge_page_nbytes();
  Backed memory;
  ASSERT_TRUE(memory.make(asking_hugetlb(), kTiB, Mode::kLenderWrites).is_ok());
  ASSERT_TRUE(memory.grow(0, page).is_ok());
  std::memcpy(memory.base + page - 6, "lender", 6);
  os::Nonce nonce{};
  EXPECT_TRUE(os::read_nonce(memory.fd.get(), &nonce));
  os::FileInfo file = must(os::inspect_file(memory.fd.get()));
  EXPECT_TRUE(file.in_memory);
  EXPECT_EQ(file.allocated_nbytes, page);
  EXPECT_EQ(file.seals, os::kSealShrink | os::kSealGrow | os::kSealFutureWrite);
  Result<os::Fd> lent = os::reopen_read_only(memory.fd.get());
  ASSERT_TRUE(lent.is_ok()) << text_of(lent.status());
  void* const theirs =
      ::mmap(nullptr, kTiB, PROT_READ, MAP_SHARED | MAP_NORESERVE, lent.value().get(), 0);
  ASSERT_NE(theirs, MAP_FAILED);
  EXPECT_EQ(std::memcmp(static_cast<std::byte*>(theirs) + page - 6, "lender", 6), 0);
  EXPECT_NE(::mprotect(theirs, kTiB, PROT_READ | PROT_WRITE), 0);
  ::munmap(theirs, kTiB);
  EXPECT_EQ(
      ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.fd.get(), 0),
      MAP_FAILED);
  char back[6] = {};
  EXPECT_TRUE(os::read_file(memory.fd.get(), page - 6, back, 6).is_ok());
  EXPECT_EQ(std::memcmp(back, "lender", 6), 0);
}

TEST_F(Hugetlb, MoreThanThePoolHasIsAnErrorAndNoSignal) {
  NEEDS_POOL(pool);
  const uint64_t page = os::default_huge_page_nbytes();
  const uint64_t before = free_pages();
  const os::HugePagePool all = os::huge_page_pool(page);
  if (all.could_grow > 0) GTEST_SKIP() << "the pool grows by itself here";
  Backed memory;
  ASSERT_TRUE(memory.make(asking_hugetlb(), kTiB).is_ok());
  const Status grown = memory.grow(0, (before + 1) * page);
  ASSERT_EQ(grown.code(), Code::kResourceExhausted) << text_of(grown);
  EXPECT_EQ(grown.detail("limit"), "vm.nr_hugepages") << text_of(grown);
  EXPECT_EQ(grown.detail("limit_value"), std::to_string(all.total));
  EXPECT_EQ(grown.detail("free"), "0");
  EXPECT_EQ(grown.detail("huge_page_nbytes"), std::to_string(page));
  EXPECT_NE(grown.detail("wanted"), "");
  // The next call uses the pages that the failed call took.
  EXPECT_TRUE(memory.grow(0, before * page).is_ok());
  std::memset(memory.base, 1, before * page);
}

TEST_F(Hugetlb, TheLadderClimbsDownWhenThePoolIsEmpty) {
  const test::Setting alone("/proc/sys/vm/nr_hugepages");  // no other test fills the pool meanwhile
  const uint64_t size = size_with_an_empty_pool();
  if (size == 0) GTEST_SKIP() << "no size of huge page without pages here";
  Backed memory;
  const Status made = memory.make(asking_hugetlb(size, false), 64 * test::kMiB);
  ASSERT_TRUE(made.is_ok()) << text_of(made);
  EXPECT_NE(memory.got.pages, Pages::kHugetlb);
  const Status& why = memory.got.pages_refused;
  EXPECT_EQ(why.code(), Code::kResourceExhausted) << text_of(why);
  EXPECT_NE(why.detail("limit").find("nr_hugepages"), std::string::npos) << text_of(why);
  ASSERT_TRUE(memory.grow(0, 4 * test::kMiB).is_ok());
  std::memset(memory.base, 1, 4 * test::kMiB);
  EXPECT_NE(memory.describe().pages, Pages::kHugetlb);

  Result<Backing> exact = memory::choose_pages(asking_hugetlb(size), Mode::kShared);
  ASSERT_EQ(exact.status().code(), Code::kResourceExhausted) << text_of(exact.status());
  EXPECT_EQ(exact.status().detail("limit"), os::huge_page_pool(size).limit);
  if (size == os::default_huge_page_nbytes())
    EXPECT_EQ(exact.status().detail("limit"), "vm.nr_hugepages");
  EXPECT_EQ(exact.status().detail("limit_value"), "0");
  EXPECT_EQ(exact.status().detail("free"), "0");
}

TEST_F(Hugetlb, NoSuchSize) {
  for (const uint64_t size : {uint64_t{3} << 20, uint64_t{1} << 62, uint64_t{1}}) {
    for (const bool exact : {true, false}) {
      const Result<Backing> result =
          memory::choose_pages(asking_hugetlb(size, exact), Mode::kShared);
      EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << text_of(result.status());
      EXPECT_NE(result.status().detail("sizes"), "");
    }
  }
}

TEST_F(Hugetlb, NoPartOfAPage) {
  const uint64_t page = os::default_huge_page_nbytes();
  if (page == 0) GTEST_SKIP() << "this kernel has no hugetlb pages";
  EXPECT_EQ(os::create_hugetlb_memfd(os::Nonce{}, page + os::page_nbytes(), page).status().code(),
            Code::kInvalidArgument);
}

TEST_F(Hugetlb, MemoryToBeFrozenHasNone) {
  EXPECT_EQ(memory::choose_pages(asking_hugetlb(), Mode::kFrozen).status().code(),
            Code::kUnsupported);
  Result<Backing> lower = memory::choose_pages(asking_hugetlb(0, false), Mode::kFrozen);
  ASSERT_TRUE(lower.is_ok()) << text_of(lower.status());
  EXPECT_NE(lower.value().pages, Pages::kHugetlb);
  EXPECT_EQ(lower.value().pages_refused.code(), Code::kUnsupported);
}

// Opens an unsealed file of huge pages, of which a peer claims that its segment has `claimed`
// bytes.
Result<Ref<memory::Segment>> open_unsealed(int fd, uint64_t claimed) {
  memory::Segment::OpenRequest request;
  request.access = memory::Access::kWritable;
  request.allow_unsealed = true;
  request.nbytes = claimed;
  TENON_ASSIGN(const memory::Segment::Inspected inspected, memory::Segment::inspect(fd, request));
  TENON_ASSIGN(os::Fd own, os::duplicate(fd));
  return memory::Segment::open(&own, inspected, nullptr);
}

// pwrite refuses files of hugetlbfs.
TEST_F(Hugetlb, AnUnsealedFileOfAPeerIsWritten) {
  NEEDS_POOL(pool);
  const uint64_t page = os::default_huge_page_nbytes();
  const os::Fd file = must(os::create_hugetlb_memfd(os::Nonce{}, page, page));
  const Ref<memory::Segment> opened = must(open_unsealed(file.get(), page));
  ASSERT_TRUE(opened->check_pages(0, page).is_ok());
  const Status written = opened->write_through_fd(page - 6, "lender", 6, false);
  EXPECT_TRUE(written.is_ok()) << text_of(written);
  char back[6] = {};
  EXPECT_TRUE(opened->read_through_fd(page - 6, back, 6).is_ok());
  EXPECT_EQ(std::memcmp(back, "lender", 6), 0);
}

// munmap refuses a part of a huge page, and the mapping would stay for ever.
TEST_F(Hugetlb, AnUnsealedFileOfWhichAPartIsClaimedIsUnmapped) {
  NEEDS_POOL(pool);
  const uint64_t page = os::default_huge_page_nbytes();
  const os::Fd file = must(os::create_hugetlb_memfd(os::Nonce{}, 2 * page, page));
  Ref<memory::Segment> opened = must(open_unsealed(file.get(), os::page_nbytes()));
  const std::byte* const base = opened->base();
  EXPECT_EQ(opened->nbytes(), page);
  EXPECT_TRUE(os::inspect_pages(base, page).known);
  opened = Ref<memory::Segment>();
  EXPECT_FALSE(os::inspect_pages(base, page).known) << "the mapping is still there";
}

}  // namespace
}  // namespace tenon
