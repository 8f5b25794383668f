#include "cuda/error.h"

#include <cstdlib>
#include <utility>

namespace tenon::cuda {
namespace {

struct Meaning {
  Code code;
  const char* limit = nullptr;  // the limit that RESOURCE_EXHAUSTED names
};

Meaning meaning_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return {Code::kResourceExhausted, "device memory"};
    case CUDA_ERROR_TOO_MANY_PEERS: return {Code::kResourceExhausted, "peer devices"};
    // Another process uses the device exclusively.
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return {Code::kResourceExhausted, "compute mode of the device"};
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: return {Code::kResourceExhausted, "clients of MPS"};
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
      return {Code::kResourceExhausted, "device connections of MPS"};
    case CUDA_ERROR_NOT_PERMITTED: return {Code::kPermission};
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: return {Code::kUnsupported};
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_ILLEGAL_STATE:
    case CUDA_ERROR_ALREADY_MAPPED:
    case CUDA_ERROR_NOT_MAPPED:
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
    case CUDA_ERROR_CAPTURED_EVENT: return {Code::kInvalidArgument};
    case CUDA_ERROR_NOT_FOUND: return {Code::kNotFound};
    case CUDA_ERROR_NOT_READY: return {Code::kWouldBlock};
    case CUDA_ERROR_TIMEOUT: return {Code::kTimeout};
    default: return {Code::kIo};
  }
}

Status error_status(const Driver& driver, CUresult result, const std::string& what,
                    const Meaning& meaning) {
  const int number = static_cast<int>(result);
  const char* name = nullptr;
  const char* text = nullptr;
  // The driver has no name for an error that it does not know.
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
    name = "CUDA_ERROR_?";
  if (driver.cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr)
    text = "no such error is known to the driver";
  Status status = Status(meaning.code, format("%s: %s (%d: %s)", what.c_str(), name, number, text))
                      .with("cuda_error", number)
                      .with("cuda_error_name", std::string(name));
  if (meaning.limit != nullptr)
    status = std::move(status).with("limit", std::string(meaning.limit));
  return status;
}

}  // namespace

Status result_status(const Driver& driver, CUresult result, const std::string& what) {
  return error_status(driver, result, what, meaning_of(result));
}

Status unsupported_status(const Driver& driver, CUresult result, const std::string& what) {
  return error_status(driver, result, what, {Code::kUnsupported});
}

CUresult result_of(const Status& status) {
  return static_cast<CUresult>(std::atoi(std::string(status.detail("cuda_error")).c_str()));
}

bool ends_work(CUresult result) noexcept {
  switch (result) {
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
  }
}

}  // namespace tenon::cuda
