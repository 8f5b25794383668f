#include "share/cuda_opened.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/immortal.h"
#include "cuda/ipc.h"
#include "cuda/memory.h"
#include "os/open_file.h"

namespace tenon::share {
namespace {

// The imported pools. A pool is imported once, and stays as long as an allocation in it is open. A
// forked child never gets here, because the driver refuses it before.
struct Pools {
  struct Known {
    std::weak_ptr<const os::Fd> fd;
    Weak<cuda::ImportedPool> pool;
  };
  std::mutex mutex;
  std::map<std::pair<int32_t, os::Nonce>, Known> all;
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

}  // namespace tenon::share
