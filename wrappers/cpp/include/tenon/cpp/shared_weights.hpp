/// @file
/// Weights that the processes of a machine share by a name: the first process loads the file, and
/// every other process maps the same memory. tenon/shared_weights.h has the details.
#ifndef TENON_CPP_SHARED_WEIGHTS_HPP
#define TENON_CPP_SHARED_WEIGHTS_HPP

#include <tenon/shared_weights.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/module.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/value.hpp>
#include <tenon/cpp/value_items.hpp>
#include <tenon/cpp/wait.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

TENON_CPP_BEGIN

/// How to open shared weights.
struct SharedWeightsOptions {
  /// The absolute path of the directory where the processes meet. Empty means the user's own
  /// directory in /dev/shm.
  std::string directory;
  /// Admit members of the group with this id too. It needs a directory.
  std::optional<std::uint32_t> group = std::nullopt;
  /// The largest file that this process loads. 0 means no limit.
  std::uint64_t max_nbytes = 0;
  /// Called with the bytes that are loaded and the bytes of the file, while this process loads or
  /// waits for the process that loads. It must not throw.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = nullptr;
  /// The device in whose memory the weights lie, such as "cuda:0". Empty means the CPU.
  std::string device = {};
  /// For publish_values: write the version into memory of an older one that nobody has any more
  /// (TENON_SHARED_WEIGHTS_REUSE).
  bool reuse = false;
  /// The most bytes of all weights in the directory together. 0 means no limit.
  std::uint64_t budget_nbytes = 0;
};

/// Facts about shared weights. tenon/shared_weights.h explains each of them.
using SharedWeightsInfo = tenon_shared_weights_info;

