// These tests open segments that another process made. They bound what such a segment can use up on
// this machine.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/segment.h"
#include "os/limits.h"
#include "support/must.h"
#include "unit/os/guards.h"

namespace tenon::memory {
namespace {

class ForeignSegment : public test::Guarded {};

Result<Ref<Segment>> open_foreign(int fd, Access access, uint64_t needed,
                                  bool allow_unsealed = false) {
  Segment::OpenRequest request;
  request.access = access;
  request.needed_nbytes = needed;
  request.allow_unsealed = allow_unsealed;
  TENON_ASSIGN(const Segment::Inspected inspected, Segment::inspect(fd, request));
  TENON_ASSIGN(os::Fd own, os::duplicate(fd));
  return Segment::open(&own, inspected, nullptr);
}

os::Fd sealed(uint64_t nbytes, unsigned more_seals, unsigned flags = 0) {
  os::Fd file(::memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!file.is_open()) return file;
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(nbytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | more_seals), 0);
  return file;
}

TEST_F(ForeignSegment, HolesAreFilledUpToAQuarterOfTheMachine) {
  const uint64_t most = os::machine_nbytes() / 4;
  ASSERT_GT(most, 0U);
  const os::Fd file = sealed(2 * most, 0);
  Result<Ref<Segment>> opened = open_foreign(file.get(), Access::kWritable, 2 * most);
  ASSERT_TRUE(opened.is_ok()) << opened.status().message();
  Segment& segment = *opened.value();
  const Status refused = segment.check_pages(0, most + 4096);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.detail("limit"), "filled_nbytes") << refused.message();
  EXPECT_EQ(segment_totals().filled_nbytes.load(), 0U);
  EXPECT_TRUE(segment.check_pages(0, 8192).is_ok());
  EXPECT_EQ(segment_totals().filled_nbytes.load(), 8192U);
  opened = Ref<Segment>();
  EXPECT_EQ(segment_totals().filled_nbytes.load(), 0U);
}

constexpr uint64_t kHugePage = uint64_t{2} << 20;

TEST_F(ForeignSegment, HugePagesThatTheirWritersCanTakeAwayAreRefused) {
  const os::Fd file = sealed(kHugePage, 0, MFD_HUGETLB | MFD_HUGE_2MB);
  if (!file.is_open()) GTEST_SKIP() << "no hugetlbfs here";
  const Status refused = open_foreign(file.get(), Access::kAuto, 4096).status();
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_NE(refused.message().find("hugetlbfs"), std::string::npos) << refused.message();
  EXPECT_TRUE(open_foreign(file.get(), Access::kAuto, 4096, true).is_ok());
}

TEST_F(ForeignSegment, HugePagesThatAreLackingAreAnErrorAndNoSignal) {
  const os::Fd file = sealed(kHugePage, os::kSealFutureWrite, MFD_HUGETLB | MFD_HUGE_2MB);
  if (!file.is_open()) GTEST_SKIP() << "no hugetlbfs here";
  Ref<Segment> opened = must(open_foreign(file.get(), Access::kReadOnly, 4096));
  const Status status = opened->check_pages(0, 4096);
  // The load succeeds if the pool has a page.
  if (status.is_ok()) {
    EXPECT_EQ(*opened->base(), std::byte{0});
  } else {
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  }
}

}  // namespace
}  // namespace tenon::memory
