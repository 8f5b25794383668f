// Writes tensors under names as a new file of weights: a safetensors file, or a file as torch.save
// or numpy.savez writes it. The pages safetensors.md, archive.md and numpy.md of docs/format
// describe the forms. tenon_save_weights and `tenon convert` call these functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "modules/archive/file_output.h"
#include "modules/value/tensor_value.h"

namespace tenon::weights {

enum class SavedForm : uint8_t { kSafetensors, kTorchSave, kNpz };
// The words for a file of the form, with an article.
const char* form_text(SavedForm form) noexcept;

struct SavedTensor {
  std::string_view name;
  value::TensorValueRef tensor;
};

// Counts the bytes of elements that are written, and tells a caller of them.
class SaveProgress {
 public:
  using Function = void (*)(void* context, uint64_t done, uint64_t total);
  SaveProgress(Function function, void* context) noexcept
      : function_(function), context_(context) {}
  void begin(uint64_t total) noexcept { total_ = total; }
  void add(uint64_t nbytes) noexcept {
    done_ += nbytes;
    if (function_ == nullptr || (done_ < tell_at_ && done_ != total_)) return;
    tell_at_ = done_ + kTellEachNbytes;
    function_(context_, done_, total_);
  }
  // All bytes are written. The function has been called for the last of them, if there was one.
  void end() const noexcept {
    if (function_ != nullptr && total_ == 0) function_(context_, 0, 0);
  }

 private:
  static constexpr uint64_t kTellEachNbytes = uint64_t{4} << 20;
  Function function_;
  void* context_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  uint64_t tell_at_ = kTellEachNbytes;
};

struct SaveOptions {
  SavedForm form = SavedForm::kSafetensors;
  archive::Durability durability = archive::Durability::kNone;
  // Write each tensor with its own elements, also where tensors share memory. In a file of
  // torch.save they share it.
  bool duplicates_shared = false;
  std::map<std::string, std::string> metadata;  // of a safetensors file
  SaveProgress::Function progress = nullptr;
  void* progress_context = nullptr;
};

// The errors are those of tenon_save_weights (tenon/weights.h). The names and keys are texts in
// UTF-8. After an error the old file of that name is as it was.
Status save_weights(const std::string& path, std::span<const SavedTensor> tensors,
                    const SaveOptions& options);

// Whether a file of this form can have the tensor under its name. UNSUPPORTED or INVALID_ARGUMENT,
// with the detail "name".
Status check_saved(SavedForm form, const SavedTensor& tensor);
// The same for all tensors. INVALID_ARGUMENT, with the detail "name", if a name comes twice.
Status check_saved(SavedForm form, std::span<const SavedTensor> tensors);

// Does the same as save_weights(), and writes the file's bytes into a sink. `path` is the path that
// the file will have: a file of torch.save names its folder after it.
Status write_weights(const std::string& path, std::span<const SavedTensor> tensors,
                     const SaveOptions& options, archive::Sink* sink);

}  // namespace tenon::weights
