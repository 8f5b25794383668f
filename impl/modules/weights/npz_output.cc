#include "modules/weights/npz_output.h"

#include <cstdint>
#include <string>
#include <utility>

#include "modules/archive/zip_names.h"
#include "modules/archive/zip_writer.h"
#include "modules/weights/npy_header.h"
#include "modules/weights/saved_elements.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using value::TensorValue;

namespace {

std::string record_of(const SavedTensor& tensor) { return std::string(tensor.name) + ".npy"; }

uint64_t nbytes_of_elements(const TensorValue& tensor) {
  return tensor.numel() * tensor::scalar_type_info(tensor.type()).nbytes;
}

}  // namespace

Status check_npz(const SavedTensor& tensor) {
  const tensor::ScalarType type = tensor.tensor->type();
  if (npy_descr_of(type).empty()) {
    return saved_tensor_error(
        Code::kUnsupported, tensor.name,
        format("is of the type %s, which NumPy does not have: convert it to another type, such as "
               "float32, or save a safetensors file",
               tensor::scalar_type_info(type).dtype_name));
  }
  const char* const fault = archive::find_name_fault(record_of(tensor));
  if (fault == nullptr) return Status::ok();
  return saved_tensor_error(
      Code::kInvalidArgument, tensor.name,
      format("cannot be a record of an archive, because its name %s: give it another name", fault));
}

Status write_npz(std::span<const SavedTensor> tensors, SaveProgress* progress,
                 archive::Sink* sink) {
  uint64_t total = 0;
  for (const SavedTensor& each : tensors) total += nbytes_of_elements(*each.tensor);
  progress->begin(total);
  // The records are aligned, and so are the headers in them. So a reader can map each array.
  TENON_ASSIGN(archive::ZipWriter writer, archive::ZipWriter::create(sink, {.has_prefix = false}));
  const auto append = [&](std::span<const std::byte> piece) {
    TENON_TRY(writer.append(piece));
    progress->add(piece.size());
    return Status::ok();
  };
  for (const SavedTensor& each : tensors) {
    const TensorValue& tensor = *each.tensor;
    const std::string head = npy_head(tensor.type(), tensor.sizes());
    TENON_TRY(writer.begin(record_of(each), head.size() + nbytes_of_elements(tensor)));
    TENON_TRY(writer.append(std::as_bytes(std::span(head))));
    TENON_TRY(for_each_piece(tensor, append));
    TENON_TRY(writer.end());
  }
  return writer.finish();
}

}  // namespace tenon::weights
