// Tests how a failed call of the driver becomes a Status.
#include "cuda/error.h"

#include <gtest/gtest.h>

#include <string>

#include "process/cuda/details.h"
#include "process/cuda/kit.h"

namespace tenon::cuda {
namespace {

using cuda_test::in_child;
using cuda_test::says;

TEST(Error, HasTheDriversWords) {
  in_child({}, [] {
    const Status status =
        result_status(*driver().value(), CUDA_ERROR_INVALID_HANDLE, "cuIpcOpenMemHandle of /a");
    EXPECT_TRUE(says(status, "cuIpcOpenMemHandle of /a: CUDA_ERROR_INVALID_HANDLE (400: "))
        << status.message();
    EXPECT_EQ(status.detail("cuda_error"), "400");
    EXPECT_EQ(status.detail("cuda_error_name"), "CUDA_ERROR_INVALID_HANDLE");
    EXPECT_EQ(status.detail("limit"), "");
  });
}

TEST(Error, HasTheCodeThatSaysWhatToDo) {
  in_child({}, [] {
    const struct {
      CUresult result;
      Code code;
      const char* limit;
    } cases[] = {
        {CUDA_ERROR_OUT_OF_MEMORY, Code::kResourceExhausted, "device memory"},
        {CUDA_ERROR_DEVICE_UNAVAILABLE, Code::kResourceExhausted, "compute mode of the device"},
        {CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, Code::kResourceExhausted, "clients of MPS"},
        {CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, Code::kResourceExhausted,
         "device connections of MPS"},
        {CUDA_ERROR_NOT_PERMITTED, Code::kPermission, ""},
        {CUDA_ERROR_NOT_SUPPORTED, Code::kUnsupported, ""},
        {CUDA_ERROR_NO_DEVICE, Code::kUnsupported, ""},
        {CUDA_ERROR_INVALID_VALUE, Code::kInvalidArgument, ""},
        {CUDA_ERROR_INVALID_CONTEXT, Code::kInvalidArgument, ""},
        {CUDA_ERROR_NOT_FOUND, Code::kNotFound, ""},
        {CUDA_ERROR_NOT_READY, Code::kWouldBlock, ""},
        {CUDA_ERROR_ILLEGAL_ADDRESS, Code::kIo, ""},
        {CUDA_ERROR_ECC_UNCORRECTABLE, Code::kIo, ""},
        {CUDA_ERROR_UNKNOWN, Code::kIo, ""},
    };
    for (const auto& each : cases) {
      const Status status = result_status(*driver().value(), each.result, "a call");
      EXPECT_EQ(status.code(), each.code) << status.message();
      EXPECT_EQ(status.detail("limit"), each.limit) << status.message();
    }
  });
}

TEST(Error, OfANewerDriverHasItsNumber) {
  in_child({}, [] {
    const Status status = result_status(*driver().value(), static_cast<CUresult>(987), "a call");
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_TRUE(says(status, "a call: CUDA_ERROR_? (987: ")) << status.message();
    EXPECT_EQ(status.detail("cuda_error"), "987");
  });
}

}  // namespace
}  // namespace tenon::cuda
