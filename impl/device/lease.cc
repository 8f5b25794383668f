#include "device/lease.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/immortal.h"
#include "device/import.h"
#include "device/memory.h"
#include "device/route.h"
#include "memory/ledger.h"

namespace tenon::device {
namespace {

using storage::Storage;

// The device memory that this process has lent under leases. A message may bring such memory home,
// and reach_cuda() must recognise it: the driver opens nothing in the process that made it, and a
// lease of a process on itself would keep tokens open that must be closed (docs/format/lease.md,
// "Coming home"). A forked child never gets here, because the driver refuses it before.
struct LentTable {
  using Name = std::vector<std::byte>;  // the bytes that tell one route from all others
  using Range = std::pair<cuda::DevicePointer, uint64_t>;
  std::mutex mutex;
  std::map<Name, std::weak_ptr<const CudaExport>> routes;
  std::map<cuda::IpcHandle, std::weak_ptr<const CudaEvent>> events;
  std::multimap<Range, CudaLent*> ranges;
  size_t crowded = 64;  // the size of `routes` at which expired entries are removed
};
LentTable& lent_table() noexcept { return immortal<LentTable>(); }

std::atomic<CudaLent*> g_ended{nullptr};
// The number of CudaLent objects. A process without any never checks.
std::atomic<uint64_t> g_count{0};

LentTable::Name name_of_route(const CudaRoute& route) {
  if (route.transport == CudaTransport::kIpc || route.transport == CudaTransport::kFabric)
    return {route.data.begin(), route.data.end()};
  const auto bytes = std::as_bytes(std::span(route.nonce));
  LentTable::Name name(bytes.begin(), bytes.end());
  // All allocations of a pool share one nonce, so the bytes of the allocation are added.
  if (route.transport == CudaTransport::kPool)
    name.insert(name.end(), route.data.begin(), route.data.end());
  return name;
}

void remember(const std::shared_ptr<const CudaExport>& exported, const LentTable::Range& range,
              CudaLent* one) {
  LentTable& all = lent_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.routes.size() >= all.crowded) {
    std::erase_if(all.routes, [](const auto& entry) { return entry.second.expired(); });
    all.crowded = std::max<size_t>(64, 2 * all.routes.size());
  }
  all.routes[name_of_route(exported->route)] = exported;
  all.ranges.emplace(range, one);
}

// Finds the export of this process to which a route leads; null if it leads elsewhere. A process
// that was told a name can repeat it, but it cannot repeat the files, so those are compared.
std::shared_ptr<const CudaExport> find_own(const CudaRoute& route) {
  LentTable& all = lent_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.routes.find(name_of_route(route));
  if (found == all.routes.end()) return nullptr;
  std::shared_ptr<const CudaExport> own = found->second.lock();
  return own && own->route.has_same_files(route) ? own : nullptr;
}

// Finds the storage that was lent by this route with this range. Ranges that were lent by other
// routes are excluded, because an address can be guessed.
Ref<Storage> find_lent(const CudaExport& own, const LentTable::Range& range) {
  const LentTable::Name name = name_of_route(own.route);
  LentTable& all = lent_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto [first, last] = all.ranges.equal_range(range);
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    return name_of_route(entry.second->exported()->route) == name;
  });
  return found != last ? found->second->storage() : Ref<Storage>();
}

// Memory of another process that this process has under a lease.
class BorrowedCuda final : public CudaReceived<memory::Lease> {
 public:
  using CudaReceived::CudaReceived;
  void keep_lease(memory::Lease* lease) noexcept { kept_.swap(*lease); }
  const memory::Lease* lease() const noexcept override { return kept_.stands() ? &kept_ : nullptr; }
};

// Whether the driver can enforce read-only access with this transport.
bool knows_read_only(CudaTransport transport) noexcept {
  return transport == CudaTransport::kFd || transport == CudaTransport::kFabric;
}

}  // namespace

Result<Ref<CudaLent>> CudaLent::create(const Ref<Storage>& storage, memory::Access wanted,
                                       bool let_write) {
  TENON_TRY(storage->check_lender());
  CudaMemory* const memory = cuda_memory(*storage);
  if (storage->is_read_only() && !let_write) {
    return Status(Code::kPermission,
                  "the storage is read-only, and whoever device memory is lent to can write it: "
                  "make the connection with CUDA_LET_WRITE if "
                  "that is right")
        .with("option", std::string("TENON_CONNECTION_CUDA_LET_WRITE"));
  }
  const cuda::DevicePointer pointer = device::as_pointer(storage->data());
  TENON_ASSIGN(std::shared_ptr<const CudaExport> exported,
               memory->lend_by(CudaTransport::kNone, pointer, storage->nbytes()));
  const CudaTransport transport = exported->route.transport;
  const bool read_only = (wanted == memory::Access::kReadOnly || storage->is_read_only()) &&
                         knows_read_only(transport);
  if (wanted == memory::Access::kReadOnly && !read_only && !let_write) {
    return Status(Code::kUnsupported,
                  format("device memory cannot be lent read-only by %s", name_of(transport)))
        .with("option", std::string("TENON_CONNECTION_CUDA_LET_WRITE"));
  }
  memory->keep(exported);
  memory->forget_released();
  auto made = Ref<CudaLent>::adopt(new CudaLent(storage, std::move(exported), read_only));
  remember(made->exported_, {pointer, storage->nbytes()}, made.get());
  return made;
}

