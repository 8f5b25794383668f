#include "modules/weights/weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "modules/archive/file_mapping.h"
#include "modules/archive/zip_crc.h"
#include "modules/module/import_storages.h"
#include "modules/script/nearest.h"
#include "modules/value/tree_lock.h"
#include "modules/weights/element_copy.h"
#include "modules/weights/patched_file.h"
#include "modules/weights/read_contents.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using archive::ZipReader;
using archive::ZipRecord;
using storage::Storage;
using value::StorageValue;
using value::StorageValueRef;
using value::TensorLayout;
using value::TensorValue;
using value::TensorValueRef;

namespace {

value::StridedSpec spec_of(const TensorValue& tensor) {
  value::StridedSpec spec;
  spec.storage = tensor.storage();
  spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
  spec.offset = tensor.offset();
  spec.requires_grad = tensor.requires_grad();
  spec.is_conj = tensor.is_conj();
  spec.is_neg = tensor.is_neg();
  return spec;
}

std::string kind_text(const TensorValue& tensor) {
  return format("%s of the shape %s", tensor::scalar_type_info(tensor.type()).dtype_name,
                tensor::dims_text(tensor.sizes()).c_str());
}

const std::byte* first_of(const TensorValue& tensor) {
  return tensor.storage()->data() +
         static_cast<uint64_t>(tensor.offset()) * tensor::scalar_type_info(tensor.type()).nbytes;
}

// A record that a rewrite changes: the file of its reader, the record there, and the offset of that
// file in the whole file.
struct ChangedRecord {
  const archive::ZipSource* source;
  const ZipRecord* record;
  uint64_t base;
};

Status patch_crc(const ChangedRecord& changed, PatchedFile* file) {
  TENON_ASSIGN(const std::vector<uint64_t> places,
               archive::find_crc_places(*changed.source, *changed.record));
  if (places.empty()) return Status::ok();
  TENON_ASSIGN(const uint32_t crc,
               file->crc32(changed.base + changed.record->data_offset, changed.record->nbytes));
  for (const uint64_t place : places) file->replace(changed.base + place, crc);
  return Status::ok();
}

}  // namespace

Weights::Weights(std::string label, Contents contents)
    : label_(std::move(label)), contents_(std::move(contents)) {}

Result<Ref<Weights>> Weights::open(const std::string& path, const module::ImportOptions& options) {
  TENON_TRY(module::check_devices(options));
  TENON_ASSIGN(Ref<archive::ZipSource> file, archive::FileMapping::open(path));
  std::string label = path.substr(path.rfind('/') + 1);
  TENON_ASSIGN(Contents contents, read_contents(std::move(file), label, options, Source::kPath));
  return Ref<Weights>::adopt(new Weights(std::move(label), std::move(contents)));
}

Result<Ref<Weights>> Weights::read(Ref<archive::ZipSource> source, std::string label,
                                   const module::ImportOptions& options) {
  TENON_ASSIGN(Contents contents,
               read_contents(std::move(source), label, options, Source::kMemory));
  return Ref<Weights>::adopt(new Weights(std::move(label), std::move(contents)));
}

template <typename Named>
Status Weights::not_found(const char* what, std::string_view name,
                          const std::vector<Named>& list) const {
  script::Nearest nearest(name);
  for (const Named& known : list) nearest.consider(known.name);
  return {Code::kNotFound,
          format("%s has no %s \"%.200s\"%s", label_.c_str(), what, std::string(name).c_str(),
                 script::did_you_mean(nearest.best()).c_str())};
}

Result<const Weight*> Weights::find(std::string_view name) const {
  if (const Weight* const found = contents_.weights_by_name.find(name, contents_.weights))
    return found;
  return not_found("weight", name, contents_.weights);
}

Result<value::ValueRef> Weights::value(std::string_view name) const {
  if (const NamedValue* const found = contents_.values_by_name.find(name, contents_.values))
    return found->value;
  return not_found("value", name, contents_.values);
}

