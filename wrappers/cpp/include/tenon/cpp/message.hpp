/// @file
/// Messages: tensors that travel together from one process to another, with names and user bytes.
/// tenon/message.h has the details.
#ifndef TENON_CPP_MESSAGE_HPP
#define TENON_CPP_MESSAGE_HPP

#include <tenon/message.h>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/composite.hpp>
#include <tenon/cpp/tensor.hpp>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

TENON_CPP_BEGIN

/// A tensor and its name, for a call that takes both. The struct borrows both.
struct NamedTensor {
  std::string_view name;
  const Tensor& tensor;
};

/// A message: tensors, an optional name for each tensor, and up to 64 KiB of user bytes, whose
/// meaning is up to the program. The parts of composites are tensors of the message too. Only one
/// thread at a time may use a message while it is built.
class Message : public detail::Owned<Message, tenon_message, tenon_message_release> {
 public:
  /// Makes an empty message.
  static Result<Message> try_make() { return detail::make<Message>(tenon_message_new); }

  /// Makes a message from these tensors: try_of({{"weight", weight}, {"bias", bias}}).
  static Result<Message> try_of(std::initializer_list<NamedTensor> tensors,
                                Access access = Access::kAuto) {
    Result<Message> message = try_make();
    if (!message) return message;
    const auto at = [&](std::size_t i) -> const NamedTensor& { return std::data(tensors)[i]; };
    const Result<void> added = message->add_all(
        tensors.size(), [&](std::size_t i) { return at(i).tensor.get(); },
        [&](std::size_t i) { return at(i).name; }, access);
    if (!added) return added.error();
    return message;
  }

  /// Adds tensors. The call adds all of them or, on failure, none, and the message takes a
  /// reference to each. It checks for each tensor whether it can be lent. `names` is empty or has
  /// one UTF-8 name for each tensor; std::string_view() means no name.
  Result<void> try_add(std::span<const Tensor> tensors,
                       std::span<const std::string_view> names = {},
                       Access access = Access::kAuto) {
    if (!names.empty() && names.size() != tensors.size()) {
      return detail::wrong(std::to_string(names.size()) + " names for " +
                           std::to_string(tensors.size()) + " tensors");
    }
    return add_all(
        tensors.size(), [&](std::size_t i) { return tensors[i].get(); },
        [&](std::size_t i) { return names.empty() ? std::string_view() : names[i]; }, access);
  }

  /// Adds one tensor.
  Result<void> try_add(const Tensor& tensor, std::string_view name = {},
                       Access access = Access::kAuto) {
    return add_all(
        1, [&](std::size_t) { return tensor.get(); }, [&](std::size_t) { return name; }, access);
  }

  /// Adds a composite. Its parts become tensors without names, behind the tensors that are there
  /// already.
  Result<void> try_add(const Composite& composite, std::string_view name = {},
                       Access access = Access::kAuto) {
    if (name.find('\0') != std::string_view::npos)
      return detail::wrong("the name of the composite has a NUL in it");
    const std::string text(name);
    const char* const c_name = name.data() == nullptr ? nullptr : text.c_str();
    tenon_composite* const raw = composite.get();
    const tenon_share_options options = detail::c_options(access);
    return detail::call([&](tenon_error** err) {
      return tenon_message_add_composites(get(), &raw, &c_name, 1, &options, err);
    });
  }

  /// Sets the user bytes. They replace the user bytes that were set before.
  Result<void> try_set_user_bytes(std::span<const std::byte> bytes) {
    return detail::call([&](tenon_error** err) {
      return tenon_message_set_user_bytes(get(), bytes.data(), bytes.size(), err);
    });
  }

  /// The number of tensors.
  std::size_t size() const noexcept { return tenon_message_count(get()); }

  /// Returns tensor number `index`, or an empty object past the last tensor.
  Tensor tensor(std::size_t index) const noexcept {
    return Tensor::retain(tenon_message_tensor(get(), index));
  }

  /// Returns the name of tensor number `index`, borrowed from the message until the message ends or
  /// another tensor is added. The result is empty if the tensor has no name, and past the last
  /// tensor.
  std::optional<std::string_view> name(std::size_t index) const& noexcept {
    const char* found = tenon_message_name(get(), index);
    return found == nullptr ? std::nullopt : std::optional<std::string_view>(found);
  }
  std::optional<std::string_view> name(std::size_t index) const&& = delete;

  /// Returns the first tensor with that name, or an empty object if there is none.
  Tensor find(std::string_view name) const {
    if (name.find('\0') != std::string_view::npos) return {};
    return Tensor::retain(tenon_message_find(get(), std::string(name).c_str()));
  }

  /// The number of composites.
  std::size_t composite_count() const noexcept { return tenon_message_composite_count(get()); }

