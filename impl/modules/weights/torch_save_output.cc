#include "modules/weights/torch_save_output.h"

#include <cstdint>
#include <map>
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
using value::StorageValueRef;

namespace {

// Writes the pickle of the dict, and collects its storages.
class DictPickler {
 public:
  std::vector<std::byte> run(std::span<const SavedTensor> tensors) {
    writer_.opcode(Opcode::kEmptyDict);
    writer_.opcode(Opcode::kMark);
    for (const SavedTensor& each : tensors) {
      writer_.text(each.name);
      write(*each.tensor);
    }
    writer_.opcode(Opcode::kSetItems);
    return writer_.finish();
  }
  // Indexed by their keys in the archive.
  const std::vector<StorageValueRef>& storages() const noexcept { return storages_; }

 private:
  // PyTorch has classes of storages for the types up to bfloat16. A tensor of a later type has an
  // untyped storage, and names its type.
  static bool has_class(ScalarType type) noexcept { return type <= ScalarType::kBFloat16; }

  void write(const value::TensorValue& tensor) {
    const ScalarTypeInfo& type = tensor::scalar_type_info(tensor.type());
    writer_.global("torch._utils",
                   has_class(type.type) ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    writer_.opcode(Opcode::kMark);
    write_storage(tensor.storage(), type);
    writer_.integer(tensor.offset());
    writer_.integers(tensor.sizes());
    writer_.integers(tensor.strides());
    writer_.boolean(tensor.requires_grad());
    writer_.empty_ordered_dict();
    if (!has_class(type.type)) writer_.global("torch", type.dtype_name);
    writer_.opcode(Opcode::kTuple);
    writer_.opcode(Opcode::kReduce);
  }

  void write_storage(const StorageValueRef& storage, const ScalarTypeInfo& type) {
    const auto [known, is_new] = keys_.try_emplace(storage->key(), storages_.size());
    if (is_new) storages_.push_back(storage);
    writer_.opcode(Opcode::kMark);
    writer_.text("storage");
    if (has_class(type.type)) {
      writer_.global("torch", type.storage_name);
    } else {
      writer_.global("torch.storage", "UntypedStorage");
    }
    writer_.text(std::to_string(known->second));
    writer_.text("cpu");
    writer_.integer(
        static_cast<int64_t>(has_class(type.type) ? storage->numel() : storage->nbytes()));
    writer_.opcode(Opcode::kTuple);
    writer_.opcode(Opcode::kBinPersId);
  }

  pickle::PickleWriter writer_;
  std::map<value::StorageKey, size_t> keys_;
  std::vector<StorageValueRef> storages_;
};

}  // namespace

Status write_torch_save(const std::string& path, std::span<const SavedTensor> tensors,
                        SaveProgress* progress, archive::Sink* sink) {
  DictPickler pickler;
  const std::vector<std::byte> pickle = pickler.run(tensors);
  uint64_t total = 0;
  for (const StorageValueRef& storage : pickler.storages()) total += storage->nbytes();
  progress->begin(total);
  archive::ZipWriterOptions options;
  options.prefix = archive::archive_name_of(path);
  TENON_ASSIGN(archive::ZipWriter writer, archive::ZipWriter::create(sink, std::move(options)));
  TENON_TRY(writer.add("data.pkl", pickle));
  TENON_TRY(writer.add_text("byteorder", "little"));
  const auto append = [&](std::span<const std::byte> piece) {
    TENON_TRY(writer.append(piece));
    progress->add(piece.size());
    return Status::ok();
  };
  for (size_t key = 0; key < pickler.storages().size(); ++key) {
    const value::StorageValue& storage = *pickler.storages()[key];
    TENON_TRY(writer.begin("data/" + std::to_string(key), storage.nbytes()));
    TENON_TRY(for_each_piece(storage, append));
    TENON_TRY(writer.end());
  }
  TENON_TRY(writer.add_text("version", "3\n"));
  return writer.finish();
}

}  // namespace tenon::weights
