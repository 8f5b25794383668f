// Tests that the driver's reason why memory cannot be lent stays in the error.
#include "cuda/memory.h"
#include "cuda/pool.h"
#include "cuda/vmm.h"
#include "details.h"
#include "modern_kit.h"
#include "support/must.h"

namespace cuda_test {
namespace {

void expect_error(const Status& status, Code code, CUresult error, const char* name) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_EQ(status.detail("cuda_error"), std::to_string(static_cast<int>(error)))
      << status.message();
  EXPECT_EQ(status.detail("cuda_error_name"), name) << status.message();
}

TEST(CudaPieces, AHoleIsNamedWithTheDriversWord) {
  in_child({}, [] {
    use_device();
    const Mapped mapped({1, 2});
    cuda::Pieces found = must(cuda::find_pieces(mapped.base(), 3 * kPage, 0));
    EXPECT_EQ(found.sizes, (std::vector<uint64_t>{kPage, 2 * kPage}));
    const Status hole = cuda::find_pieces(mapped.base(), 4 * kPage, 0).status();
    EXPECT_EQ(hole.code(), Code::kUnsupported) << hole.message();
    EXPECT_TRUE(says(hole, "no device memory is mapped at 0x")) << hole.message();
    EXPECT_NE(hole.detail("cuda_error"), "");
    EXPECT_NE(hole.detail("cuda_error_name"), "");
  });
}

TEST(CudaPieces, AnotherFailureIsNoHole) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  const auto fails = [](CUresult error, Code code, const char* name) {
    in_child({"FAKE_CUDA_FAIL=cuMemGetAddressRange:1=" + std::to_string(static_cast<int>(error))},
             [&] {
               use_device();
               const Mapped mapped({1});
               const Status status = cuda::find_pieces(mapped.base(), kPage, 0).status();
               expect_error(status, code, error, name);
               EXPECT_EQ(says(status, "no device memory is mapped"), code == Code::kUnsupported)
                   << status.message();
             });
  };
  fails(CUDA_ERROR_ILLEGAL_ADDRESS, Code::kIo, "CUDA_ERROR_ILLEGAL_ADDRESS");
  fails(CUDA_ERROR_OUT_OF_MEMORY, Code::kResourceExhausted, "CUDA_ERROR_OUT_OF_MEMORY");
  fails(CUDA_ERROR_NOT_FOUND, Code::kUnsupported, "CUDA_ERROR_NOT_FOUND");
  fails(CUDA_ERROR_INVALID_VALUE, Code::kUnsupported, "CUDA_ERROR_INVALID_VALUE");
}

TEST(CudaPieces, APoolThatCannotBeLentIsNamedWithTheDriversWord) {
  in_child({}, [] {
    use_device();
    const CUmemoryPool pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
    const CUdeviceptr pointer = allocate_from(pool, kNbytes);
    CU(cuStreamSynchronize(nullptr));
    const Status status = cuda::export_pool(cuda::find_allocation(pointer).value()).status();
    expect_error(status, Code::kUnsupported, CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE");
    EXPECT_TRUE(says(status, "made without a handle type")) << status.message();
    CU(cuMemFree(pointer));
    CU(cuMemPoolDestroy(pool));
  });
}

}  // namespace
}  // namespace cuda_test
