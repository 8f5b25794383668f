#include "modules/archive/pickle_tensor_writer.h"

#include <limits>

namespace tenon::archive {

using value::TensorLayout;
using value::TensorValue;

Status PickledTensorWriter::error(Code code, const std::string& message) const {
  return Status(code, options_.record + ": " + message).with("record", options_.record);
}

Status PickledTensorWriter::write(const TensorValue& tensor) {
  return tensor.layout() == TensorLayout::kStrided ? write_strided(tensor) : write_sparse(tensor);
}

Status PickledTensorWriter::write_strided(const TensorValue& tensor) {
  const bool quantised = tensor.quantizer().has_value();
  writer_.global("torch._utils", quantised ? "_rebuild_qtensor" : "_rebuild_tensor_v2");
  writer_.opcode(pickle::Opcode::kMark);
  TENON_TRY(write_storage(tensor.storage()));
  writer_.integer(tensor.offset());
  writer_.integers(tensor.sizes());
  writer_.integers(tensor.strides());
  if (quantised) TENON_TRY(write_quantizer(*tensor.quantizer()));
  writer_.boolean(tensor.requires_grad());
  writer_.empty_ordered_dict();
  if (tensor.is_conj() || tensor.is_neg()) write_math_bits(tensor);
  writer_.opcode(pickle::Opcode::kTuple);
  writer_.opcode(pickle::Opcode::kReduce);
  return Status::ok();
}

// Writes the conj and neg bits as a dict. PyTorch 2.x writes and reads this argument. PyTorch 1.x
// does not know it and drops the bits, whoever wrote them.
void PickledTensorWriter::write_math_bits(const TensorValue& tensor) {
  writer_.global("torch.jit._pickle", "restore_type_tag");
  writer_.opcode(pickle::Opcode::kEmptyDict);
  writer_.opcode(pickle::Opcode::kMark);
  if (tensor.is_neg()) {
    writer_.text("neg");
    writer_.boolean(true);
  }
  if (tensor.is_conj()) {
    writer_.text("conj");
    writer_.boolean(true);
  }
  writer_.opcode(pickle::Opcode::kSetItems);
  writer_.text("Dict[str, bool]");
  writer_.short_tuple(2);
  writer_.opcode(pickle::Opcode::kReduce);
}

Status PickledTensorWriter::write_quantizer(const value::Quantizer& quantizer) {
  writer_.opcode(pickle::Opcode::kMark);
  writer_.global("torch", value::qscheme_name(quantizer.scheme));
  if (quantizer.scheme == value::QScheme::kPerTensorAffine) {
    writer_.real(quantizer.scale);
    writer_.integer(quantizer.zero_point);
  } else {
    TENON_TRY(write(*quantizer.scales));
    TENON_TRY(write(*quantizer.zero_points));
    writer_.integer(quantizer.axis);
  }
  writer_.opcode(pickle::Opcode::kTuple);
  return Status::ok();
}

Status PickledTensorWriter::write_sparse(const TensorValue& tensor) {
  const bool is_coo = tensor.layout() == TensorLayout::kSparseCoo;
  if (!is_coo && tensor.layout() != TensorLayout::kSparseCsr) {
    return error(Code::kUnsupported,
                 format("PyTorch's archives have no form for a tensor of layout %s",
                        std::string(value::tensor_layout_name(tensor.layout())).c_str()));
  }
  writer_.global("torch._utils", "_rebuild_sparse_tensor");
  writer_.opcode(pickle::Opcode::kMark);
  writer_.integer(static_cast<int64_t>(tensor.layout()));
  writer_.integers(tensor.sizes());
  writer_.boolean(tensor.requires_grad());
  TENON_TRY(write(*tensor.indices()));
  if (!is_coo) TENON_TRY(write(*tensor.plain_indices()));
  TENON_TRY(write(*tensor.values()));
  writer_.empty_ordered_dict();
  writer_.opcode(pickle::Opcode::kTuple);
  writer_.opcode(pickle::Opcode::kReduce);
  return Status::ok();
}

Status PickledTensorWriter::write_storage(const value::StorageValueRef& storage) {
  const value::StorageKey key = storage->key();
  const auto known = storages_.find(key);
  if (known != storages_.end()) {
    writer_.get(known->second);
    return Status::ok();
  }
  if (!options_.name_storage) return error(Code::kUnsupported, "a tensor where none can be");
  if (storage->numel() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return error(Code::kInvalidArgument, "a storage of more than 2^63 elements");
  }
  writer_.opcode(pickle::Opcode::kMark);
  writer_.text("storage");
  writer_.global("torch", tensor::scalar_type_info(storage->type()).storage_name);
  TENON_ASSIGN(const std::string name, options_.name_storage(storage));
  writer_.text(name);
  writer_.text(storage->is_on_device() && !options_.keep_device ? "cpu" : storage->device());
  writer_.integer(static_cast<int64_t>(storage->numel()));
  writer_.opcode(pickle::Opcode::kTuple);
  writer_.opcode(pickle::Opcode::kBinPersId);
  storages_.emplace(key, writer_.put());
  return Status::ok();
}

}  // namespace tenon::archive
