#include "device/export.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "cuda/ipc.h"
#include "cuda/pool.h"
#include "cuda/vmm.h"

namespace tenon::device {
namespace {

using Exported = std::shared_ptr<const CudaExport>;

constexpr size_t kKept = 4096;  // the most IPC handles that are remembered; they keep nothing open

struct PoolFd {
  os::Fd fd;
  os::Nonce nonce;
};

// The exports that were made before. Exports with fds are held weakly: only their users keep them,
// because an open fd keeps the memory, and its owner may have freed it.
struct KnownExports {
  std::mutex mutex;
  // The key is the id of the allocation, which no other allocation gets.
  std::unordered_map<uint64_t, Exported> by_ipc;
  struct Range {
    uint64_t id;
    cuda::DevicePointer base;
    uint64_t nbytes;
    CudaTransport transport;
    auto operator<=>(const Range&) const noexcept = default;
  };
  std::map<Range, std::weak_ptr<const CudaExport>> by_range;
  std::map<void*, std::weak_ptr<const PoolFd>> pools;  // there are only a few
  size_t crowded = 64;  // the size of by_range at which add() removes expired entries

  void add(const Range& range, const Exported& exported) {
    // At least half of the entries were added since the last search for expired ones, so the
    // amortised cost of each is constant.
    if (by_range.size() >= crowded) {
      std::erase_if(by_range, [](const auto& entry) { return entry.second.expired(); });
      crowded = std::max<size_t>(64, 2 * by_range.size());
    }
    by_range[range] = exported;
  }
};
KnownExports& known() noexcept { return immortal<KnownExports>(); }

Result<Exported> by_ipc(const cuda::Allocation& allocation) {
  {
    const std::lock_guard<std::mutex> lock(known().mutex);
    if (const auto found = known().by_ipc.find(allocation.id); found != known().by_ipc.end())
      return found->second;
  }
  TENON_ASSIGN(const cuda::IpcHandle handle, cuda::ipc_handle(allocation));
  auto made = std::make_shared<CudaExport>();
  made->route.transport = CudaTransport::kIpc;
  made->route.data = handle;
  made->base = allocation.base;
  const std::lock_guard<std::mutex> lock(known().mutex);
  if (known().by_ipc.size() >= kKept) known().by_ipc.clear();
  known().by_ipc.emplace(allocation.id, made);
  return Exported(std::move(made));
}

// Gives the fd of the allocation's pool, which serves all allocations of the pool.
Result<std::shared_ptr<const PoolFd>> pool_fd(const cuda::Allocation& allocation) {
  const std::lock_guard<std::mutex> lock(known().mutex);
  if (std::shared_ptr<const PoolFd> there = known().pools[allocation.pool].lock()) return there;
  TENON_ASSIGN(os::Fd fd, cuda::export_pool(allocation));
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  auto made = std::make_shared<const PoolFd>(PoolFd{std::move(fd), nonce});
  std::erase_if(known().pools, [](const auto& entry) { return entry.second.expired(); });
  known().pools[allocation.pool] = made;
  return made;
}

Status fill_pool(const cuda::Allocation& allocation, CudaExport* out) {
  TENON_ASSIGN(const std::shared_ptr<const PoolFd> pool, pool_fd(allocation));
  TENON_ASSIGN(out->route.data, cuda::export_pool_pointer(allocation));
  out->route.nonce = pool->nonce;
  // The shared_ptr also keeps the PoolFd, which can be found again as long as one of the pool's
  // allocations is lent.
  out->route.add_fd(std::shared_ptr<const os::Fd>(pool, &pool->fd));
  out->route.sizes.push_back(allocation.nbytes);
  return Status::ok();
}

Status fill_fabric(const cuda::Pieces& pieces, CudaExport* out) {
  if (pieces.sizes.size() != 1) {
    return Status(
        Code::kUnsupported,
        format(
            "the storage lies in %zu pieces of device memory, and a handle takes one fabric handle",
            pieces.sizes.size()));
  }
  TENON_ASSIGN(out->route.data, cuda::export_fabric(pieces.base));
  TENON_ASSIGN(out->route.nonce, os::random_nonce());
  out->route.sizes = pieces.sizes;
  return Status::ok();
}

Status fill_fds(const cuda::Pieces& pieces, CudaExport* out) {
  TENON_TRY(check_cuda_fds(pieces.sizes.size()));
  TENON_ASSIGN(std::vector<os::Fd> fds, cuda::export_pieces(pieces));
  TENON_ASSIGN(out->route.nonce, os::random_nonce());
  for (os::Fd& fd : fds) out->route.add_fd(std::make_shared<const os::Fd>(std::move(fd)));
  out->route.sizes = pieces.sizes;
  return Status::ok();
}

Result<Exported> by_range(const cuda::Allocation& allocation, const cuda::Pieces& pieces,
                          CudaTransport transport) {
  auto made = std::make_shared<CudaExport>();
  made->route.transport = transport;
  made->route.sizes = pieces.sizes;
  const KnownExports::Range range{allocation.id, pieces.base, made->route.nbytes(), transport};
  {
    const std::lock_guard<std::mutex> lock(known().mutex);
    if (const auto found = known().by_range.find(range); found != known().by_range.end()) {
      if (Exported there = found->second.lock()) return there;
    }
  }
  made->route.sizes.clear();
  made->base = pieces.base;
  switch (transport) {
    case CudaTransport::kFd: TENON_TRY(fill_fds(pieces, made.get())); break;
    case CudaTransport::kFabric: TENON_TRY(fill_fabric(pieces, made.get())); break;
    default: TENON_TRY(fill_pool(allocation, made.get())); break;
  }
  const std::lock_guard<std::mutex> lock(known().mutex);
  known().add(range, made);
  return Exported(std::move(made));
}

bool can_travel(const cuda::Allocation& allocation, CudaTransport transport) noexcept {
  switch (transport) {
    case CudaTransport::kIpc: return allocation.has_ipc_handle;
    // For memory of a pool the driver names the handle types of the pool. The memory has no handle
    // of its own.
    case CudaTransport::kFd: return allocation.has_fd_handle && allocation.pool == nullptr;
    case CudaTransport::kFabric: return allocation.has_fabric_handle && allocation.pool == nullptr;
    case CudaTransport::kPool: return allocation.pool != nullptr;
    default: return false;
  }
}

constexpr CudaTransport kAll[] = {CudaTransport::kIpc, CudaTransport::kFd, CudaTransport::kFabric,
                                  CudaTransport::kPool};

const char* allocation_kind(const cuda::Allocation& allocation) noexcept {
  if (allocation.is_managed) return "managed memory";
  if (allocation.pool != nullptr) return "memory of a pool (cudaMallocAsync)";
  if (allocation.context == nullptr) return "mapped piece by piece (cuMemMap, expandable segments)";
  return "cudaMalloc's";
}

Status cannot_travel(const cuda::Allocation& allocation, CudaTransport wanted) {
  std::string ways;
  for (const CudaTransport each : kAll) {
    if (can_travel(allocation, each)) ways += std::string(ways.empty() ? "" : ", ") + name_of(each);
  }
  std::string what =
      format("the device memory at 0x%llx, which is %s, cannot be lent",
             static_cast<unsigned long long>(allocation.base), allocation_kind(allocation));
  if (wanted != CudaTransport::kNone) what += std::string(" by ") + name_of(wanted);
  if (!ways.empty()) return Status(Code::kUnsupported, what + "; the driver knows for it: " + ways);
  what += "; the driver knows no way for it";
  if (!allocation.is_managed && allocation.context != nullptr)
    what += " (CUDA IPC is off where there is MIG, and on some integrated GPUs)";
  return Status(Code::kUnsupported, what + ": copy it into pinned host memory, and lend that")
      .with("option", std::string("tenon_storage_pin"));
}

}  // namespace

Status check_cuda_fds(size_t count) {
  if (count <= kMostCudaFds) return Status::ok();
  return Status(Code::kUnsupported, format("the storage lies in %zu pieces of device memory, each "
                                           "with an fd; a message carries %zu fds",
                                           count, kMostCudaFds));
}

const char* name_of(CudaTransport transport) noexcept {
  switch (transport) {
    case CudaTransport::kNone: return "nothing";
    case CudaTransport::kIpc: return "a CUDA IPC handle";
    case CudaTransport::kFd: return "fds";
    case CudaTransport::kFabric: return "a fabric handle";
    case CudaTransport::kPool: return "the fd of its pool";
  }
  return "?";
}

Result<Exported> export_cuda(const cuda::Allocation& allocation, cuda::DevicePointer pointer,
                             uint64_t nbytes, CudaTransport wanted) {
  CudaTransport transport = wanted;
  if (transport == CudaTransport::kNone) {
    for (const CudaTransport each : kAll) {
      if (transport == CudaTransport::kNone && can_travel(allocation, each)) transport = each;
    }
  }
  if (!can_travel(allocation, transport)) return cannot_travel(allocation, wanted);
  if (transport == CudaTransport::kIpc) return by_ipc(allocation);
  if (transport == CudaTransport::kPool) {
    return by_range(allocation, {.base = allocation.base, .sizes = {allocation.nbytes}}, transport);
  }
  TENON_ASSIGN(const cuda::Pieces pieces, cuda::find_pieces(pointer, nbytes, allocation.device));
  return by_range(allocation, pieces, transport);
}

}  // namespace tenon::device
