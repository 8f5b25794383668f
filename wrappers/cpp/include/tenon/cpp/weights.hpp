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

#include <cstdint>
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

TENON_CPP_END

#endif
