// Copies and fills, in stream order.
#include <cstring>

#include "memory.h"
#include "stream.h"
#include "vmm.h"

namespace fake_cuda {

CUresult resolve(CUdeviceptr pointer, size_t size, bool write, Place* place) {
  Process& here = process();
  {
    const std::lock_guard<std::mutex> guard(here.mutex);
    if (const Range* range = here.find(pointer);
        range != nullptr && pointer - range->base + size <= range->size) {
      place->backing = range->backing;
      place->bytes = range->backing->hidden + (pointer - range->base);
      return CUDA_SUCCESS;
    }
    if (here.find(pointer) == nullptr) {
      if (!here.in_arena(pointer)) return CUDA_ERROR_NOT_FOUND;
      const CUresult result = resolve_mapping(pointer, size, write, place);
      if (result == CUDA_SUCCESS) return result;
      if (result == CUDA_ERROR_ILLEGAL_ADDRESS) {
        record_fault(FAKE_CUDA_READ_ONLY_WRITTEN, "a write to memory that was mapped read-only");
        return result;
      }
    }
  }
  record_fault(FAKE_CUDA_STRAY_POINTER,
               std::to_string(size) + " bytes at " + std::to_string(pointer));
  return CUDA_ERROR_INVALID_VALUE;
}

namespace {

enum class Side { device, host, either };

// A host address that the driver does not know is pageable memory of the caller. It is accepted
// wherever a host pointer is.
CUresult find_place(CUdeviceptr pointer, size_t size, Side side, bool write, Place* place) {
  const CUresult result = resolve(pointer, size, write, place);
  if (result != CUDA_ERROR_NOT_FOUND) return result;
  if (side == Side::device || pointer == 0) return CUDA_ERROR_INVALID_VALUE;
  place->bytes = reinterpret_cast<unsigned char*>(pointer);
  return CUDA_SUCCESS;
}

void check_not_freed(const Place& place) {
  if (place.backing == nullptr || !place.backing->imported || place.backing->object == kNoObject)
    return;
  const Object& object = world().at(place.backing->object);
  if (object.id != place.backing->id || object.freed == 0) return;
  record_fault(FAKE_CUDA_USED_AFTER_FREE, "allocation " + std::to_string(place.backing->id));
}

struct Copy {
  CUdeviceptr to = 0;
  CUdeviceptr from = 0;
  size_t size = 0;
  Side to_side = Side::either;
  Side from_side = Side::either;
};

CUresult copy(bool per_thread, CUstream handle, const Copy& what, bool wait) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (what.size == 0) return CUDA_SUCCESS;
  Place to;
  Place from;
  FAKE_CUDA_TRY(find_place(what.to, what.size, what.to_side, true, &to));
  FAKE_CUDA_TRY(find_place(what.from, what.size, what.from_side, false, &from));
  const uint64_t number = stream->submit([to, from, size = what.size] {
    check_not_freed(to);
    check_not_freed(from);
    std::memmove(to.bytes, from.bytes, size);
  });
  // A copy from a device into memory that the driver does not know blocks until it is done, even an
  // asynchronous copy. The driver's documentation says so, and an H100 did it.
  const bool is_into_pageable = to.backing == nullptr && from.backing != nullptr;
  if (wait || is_into_pageable) stream->wait(number);
  return CUDA_SUCCESS;
}

CUresult fill(bool per_thread, CUstream handle, CUdeviceptr to, unsigned char value, size_t size,
              bool wait) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (size == 0) return CUDA_SUCCESS;
  Place place;
  FAKE_CUDA_TRY(find_place(to, size, Side::device, true, &place));
  const uint64_t number = stream->submit([place, value, size] {
    check_not_freed(place);
    std::memset(place.bytes, value, size);
  });
  if (wait) stream->wait(number);
  return CUDA_SUCCESS;
}

CUdeviceptr address(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

constexpr Side kDevice = Side::device;
constexpr Side kHost = Side::host;
constexpr Side kEither = Side::either;

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_BOTH(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), copy, nullptr,
               {to, from, size, kEither, kEither}, true)
FAKE_CUDA_BOTH(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void* from, size_t size), copy,
               nullptr, {to, address(from), size, kDevice, kHost}, true)
FAKE_CUDA_BOTH(cuMemcpyDtoH_v2, _ptds, (void* to, CUdeviceptr from, size_t size), copy, nullptr,
               {address(to), from, size, kHost, kDevice}, true)
FAKE_CUDA_BOTH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), copy,
               nullptr, {to, from, size, kDevice, kDevice}, true)
FAKE_CUDA_BOTH(cuMemcpyAsync, _ptsz,
               (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), copy, stream,
               {to, from, size, kEither, kEither}, false)
FAKE_CUDA_BOTH(cuMemcpyHtoDAsync_v2, _ptsz,
               (CUdeviceptr to, const void* from, size_t size, CUstream stream), copy, stream,
               {to, address(from), size, kDevice, kHost}, false)
FAKE_CUDA_BOTH(cuMemcpyDtoHAsync_v2, _ptsz,
               (void* to, CUdeviceptr from, size_t size, CUstream stream), copy, stream,
               {address(to), from, size, kHost, kDevice}, false)
FAKE_CUDA_BOTH(cuMemcpyDtoDAsync_v2, _ptsz,
               (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), copy, stream,
               {to, from, size, kDevice, kDevice}, false)
FAKE_CUDA_BOTH(cuMemsetD8_v2, _ptds, (CUdeviceptr to, unsigned char value, size_t size), fill,
               nullptr, to, value, size, true)
FAKE_CUDA_BOTH(cuMemsetD8Async, _ptsz,
               (CUdeviceptr to, unsigned char value, size_t size, CUstream stream), fill, stream,
               to, value, size, false)
