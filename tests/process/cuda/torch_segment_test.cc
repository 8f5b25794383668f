// Tests PyTorch's expandable segments: memory whose pieces the receiver fetches as fds from the
// process that made them.
#include <fcntl.h>
#include <sys/prctl.h>

#include "modern_kit.h"
#include "os/open_file.h"
#include "os/process.h"
#include "torch_kit.h"

namespace cuda_test {
namespace {

constexpr uint64_t kSegmentOffset = 4096;

template <typename Value>
void append(std::vector<std::byte>* bytes, const Value& value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), raw, raw + sizeof value);
}

// The producer: pieces of one page each, and their fds, which stay open as long as the pieces
// exist.
struct Segment {
  explicit Segment(uint64_t pages) : memory(std::vector<uint64_t>(pages, 1)) {
    // Under Yama with ptrace_scope=1 a process may trace only its descendants, and the receiver is
    // not this process's parent. This permits it.
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (const CUmemGenericAllocationHandle piece : memory.pieces()) {
      int fd = -1;
      EXPECT_EQ(driver().cuMemExportToShareableHandle(&fd, piece, kByFd, 0), CUDA_SUCCESS);
      fds.emplace_back(fd);
    }
  }
  // Writes the handle as PyTorch's ShareHeader lies in memory, with arbitrary bytes in its gap.
  CudaHandle share(const std::string& prefix, size_t first, size_t count, TorchFile* file,
                   uint64_t slot) const {
    CudaHandle handle;
    for (const char letter : prefix) handle.memory.push_back(static_cast<std::byte>(letter));
    append(&handle.memory, int32_t{getpid()});
    append(&handle.memory, uint32_t{0x5555});
    append(&handle.memory, kPage);
    append(&handle.memory, uint64_t{count});
    for (size_t i = first; i < first + count; ++i) append(&handle.memory, int32_t{fds[i].get()});
    handle.offset = kSegmentOffset;
    handle.nbytes = count * kPage - kSegmentOffset;
    handle.counter = file->name();
    handle.slot = slot;
    file->counter(slot) = 1;
    return handle;
  }
  Mapped memory;
  std::vector<os::Fd> fds;
};

TEST(CudaTorchSegment, IsOpenedInEveryFormWhoseLayoutIsKnown) {
  for (const char* const prefix : {"e", "\1e", "\2e"}) {
    in_two(
        {},
        [&](Line& line) {
          use_device();
          const Segment segment(4);
          for (unsigned char page = 0; page < 4; ++page)
            fill(segment.memory.base() + page * kPage, page, kPage);
          TorchFile file;
          const CudaHandle handle = segment.share(prefix, 1, 2, &file, 5);
          CU(cuStreamSynchronize(nullptr));
          line.send(handle);
          line.send(handle);
          line.expect('o');
          EXPECT_EQ(file.counter(5), 1);
          line.ask('r', 'd');
          EXPECT_EQ(file.counter(5), 0);
        },
        [](Line& line) {
          use_device();
          const CudaHandle handle = line.receive();
          Ref<Storage> storage = open(handle);
          EXPECT_EQ(storage->nbytes(), 2 * kPage - kSegmentOffset);
          EXPECT_EQ(byte_at(pointer_of(storage)), 1);
          EXPECT_EQ(byte_at(pointer_of(storage) + storage->nbytes() - 1), 2);
          // A handle of a part of the segment. It carries no more than the first message did.
          CudaHandle part = line.receive();
          part.nbytes = 16;
          part.slot = 6;
          part.counter.clear();
          Ref<Storage> other = open(part);
          EXPECT_EQ(pointer_of(other), pointer_of(storage));
          EXPECT_COUNT(2U, fake_cuda_calls, "cuMemImportFromShareableHandle", getpid());
          line.ask('o', 'r');
          storage = nullptr;
          release_all(&other);
          line.say('d');
        });
  }
}

// The same fd numbers later belong to other fds. The receiver must not take the mapped memory for
// them.
TEST(CudaTorchSegment, NumbersThatAreUsedAgainAreOthers) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        TorchFile file;
        Segment segment(1);
        const Segment next(1);
        fill(segment.memory.base(), 1, kPage);
        fill(next.memory.base(), 2, kPage);
        CU(cuStreamSynchronize(nullptr));
        line.send(segment.share("\2e", 0, 1, &file, 0));
        line.expect('o');
        ASSERT_EQ(dup3(next.fds[0].get(), segment.fds[0].get(), O_CLOEXEC), segment.fds[0].get());
        line.send(segment.share("\2e", 0, 1, &file, 1));
        line.expect('d');
        EXPECT_EQ(file.counter(0), 0);
        EXPECT_EQ(file.counter(1), 0);
      },
      [](Line& line) {
        use_device();
        Ref<Storage> first = open(line.receive());
        line.say('o');
        Ref<Storage> second = open(line.receive());
        EXPECT_EQ(byte_at(pointer_of(first)), 1);
        EXPECT_EQ(byte_at(pointer_of(second)), 2);
        first = nullptr;
        release_all(&second);
        line.say('d');
      });
}

TEST(CudaTorchSegment, WhatCannotBeFetchedIsToldApart) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        TorchFile file;
        const Segment segment(1);
        line.send(segment.share("\2e", 0, 1, &file, 0));
        line.expect('d');
        EXPECT_EQ(file.counter(0), 1);
      },
      [](Line& line) {
        use_device();
        const CudaHandle good = line.receive();
        const auto code = [&](size_t at, int32_t value) {
          CudaHandle bad = good;
          std::memcpy(bad.memory.data() + at, &value, sizeof value);
          return open_cuda(bad, nullptr, {}).status().code();
        };
        // After the two bytes of the form come the pid, the page's size and the fd.
        EXPECT_EQ(code(2, 0x3fffffff), Code::kPeerGone);
        EXPECT_EQ(code(26, 9999), Code::kNotFound);
        EXPECT_EQ(code(10, 4096), Code::kInvalidArgument);
        // The opener may not trace the producer, as in most containers.
        if (getuid() == 0) {
          EXPECT_EQ(wait_for(start([&] {
                      ASSERT_EQ(setresgid(65534, 65534, 65534), 0);
                      ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
                      const Result<os::Fd> fetched = os::fetch_fd(os::open_pidfd(getppid()), 0);
                      EXPECT_EQ(fetched.status().code(), Code::kPermission)
                          << fetched.status().message();
                    })),
                    0);
        }
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_RESERVATION, getpid());
        line.say('d');
      });
}

// The memory has more pieces than a message can carry fds. It is opened here but not lent on,
// because the message could never reach a receiver.
TEST(CudaTorchSegment, OneOfTooManyPiecesIsNotLentOn) {
  in_child({}, [] {
    use_device();
    {
      TorchFile file;
      const Segment segment(kMostCudaFds + 1);
      Ref<Storage> storage = open(segment.share("\2e", 0, kMostCudaFds + 1, &file, 0));
      const Status refused = share_cuda(storage, nullptr, {}).status();
      EXPECT_EQ(refused.code(), Code::kUnsupported);
      EXPECT_NE(refused.message().find("254 pieces"), std::string::npos) << refused.message();
      release_all(&storage);
      EXPECT_EQ(file.counter(0), 0);
    }
    expect_nothing_left();
  });
}

}  // namespace
}  // namespace cuda_test
