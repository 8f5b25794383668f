// These tests seal a memfd while something still holds one of its pages.
#include "os/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "os/fd.h"
#include "support/must.h"
#include "unit/os/guards.h"

namespace tenon::os {
namespace {

class MemfdTest : public test::Guarded {};

// Holds a page of the memfd in a pipe. The kernel's search for pages to reclaim holds pages in the
// same way, but only for a moment.
struct HeldPage {
  explicit HeldPage(int fd) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader = Fd(ends[0]);
    writer = Fd(ends[1]);
    void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(page, MAP_FAILED);
    iovec part{page, 4096};
    EXPECT_EQ(::vmsplice(writer.get(), &part, 1, 0), 4096);
    EXPECT_EQ(::munmap(page, 4096), 0);
  }
  void let_go() {
    char bytes[4096];
    EXPECT_EQ(::read(reader.get(), bytes, sizeof bytes), 4096);
  }
  Fd reader;
  Fd writer;
};

Fd filled() {
  Nonce nonce = must(random_nonce());
  Fd fd = must(create_memfd(nonce, 4096));
  const char byte = 1;
  EXPECT_EQ(::pwrite(fd.get(), &byte, 1, 0), 1);
  return fd;
}

TEST_F(MemfdTest, SealingOutlastsWhoHoldsAPageForAMoment) {
  const Fd fd = filled();
  HeldPage held(fd.get());
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    held.let_go();
  });
  const Status status = add_seals(fd.get(), kSealWrite);
  later.join();
  EXPECT_TRUE(status.is_ok()) << status.message();
  const char byte = 2;
  EXPECT_EQ(::pwrite(fd.get(), &byte, 1, 0), -1);
}

TEST_F(MemfdTest, SealingGivesUpOnAPageThatStaysHeld) {
  const Fd fd = filled();
  HeldPage held(fd.get());
  const Status status = add_seals(fd.get(), kSealWrite);
  EXPECT_EQ(status.code(), Code::kIo);
  held.let_go();
  EXPECT_TRUE(add_seals(fd.get(), kSealWrite).is_ok());
}

}  // namespace
}  // namespace tenon::os
