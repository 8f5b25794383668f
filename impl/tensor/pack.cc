#include "tensor/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/memory.h"
#include "memory/ledger.h"
#include "memory/spare.h"
#include "os/limits.h"
#include "os/memfd.h"

namespace tenon::tensor {
namespace {

using memory::Segment;
using storage::Storage;

constexpr size_t kManyTensors = 10'000;
// The bytes that one tensor needs: its records here, their encoding, and the indexers.
constexpr size_t kTableNbytes = 512;

// The index of a pointer among those that were met before. Small messages are the frequent ones,
// and searching eight pointers is cheaper than a hash table. The table for more pointers uses open
// addressing and is at most half full, because a node for each pointer took much of the time of a
// large message.
class Indexer {
 public:
  // Returns the index of `object`. If it is new, stores it under `next` and returns -1.
  int64_t find_or_add(const void* object, uint32_t next) {
    if (count_ < kFew) {
      for (size_t i = 0; i < count_; ++i) {
        if (known_[i].object == object) return known_[i].index;
      }
      known_[count_++] = {object, next};
      return -1;
    }
    if (count_ * 2 >= table_.size()) grow();
    IndexedObject& place = place_of(object);
    if (place.object != nullptr) return place.index;
    place = {object, next};
    ++count_;
    return -1;
  }

 private:
  struct IndexedObject {
    const void* object = nullptr;
    uint32_t index = 0;
  };
  static constexpr size_t kFew = 8;

  IndexedObject& place_of(const void* object) noexcept {
    constexpr uint64_t kMixer = 0x9e3779b97f4a7c15ULL;
    auto at = static_cast<size_t>(reinterpret_cast<uintptr_t>(object) * kMixer >> shift_);
    while (table_[at].object != nullptr && table_[at].object != object)
      at = (at + 1) & (table_.size() - 1);
    return table_[at];
  }
  void grow() {
    std::vector<IndexedObject> before(std::max(kFew * 4, table_.size() * 4));
    before.swap(table_);
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(table_.size()));
    for (const IndexedObject& each : before.empty() ? std::span<const IndexedObject>(known_)
                                                    : std::span<const IndexedObject>(before)) {
      if (each.object != nullptr) place_of(each.object) = each;
    }
  }

