// tenon/weights.h: reads and replaces the weights in a file (impl/modules/weights/weights.h).
#include <tenon/weights.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_options.h"
#include "boundary.h"
#include "handles.h"
#include "module_lists.h"
#include "modules/weights/save_weights.h"
#include "modules/weights/weights.h"
#include "named_tensors.h"
#include "text.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Ref;
using tenon::Status;
using tenon::value::TensorValueRef;
using tenon::value::Value;
using tenon::value::ValueKind;
using tenon::weights::NamedValue;
using tenon::weights::SavedForm;
using tenon::weights::SavedTensor;
using tenon::weights::SaveOptions;
using tenon::weights::Weight;
using tenon::weights::Weights;

namespace {

using ListNames = void (*)(const Weights& from, std::vector<std::string>* names);

tenon_status weight_names(const tenon_weights* weights, tenon_name_list** out, tenon_error** err,
                          ListNames list) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto found = std::make_unique<NameList>();
    list(*object(weights), &found->names);
    *out = handle<tenon_name_list>(found.release());
    return Status::ok();
  });
}

Status read_save_options(const tenon_save_weights_options* options, SaveOptions* out) {
  tenon_save_weights_options given{};
  TENON_TRY(read_struct(options, "tenon_save_weights_options", &given));
  TENON_TRY(check_flags(given.flags, TENON_SAVE_DUPLICATE_SHARED, "tenon_save_weights_options"));
  TENON_TRY(check_argument(given.reserved == 0, "options.reserved is not 0"));
  static_assert(static_cast<int>(SavedForm::kTorchSave) == TENON_WEIGHTS_TORCH_SAVE &&
                static_cast<int>(SavedForm::kNpz) == TENON_WEIGHTS_NPZ);
  TENON_TRY(
      check_argument(given.form >= TENON_WEIGHTS_SAFETENSORS && given.form <= TENON_WEIGHTS_NPZ,
                     "options.form is no TENON_WEIGHTS_*"));
  out->form = static_cast<SavedForm>(given.form);
  TENON_TRY(read_durability(given.durability, &out->durability));
  out->duplicates_shared = (given.flags & TENON_SAVE_DUPLICATE_SHARED) != 0;
  TENON_TRY(check_argument(given.metadata_count == 0 ||
                               (given.metadata_keys != nullptr && given.metadata_texts != nullptr),
                           "options.metadata_keys or metadata_texts is NULL"));
  for (size_t i = 0; i < given.metadata_count; ++i) {
    TENON_ASSIGN(const std::string_view key, read_text(given.metadata_keys[i], "a metadata key"));
    TENON_ASSIGN(const std::string_view text,
                 read_text(given.metadata_texts[i], "a metadata text"));
    TENON_TRY(check_argument(out->metadata.emplace(key, text).second,
                             "a key of the metadata is given twice"));
  }
  out->progress = given.progress;
  out->progress_context = given.progress_context;
  return Status::ok();
}

}  // namespace

extern "C" {

tenon_status tenon_open_weights(const char* path, const tenon_import_options* options,
                                tenon_weights** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon::module::ImportOptions given;
    TENON_TRY(read_import_options(options, &given));
    TENON_ASSIGN(Ref<Weights> weights, Weights::open(path, given));
    *out = handle<tenon_weights>(weights.detach());
    return Status::ok();
  });
}

tenon_weights* tenon_weights_retain(tenon_weights* weights) noexcept {
  if (weights != nullptr) object(weights)->retain();
  return weights;
}

void tenon_weights_release(tenon_weights* weights) noexcept {
  if (weights != nullptr) object(weights)->release();
}

tenon_status tenon_weights_names(const tenon_weights* weights, tenon_name_list** out,
                                 tenon_error** err) noexcept {
  return weight_names(weights, out, err, [](const Weights& from, std::vector<std::string>* names) {
    for (const Weight& weight : from.list()) names->push_back(weight.name);
  });
}

tenon_status tenon_weights_value_names(const tenon_weights* weights, tenon_name_list** out,
                                       tenon_error** err) noexcept {
  return weight_names(weights, out, err, [](const Weights& from, std::vector<std::string>* names) {
    for (const NamedValue& value : from.values()) names->push_back(value.name);
  });
}

tenon_status tenon_weights_skipped(const tenon_weights* weights, tenon_name_list** out,
                                   tenon_error** err) noexcept {
  return weight_names(weights, out, err, [](const Weights& from, std::vector<std::string>* lines) {
    *lines = from.skipped();
  });
}

tenon_status tenon_weights_value(const tenon_weights* weights, const char* name, tenon_value** out,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(Ref<Value> value, object(weights)->value(text));
    *out = handle<tenon_value>(value.detach());
    return Status::ok();
  });
}

tenon_status tenon_weights_tensor(const tenon_weights* weights, const char* name, tenon_value** out,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(TensorValueRef tensor, object(weights)->tensor(text));
    *out = handle<tenon_value>(Value::of_tensor(std::move(tensor)).detach());
    return Status::ok();
  });
}

tenon_status tenon_weights_replace(tenon_weights* weights, const char* name,
                                   const tenon_value* tensor, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(tensor != nullptr, "tensor is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_TRY(
        check_argument(object(tensor)->is(ValueKind::kTensor), "tensor is no value of a tensor"));
    return object(weights)->replace(text, *object(tensor)->as_tensor());
  });
}

tenon_status tenon_weights_rewrite(const tenon_weights* weights, const char* path,
                                   const tenon_weights_rewrite_options* options,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    tenon_weights_rewrite_options given{};
    TENON_TRY(read_struct(options, "tenon_weights_rewrite_options", &given));
    TENON_TRY(check_flags(given.flags, 0, "tenon_weights_rewrite_options"));
    tenon::archive::Durability durability = tenon::archive::Durability::kNone;
    TENON_TRY(read_durability(given.durability, &durability));
    return object(weights)->rewrite(path, durability);
  });
}

tenon_status tenon_save_weights(const char* path, const char* const* names,
                                const tenon_value* const* tensors, size_t count,
                                const tenon_save_weights_options* options,
                                tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    SaveOptions given;
    TENON_TRY(read_save_options(options, &given));
    TENON_ASSIGN(const std::vector<SavedTensor> all, read_named_tensors(names, tensors, count));
    return tenon::weights::save_weights(path, all, given);
  });
}
}
