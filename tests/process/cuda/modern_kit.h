// Helpers for tests of device memory that is not from cudaMalloc: memory mapped piece by piece, and
// memory of pools.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "device/arena.h"
#include "share_kit.h"

namespace cuda_test {

constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr auto kByFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// Pieces of the given numbers of pages, mapped at neighbouring addresses of a larger reservation,
// as in a framework's expandable segment.
class Mapped {
 public:
  explicit Mapped(const std::vector<uint64_t>& pages, CUmemAllocationHandleType type = kByFd) {
    for (const uint64_t each : pages) nbytes_ += each * kPage;
    EXPECT_EQ(driver().cuMemAddressReserve(&base_, nbytes_ + 8 * kPage, 0, 0, 0), CUDA_SUCCESS);
    CUdeviceptr at = base_;
    for (const uint64_t each : pages) {
      CUmemAllocationProp prop{};
      prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
      prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      prop.requestedHandleTypes = type;
      CUmemGenericAllocationHandle piece = 0;
      EXPECT_EQ(driver().cuMemCreate(&piece, each * kPage, &prop, 0), CUDA_SUCCESS);
      EXPECT_EQ(driver().cuMemMap(at, each * kPage, 0, piece, 0), CUDA_SUCCESS);
      pieces_.push_back(piece);
      at += each * kPage;
    }
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(driver().cuMemSetAccess(base_, nbytes_, &access, 1), CUDA_SUCCESS);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    EXPECT_EQ(driver().cuMemUnmap(base_, nbytes_), CUDA_SUCCESS);
    EXPECT_EQ(driver().cuMemAddressFree(base_, nbytes_ + 8 * kPage), CUDA_SUCCESS);
    for (const CUmemGenericAllocationHandle piece : pieces_)
      EXPECT_EQ(driver().cuMemRelease(piece), CUDA_SUCCESS);
  }
  CUdeviceptr base() const { return base_; }
  uint64_t nbytes() const { return nbytes_; }
  const std::vector<CUmemGenericAllocationHandle>& pieces() const { return pieces_; }
  Ref<Storage> wrap(uint64_t offset, uint64_t nbytes, bool read_only = false) {
    auto* const data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(base_ + offset));
    const auto let_go = [](void* context) { ++static_cast<Mapped*>(context)->gone; };
    Result<Ref<Storage>> storage = wrap_cuda(data, nbytes, 0, let_go, this, read_only);
    EXPECT_TRUE(storage.is_ok()) << storage.status().message();
    return storage.is_ok() ? std::move(storage).value() : Ref<Storage>();
  }
  int gone = 0;  // storages that were released

 private:
  CUdeviceptr base_ = 0;
  uint64_t nbytes_ = 0;
  std::vector<CUmemGenericAllocationHandle> pieces_;
};

// Whether the device enforces read-only mappings. No attribute says so, and the test tries it.
inline bool keeps_read_only() {
  use_device();
  const Mapped memory({1});
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  return driver().cuMemSetAccess(memory.base(), kPage, &access, 1) == CUDA_SUCCESS;
}
inline bool has_fabric() {
  use_device();
  int supported = 0;
  constexpr auto kSupported = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
  if (driver().cuDeviceGetAttribute(&supported, kSupported, 0) != CUDA_SUCCESS || supported == 0)
    return false;
  // A process may lack the permission to use fabric handles on a device that has them.
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  CUmemGenericAllocationHandle piece = 0;
  return driver().cuMemCreate(&piece, kPage, &prop, 0) == CUDA_SUCCESS;
}

inline CUmemoryPool make_pool(CUmemAllocationHandleType type = kByFd) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = type;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(driver().cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
  return pool;
}

inline CUdeviceptr allocate_from(CUmemoryPool pool, uint64_t nbytes) {
  CUdeviceptr pointer = 0;
  EXPECT_EQ(driver().cuMemAllocFromPoolAsync(&pointer, nbytes, pool, nullptr), CUDA_SUCCESS);
  return pointer;
}

// Memory that travels by the given transport, with a count of how often its owner got it back.
class Lendable {
 public:
  explicit Lendable(CudaTransport way, uint64_t nbytes = kNbytes, unsigned char byte = 7)
      : nbytes_(nbytes) {
    if (way == CudaTransport::kFd) mapped_ = std::make_unique<Mapped>(std::vector<uint64_t>{1});
    if (way == CudaTransport::kFabric)
      mapped_ = std::make_unique<Mapped>(std::vector<uint64_t>{1}, CU_MEM_HANDLE_TYPE_FABRIC);
    if (way == CudaTransport::kPool) pool_ = make_pool();
    if (mapped_) {
      base_ = mapped_->base();
    } else if (pool_ != nullptr) {
      base_ = allocate_from(pool_, nbytes);
    } else {
      EXPECT_EQ(driver().cuMemAlloc(&base_, nbytes), CUDA_SUCCESS);
    }
    fill(base_, byte, nbytes);
    EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }
  Lendable(const Lendable&) = delete;
  Lendable& operator=(const Lendable&) = delete;
  ~Lendable() {
    free();
    if (pool_ != nullptr) EXPECT_EQ(driver().cuMemPoolDestroy(pool_), CUDA_SUCCESS);
  }
  Result<Ref<Storage>> try_wrap() {
    const auto come_back = [](void* self) { ++static_cast<Lendable*>(self)->back; };
    return wrap_cuda(reinterpret_cast<std::byte*>(static_cast<uintptr_t>(base_)), nbytes_, 0,
                     come_back, this, false);
  }
  Ref<Storage> wrap() { return try_wrap().value(); }
  int back = 0;
  // Frees the memory early, as its owner might.
  void free() {
    const CUdeviceptr base = std::exchange(base_, 0);
    if (base == 0) return;
    if (!mapped_ && pool_ == nullptr) EXPECT_EQ(driver().cuMemFree(base), CUDA_SUCCESS);
    mapped_ = nullptr;
    if (pool_ == nullptr) return;
    EXPECT_EQ(driver().cuMemFreeAsync(base, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }

 private:
  uint64_t nbytes_;
  CUdeviceptr base_ = 0;
  std::unique_ptr<Mapped> mapped_;
  CUmemoryPool pool_ = nullptr;
};

inline Ref<CudaArena> arena_of(uint64_t nbytes, CudaTransport transport = CudaTransport::kNone) {
  Result<Ref<CudaArena>> made =
      CudaArena::create({.device = 0, .transport = transport, .capacity_nbytes = nbytes});
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return made.is_ok() ? std::move(made).value() : Ref<CudaArena>();
}

}  // namespace cuda_test