  std::array<IndexedObject, kFew> known_{};
  size_t count_ = 0;
  std::vector<IndexedObject> table_;  // the size is a power of two or 0
  unsigned shift_ = 0;
};

void add_upstream(const Storage& storage, Packed* packed) {
  memory::Holding* const holding =
      storage.lease() != nullptr ? storage.lease()->holding() : nullptr;
  auto& upstream = packed->upstream;  // it has a handful of entries at most
  if (holding != nullptr && std::find(upstream.begin(), upstream.end(), holding) == upstream.end())
    upstream.push_back(holding);
}

// Finds or adds the segment for all storages that one handle reaches with one access.
uint32_t find_device_segment(const DeviceSegment& wanted, Indexer* segments, Packed* packed) {
  // Each segment has its own key: the address of the export, the next address for read-only, and
  // for empty storages the device number + 1, where no object lies.
  const uintptr_t key = wanted.exported ? reinterpret_cast<uintptr_t>(wanted.exported.get()) +
                                              (wanted.read_only ? 1 : 0)
                                        : static_cast<uintptr_t>(wanted.device) + 1;
  const auto next = static_cast<uint32_t>(packed->segments.size());
  const int64_t known =
      segments->find_or_add(reinterpret_cast<const void*>(key),
                            next);  // NOLINT(performance-no-int-to-ptr): only compared
  if (known >= 0) return static_cast<uint32_t>(known);
  SegmentRecord record;
  record.reach = Reach::kDevice;
  record.access = static_cast<uint32_t>(wanted.read_only ? memory::Access::kReadOnly
                                                         : memory::Access::kWritable);
  record.fd_index = static_cast<uint32_t>(packed->device_segments.size());
  packed->device_segments.push_back(wanted);
  packed->content.segments.push_back(record);
  packed->segments.emplace_back();
  packed->fds.push_back(-1);
  return next;
}

Status add_device_storage(const Ref<Storage>& storage, memory::Access access, bool let_write,
                          Indexer* segments, Packed* packed) {
  StorageRecord record;
  record.nbytes = storage->nbytes();
  DeviceSegment segment;
  segment.device = storage->device().id;
  memory::Leased* leased = nullptr;
  if (record.nbytes > 0) {
    TENON_ASSIGN(Ref<device::CudaLent> lent, device::CudaLent::create(storage, access, let_write));
    segment.exported = lent->exported();
    segment.read_only = lent->is_read_only();
    record.offset = lent->offset();
    leased = lent.get();
    packed->lent.push_back(std::move(lent));
  }
  record.segment = find_device_segment(segment, segments, packed);
  uint64_t& reach = packed->content.segments[record.segment].nbytes;
  reach = std::max(reach, record.offset + record.nbytes);
  packed->content.storages.push_back(record);
  packed->leased.push_back(leased);
  add_upstream(*storage, packed);
  return Status::ok();
}

Status add_storage(const Ref<Storage>& storage, memory::Access access, Leases leases,
                   bool let_write, Indexer* segments, Packed* packed) {
  if (leases == Leases::kYes && storage->device_memory() != nullptr)
    return add_device_storage(storage, access, let_write, segments, packed);
  TENON_ASSIGN(const share::Lend lend, share::lend(storage, access, leases == Leases::kYes));
  StorageRecord record;
  record.offset = lend.offset;
  record.nbytes = lend.nbytes;
  if (lend.fd >= 0) {
    const Ref<Segment>& segment = storage->segment();
    const auto next = static_cast<uint32_t>(packed->segments.size());
    const int64_t known = segments->find_or_add(segment.get(), next);
    record.segment = known < 0 ? next : static_cast<uint32_t>(known);
    if (known < 0) {
      SegmentRecord reach;
      reach.reach = Reach::kFd;
      reach.mode = static_cast<uint16_t>(segment->mode());
      reach.access = static_cast<uint32_t>(lend.access);
      reach.nbytes = lend.segment_nbytes;
      reach.device = segment->key().device;
      reach.inode = segment->key().inode;
      reach.fd_index = next;
      packed->content.segments.push_back(reach);
      packed->segments.push_back(segment);
      packed->fds.push_back(lend.fd);
    }
  } else if (storage->mode() != memory::Mode::kShared || storage->is_read_only()) {
    record.mode = static_cast<uint32_t>(storage->mode());
    record.access = static_cast<uint32_t>(memory::Access::kReadOnly);
  }
  packed->content.storages.push_back(record);
  if (leases == Leases::kYes) {
    packed->leased.push_back(lend.fd >= 0 ? storage->leased() : nullptr);
    add_upstream(*storage, packed);
  }
  return Status::ok();
}

// The most bytes of a table that are kept when it is emptied. A connection keeps the room of its
// last message for the next one, but not the room of a huge message.
constexpr size_t kKeptNbytes = size_t{1} << 20;

template <typename Container>
void empty(Container* container) noexcept {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): a pointer is meant.
  constexpr size_t kNbytesOfOne = sizeof(typename Container::value_type);
  if (container->capacity() * kNbytesOfOne > kKeptNbytes) {
    Container().swap(*container);
  } else {
    container->clear();
  }
}

}  // namespace

void Packed::clear() noexcept {
  empty(&content.segments);
  empty(&content.storages);
  empty(&content.tensors);
  empty(&content.dims);
  empty(&content.names);
  empty(&content.forgotten);
  empty(&content.user);
  empty(&content.composites);
  empty(&content.composite_dims);
  empty(&segments);
  empty(&fds);
  empty(&device_segments);
  empty(&lent);
  empty(&leased);
  empty(&upstream);
}

Status pack_storage(const Ref<Storage>& storage, memory::Access access, Packed* packed) {
  Indexer segments;
  return add_storage(storage, access, Leases::kYes, false, &segments, packed);
}

namespace {

void add_composites(const Message& message, DescriptorContent* content) {
  content->composites.reserve(message.composites().size());
  for (const Message::CompositeItem& item : message.composites()) {
    const CompositeSpec& spec = item.composite->spec();
    CompositeRecord record;
    record.layout = spec.layout;
    record.coalesced = spec.coalesced;
    record.quantizer = spec.quantizer;
    record.flags = spec.flags;
    record.first_part = item.first_part;
    record.parts = static_cast<uint32_t>(spec.parts.size());
    record.dim = spec.dim;
    record.scale = spec.scale;
    record.zero_point = spec.zero_point;
    record.offset = spec.offset;
    record.dims = static_cast<uint32_t>(content->composite_dims.size());
    // Facts that follow from the parts are not encoded again.
    if (spec.parts.empty()) record.dtype = spec.dtype;
    if (is_sparse(spec.layout) || spec.parts.empty()) {
      record.ndim = static_cast<uint32_t>(spec.sizes.size());
      content->composite_dims.insert(content->composite_dims.end(), spec.sizes.begin(),
                                     spec.sizes.end());
      content->composite_dims.insert(content->composite_dims.end(), spec.strides.begin(),
                                     spec.strides.end());
    }
    record.name = static_cast<uint32_t>(content->names.size());
    if (const std::string* const name = message.name_of(item); name != nullptr) {
      record.has_name = true;
      record.name_nbytes = static_cast<uint32_t>(name->size());
      content->names += *name;
    }
    content->composites.push_back(record);
  }
}

}  // namespace

