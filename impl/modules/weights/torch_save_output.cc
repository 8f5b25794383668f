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

bool is_per_channel(const TensorValue& tensor) noexcept {
  return tensor.quantizer() && tensor.quantizer()->scheme != value::QScheme::kPerTensorAffine;
}

// The tensors of the file: first those of the caller, and then the scales and the zero points of
// each one that is quantised per channel, in the same order.
std::vector<SavedTensor> with_channels(std::span<const SavedTensor> tensors) {
  std::vector<SavedTensor> all(tensors.begin(), tensors.end());
  for (const SavedTensor& each : tensors) {
    if (!is_per_channel(*each.tensor)) continue;
    all.push_back({each.name, each.tensor->quantizer()->scales});
    all.push_back({each.name, each.tensor->quantizer()->zero_points});
  }
  return all;
}

// Writes the pickle of a dict. The argument `tensors` is the result of with_channels().
class DictWriter {
 public:
  DictWriter(std::span<const SavedTensor> tensors, const SavedStorages& storages)
      : tensors_(tensors), storages_(storages) {}

  // The dict has the first `count` tensors.
  std::vector<std::byte> run(size_t count) {
    writer_.opcode(Opcode::kEmptyDict);
    writer_.opcode(Opcode::kMark);
    next_channels_ = count;
    for (size_t i = 0; i < count; ++i) {
      writer_.text(tensors_[i].name);
      write_tensor(i);
    }
    writer_.opcode(Opcode::kSetItems);
    return writer_.finish();
  }

 private:
  void write_tensor(size_t index) {
    const TensorValue& tensor = *tensors_[index].tensor;
    const ScalarTypeInfo& type = tensor::scalar_type_info(tensor.type());
    const SavedStorage& storage = storages_.all[storages_.of[index]];
    writer_.global("torch._utils", tensor.quantizer()     ? "_rebuild_qtensor"
                                   : has_class(type.type) ? "_rebuild_tensor_v2"
                                                          : "_rebuild_tensor_v3");
    writer_.opcode(Opcode::kMark);
    write_storage(storage, storages_.of[index], &writer_);
    writer_.integer(
        static_cast<int64_t>((range_of(tensor).begin - storage.range.begin) / type.nbytes));
    writer_.integers(tensor.sizes());
    writer_.integers(tensor.strides());
    if (tensor.quantizer()) write_quantizer(*tensor.quantizer());
    writer_.boolean(tensor.requires_grad());
    writer_.empty_ordered_dict();
    if (!has_class(type.type)) writer_.global("torch", type.dtype_name);
    writer_.opcode(Opcode::kTuple);
    writer_.opcode(Opcode::kReduce);
  }

  void write_quantizer(const value::Quantizer& quantizer) {
    writer_.opcode(Opcode::kMark);
    writer_.global("torch", value::qscheme_name(quantizer.scheme));
    if (quantizer.scheme == value::QScheme::kPerTensorAffine) {
      writer_.real(quantizer.scale);
      writer_.integer(quantizer.zero_point);
    } else {
      write_tensor(next_channels_++);
      write_tensor(next_channels_++);
      writer_.integer(quantizer.axis);
    }
    writer_.opcode(Opcode::kTuple);
  }

  const std::span<const SavedTensor> tensors_;
  const SavedStorages& storages_;
  pickle::PickleWriter writer_;
  size_t next_channels_ = 0;  // the next scales or zero points
};

}  // namespace

Status check_torch_save(const SavedTensor& tensor) {
  if (is_per_channel(*tensor.tensor)) {
    const value::Quantizer& quantizer = *tensor.tensor->quantizer();
    for (const value::TensorValueRef& part : {quantizer.scales, quantizer.zero_points})
      TENON_TRY(check_savable(tensor.name, *part));
  }
  if (is_known(tensor.tensor->type())) return Status::ok();
  return saved_tensor_error(Code::kUnsupported, tensor.name,
                            format("is of the type %s, which torch.load does not read",
                                   tensor::scalar_type_info(tensor.tensor->type()).dtype_name));
}

Status write_torch_save(const std::string& path, std::span<const SavedTensor> tensors,
                        SaveProgress* progress, archive::Sink* sink) {
  const std::vector<SavedTensor> all = with_channels(tensors);
  TENON_ASSIGN(const SavedStorages storages, storages_of(all));
  uint64_t total = 0;
  for (const SavedStorage& storage : storages.all) total += nbytes_of(storage);
  progress->begin(total);
  archive::ZipWriterOptions options;
  options.prefix = archive::archive_name_of(path);
  TENON_ASSIGN(archive::ZipWriter writer, archive::ZipWriter::create(sink, std::move(options)));
  TENON_TRY(writer.add("data.pkl", DictWriter(all, storages).run(tensors.size())));
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
