#include "modules/weights/save_weights.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/keyed_hash.h"
#include "modules/weights/npz_output.h"
#include "modules/weights/safetensors_output.h"
#include "modules/weights/saved_elements.h"
#include "modules/weights/torch_save_output.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

namespace {

// A reader of the file could not share memory again.
Status check_not_shared(SavedForm form, std::span<const SavedTensor> tensors) {
  std::vector<std::pair<ElementRange, const SavedTensor*>> ranges;
  for (const SavedTensor& each : tensors) {
    if (each.tensor->numel() != 0) ranges.emplace_back(range_of(*each.tensor), &each);
  }
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i) {
    const auto& [before, first] = ranges[i - 1];
    const auto& [range, second] = ranges[i];
    if (range.begin >= before.end) continue;
    return saved_tensor_error(
               Code::kInvalidArgument, first->name,
               format("shares memory with \"%.200s\", which %s cannot say: save only one of them, "
                      "write each of them whole (the flag DUPLICATE_SHARED), or save a file of "
                      "torch.save",
                      std::string(second->name).c_str(), form_text(form)))
        .with("other", std::string(second->name));
  }
  return Status::ok();
}

}  // namespace

const char* form_text(SavedForm form) noexcept {
  switch (form) {
    case SavedForm::kSafetensors: return "a safetensors file";
    case SavedForm::kTorchSave: return "a file of torch.save";
    case SavedForm::kNpz: break;
  }
  return "an .npz file";
}

Status save_weights(const std::string& path, std::span<const SavedTensor> tensors,
                    const SaveOptions& options) {
  TENON_ASSIGN(archive::FileOutput output, archive::FileOutput::create(path));
  TENON_TRY(write_weights(path, tensors, options, &output));
  return output.commit(options.durability);
}

Status check_saved(SavedForm form, const SavedTensor& tensor) {
  TENON_TRY(check_savable(tensor.name, *tensor.tensor));
  if (tensor.tensor->quantizer() && form != SavedForm::kTorchSave) {
    return saved_tensor_error(Code::kUnsupported, tensor.name,
                              format("is quantised, which %s cannot say: dequantise it, or save a "
                                     "file of torch.save",
                                     form_text(form)));
  }
  switch (form) {
    case SavedForm::kSafetensors: return check_safetensors(tensor);
    case SavedForm::kTorchSave: return check_torch_save(tensor);
    case SavedForm::kNpz: break;
  }
  return check_npz(tensor);
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
  if (options.form != SavedForm::kSafetensors && !options.metadata.empty())
    return {Code::kInvalidArgument, "only a safetensors file has metadata"};
  if (options.form != SavedForm::kTorchSave && !options.duplicates_shared)
    TENON_TRY(check_not_shared(options.form, tensors));
  SaveProgress progress(options.progress, options.progress_context);
  switch (options.form) {
    case SavedForm::kSafetensors:
      TENON_TRY(write_safetensors(tensors, options, &progress, sink));
      break;
    case SavedForm::kTorchSave: TENON_TRY(write_torch_save(path, tensors, &progress, sink)); break;
    case SavedForm::kNpz: TENON_TRY(write_npz(tensors, &progress, sink)); break;
  }
  progress.end();
  return Status::ok();
}

}  // namespace tenon::weights