Status pack(const Message& message, Leases leases, Packed* packed, bool let_write) {
  DescriptorContent& content = packed->content;
  // The tables on the heap are small, except for very large messages. For those malloc would bring
  // the kernel's kill instead of an error.
  if (const size_t count = message.items().size(); count >= kManyTensors)
    TENON_TRY(memory::with_spare([&] { return os::ask_headroom(count * kTableNbytes); }));
  Indexer segments;
  Indexer storages;
  constexpr size_t kAhead = 4;
  const auto& items = message.items();
  content.tensors.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    // Tensor and storage can be anywhere in memory, and cache misses would take much of the time of
    // a large message.
    if (i + 2 * kAhead < items.size()) __builtin_prefetch(items[i + 2 * kAhead].tensor.get());
    if (i + kAhead < items.size()) __builtin_prefetch(items[i + kAhead].tensor->storage().get());
    const Message::Item& item = items[i];
    const Tensor& tensor = *item.tensor;
    const auto next = static_cast<uint32_t>(content.storages.size());
    const int64_t known = storages.find_or_add(tensor.storage().get(), next);
    if (known < 0)
      TENON_TRY(add_storage(tensor.storage(), item.access, leases, let_write, &segments, packed));
    TensorRecord record;
    record.storage = known < 0 ? next : static_cast<uint32_t>(known);
    record.dtype = tensor.dtype();
    const auto sizes = tensor.sizes();
    const auto strides = tensor.strides();
    record.ndim = static_cast<uint32_t>(sizes.size());
    record.flags = tensor.flags();
    record.offset = tensor.offset();
    record.dims = static_cast<uint32_t>(content.dims.size());
    content.dims.insert(content.dims.end(), sizes.begin(), sizes.end());
    content.dims.insert(content.dims.end(), strides.begin(), strides.end());
    record.name = static_cast<uint32_t>(content.names.size());
    if (const std::string* const name = message.name_of(item); name != nullptr) {
      record.has_name = true;
      record.name_nbytes = static_cast<uint32_t>(name->size());
      content.names += *name;
    }
    content.tensors.push_back(record);
  }
  if (!message.composites().empty()) add_composites(message, &content);
  content.user.assign(message.user_bytes().begin(), message.user_bytes().end());
  return Status::ok();
}

namespace {

// Handles memory that this process lent and that comes home, by whatever way. The process keeps the
// memory as its own and gives up the lease. A lease on its own memory, under the token of a
// borrower that may die, would keep that token open.
Status come_home(const Resolved& from, uint64_t offset, memory::Lease* lease) {
  if (!lease->stands()) return Status::ok();
  memory::SegmentKey key;
  if (from.segment) {
    key = from.segment->key();
  } else {
    TENON_ASSIGN(const os::FileInfo file, os::inspect_file(from.fd));
    key = {file.device, file.inode, false};
  }
  if (memory::LentBlock* const block = memory::lease_own(key, offset); block != nullptr)
    *lease = memory::Lease(block);
  return Status::ok();
}

// Makes the composites. The message must have its tensors already.
Status unpack_composites(const DescriptorContent& content, Message* message) {
  for (const CompositeRecord& record : content.composites) {
    CompositeSpec spec;
    spec.layout = record.layout;
    spec.coalesced = record.coalesced;
    spec.quantizer = record.quantizer;
    spec.flags = record.flags;
    spec.dim = record.dim;
    spec.scale = record.scale;
    spec.zero_point = record.zero_point;
    spec.offset = record.offset;
    spec.dtype = record.dtype;
    const std::span<const int64_t> dims =
        std::span(content.composite_dims).subspan(record.dims, record.n_dims());
    spec.sizes.assign(dims.begin(), dims.begin() + record.ndim);
    spec.strides.assign(dims.begin() + record.ndim, dims.end());
    for (uint32_t i = 0; i < record.parts; ++i)
      spec.parts.push_back(message->items()[record.first_part + i].tensor);
    // decode_descriptor() checked everything except the devices.
    Result<Ref<Composite>> made = Composite::create(std::move(spec));
    if (!made.is_ok()) {
      return Status(Code::kCorrupt, made.status().message())
          .with_details_of(made.status())
          .with("field", std::string("composite.parts"));
    }
    std::optional<std::string_view> name;
    if (record.has_name)
      name = std::string_view(content.names).substr(record.name, record.name_nbytes);
    message->add_received(std::move(made).value(), record.first_part, name);
  }
  return Status::ok();
}

}  // namespace