CudaLent::CudaLent(Ref<Storage> storage, std::shared_ptr<const CudaExport> exported,
                   bool read_only) noexcept
    : storage_(std::move(storage)), exported_(std::move(exported)), read_only_(read_only) {
  g_count.fetch_add(1, std::memory_order_relaxed);
}

void CudaLent::dispose() noexcept {
  g_count.fetch_sub(1, std::memory_order_relaxed);
  {
    LentTable& all = lent_table();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto [first, last] = all.ranges.equal_range({as_pointer(), storage_->nbytes()});
    const auto found =
        std::find_if(first, last, [&](const auto& entry) { return entry.second == this; });
    if (found != last) all.ranges.erase(found);
  }
  event_ = nullptr;
  exported_ = nullptr;
  storage_ = nullptr;
}

void CudaLent::lease_ended() noexcept {
  next_ended_ = g_ended.load(std::memory_order_relaxed);
  while (!g_ended.compare_exchange_weak(next_ended_, this, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

void end_lent_cuda(bool ask_kernel) noexcept {
  if (g_count.load(std::memory_order_relaxed) == 0) return;
  if (ask_kernel) (void)memory::settle_ledgers();
  (void)memory::drain_ledgers();
  for (CudaLent* each = g_ended.exchange(nullptr, std::memory_order_acquire); each != nullptr;) {
    CudaLent* const next = each->next_ended_;
    each->release();
    each = next;
  }
}

void abandon_lent_cuda() noexcept {
  g_ended.store(nullptr, std::memory_order_relaxed);
  g_count.store(0, std::memory_order_relaxed);
}

Result<std::shared_ptr<const CudaEvent>> mark_lent_cuda(cuda::Stream stream, int32_t device) {
  TENON_ASSIGN(CudaEvent event, CudaEvent::record(stream, device));
  if (!event) {
    TENON_TRY(cuda::synchronize(stream, device));
    return std::shared_ptr<const CudaEvent>();
  }
  auto marked = std::make_shared<const CudaEvent>(std::move(event));
  LentTable& all = lent_table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.events[marked->handle()] = marked;  // at most one entry for each event of the pool
  return marked;
}

Status wait_for_lender(const cuda::IpcHandle& event, cuda::Stream stream, int32_t device) {
  std::shared_ptr<const CudaEvent> own;
  {
    LentTable& all = lent_table();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const auto found = all.events.find(event); found != all.events.end())
      own = found->second.lock();
  }
  return own ? own->wait_in(stream, device) : cuda::wait_for_event(event, stream, device);
}

Result<ReachableCuda> reach_cuda(std::span<const std::byte> handle, std::span<const int> fds,
                                 int32_t device, bool read_only) {
  TENON_ASSIGN(DecodedCudaHandle decoded, decode_cuda_handle(handle));
  // The memory of a segment is reached through another process. A connection does not need that,
  // because its lender can send the fds.
  if (decoded.segment)
    return Status(Code::kCorrupt, "a segment of PyTorch's in a connection")
        .with("field", std::string("devices"));
  TENON_ASSIGN(CudaRoute route, complete_route(std::move(decoded), fds, {.read_only = read_only}));
  ReachableCuda reach;
  reach.device = device;
  if (memory::has_leases()) {  // memory that comes home was lent before
    if (std::shared_ptr<const CudaExport> own = find_own(route)) {
      reach.base = own->base;
      reach.own = std::move(own);
      return reach;
    }
  }
  TENON_ASSIGN(reach.mapping, map_cuda(std::move(route), device));
  reach.base = reach.mapping->base();
  return reach;
}

Result<Ref<Storage>> open_leased_cuda(const ReachableCuda& reach, uint64_t offset, uint64_t nbytes,
                                      memory::Lease* lease) {
  // Objects may be released here, because another thread came first or memory was lacking. That
  // happens while a receiver has its turn, so no release function may run.
  const CudaCollectLater later;
  Ref<Storage> storage;
  if (!reach.mapping) {
    if (reach.own) storage = find_lent(*reach.own, {reach.base + offset, nbytes});
  } else if (!range_inside(offset, nbytes, reach.mapping->nbytes())) {
    return Status(Code::kInvalidArgument,
                  format("%llu bytes at %llu leave the device memory that was lent, which has %llu",
                         static_cast<unsigned long long>(nbytes),
                         static_cast<unsigned long long>(offset),
                         static_cast<unsigned long long>(reach.mapping->nbytes())))
        .with("field", std::string("offset"));
  } else {
    storage = reach.mapping->find(offset, nbytes);
  }
  if (!storage) {
    if (!reach.mapping)
      return Status(Code::kInvalidArgument,
                    "device memory of this process came back, and is not lent any more");
    auto memory = std::make_unique<BorrowedCuda>(reach.device, reach.mapping, offset, nbytes);
    BorrowedCuda* const borrowed = memory.get();
    memory->use_in(reach.stream);
    const Ref<Storage> received = Storage::on_device(
        std::move(memory), as_data(reach.base + offset), nbytes, reach.mapping->is_read_only());
    // The lease is taken last. Until nothing can fail any more it belongs to the caller, which may
    // try again.
    storage =
        reach.mapping->intern(offset, received, [&]() noexcept { borrowed->keep_lease(lease); });
    if (storage.get() == received.get()) return storage;
  }
  cuda_memory(*storage)->use_in(reach.stream);
  return storage;
}

}  // namespace tenon::device
