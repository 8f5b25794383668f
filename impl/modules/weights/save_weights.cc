#include "modules/weights/save_weights.h"

#include <algorithm>
#include <unordered_set>

#include "base/checked.h"
#include "base/keyed_hash.h"
#include "modules/weights/safetensors_output.h"
#include "modules/weights/torch_save_output.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

Status save_weights(const std::string& path, std::span<const SavedTensor> tensors,
                    const SaveOptions& options) {
  TENON_ASSIGN(archive::FileOutput output, archive::FileOutput::create(path));
  TENON_TRY(write_weights(path, tensors, options, &output));
  return output.commit(options.durability);
}

Status check_saved(SavedForm form, const SavedTensor& tensor) {
  TENON_TRY(check_savable(tensor.name, *tensor.tensor));
  return form == SavedForm::kSafetensors ? check_safetensors(tensor) : check_torch_save(tensor);
}

Status check_saved(SavedForm form, std::span<const SavedTensor> tensors) {
  std::unordered_set<std::string_view, KeyedHash> names;
  for (const SavedTensor& each : tensors) {
    if (!names.insert(each.name).second) {
      return Status(Code::kInvalidArgument,
                    format("the name \"%.200s\" is given twice", std::string(each.name).c_str()))
          .with("name", std::string(each.name));
    }
    TENON_TRY(check_saved(form, each));
  }
  return Status::ok();
}

Status write_weights(const std::string& path, std::span<const SavedTensor> tensors,
                     const SaveOptions& options, archive::Sink* sink) {
  TENON_TRY(check_saved(options.form, tensors));
  if (options.form == SavedForm::kTorchSave && !options.metadata.empty())
    return {Code::kInvalidArgument, "only a safetensors file has metadata"};
  SaveProgress progress(options.progress, options.progress_context);
  TENON_TRY(options.form == SavedForm::kSafetensors
                ? write_safetensors(tensors, options, &progress, sink)
                : write_torch_save(path, tensors, &progress, sink));
  progress.end();
  return Status::ok();
}

}  // namespace tenon::weights