std::vector<std::string> Weights::skipped() const {
  std::vector<std::string> all = contents_.skipped;
  for (const Weight& weight : contents_.weights) {
    if (!weight.is_readable()) all.push_back(weight.name + ": " + weight.refusal.message());
  }
  return all;
}

Slot Weights::slot_now(size_t index) const {
  const value::ReadTrees reading;
  return contents_.slots[index];
}

Result<bool> Weights::set_bytes(size_t index, const Slot& before, Slot* after) {
  TENON_ASSIGN(const value::ChangeTrees changing, value::ChangeTrees::begin());
  Slot& slot = contents_.slots[index];
  if (slot.bytes.get() != before.bytes.get() || slot.from != before.from) return false;
  std::swap(slot.bytes, after->bytes);
  std::swap(slot.from, after->from);
  return true;
}

Result<TensorValueRef> Weights::tensor(std::string_view name) const {
  TENON_ASSIGN(const Weight* const weight, find(name));
  if (!weight->is_readable()) {
    return Status(weight->refusal.code(),
                  format("the weight \"%.200s\" cannot be read: %s", weight->name.c_str(),
                         weight->refusal.message().c_str()));
  }
  if (weight->slot == Weight::kNoSlot) return weight->read();
  const Slot slot = slot_now(weight->slot);
  TENON_ASSIGN(TensorValueRef in_file, weight->read());
  if (!slot.bytes) return in_file;
  value::StridedSpec spec = spec_of(*in_file);
  // A record may have more bytes than the storage that the file describes.
  TENON_ASSIGN(spec.storage,
               StorageValue::create(in_file->type(), spec.storage->numel(), slot.bytes, slot.from));
  return TensorValue::create(spec);
}

Result<TensorValueRef> Weights::check_replacement(const Weight& weight,
                                                  const TensorValue& tensor) const {
  const auto refuse = [&](Code code, const std::string& why) {
    return Status(code, format("the weight \"%.200s\" cannot be replaced: %s", weight.name.c_str(),
                               why.c_str()));
  };
  if (!weight.is_readable()) return refuse(weight.refusal.code(), weight.refusal.message());
  TENON_ASSIGN(TensorValueRef in_file, weight.read());
  const TensorValue& old = *in_file;
  const bool is_plain = old.layout() == TensorLayout::kStrided && !old.quantizer();
  if (!is_plain) return refuse(Code::kUnsupported, "it is sparse or quantised");
  if (tensor.layout() != TensorLayout::kStrided)
    return refuse(Code::kInvalidArgument, "the given tensor is sparse");
  if (tensor.type() != old.type() || !std::ranges::equal(tensor.sizes(), old.sizes())) {
    return refuse(Code::kInvalidArgument, "it is a " + kind_text(old) +
                                              ", and the given tensor is a " + kind_text(tensor) +
                                              ". The program was compiled for that type and shape");
  }
  if (tensor.is_conj() != old.is_conj() || tensor.is_neg() != old.is_neg())
    return refuse(Code::kInvalidArgument,
                  "the given tensor is conjugated or negated lazily. Resolve it first");
  if (tensor.storage()->is_meta())
    return refuse(Code::kInvalidArgument, "the given tensor is on meta and has no elements");
  if (tensor.storage()->is_on_device())
    return refuse(Code::kUnsupported,
                  "the given tensor is on " + tensor.device() + ". Copy it to the CPU first");
  if (old.numel() == 0) return in_file;
  if (weight.slot == Weight::kNoSlot)
    return refuse(Code::kUnsupported, "the file has no elements of it");
  const Slot& slot = contents_.slots[weight.slot];
  if (const char* const why = part_of(slot).fixed_because; why != nullptr)
    return refuse(Code::kUnsupported, why);
  if (record_of(slot).deflated)
    return refuse(Code::kUnsupported,
                  "its record is compressed. Write the archive again uncompressed");
  if (elements_overlap(old))
    return refuse(Code::kUnsupported, "several of its elements are one number in the file");
  return in_file;
}

