// `tenon convert`: reads a file of weights of any form, and writes its tensors as a safetensors
// file, a file of torch.save or an archive of NumPy.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_input.h"
#include "archive_print.h"
#include "commands.h"
#include "export_file.h"
#include "modules/weights/save_weights.h"
#include "modules/weights/weights.h"
#include "output.h"
#include "tensor/scalar_type.h"

namespace tenon::cli {
namespace {

using weights::SavedForm;
using weights::SavedTensor;
using weights::Weights;

constexpr std::string_view kMetadataPrefix = "__metadata__.";

struct Converted {
  size_t tensors = 0;
  uint64_t nbytes = 0;                // of the tensors' elements
  std::vector<std::string> left_out;  // a line for each thing of FROM that TO does not have
};

Result<SavedForm> form_of_output(const ConvertOptions& options) {
  if (options.form == "safetensors") return SavedForm::kSafetensors;
  if (options.form == "torch") return SavedForm::kTorchSave;
  if (options.form == "npz") return SavedForm::kNpz;
  const std::string_view to = options.to;
  if (to.ends_with(".safetensors")) return SavedForm::kSafetensors;
  if (to.ends_with(".npz")) return SavedForm::kNpz;
  for (const std::string_view end : {".pt", ".pth", ".bin"}) {
    if (to.ends_with(end)) return SavedForm::kTorchSave;
  }
  return Status(Code::kInvalidArgument,
                options.to +
                    ": the name does not say which form the file is to have: end it with "
                    ".safetensors, .pt, .pth, .bin or .npz, or give --form safetensors, "
                    "--form torch or --form npz");
}

Result<Ref<Weights>> open_from(const std::string& from) {
  module::ImportOptions reading;
  // The new file gets new checksums or none, so damage in the old one must be found here.
  reading.check = archive::Check::kAll;
  if (from != "-") return Weights::open(from, reading);
  TENON_ASSIGN(const ArchiveInput input, ArchiveInput::open(from));
  Result<Ref<Weights>> opened = Weights::open(input.fd_path(), reading);
  if (!opened.is_ok()) return of_file(input, opened.status());
  return opened;
}

// What of FROM is written, and a line for each thing of FROM that TO cannot have.
struct Selection {
  std::vector<SavedTensor> tensors;
  std::vector<std::string> left_out;
};

Result<Selection> select(const Weights& from, weights::SaveOptions* saving) {
  Selection selected;
  selected.left_out = from.skipped();
  for (const weights::Weight& each : from.list()) {
    if (!each.is_readable()) continue;  // skipped() has it
    TENON_ASSIGN(value::TensorValueRef in_file, each.read());
    const SavedTensor tensor{each.name, std::move(in_file)};
    const Status saved = weights::check_saved(saving->form, tensor);
    if (saved.is_ok())
      selected.tensors.push_back(tensor);
    else
      selected.left_out.push_back(saved.message());
  }
  for (const weights::NamedValue& each : from.values()) {
    const bool is_metadata =
        each.name.starts_with(kMetadataPrefix) && each.value->is(value::ValueKind::kStr);
    if (is_metadata && saving->form == SavedForm::kSafetensors) {
      saving->metadata.emplace(each.name.substr(kMetadataPrefix.size()), each.value->as_str());
      continue;
    }
    // This text names the framework that wrote a safetensors file. It says nothing of the new file.
    if (is_metadata && each.name == "__metadata__.format") continue;
    selected.left_out.push_back(each.name + ": a value that is no tensor");
  }
  return selected;
}

Status refuse_to_leave_out(const ConvertOptions& options,
                           const std::vector<std::string>& left_out) {
  constexpr size_t kMostNamed = 3;
  std::string named;
  for (size_t i = 0; i < std::min(left_out.size(), kMostNamed); ++i)
    named += (i == 0 ? "" : "; ") + left_out[i];
  if (left_out.size() > kMostNamed)
    named += "; and " + count_text(left_out.size() - kMostNamed) + " more";
  return {Code::kUnsupported, options.from + " has what " + options.to + " cannot have (" + named +
                                  "): give --skip to leave it out"};
}

// The errors of the library name its flag, and this one names the option.
Status sharing_error(const Status& status, SavedForm form) {
  return {status.code(), "the tensors \"" + std::string(status.detail("name")) + "\" and \"" +
                             std::string(status.detail("other")) + "\" share memory, which " +
                             weights::form_text(form) +
                             " cannot say: give --duplicate-shared to write each of them whole, "
                             "or --form torch"};
}

Result<Converted> convert(const ConvertOptions& options) {
  weights::SaveOptions saving;
  TENON_ASSIGN(saving.form, form_of_output(options));
  saving.duplicates_shared = options.duplicate_shared;
  TENON_ASSIGN(const Ref<Weights> from, open_from(options.from));
  TENON_ASSIGN(Selection selected, select(*from, &saving));
  if (!selected.left_out.empty() && !options.skip)
    return refuse_to_leave_out(options, selected.left_out);
  Converted converted;
  converted.tensors = selected.tensors.size();
  for (const SavedTensor& each : selected.tensors)
    converted.nbytes += each.tensor->numel() * tensor::scalar_type_info(each.tensor->type()).nbytes;
  converted.left_out = std::move(selected.left_out);
  TENON_ASSIGN(const std::unique_ptr<ExportFile> file,
               ExportFile::create(options.to, {.expected_nbytes = converted.nbytes,
                                               .shows_progress = !options.json}));
  const Status written = weights::write_weights(options.to, selected.tensors, saving, file.get());
  if (!written.is_ok()) {
    const bool is_shared = saving.form != SavedForm::kTorchSave && !written.detail("other").empty();
    return is_shared ? sharing_error(written, saving.form) : written;
  }
  TENON_TRY(file->commit());
  return converted;
}

}  // namespace

int run_convert(const ConvertOptions& options) {
  Result<Converted> converted = convert(options);
  const bool is_ok = converted.is_ok();
  if (options.json) {
    Json json = {{"path", options.to}, {"ok", is_ok}, {"error", error_json(converted.status())}};
    if (is_ok) {
      json["tensors"] = converted.value().tensors;
      json["nbytes"] = converted.value().nbytes;
      json["left_out"] = converted.value().left_out;
    }
    print_json(json);
  } else if (is_ok) {
    for (const std::string& line : converted.value().left_out) print_error("left out: " + line);
    print_text(safe_text(options.to) + ": " + paint(Colour::kGreen, "written") + ": " +
               plural_text(converted.value().tensors, "tensor", "tensors") + ", " +
               size_text(converted.value().nbytes) + "\n");
  } else {
    print_error(converted.status());
  }
  return is_ok ? kExitOk : kExitProblem;
}

}  // namespace tenon::cli
