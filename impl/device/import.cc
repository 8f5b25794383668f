#include "device/import.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork.h"
#include "base/immortal.h"
#include "cuda/ipc.h"
#include "cuda/memory.h"
#include "device/memory.h"
#include "memory/spare.h"
#include "os/open_file.h"

namespace tenon::device {
namespace {

// The imported pools. A pool is imported once, and stays as long as an allocation in it is open. A
// forked child never gets here, because the driver refuses it before.
struct Pools {
  struct ImportedEntry {
    std::weak_ptr<const os::Fd> fd;
    Weak<cuda::ImportedPool> pool;
  };
  std::mutex mutex;
  std::map<std::pair<int32_t, os::Nonce>, ImportedEntry> all;
};

Result<Ref<cuda::ImportedPool>> find_pool(const CudaRoute& route, int32_t device) {
  Pools& pools = immortal<Pools>();
  const std::lock_guard<std::mutex> lock(pools.mutex);
  std::erase_if(pools.all, [](const auto& entry) { return entry.second.pool.expired(); });
  const std::pair key(device, route.nonce);
  if (const auto found = pools.all.find(key); found != pools.all.end()) {
    // A process that was told a nonce can repeat it, but it cannot repeat the file.
    const std::shared_ptr<const os::Fd> fd = found->second.fd.lock();
    if (fd && os::is_same_open_file(fd->get(), route.fd_numbers[0])) {
      if (Ref<cuda::ImportedPool> pool = found->second.pool.lock()) return pool;
    }
  }
  TENON_ASSIGN(Ref<cuda::ImportedPool> pool,
               cuda::ImportedPool::import(route.fd_numbers[0], device));
  pools.all[key] = {route.fds[0], Weak<cuda::ImportedPool>(pool.get())};
  return pool;
}

}  // namespace

Status CudaOpened::measure() {
  TENON_ASSIGN(const cuda::Allocation found, cuda::find_allocation(base_));
  nbytes_ = found.base + found.nbytes - base_;
  return check_device(found);
}

// A process that hands a handle on may have changed its device. An ordinal also means another
// device in a process that counts devices in another order.
Status CudaOpened::check_device(const cuda::Allocation& found) const {
  if (found.device == device_) return Status::ok();
  return Status(Code::kInvalidArgument,
                format("the memory is on CUDA device %d, and the handle says %d", found.device,
                       device_))
      .with("field", std::string("device"))
      .with("option", std::string("TENON_CUDA_ON_DEVICE"));
}

Status CudaOpened::open_pieces(const CudaRoute& route) {
  std::vector<cuda::PieceHandle> pieces;
  for (size_t i = 0; i < route.sizes.size(); ++i) {
    cuda::PieceHandle& piece = pieces.emplace_back();
    piece.nbytes = route.sizes[i];
    if (route.transport == CudaTransport::kFabric) {
      piece.fabric = &route.data;
    } else {
      piece.fd = route.fd_numbers[i];
    }
  }
  TENON_ASSIGN(pieces_, cuda::PieceMapping::map(pieces, device_, route.read_only));
  base_ = pieces_.base();
  nbytes_ = pieces_.nbytes();
  cuda::DevicePointer at = base_;
  for (const uint64_t nbytes : route.sizes) {
    TENON_ASSIGN(const cuda::Allocation piece, cuda::find_allocation(at));
    TENON_TRY(check_device(piece));
    at += nbytes;
  }
  return Status::ok();
}

Status CudaOpened::open_pool(const CudaRoute& route) {
  TENON_ASSIGN(pool_, find_pool(route, device_));
  TENON_ASSIGN(base_, pool_->open(route.data));
  return measure();
}

Result<CudaOpened> CudaOpened::open(const CudaRoute& route, int32_t device) {
  CudaOpened opened;
  opened.transport_ = route.transport;
  opened.device_ = device;
  switch (route.transport) {
    case CudaTransport::kIpc: {
      TENON_ASSIGN(opened.base_, cuda::open_ipc(route.data, device));
      TENON_TRY(opened.measure());
      break;
    }
    case CudaTransport::kPool: TENON_TRY(opened.open_pool(route)); break;
    default: TENON_TRY(opened.open_pieces(route)); break;
  }
  return opened;
}

CudaOpened::~CudaOpened() {
  if (base_ == 0) return;
  if (transport_ == CudaTransport::kIpc) cuda::close_ipc(base_, device_);
  if (transport_ == CudaTransport::kPool) pool_->close(base_);
}

namespace {

using storage::Storage;

// All open mappings of this process. A forked child never takes this lock, because the driver
// refuses it before.
struct CudaMappingTable {
  std::mutex mutex;
  std::map<CudaMapping::Key, CudaMapping*> mappings;
};
CudaMappingTable& cuda_mapping_table() noexcept { return immortal<CudaMappingTable>(); }

constexpr size_t kMostWarm = 64;

// The mappings that are kept open, the most recently used at the end. A forked child leaves them
// alone: another thread may have held the lock at the fork, and the child cannot use its parent's
// mappings.
struct Warm {
  std::mutex mutex;
  std::vector<Ref<CudaMapping>> mappings;
  std::atomic<uint64_t> generation{0};
};
Warm& warm() noexcept { return immortal<Warm>(); }

const bool g_cuda_spare = [] {
  memory::register_spare([]() noexcept {
    close_warm_cuda();
    collect_spare_cuda();
  });
  return true;
}();

Result<CudaMapping::Key> mapping_key(const CudaRoute& route, int32_t device) {
  if (route.transport == CudaTransport::kIpc) {
    return CudaMapping::Key(device, std::vector<std::byte>(route.data.begin(), route.data.end()));
  }
  TENON_ASSIGN(std::vector<std::byte> bytes, encode_cuda_route(route, route.read_only));
  return CudaMapping::Key(device, std::move(bytes));
}

}  // namespace

CudaMapping::CudaMapping(Key key, CudaOpened opened, CudaRoute route)
    : key_(std::move(key)), opened_(std::move(opened)) {
  auto exported = std::make_shared<CudaExport>();
  exported->route = std::move(route);
  exported->base = opened_.base();
  exported_ = std::move(exported);
}

Ref<Storage> CudaMapping::find(uint64_t offset, uint64_t nbytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = storages_.find({offset, nbytes});
  return found == storages_.end() ? Ref<Storage>() : found->second.lock();
}

void CudaMapping::forget(uint64_t offset, uint64_t nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = storages_.find({offset, nbytes});
  if (found != storages_.end() && found->second.expired()) storages_.erase(found);
}

void CudaMapping::disown(uint64_t offset, uint64_t nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  storages_.erase({offset, nbytes});
}

void CudaMapping::dispose() noexcept {
  {
    CudaMappingTable& all = cuda_mapping_table();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.mappings.find(key_);
    if (found != all.mappings.end() && found->second == this) all.mappings.erase(found);
    // The driver ends all openings of a pool's allocation with the first that is closed. So this
    // one is closed under the lock, before another thread may open the allocation again.
    if (exported_->route.transport == CudaTransport::kPool) opened_ = CudaOpened();
  }
  // Another thread may have opened the memory again by now. That is safe, because the driver counts
  // openings.
  opened_ = CudaOpened();
  exported_ = nullptr;
}

Result<Ref<CudaMapping>> map_cuda(CudaRoute route, int32_t device) {
  TENON_ASSIGN(CudaMapping::Key key, mapping_key(route, device));
  // These two are released after the lock, because dispose() takes it.
  Ref<CudaMapping> there;
  Ref<CudaMapping> mapping;
  CudaMappingTable& all = cuda_mapping_table();
  // The lock is held while the driver opens the memory, so that two threads do not open it twice.
  std::unique_lock<std::mutex> lock(all.mutex);
  for (;;) {
    const auto found = all.mappings.find(key);
    if (found == all.mappings.end()) break;
    if (found->second->try_retain()) {
      there = Ref<CudaMapping>::adopt(found->second);
      // A process that was told the bytes of a route can repeat them, but it cannot repeat the
      // files behind the fds, so those are compared.
      if (there->exported_->route.has_same_files(route)) return there;
      break;
    }
    if (route.transport != CudaTransport::kPool) break;
    // Another thread is about to close the allocation, see dispose().
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  TENON_ASSIGN(CudaOpened opened, CudaOpened::open(route, device));
  mapping = Ref<CudaMapping>::adopt(new CudaMapping(key, std::move(opened), std::move(route)));
  all.mappings[std::move(key)] = mapping.get();
  return mapping;
}

Result<std::shared_ptr<const CudaExport>> lend_on(const CudaMapping& mapping,
                                                  CudaTransport wanted) {
  const CudaRoute& route = mapping.exported()->route;
  const CudaTransport came_by = route.transport;
  if (came_by == CudaTransport::kIpc) {
    return Status(Code::kUnsupported,
                  "memory that came from another process by a CUDA IPC handle cannot be lent on: "
                  "only the process that made it can; copy it "
                  "first");
  }
  if (wanted != CudaTransport::kNone && wanted != came_by) {
    return Status(
        Code::kUnsupported,
        format("memory that came from another process by %s can be lent on so, and not by %s",
               name_of(came_by), name_of(wanted)));
  }
  TENON_TRY(check_cuda_fds(route.fds.size()));
  return mapping.exported();
}

void keep_cuda_warm(const Ref<CudaMapping>& mapping) {
  if (mapping->exported()->route.transport == CudaTransport::kPool) return;
  Ref<CudaMapping> oldest;  // closed after the lock
  Warm& all = warm();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.generation.store(fork_generation(), std::memory_order_relaxed);
  const auto same = [&](const Ref<CudaMapping>& each) { return each.get() == mapping.get(); };
  if (const auto found = std::find_if(all.mappings.begin(), all.mappings.end(), same);
      found != all.mappings.end()) {
    std::rotate(found, found + 1, all.mappings.end());
    return;
  }
  if (all.mappings.size() == kMostWarm) {
    oldest = std::move(all.mappings.front());
    all.mappings.erase(all.mappings.begin());
  }
  all.mappings.push_back(mapping);
}

void forget_warm_cuda(const CudaMapping* mapping) noexcept {
  Ref<CudaMapping> closed;  // closed after the lock
  Warm& all = warm();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = std::find_if(all.mappings.begin(), all.mappings.end(),
                                  [&](const auto& each) { return each.get() == mapping; });
  if (found == all.mappings.end()) return;
  closed = std::move(*found);
  all.mappings.erase(found);
}

void close_warm_cuda() noexcept {
  std::vector<Ref<CudaMapping>> closed;
  Warm& all = warm();
  if (all.generation.load(std::memory_order_relaxed) != fork_generation()) return;
  const std::lock_guard<std::mutex> lock(all.mutex);
  closed.swap(all.mappings);
}

}  // namespace tenon::device