Result<Ref<Storage>> Weights::copy_of_record(const Slot& slot) const {
  const ZipRecord& record = record_of(slot);
  storage::StorageOptions options;
  options.is_private = true;
  TENON_ASSIGN(Ref<Storage> copy, Storage::create(options, record.nbytes));
  TENON_ASSIGN(std::byte* const data, copy->data_mut());
  if (slot.bytes) {
    TENON_TRY(slot.bytes->read(slot.from, data, record.nbytes));
  } else {
    TENON_TRY(part_of(slot).reader->read_into(record, data));
  }
  return copy;
}

Status Weights::replace(std::string_view name, const TensorValue& tensor) {
  TENON_ASSIGN(const Weight* const weight, find(name));
  TENON_ASSIGN(const TensorValueRef in_file, check_replacement(*weight, tensor));
  if (in_file->numel() == 0) return Status::ok();
  // The bytes are used in place only if they are aligned to 8 bytes, because another weight of the
  // slot may have a wider element type.
  const bool is_aligned = reinterpret_cast<uintptr_t>(first_of(tensor)) % sizeof(uint64_t) == 0;
  for (bool is_set = false; !is_set;) {
    const Slot before = slot_now(weight->slot);
    Slot after = before;
    if (is_aligned && fills(*in_file, record_of(before).nbytes) &&
        have_same_order(*in_file, tensor)) {
      after.bytes = tensor.storage()->bytes();
      after.from = static_cast<uint64_t>(first_of(tensor) - tensor.storage()->bytes()->data());
    } else {
      // Another weight of the slot keeps its elements, so a slot that changed meanwhile is copied
      // again.
      TENON_ASSIGN(after.bytes, copy_of_record(before));
      TENON_ASSIGN(std::byte* const data, after.bytes->data_mut());
      TENON_TRY(copy_elements(tensor, *in_file, data));
      after.from = 0;
    }
    TENON_ASSIGN(is_set, set_bytes(weight->slot, before, &after));
  }
  return Status::ok();
}

Status Weights::rewrite(const std::string& path, archive::Durability durability) const {
  if (contents_.read_only_because != nullptr)
    return {Code::kUnsupported, format("%s is %s", label_.c_str(), contents_.read_only_because)};
  PatchedFile file(*contents_.source);
  std::vector<ChangedRecord> records;
  std::map<size_t, ChangedRecord> archives;  // the records that contain inner archives, by part
  std::vector<Slot> slots;
  {
    const value::ReadTrees reading;
    slots = contents_.slots;
  }
  for (const Slot& slot : slots) {
    if (!slot.bytes) continue;
    const Part& part = part_of(slot);
    const ZipRecord& record = record_of(slot);
    file.replace(record.data_offset, record.nbytes, slot.bytes, slot.from);
    if (!contents_.archive) continue;  // this form has no checksums
    if (!part.members.empty()) {
      records.push_back(
          {contents_.source.get(), &contents_.archive->records()[part.members[slot.record]], 0});
      continue;
    }
    const ZipReader& reader = part.inner ? *part.inner : *part.reader;
    records.push_back({reader.source().get(), &reader.records()[slot.record], part.base});
    if (part.inner) archives.insert({slot.part, {contents_.source.get(), &part.outer, 0}});
  }
  for (const ChangedRecord& changed : records) TENON_TRY(patch_crc(changed, &file));
  for (const auto& [part, changed] : archives) TENON_TRY(patch_crc(changed, &file));
  TENON_ASSIGN(archive::FileOutput output, archive::FileOutput::create(path));
  TENON_TRY(file.write(&output));
  return output.commit(durability);
}

}  // namespace tenon::weights