  /// Returns composite number `index`, or an empty object past the last composite. Composites are
  /// in the order of their parts.
  Composite composite(std::size_t index) const noexcept {
    return Composite::retain(tenon_message_composite(get(), index));
  }

  /// Where the parts of a composite are among the tensors of its message.
  struct Parts {
    std::size_t first = 0;
    std::size_t count = 0;
  };

  /// Returns where the parts of composite number `index` are. Past the last composite the count is
  /// 0 and first is size().
  Parts composite_parts(std::size_t index) const noexcept {
    Parts parts;
    parts.first = tenon_message_composite_parts(get(), index, &parts.count);
    return parts;
  }

  /// Returns the name of composite number `index`, borrowed as in name().
  std::optional<std::string_view> composite_name(std::size_t index) const& noexcept {
    const char* found = tenon_message_composite_name(get(), index);
    return found == nullptr ? std::nullopt : std::optional<std::string_view>(found);
  }
  std::optional<std::string_view> composite_name(std::size_t index) const&& = delete;

  /// Returns the first composite with that name, or an empty object if there is none.
  Composite find_composite(std::string_view name) const {
    if (name.find('\0') != std::string_view::npos) return {};
    return Composite::retain(tenon_message_find_composite(get(), std::string(name).c_str()));
  }

  /// Gives the views of all tensors by one call into the library. They are borrowed from the
  /// message, and their names are valid until another tensor is added.
  Result<std::vector<TensorView>> try_views() const& {
    std::vector<TensorView> views(size());
    const Result<void> called = detail::call([&](tenon_error** err) {
      return tenon_message_get_views(get(), views.data(), views.size(), err);
    });
    if (!called) return called.error();
    return views;
  }
  Result<std::vector<TensorView>> try_views() const&& = delete;

  /// The user bytes, borrowed from the message.
  std::span<const std::byte> user_bytes() const& noexcept {
    std::size_t nbytes = 0;
    const void* data = tenon_message_user_bytes(get(), &nbytes);
    return {static_cast<const std::byte*>(data), data == nullptr ? 0 : nbytes};
  }
  std::span<const std::byte> user_bytes() const&& = delete;

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Message make() { return try_make().value(); }
  static Message of(std::initializer_list<NamedTensor> tensors, Access access = Access::kAuto) {
    return try_of(tensors, access).value();
  }
  void add(std::span<const Tensor> tensors, std::span<const std::string_view> names = {},
           Access access = Access::kAuto) {
    try_add(tensors, names, access).value();
  }
  void add(const Tensor& tensor, std::string_view name = {}, Access access = Access::kAuto) {
    try_add(tensor, name, access).value();
  }
  void add(const Composite& composite, std::string_view name = {}, Access access = Access::kAuto) {
    try_add(composite, name, access).value();
  }
  void set_user_bytes(std::span<const std::byte> bytes) { try_set_user_bytes(bytes).value(); }
  std::vector<TensorView> views() const& { return try_views().value(); }
  std::vector<TensorView> views() const&& = delete;
  /// Returns tensor number `index`. Throws InvalidArgument past the last tensor.
  Tensor operator[](std::size_t index) const {
    Tensor found = tensor(index);
    if (!found)
      raise(detail::wrong("index " + std::to_string(index) + ": the message has " +
                          std::to_string(size()) + " tensors"));
    return found;
  }
  /// Returns the first tensor with that name. Throws NotFound if there is none.
  Tensor operator[](std::string_view name) const {
    Tensor found = find(name);
    if (!found)
      raise(Error(Code::kNotFound, "the message has no tensor '" + std::string(name) + "'"));
    return found;
  }
#endif

 private:
  // tensor_at(i) and name_at(i) return tensor number i of n and its name.
  template <class TensorAt, class NameAt>
  Result<void> add_all(std::size_t n, TensorAt&& tensor_at, NameAt&& name_at, Access access) {
    std::vector<tenon_tensor*> tensors(n);
    // All names, each followed by a NUL, one after another.
    std::string text;
    bool named = false;
    for (std::size_t i = 0; i < n; ++i) {
      const std::string_view name = name_at(i);
      if (name.find('\0') != std::string_view::npos)
        return detail::wrong("the name of tensor " + std::to_string(i) + " has a NUL in it");
      text.append(name).push_back('\0');
      named = named || name.data() != nullptr;
      tensors[i] = tensor_at(i);
    }
    std::vector<const char*> names(named ? n : 0);
    const char* next = text.data();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string_view name = name_at(i);
      if (name.data() != nullptr) names[i] = next;
      next += name.size() + 1;
    }
    const tenon_share_options options = detail::c_options(access);
    return detail::call([&](tenon_error** err) {
      return tenon_message_add(get(), tensors.data(), named ? names.data() : nullptr, n, &options,
                               err);
    });
  }
};

TENON_CPP_END

#endif
