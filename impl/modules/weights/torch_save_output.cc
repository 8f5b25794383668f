#include "modules/weights/torch_save_output.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "modules/archive/zip_writer.h"
#include "modules/weights/saved_elements.h"
#include "pickle/writer.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using pickle::Opcode;
using tensor::ScalarType;
using tensor::ScalarTypeInfo;
using value::TensorValue;

namespace {

// PyTorch's classes of storages have one for each of these types. A tensor of another type has an
// untyped storage, and names its type.
bool has_class(ScalarType type) noexcept {
  return type <= ScalarType::kBFloat16 && type != ScalarType::kComplexHalf;
}

// PyTorch reads a tensor of such a type (torch.storage._new_dtypes).
bool is_known(ScalarType type) noexcept {
  switch (type) {
    case ScalarType::kComplexHalf:
    case ScalarType::kFloat8E5m2:
    case ScalarType::kFloat8E4m3fn:
    case ScalarType::kFloat8E5m2fnuz:
    case ScalarType::kFloat8E4m3fnuz:
    case ScalarType::kFloat8E8m0fnu:
    case ScalarType::kUInt16:
    case ScalarType::kUInt32:
    case ScalarType::kUInt64:
    case ScalarType::kFloat4E2m1fnX2: return true;
    default: return has_class(type);
  }
}

// The memory that tensors use together. It is a storage of the file, which has no other bytes.
struct SavedStorage {
  ElementRange range;
  ScalarType type = ScalarType::kByte;
  bool is_sealed = true;
};

// The storage of each tensor: an index.
struct SavedStorages {
  std::vector<SavedStorage> all;
  std::vector<size_t> of;
};

// Tensors whose memory overlaps get one storage.
Result<SavedStorages> storages_of(std::span<const SavedTensor> tensors) {
  SavedStorages storages;
  storages.of.resize(tensors.size());
  std::vector<std::pair<ElementRange, size_t>> ranges;
  ranges.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) ranges.emplace_back(range_of(*tensors[i].tensor), i);
  std::ranges::sort(ranges);
  size_t first = 0;  // the tensor that began the last storage
  for (const auto& [range, i] : ranges) {
    const TensorValue& tensor = *tensors[i].tensor;
    const bool is_new = storages.all.empty() || range.begin >= storages.all.back().range.end;
    if (is_new) {
      storages.all.push_back({range, tensor.type(), true});
      first = i;
    }
    SavedStorage& storage = storages.all.back();
    const uint64_t size = tensor::scalar_type_info(storage.type).nbytes;
    if (tensor.type() != storage.type || (range.begin - storage.range.begin) % size != 0) {
      return saved_tensor_error(
                 Code::kInvalidArgument, tensors[i].name,
                 format("shares memory with \"%.200s\", which has other elements, and a storage of "
                        "PyTorch has one type: save a copy of one of them",
                        std::string(tensors[first].name).c_str()))
          .with("other", std::string(tensors[first].name));
    }
    storage.range.end = std::max(storage.range.end, range.end);
    if (const Ref<storage::Storage>& bytes = tensor.storage()->bytes(); bytes) {
      TENON_TRY(bytes->check_lender());
      storage.is_sealed = storage.is_sealed && bytes->is_sealed();
    }
    storages.of[i] = storages.all.size() - 1;
  }
  return storages;
}

uint64_t nbytes_of(const SavedStorage& storage) noexcept {
  return storage.range.end - storage.range.begin;
}

void write_storage(const SavedStorage& storage, size_t key, pickle::PickleWriter* writer) {
  const ScalarTypeInfo& type = tensor::scalar_type_info(storage.type);
  writer->opcode(Opcode::kMark);
  writer->text("storage");
  if (has_class(type.type)) {
    writer->global("torch", type.storage_name);
  } else {
    writer->global("torch.storage", "UntypedStorage");
  }
  writer->text(std::to_string(key));
  writer->text("cpu");
  writer->integer(
      static_cast<int64_t>(nbytes_of(storage) / (has_class(type.type) ? type.nbytes : 1)));
  writer->opcode(Opcode::kTuple);
  writer->opcode(Opcode::kBinPersId);
}

// Returns the pickle of the dict.
std::vector<std::byte> pickle_of(std::span<const SavedTensor> tensors,
                                 const SavedStorages& storages) {
  pickle::PickleWriter writer;
  writer.opcode(Opcode::kEmptyDict);
  writer.opcode(Opcode::kMark);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorValue& tensor = *tensors[i].tensor;
    const ScalarTypeInfo& type = tensor::scalar_type_info(tensor.type());
    const SavedStorage& storage = storages.all[storages.of[i]];
    writer.text(tensors[i].name);
    writer.global("torch._utils",
                  has_class(type.type) ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    writer.opcode(Opcode::kMark);
    write_storage(storage, storages.of[i], &writer);
    writer.integer(
        static_cast<int64_t>((range_of(tensor).begin - storage.range.begin) / type.nbytes));
    writer.integers(tensor.sizes());
    writer.integers(tensor.strides());
    writer.boolean(tensor.requires_grad());
    writer.empty_ordered_dict();
    if (!has_class(type.type)) writer.global("torch", type.dtype_name);
    writer.opcode(Opcode::kTuple);
    writer.opcode(Opcode::kReduce);
  }
  writer.opcode(Opcode::kSetItems);
  return writer.finish();
}

}  // namespace

Status check_torch_save(const SavedTensor& tensor) {
  if (is_known(tensor.tensor->type())) return Status::ok();
  return saved_tensor_error(Code::kUnsupported, tensor.name,
                            format("is of the type %s, which torch.load does not read",
                                   tensor::scalar_type_info(tensor.tensor->type()).dtype_name));
}

Status write_torch_save(const std::string& path, std::span<const SavedTensor> tensors,
                        SaveProgress* progress, archive::Sink* sink) {
  TENON_ASSIGN(const SavedStorages storages, storages_of(tensors));
  uint64_t total = 0;
  for (const SavedStorage& storage : storages.all) total += nbytes_of(storage);
  progress->begin(total);
  archive::ZipWriterOptions options;
  options.prefix = archive::archive_name_of(path);
  TENON_ASSIGN(archive::ZipWriter writer, archive::ZipWriter::create(sink, std::move(options)));
  TENON_TRY(writer.add("data.pkl", pickle_of(tensors, storages)));
  TENON_TRY(writer.add_text("byteorder", "little"));
  const auto append = [&](std::span<const std::byte> piece) {
    TENON_TRY(writer.append(piece));
    progress->add(piece.size());
    return Status::ok();
  };
  for (size_t key = 0; key < storages.all.size(); ++key) {
    const SavedStorage& storage = storages.all[key];
    TENON_TRY(writer.begin("data/" + std::to_string(key), nbytes_of(storage)));
    TENON_TRY(for_each_piece(storage.range, storage.is_sealed, append));
    TENON_TRY(writer.end());
  }
  TENON_TRY(writer.add_text("version", "3\n"));
  return writer.finish();
}

}  // namespace tenon::weights
