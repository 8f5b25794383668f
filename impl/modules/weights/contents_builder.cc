#include "modules/weights/contents_builder.h"

#include "tensor/name.h"
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
  return whole->bytes();
}

Result<Ref<Storage>> PartStorages::known_bytes_of(size_t record, tensor::ScalarType type,
                                                  std::string_view device) {
  TENON_ASSIGN(Ref<Storage> bytes, bytes_of(record, type, device));
  if (bytes) slot_by_bytes_.emplace(bytes.get(), slot_of(record));
  return bytes;
}

size_t PartStorages::slot_of(size_t record) {
  if (slots_.empty()) slots_.resize(reader().records().size(), Weight::kNoSlot);
  size_t& slot = slots_[record];
  if (slot == Weight::kNoSlot) {
    slot = contents_->slots.size();
    contents_->slots.push_back({part_, record, nullptr, 0});
  }
  return slot;
}

size_t PartStorages::slot_of(const Storage* bytes) const noexcept {
  const auto found = slot_by_bytes_.find(bytes);
  return found == slot_by_bytes_.end() ? Weight::kNoSlot : found->second;
}

std::string text_of(std::string bytes) {
  const bool is_text = tensor::is_utf8(bytes);
  for (char& c : bytes) {
    if (c == '\0' || (!is_text && static_cast<signed char>(c) < 0)) c = '?';
  }
  return bytes;
}

Status corrupt_weight(const std::string& name, const Status& why) {
  return {Code::kCorrupt, format("the weight \"%.200s\": %s", name.c_str(), why.message().c_str())};
}

Status add_weight(Weight weight, Result<value::TensorValueRef> tensor, Contents* contents) {
  if (tensor.is_ok()) {
    weight.made = std::move(tensor).value();
  } else if (tensor.status().code() == Code::kUnsupported) {
    weight.refusal = Status(Code::kUnsupported, text_of(tensor.status().message()));
  } else if (tensor.status().code() == Code::kInvalidArgument) {
    return corrupt_weight(weight.name, tensor.status());
  } else {
    return tensor.status();
  }
  contents->weights.push_back(std::move(weight));
  return Status::ok();
}

void add_value(std::string name, value::ValueRef value, Contents* contents) {
  if (tensor::is_utf8(name) && name.find('\0') == std::string::npos) {
    contents->values.push_back({std::move(name), std::move(value)});
  } else {
    add_skipped(name, "a value whose name is no text", contents);
  }
}

void add_skipped(const std::string& name, const std::string& what, Contents* contents) {
  contents->skipped.push_back(text_of(name + ": " + what));
}

void add_state_dict(archive::StateDict found, const std::string& prefix, const PartStorages& part,
                    Contents* contents) {
  for (archive::NamedTensor& named : found.tensors) {
    Weight weight;
    weight.name = prefix + named.name;
    if (!named.why.is_ok()) weight.refusal = Status(named.why.code(), text_of(named.why.message()));
    if (named.tensor) {
      const StorageValueRef& storage = named.tensor->storage();
      if (storage && storage->bytes()) weight.slot = part.slot_of(storage->bytes().get());
    }
    weight.made = std::move(named.tensor);
    contents->weights.push_back(std::move(weight));
  }
  for (archive::StateDictLeaf& leaf : found.leaves) {
    if (leaf.value) {
      add_value(prefix + leaf.name, std::move(leaf.value), contents);
    } else {
      add_skipped(prefix + leaf.name, leaf.what, contents);
    }
  }
}

size_t index_of(const archive::ZipReader& reader, const archive::ZipRecord& record) noexcept {
  return static_cast<size_t>(&record - reader.records().data());
}

}  // namespace tenon::weights
