#include "modules/module/import_storages.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "cuda/device.h"
#include "modules/archive/file_mapping.h"
#include "os/mapping.h"
#include "tensor/scalar_type.h"

namespace tenon::module {

using archive::PickledStorage;
using archive::ZipRecord;
using pickle::PickleTree;
using storage::Storage;
using tensor::ScalarTypeInfo;
using value::StorageValue;
using value::StorageValueRef;

namespace {

constexpr DeviceMap::Target kCpu;

// A mapping of the whole file whose writes stay in this process.
class PrivateMapping final : public Counted {
 public:
  static Ref<PrivateMapping> create(os::Mapping mapping) {
    return Ref<PrivateMapping>::adopt(new PrivateMapping(std::move(mapping)));
  }
  std::byte* base() const noexcept { return mapping_.base(); }

 private:
  explicit PrivateMapping(os::Mapping mapping) noexcept : mapping_(std::move(mapping)) {}
  ~PrivateMapping() override = default;
  void dispose() noexcept override { mapping_ = os::Mapping(); }
  os::Mapping mapping_;
};

void release_counted(void* context) { static_cast<const Counted*>(context)->release(); }

// Takes the reference that a storage holds for its lifetime.
void* keep(const Counted* object) {
  object->retain();
  return const_cast<Counted*>(object);
}

// A complex element is two numbers, and the bytes of each have an order.
uint64_t number_nbytes(const ScalarTypeInfo& type) {
  return tensor::is_complex(type.type) ? type.nbytes / 2u : type.nbytes;
}

}  // namespace

Status check_devices(const ImportOptions& options) {
  if (options.tensors == Tensors::kDevice) TENON_TRY(cuda::find_device(options.device).status());
  for (const int32_t ordinal : options.device_map.ordinals())
    TENON_TRY(cuda::find_device(ordinal).status());
  return Status::ok();
}

Result<Ref<Storage>> view_of(const archive::ZipReader& reader, const ZipRecord& record) {
  const archive::ZipSource* const source = reader.source().get();
  TENON_ASSIGN(Ref<Storage> shared, source->shared_view(record.data_offset, record.nbytes));
  if (shared) return shared;
  storage::StorageOptions options;
  options.sealed = !source->is_file();
  options.read_only = true;
  void* const data = const_cast<std::byte*>(source->base()) + record.data_offset;
  return Storage::wrap(data, record.nbytes, release_counted, keep(source), options);
}

archive::FindStorage ArchiveStorages::finder(std::string directory, const PickleTree& tree,
                                             bool keep_keys) {
  return [this, directory = std::move(directory), &tree,
          keep_keys](const PickledStorage& wanted) -> Result<StorageValueRef> {
    TENON_ASSIGN(StorageValueRef found, find(directory, wanted, tree));
    if (keep_keys) keys_[found->key()] = std::string(wanted.key);
    return found;
  };
}

const std::byte* ArchiveStorages::mapped_base() const noexcept {
  if (options_->tensors == Tensors::kMapPrivate) return private_base_;
  return reader_->source()->is_file() ? reader_->source()->base() : nullptr;
}

// A pickle names storages in the order in which their records are written, so the next record is
// nearly always the right one.
const ZipRecord* ArchiveStorages::find_record(std::string_view directory, std::string_view key) {
  const std::span<const ZipRecord> records = reader_->records();
  const auto is_it = [&](std::string_view name) {
    return name.size() == directory.size() + key.size() && name.ends_with(key) &&
           name.starts_with(directory);
  };
  const ZipRecord* found =
      next_ < records.size() && is_it(records[next_].name) ? &records[next_] : nullptr;
  if (found == nullptr) found = reader_->find(std::string(directory).append(key));
  if (found != nullptr) next_ = static_cast<size_t>(found - records.data()) + 1;
  return found;
}

Result<StorageValueRef> ArchiveStorages::find(std::string_view directory,
                                              const PickledStorage& wanted,
                                              const PickleTree& tree) {
  const ScalarTypeInfo& type = tensor::scalar_type_info(wanted.type);
  if (wanted.device == "meta")
    return StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
  const ZipRecord* const record = find_record(directory, wanted.key);
  const auto name = [&] { return std::string(directory).append(wanted.key); };
  if (record == nullptr)
    return tree.error(Code::kCorrupt, wanted.node,
                      format("there is no record %.300s", name().c_str()));
  uint64_t nbytes = 0;
  if (!checked_mul(wanted.numel, uint64_t{type.nbytes}, &nbytes) || nbytes > record->nbytes) {
    return tree.error(
        Code::kCorrupt, wanted.node,
        format("a storage of %llu elements of %u bytes, and the record %.300s has %llu bytes",
               static_cast<unsigned long long>(wanted.numel), unsigned{type.nbytes}, name().c_str(),
               static_cast<unsigned long long>(record->nbytes)));
  }
  return make(*record, wanted.type, wanted.numel, wanted.device);
}

Result<StorageValueRef> ArchiveStorages::whole(size_t record, tensor::ScalarType type,
                                               std::string_view device) {
  const ZipRecord& found = reader_->records()[record];
  return make(found, type, found.nbytes / tensor::scalar_type_info(type).nbytes, device);
}

Result<StorageValueRef> ArchiveStorages::make(const ZipRecord& record, tensor::ScalarType type,
                                              uint64_t numel, std::string_view device) {
  const DeviceMap::Target target = target_of(device);
  Ref<Storage> bytes;
  if (numel != 0) {
    TENON_ASSIGN(bytes, open(record, tensor::scalar_type_info(type), target));
  } else if (target != kCpu) {
    TENON_ASSIGN(bytes, filler_of(target).empty());
  } else {
    // A source on a device shows a storage without bytes there too.
    TENON_ASSIGN(bytes, reader_->source()->shared_view(0, 0));
  }
  return StorageValue::create(type, numel, std::move(bytes));
}

DeviceMap::Target ArchiveStorages::target_of(std::string_view device) {
  if (const std::optional<DeviceMap::Target> named = options_->device_map.find(device))
    return *named;
  if (options_->tensors == Tensors::kDevice) return {options_->device};
  if (device != "cpu" && saved_on_device_++ == 0) first_device_ = device;
  return kCpu;
}

DeviceFiller& ArchiveStorages::filler_of(DeviceMap::Target target) {
  const bool takes_all = reads_all_ && options_->device_map.is_empty();
  return fillers_.try_emplace(target.ordinal, *reader_, target.ordinal, takes_all).first->second;
}

Status ArchiveStorages::finish() {
  for (auto& [ordinal, filler] : fillers_) TENON_TRY(filler.finish());
  return Status::ok();
}

bool ArchiveStorages::can_view(size_t record, tensor::ScalarType type) const noexcept {
  const bool stays_on_cpu = !options_->device_map.find("cpu");
  return options_->tensors == Tensors::kMap && stays_on_cpu &&
         is_readable_in_place(reader_->records()[record], tensor::scalar_type_info(type));
}

bool ArchiveStorages::is_readable_in_place(const ZipRecord& record,
                                           const ScalarTypeInfo& type) const noexcept {
  const auto address = reinterpret_cast<uintptr_t>(reader_->source()->base()) + record.data_offset;
  const uint64_t each = std::max<uint64_t>(number_nbytes(type), 1);
  const bool swap = foreign_endian_ && each > 1;
  return !record.deflated && !swap && address % each == 0;
}

Result<Ref<Storage>> ArchiveStorages::open(const ZipRecord& record, const ScalarTypeInfo& type,
                                           DeviceMap::Target target) {
  const auto address = reinterpret_cast<uintptr_t>(reader_->source()->base()) + record.data_offset;
  const uint64_t each = std::max<uint64_t>(number_nbytes(type), 1);
  const bool swap = foreign_endian_ && each > 1;
  const bool on_device = target != kCpu;
  const bool misaligned = !on_device && !record.deflated && address % each != 0;
  // In an import to a device, tensors that the device map puts on the CPU are views.
  const bool is_mapped =
      options_->tensors == Tensors::kMap || options_->tensors == Tensors::kDevice;
  const bool has_views =
      !on_device &&
      (is_mapped || (options_->tensors == Tensors::kMapPrivate && reader_->source()->is_file()));
  const bool in_place = has_views && is_readable_in_place(record, type);
  const auto index = static_cast<size_t>(&record - reader_->records().data());
  if (in_place) {
    if (views_.empty()) views_.resize(reader_->records().size());
    Ref<Storage>& known = views_[index];
    if (!known) {
      TENON_ASSIGN(known, view(record));
    }
    return known;
  }
  // A record is copied once for each byte order and device, however often pickles mention it.
  const uint64_t swap_nbytes = swap ? each : 1;
  Ref<Storage>& known = filled_[{index, swap_nbytes, target.ordinal}];
  if (known) return known;
  if (record.deflated) ++report_->compressed;
  if (misaligned) ++report_->misaligned;
  if (swap) ++report_->foreign_endian;
  if (on_device) {
    ++report_->filled_tensors;
    report_->filled_nbytes += record.nbytes;
    TENON_ASSIGN(known, filler_of(target).fill(record, swap_nbytes));
    return known;
  }
  TENON_ASSIGN(known, fill(record, swap_nbytes, options_->tensors != Tensors::kFill));
  return known;
}

Result<Ref<Storage>> ArchiveStorages::view(const ZipRecord& record) {
  ++report_->mapped_tensors;
  report_->mapped_nbytes += record.nbytes;
  if (options_->tensors != Tensors::kMapPrivate) return view_of(*reader_, record);
  if (!private_mapping_) {
    const auto& file = static_cast<const archive::FileMapping&>(*reader_->source());
    TENON_ASSIGN(os::Mapping mapping,
                 os::Mapping::create(os::Mapping::Kind::kPrivateCow, file.fd(), 0, file.nbytes()));
    Ref<PrivateMapping> made = PrivateMapping::create(std::move(mapping));
    private_base_ = made->base();
    private_mapping_ = Ref<const Counted>::share(made.get());
  }
  storage::StorageOptions options;
  options.sealed = false;  // the mapping is one of a file
  return Storage::wrap(private_base_ + record.data_offset, record.nbytes, release_counted,
                       keep(private_mapping_.get()), options);
}

Result<Ref<Storage>> ArchiveStorages::fill(const ZipRecord& record, uint64_t swap_nbytes,
                                           bool into_private) {
  ++report_->filled_tensors;
  report_->filled_nbytes += record.nbytes;
  storage::StorageOptions options = options_->storage;
  if (into_private) {
    options = {};
    options.is_private = true;
  }
  if (options.mode == memory::Mode::kFrozen && !options.is_private) {
    // FROZEN memory cannot be written later, so all bytes are read before it is made.
    std::vector<std::byte> bytes(record.nbytes);
    TENON_TRY(reader_->read_into(record, bytes.data()));
    swap_numbers(bytes.data(), bytes.size(), swap_nbytes);
    return Storage::create_from(options, bytes.data(), bytes.size());
  }
  TENON_ASSIGN(Ref<Storage> storage, Storage::create(options, record.nbytes));
  TENON_ASSIGN(std::byte * data, storage->data_mut());
  TENON_TRY(reader_->read_into(record, data));
  swap_numbers(data, record.nbytes, swap_nbytes);
  return storage;
}

}  // namespace tenon::module
