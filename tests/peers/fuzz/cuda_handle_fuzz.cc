// libFuzzer target: it decodes any bytes as a CUDA handle. This must end in an error, or in a sound
// handle that encodes to the same bytes.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/route.h"
#include "device/torch_handle.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::device;

void check_route(std::span<const std::byte> bytes) {
  Result<CudaRoute> route = decode_cuda_route(bytes);
  if (!route.is_ok())
    return fuzz::require_refusal(route.status(), {Code::kCorrupt, Code::kIncompatible});
  require(!route.value().sizes.empty() && route.value().sizes.size() <= kMostCudaFds,
          "a route to nothing, or with too many fds");
  require(route.value().nbytes() >= route.value().sizes.size(),
          "a route to pieces of no bytes, or to more than there can be");
  // The bytes may differ, because neighbouring runs of one size are merged.
  Result<std::vector<std::byte>> again = encode_cuda_route(route.value(), route.value().read_only);
  require(again.is_ok() && decode_cuda_route(again.value()).value().sizes == route.value().sizes,
          "encoded a route is another one");
}

void check(std::span<const std::byte> bytes) {
  if (is_cuda_route(bytes)) return check_route(bytes);
  Result<CudaMemoryHandle> handle = decode_cuda_memory_handle(bytes);
  if (!handle.is_ok())
    return fuzz::require_refusal(handle.status(),
                                 {Code::kCorrupt, Code::kIncompatible, Code::kUnsupported});
  const CudaMemoryHandle& it = handle.value();
  if (it.type == CudaMemoryHandle::Type::kIpc) {
    const std::vector<std::byte> again = encode_cuda_memory_handle(it.ipc, it.form);
    require(again.size() == bytes.size() && std::equal(again.begin(), again.end(), bytes.begin()),
            "encoded it gives other bytes");
    return;
  }
  require(it.form == CudaForm::kB || it.form == CudaForm::kC || it.form == CudaForm::kD,
          "a segment of a form that has none");
  require(it.pid > 0 && !it.fds.empty(), "a segment of nobody, or of nothing");
  require(it.fds.size() * sizeof(int32_t) < bytes.size(), "more fds than bytes");
  require(std::all_of(it.fds.begin(), it.fds.end(), [](int32_t fd) { return fd >= 0; }),
          "a number that is no fd");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