/// The weights of a name. The tensors are read-only. They stay usable after the last SharedWeights
/// object is gone, and as long as one of them lives, this process hands the weights on.
class SharedWeights
    : public detail::Counted<SharedWeights, tenon_shared_weights, tenon_shared_weights_retain,
                             tenon_shared_weights_release> {
 public:
  /// Opens the weights of a name. If no process has them, this process loads the file. Without a
  /// path it loads nothing, and kNotFound says that no process has the weights. kPermission with
  /// the detail "field" says that the name stands for another version of the file. The wait is for
  /// other processes.
  static Result<SharedWeights> try_open(const std::optional<std::string>& path,
                                        const std::string& name,
                                        const SharedWeightsOptions& options = {},
                                        const Wait& wait = {}) {
    if (path && !detail::is_c_text(*path)) return detail::has_nul("the path");
    return made(name, options, wait, [&](auto... rest) {
      return tenon_open_shared_weights(path ? path->c_str() : nullptr, rest...);
    });
  }

  /// Publishes a file as the next version of the weights of a name. Newcomers get it, and processes
  /// that have an older version keep that one. kTimeout with the detail "pid" names another
  /// process that publishes under this name.
  static Result<SharedWeights> try_publish(const std::string& path, const std::string& name,
                                           const SharedWeightsOptions& options = {},
                                           const Wait& wait = {}) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    return made(name, options, wait,
                [&](auto... rest) { return tenon_publish_shared_weights(path.c_str(), rest...); });
  }

  /// Publishes a copy of tensors as the next version.
  static Result<SharedWeights> try_publish_values(const NamedValues& tensors,
                                                  const std::string& name,
                                                  const SharedWeightsOptions& options = {},
                                                  const Wait& wait = {}) {
    const Result<detail::CNamedValues> c = detail::c_named_values(tensors, "the name of a weight");
    if (!c) return c.error();
    return made(name, options, wait, [&](auto... rest) {
      return tenon_publish_shared_weights_values(c->names.data(), c->values.data(), c->names.size(),
                                                 rest...);
    });
  }

  /// Waits until the name has a newer version than this one, and gives the newest that is known.
  /// With a timeout of 0 it only looks, and kWouldBlock says that there is none.
  Result<std::uint64_t> try_changed(const Wait& wait = {}) const {
    std::uint64_t version = 0;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_shared_weights_changed(get(), waiting, &version, err);
        });
    if (!called) return called.error();
    return version;
  }

  /// Gives an fd that poll() finds readable while the name has a newer version. It is borrowed, and
  /// not to be read.
  Result<int> try_changed_fd() const {
    int fd = -1;
    const Result<void> called = detail::call(
        [&](tenon_error** err) { return tenon_shared_weights_changed_fd(get(), &fd, err); });
    if (!called) return called.error();
    return fd;
  }

  /// Gives the names of all tensors in the order of the file.
  Result<std::vector<std::string>> try_names() const {
    return detail::list_names(get(), tenon_shared_weights_names);
  }

  /// Gives a tensor, whose elements are read-only.
  Result<Value> try_tensor(const std::string& name) const {
    return detail::read_value(get(), name, tenon_shared_weights_tensor);
  }

  /// Gives the names of the values that are no tensors, as Weights::try_value_names does.
  Result<std::vector<std::string>> try_value_names() const {
    return detail::list_names(get(), tenon_shared_weights_value_names);
  }

  /// Gives a value that is no tensor.
  Result<Value> try_value(const std::string& name) const {
    return detail::read_value(get(), name, tenon_shared_weights_value);
  }

  /// Gives the facts of this moment.
  Result<SharedWeightsInfo> try_info() const {
    return detail::fill<SharedWeightsInfo>([&](tenon_shared_weights_info* out, tenon_error** err) {
      return tenon_shared_weights_info_get(get(), out, err);
    });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static SharedWeights open(const std::optional<std::string>& path, const std::string& name,
                            const SharedWeightsOptions& options = {}, const Wait& wait = {}) {
    return try_open(path, name, options, wait).value();
  }
  static SharedWeights publish(const std::string& path, const std::string& name,
                               const SharedWeightsOptions& options = {}, const Wait& wait = {}) {
    return try_publish(path, name, options, wait).value();
  }
  static SharedWeights publish_values(const NamedValues& tensors, const std::string& name,
                                      const SharedWeightsOptions& options = {},
                                      const Wait& wait = {}) {
    return try_publish_values(tensors, name, options, wait).value();
  }
  std::uint64_t changed(const Wait& wait = {}) const { return try_changed(wait).value(); }
  int changed_fd() const { return try_changed_fd().value(); }
  std::vector<std::string> names() const { return try_names().value(); }
  Value tensor(const std::string& name) const { return try_tensor(name).value(); }
  std::vector<std::string> value_names() const { return try_value_names().value(); }
  Value value(const std::string& name) const { return try_value(name).value(); }
  SharedWeightsInfo info() const { return try_info().value(); }
#endif

 private:
  // Calls make(name, options, wait, out, err).
  template <class Make>
  static Result<SharedWeights> made(const std::string& name, const SharedWeightsOptions& options,
                                    const Wait& wait, Make&& make) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    if (!detail::is_c_text(options.directory)) return detail::has_nul("the directory");
    if (!detail::is_c_text(options.device)) return detail::has_nul("the device");
    tenon_shared_weights_options c{};
    c.struct_size = sizeof c;
    c.flags = options.group ? std::uint32_t{TENON_SHARED_WEIGHTS_GROUP} : 0U;
    if (options.reuse) c.flags |= std::uint32_t{TENON_SHARED_WEIGHTS_REUSE};
    c.group = options.group.value_or(0);
    c.directory = options.directory.empty() ? nullptr : options.directory.c_str();
    c.max_nbytes = options.max_nbytes;
    c.device = options.device.empty() ? nullptr : options.device.c_str();
    c.budget_nbytes = options.budget_nbytes;
    if (options.progress) {
      c.progress = &tell;
      c.progress_context = const_cast<SharedWeightsOptions*>(&options);
    }
    tenon_shared_weights* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return make(name.c_str(), &c, waiting, &out, err);
        });
    if (!called) return called.error();
    return adopt(out);
  }
  static void tell(void* context, std::uint64_t done, std::uint64_t total) noexcept {
    static_cast<const SharedWeightsOptions*>(context)->progress(done, total);
  }
};

TENON_CPP_END

#endif
