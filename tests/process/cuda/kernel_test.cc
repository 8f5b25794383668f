// Tests a kernel that runs on memory that another process lent, in a stream of the borrower. The
// kernel is PTX text, which a driver compiles for its own device.
#include "connected_kit.h"
#include "device/arena.h"
#include "support/must.h"

namespace cuda_test {
namespace {

// A kernel that adds 1 to each of `count` words. It needs PTX 6.0 and compute capability 5.0, which
// every driver from 11.4 on accepts.
constexpr char kPtx[] = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry tenon_test_add_one(.param .u64 to, .param .u32 count)
{
  .reg .pred %beyond;
  .reg .b32 %block, %size, %thread, %word, %end, %value;
  .reg .b64 %base, %at;

  ld.param.u64 %base, [to];
  ld.param.u32 %end, [count];
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %word, %block, %size, %thread;
  setp.ge.u32 %beyond, %word, %end;
  @%beyond bra over;
  cvta.to.global.u64 %base, %base;
  mul.wide.u32 %at, %word, 4;
  add.u64 %at, %base, %at;
  ld.global.u32 %value, [%at];
  add.u32 %value, %value, 1;
  st.global.u32 [%at], %value;
over:
  ret;
}
)";

// This is no multiple of a block's threads, so the last threads have nothing to do.
constexpr uint32_t kWords = 1000;
constexpr uint64_t kWordsNbytes = 4096;

template <typename Function>
Function of_driver(const char* name) {
  void* const found = dlsym(library(), name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function>(found);
}

class AddOne {
 public:
  AddOne() {
    EXPECT_EQ(of_driver<PFN_cuModuleLoadData_v2000>("cuModuleLoadData")(&module_, kPtx),
              CUDA_SUCCESS);
    EXPECT_EQ(of_driver<PFN_cuModuleGetFunction_v2000>("cuModuleGetFunction")(&function_, module_,
                                                                              "tenon_test_add_one"),
              CUDA_SUCCESS);
  }
  AddOne(const AddOne&) = delete;
  AddOne& operator=(const AddOne&) = delete;
  ~AddOne() {
    EXPECT_EQ(of_driver<PFN_cuModuleUnload_v2000>("cuModuleUnload")(module_), CUDA_SUCCESS);
  }
  void to(CUdeviceptr pointer, CUstream stream) const {
    constexpr unsigned kThreads = 128;
    uint32_t count = kWords;
    void* parameters[] = {&pointer, &count};
    EXPECT_EQ(of_driver<PFN_cuLaunchKernel_v4000>("cuLaunchKernel")(
                  function_, (kWords + kThreads - 1) / kThreads, 1, 1, kThreads, 1, 1, 0, stream,
                  parameters, nullptr),
              CUDA_SUCCESS);
  }

 private:
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

// Expects `kWords` words that began as the byte `before` and to which `times` was added, and only
// `before` bytes behind them.
void expect_words(CUdeviceptr pointer, unsigned char before, uint32_t times, CUstream stream) {
  std::vector<uint32_t> words(kWordsNbytes / sizeof(uint32_t));
  EXPECT_EQ(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(words.data()), pointer, kWordsNbytes,
                                   stream),
            CUDA_SUCCESS);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), CUDA_SUCCESS);
  const uint32_t word = before * 0x01010101U;
  EXPECT_EQ(std::count(words.begin(), words.begin() + kWords, word + times), kWords);
  EXPECT_EQ(std::count(words.begin() + kWords, words.end(), word),
            static_cast<int64_t>(words.size() - kWords));
}

// The lender's fill is slow. Only the handle's event holds the kernel back.
TEST(CudaKernel, OnMemoryThatWasLent) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        CUstream stream = new_stream();
        Memory memory(kWordsNbytes);
        fill(memory.pointer, 0, kWordsNbytes, stream);
        Ref<Storage> storage = wrap(&memory);
        take_time(stream);
        fill(memory.pointer, 7, kWordsNbytes, stream);
        line.send(share(storage, stream));
        line.expect('d');
        expect_words(memory.pointer, 7, 2, stream);
        release_all(&storage);
        EXPECT_EQ(memory.freed, 1);
        CU(cuStreamDestroy(stream));
      },
      [](Line& line) {
        use_device();
        {
          const AddOne add_one;
          CUstream stream = new_stream();
          Ref<Storage> storage = open(line.receive(), stream);
          add_one.to(pointer_of(storage), stream);
          add_one.to(pointer_of(storage), stream);
          expect_words(pointer_of(storage), 7, 2, stream);
          release_all(&storage);
          CU(cuStreamDestroy(stream));
        }
        line.say('d');
      });
}

// A block of a mapped arena goes to the borrower and back. Each side's stream comes after the other
// side's kernel.
TEST(CudaKernel, OnAMappedBlockOverAConnection) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        CUstream stream = new_stream();
        EXPECT_TRUE(connection.set_stream(0, stream).is_ok());
        {
          const AddOne add_one;
          Ref<CudaArena> arena = must(CudaArena::create(
              {.device = 0, .transport = CudaTransport::kFd, .capacity_nbytes = 1 << 20}));
          Ref<Storage> storage = must(arena->allocate(kWordsNbytes, {.timeout_ns = 0}));
          fill(pointer_of(storage), 3, kWordsNbytes, stream);
          take_time(stream);
          add_one.to(pointer_of(storage), stream);
          send(connection, {storage});
          const std::vector<Ref<Storage>> back = receive(connection);
          ASSERT_EQ(back.size(), 1U);
          add_one.to(pointer_of(back[0]), stream);
          expect_words(pointer_of(back[0]), 3, 3, stream);
          line.say('d');
        }
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        CU(cuStreamDestroy(stream));
        line.expect('e');
      },
      [](Line& line, Connection& connection) {
        use_device();
        CUstream stream = new_stream();
        EXPECT_TRUE(connection.set_stream(0, stream).is_ok());
        {
          const AddOne add_one;
          const std::vector<Ref<Storage>> storages = receive(connection);
          ASSERT_EQ(storages.size(), 1U);
          take_time(stream);
          add_one.to(pointer_of(storages[0]), stream);
          send(connection, storages);
          line.expect('d');
        }
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        CU(cuStreamDestroy(stream));
        line.say('e');
      });
}

}  // namespace
}  // namespace cuda_test
