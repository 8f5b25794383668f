#include "modules/weights/contents_builder.h"

#include "tensor/scalar_type.h"

namespace tenon::weights {

using storage::Storage;
using value::StorageValueRef;

PartStorages::PartStorages(Contents* contents, const module::ImportOptions& options,
                           bool foreign_endian)
    : contents_(contents),
      part_(contents->parts.size() - 1),
      storages_(reader(), options, foreign_endian, &report_) {
  // A file also has records that are no weights, and no memory on a device shall be allocated for
  // these.
  storages_.count_in(&report_);
}

Result<Ref<Storage>> PartStorages::bytes_of(size_t record, tensor::ScalarType type,
                                            std::string_view device) {
  TENON_ASSIGN(const StorageValueRef whole, storages_.whole(record, type, device));
  Ref<Storage> bytes = whole->bytes();
  if (bytes) slot_by_bytes_.emplace(bytes.get(), slot_of(record));
  return bytes;
}

size_t PartStorages::slot_of(size_t record) {
  const auto [at, is_new] = slots_.try_emplace(record, contents_->slots.size());
  if (is_new) contents_->slots.push_back({part_, record, nullptr, 0});
  return at->second;
}

size_t PartStorages::slot_of(const Storage* bytes) const noexcept {
  const auto found = slot_by_bytes_.find(bytes);
  return found == slot_by_bytes_.end() ? Weight::kNoSlot : found->second;
}

Status corrupt_weight(const std::string& name, const Status& why) {
  return {Code::kCorrupt, format("the weight \"%.200s\": %s", name.c_str(), why.message().c_str())};
}

Status add_weight(Weight weight, Result<value::TensorValueRef> tensor, Contents* contents) {
  if (tensor.is_ok()) {
    weight.tensor = std::move(tensor).value();
  } else if (tensor.status().code() == Code::kUnsupported) {
    weight.refusal = tensor.status();
  } else if (tensor.status().code() == Code::kInvalidArgument) {
    return corrupt_weight(weight.name, tensor.status());
  } else {
    return tensor.status();
  }
  contents->weights.push_back(std::move(weight));
  return Status::ok();
}

size_t index_of(const archive::ZipReader& reader, const archive::ZipRecord& record) noexcept {
  return static_cast<size_t>(&record - reader.records().data());
}

}  // namespace tenon::weights