std::vector<uint64_t> needed_nbytes(const DescriptorContent& content) {
  std::vector<uint64_t> needed(content.segments.size());
  for (const StorageRecord& record : content.storages) {
    if (record.segment != kNoSegment)
      needed[record.segment] = std::max(needed[record.segment], record.offset + record.nbytes);
  }
  return needed;
}

Result<std::unique_ptr<Message>> unpack(DescriptorContent content,
                                        std::span<const Resolved> resolved,
                                        std::span<memory::Lease> leases,
                                        const share::OpenOptions& options,
                                        std::vector<Ref<Storage>>* storages) {
  auto message = std::make_unique<Message>();
  storages->reserve(content.storages.size());
  const bool may_be_home = memory::has_leases();  // memory that comes home was lent before
  for (size_t i = storages->size(); i < content.storages.size(); ++i) {
    const StorageRecord& record = content.storages[i];
    // The lease stays in `leases` until a storage has it. If memory runs out in between, the next
    // try must find it.
    memory::Lease none;
    memory::Lease& lease = leases.empty() ? none : leases[i];
    if (record.segment == kNoSegment) {
      share::Claim nothing;
      nothing.access = static_cast<memory::Access>(record.access);
      TENON_ASSIGN(Ref<Storage> empty, share::open_by_fd(-1, nothing, options, nullptr));
      const auto mode = static_cast<memory::Mode>(record.mode);
      storages->push_back(options.is_private() || mode == empty->mode()
                              ? std::move(empty)
                              : Storage::open_empty(mode, true));
      continue;
    }
    const Resolved& from = resolved[record.segment];
    if (from.device != nullptr) {
      Ref<Storage> opened;
      if (record.nbytes == 0) {
        opened = device::empty_cuda(from.device->device);
      } else {
        TENON_ASSIGN(opened,
                     device::open_leased_cuda(*from.device, record.offset, record.nbytes, &lease));
      }
      storages->push_back(std::move(opened));
      continue;
    }
    if (may_be_home) TENON_TRY(come_home(from, record.offset, &lease));
    if (from.segment) {
      TENON_ASSIGN(Ref<Storage> opened,
                   share::open_range(from.segment, record.offset, record.nbytes, &lease));
      storages->push_back(std::move(opened));
    } else {
      const SegmentRecord& segment = content.segments[record.segment];
      const share::Claim claim{static_cast<memory::Access>(segment.access), record.offset,
                               record.nbytes, segment.nbytes};
      TENON_ASSIGN(Ref<Storage> opened, share::open_private(from.fd, claim, options));
      // A copy does not need the lender any more. Untouched pages of a copy-on-write opening are
      // still the lender's.
      if (options.private_cow) opened->keep(std::move(lease));
      storages->push_back(std::move(opened));
    }
    lease = memory::Lease();  // no storage took the lease
  }
  message->reserve(content.tensors.size());
  for (const TensorRecord& record : content.tensors) {
    const std::span<const int64_t> dims(content.dims.data() + record.dims, size_t{record.ndim} * 2);
    // decode_descriptor() checked the layout against the nbytes of the record, which the storage
    // has too.
    const Ref<Storage>& storage = (*storages)[record.storage];
    const Layout layout{record.dtype, dims.first(record.ndim), dims.last(record.ndim),
                        record.offset};
    std::optional<std::string_view> name;
    if (record.has_name)
      name = std::string_view(content.names).substr(record.name, record.name_nbytes);
    message->add_received(
        Tensor::create_checked(storage, layout, record.flags),
        storage->is_read_only() ? memory::Access::kReadOnly : memory::Access::kAuto, name);
  }
  TENON_TRY(unpack_composites(content, message.get()));
  TENON_TRY(message->set_user_bytes(content.user));
  return message;
}

}  // namespace tenon::tensor
