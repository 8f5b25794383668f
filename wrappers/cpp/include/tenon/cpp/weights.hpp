/// @file
/// Files of weights: these functions read programs of torch.export (.pt2), safetensors files and
/// their indexes, files of torch.save and torch.jit.save, of NumPy (.npy, .npz) and of ExecuTorch
/// (.ptd), without PyTorch. tenon/weights.h has the details.
#ifndef TENON_CPP_WEIGHTS_HPP
#define TENON_CPP_WEIGHTS_HPP

#include <tenon/weights.h>
#include <tenon/cpp/archive.hpp>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/module.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/value.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

TENON_CPP_BEGIN

/// A file of weights that was opened: the parameters, the buffers and the constants of a program,
/// each with a name, such as "encoder.0.weight". Nothing in the file is executed.
///
/// Copies of a Weights object are the same weights. While a call replaces a weight, no other call
/// may use the weights. Tensors stay usable after the last Weights object is gone.
class Weights
    : public detail::Counted<Weights, tenon_weights, tenon_weights_retain, tenon_weights_release> {
 public:
  /// Opens a file of weights. The options say where the tensors go, as for a module;
  /// ImportOptions::debug_tables has no effect. The file must not be changed while views of it are
  /// in use, but it may be replaced by a rename. The error kUnsupported means that the file is of
  /// another kind.
  static Result<Weights> try_open(const std::string& path, const ImportOptions& options = {}) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    const tenon_import_options c = detail::c_options(options);
    return detail::make<Weights>([&](tenon_weights** out, tenon_error** err) {
      return tenon_open_weights(path.c_str(), &c, out, err);
    });
  }

  /// Gives the names of all weights in the order of the file.
  Result<std::vector<std::string>> try_names() const {
    return detail::list_names(get(), tenon_weights_names);
  }

  /// Gives a weight. Weights that share a storage in the file share it in memory. After try_replace
  /// this function gives the new elements. Values that it gave before keep the old elements.
  Result<Value> try_tensor(const std::string& name) const {
    return detail::read_value(get(), name, tenon_weights_tensor);
  }

  /// Gives the names of the values that are no tensors, such as the numbers in a checkpoint.
  Result<std::vector<std::string>> try_value_names() const {
    return detail::list_names(get(), tenon_weights_value_names);
  }

  /// Gives a value that is no tensor.
  Result<Value> try_value(const std::string& name) const {
    return detail::read_value(get(), name, tenon_weights_value);
  }

  /// Gives a line with the name and the reason for everything in the file that cannot be read.
  Result<std::vector<std::string>> try_skipped() const {
    return detail::list_names(get(), tenon_weights_skipped);
  }

  /// Replaces the elements of a weight. The element type and the shape must be those of the weight.
  /// The layout may differ. Weights that share a storage with this one change with it. The tensor's
  /// elements must not change before the last try_rewrite.
  Result<void> try_replace(const std::string& name, const Value& tensor) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::call([&](tenon_error** err) {
      return tenon_weights_replace(get(), name.c_str(), tensor.get(), err);
    });
  }

  /// Writes a copy of the opened file that contains the replaced weights. All other bytes stay as
  /// they are, except for checksums. Afterwards the path names either the complete new file or the
  /// same file as before. The path may be the file that was opened.
  Result<void> try_rewrite(const std::string& path,
                           Durability durability = Durability::kNone) const {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    tenon_weights_rewrite_options c{};
    c.struct_size = sizeof c;
    c.durability = static_cast<std::int32_t>(durability);
    return detail::call(
        [&](tenon_error** err) { return tenon_weights_rewrite(get(), path.c_str(), &c, err); });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Weights open(const std::string& path, const ImportOptions& options = {}) {
    return try_open(path, options).value();
  }
  std::vector<std::string> names() const { return try_names().value(); }
  Value tensor(const std::string& name) const { return try_tensor(name).value(); }
  std::vector<std::string> value_names() const { return try_value_names().value(); }
  Value value(const std::string& name) const { return try_value(name).value(); }
  std::vector<std::string> skipped() const { return try_skipped().value(); }
  void replace(const std::string& name, const Value& tensor) { try_replace(name, tensor).value(); }
  void rewrite(const std::string& path, Durability durability = Durability::kNone) const {
    try_rewrite(path, durability).value();
  }
#endif
};

/// The forms of file that save_weights writes.
enum class WeightsForm : std::int32_t {
  kSafetensors = TENON_WEIGHTS_SAFETENSORS,
  /// A dict of tensors, as torch.save writes it.
  kTorchSave = TENON_WEIGHTS_TORCH_SAVE,
  /// An archive of arrays, as numpy.savez writes it.
  kNpz = TENON_WEIGHTS_NPZ
};

/// How to save weights.
struct SaveWeightsOptions {
  WeightsForm form = WeightsForm::kSafetensors;
  Durability durability = Durability::kNone;
  /// Write tensors that share memory whole, each of them. Without this a safetensors or .npz file
  /// of such tensors is refused.
  bool duplicate_shared = false;
  /// The texts of a safetensors file's `__metadata__`.
  std::map<std::string, std::string> metadata = {};
  /// Called with the bytes that are written and the bytes of all tensors. It must not throw.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = nullptr;
};

/// Saves tensors under names as a new file. The elements are written from where they are. The file
/// is written whole or not at all. Each value is a tensor in the memory of the CPU.
inline Result<void> try_save_weights(const std::string& path,
                                     const std::map<std::string, Value>& tensors,
                                     const SaveWeightsOptions& options = {}) {
  if (!detail::is_c_text(path)) return detail::has_nul("the path");
  std::vector<const char*> names, keys, texts;
  std::vector<const tenon_value*> values;
  for (const auto& [name, value] : tensors) {
    if (!detail::is_c_text(name)) return detail::has_nul("a name");
    names.push_back(name.c_str());
    values.push_back(value.get());
  }
  for (const auto& [key, text] : options.metadata) {
    if (!detail::is_c_text(key) || !detail::is_c_text(text)) return detail::has_nul("the metadata");
    keys.push_back(key.c_str());
    texts.push_back(text.c_str());
  }
  tenon_save_weights_options c{};
  c.struct_size = sizeof c;
  c.form = static_cast<std::int32_t>(options.form);
  c.durability = static_cast<std::int32_t>(options.durability);
  c.flags = options.duplicate_shared ? std::uint32_t{TENON_SAVE_DUPLICATE_SHARED} : 0U;
  c.metadata_keys = keys.data();
  c.metadata_texts = texts.data();
  c.metadata_count = keys.size();
  if (options.progress) {
    c.progress = [](void* context, std::uint64_t done, std::uint64_t total) {
      static_cast<const SaveWeightsOptions*>(context)->progress(done, total);
    };
    c.progress_context = const_cast<SaveWeightsOptions*>(&options);
  }
  return detail::call([&](tenon_error** err) {
    return tenon_save_weights(path.c_str(), names.data(), values.data(), names.size(), &c, err);
  });
}

#ifndef TENON_NO_EXCEPTIONS
/// Throws the error that try_save_weights returns.
inline void save_weights(const std::string& path, const std::map<std::string, Value>& tensors,
                         const SaveWeightsOptions& options = {}) {
  try_save_weights(path, tensors, options).value();
}
#endif

TENON_CPP_END

#endif
