/// @file
/// Objects: plain data with tensors in it, such as a dict of numbers, text, lists and tensors. They
/// travel to other programs, with or without Python on either side. tenon/object.h has the details.
#ifndef TENON_CPP_OBJECT_HPP
#define TENON_CPP_OBJECT_HPP

#include <tenon/object.h>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/composite.hpp>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/value_convert.hpp>

#include <algorithm>
#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

TENON_CPP_BEGIN

/// The kind of an object.
enum class ObjectKind : std::int32_t {
  kNone = TENON_OBJECT_NONE,
  kBool = TENON_OBJECT_BOOL,
  kInt = TENON_OBJECT_INT,
  kFloat = TENON_OBJECT_FLOAT,
  kComplex = TENON_OBJECT_COMPLEX,
  kStr = TENON_OBJECT_STR,
  kBytes = TENON_OBJECT_BYTES,
  kTensor = TENON_OBJECT_TENSOR,
  kComposite = TENON_OBJECT_COMPOSITE,
  kTuple = TENON_OBJECT_TUPLE,
  kList = TENON_OBJECT_LIST,
  kSet = TENON_OBJECT_SET,
  kDict = TENON_OBJECT_DICT
};

/// Returns the name of a kind, such as "list", in static storage.
inline std::string_view name_of(ObjectKind kind) noexcept {
  constexpr std::array<std::string_view, 13> kNames{
      "none",   "bool",      "int",   "float", "complex", "str", "bytes",
      "tensor", "composite", "tuple", "list",  "set",     "dict"};
  const auto index = static_cast<std::size_t>(static_cast<std::int32_t>(kind));
  return index < kNames.size() ? kNames[index] : std::string_view();
}

class Object;
struct ObjectEntry;

/// Objects that a call takes as an argument: {1, "a", tensor}, or a vector or a span of Object.
using Objects = Items<Object>;
/// Entries of a dict that a call takes as an argument: {{"a", 1}, {"b", tensor}}, or a vector or a
/// span of ObjectEntry.
using ObjectEntries = Items<ObjectEntry>;

namespace detail {

struct ObjectItems;
struct FreeObjectItems {
  void operator()(const ObjectItems* items) const noexcept;
};

// Types that an object takes over by moving them.
template <class T>
concept IsMovedIntoObject =
    std::same_as<T, std::string> || std::same_as<T, std::vector<std::byte>> ||
    std::same_as<T, Tensor> || std::same_as<T, Composite>;

template <class T>
concept IsBorrowedFromObject =
    std::same_as<T, std::string_view> || std::same_as<T, std::span<const std::byte>>;

template <class T>
concept IsObjectTarget = std::same_as<T, bool> || IsInt<T> || std::same_as<T, double> ||
                         std::same_as<T, std::complex<double>> || IsMovedIntoObject<T>;

}  // namespace detail

/// Plain data: one value, which can contain other values. An object never changes, but it can be
/// assigned. A copy shares the items of a container. An object that was made by default or moved
/// from is None.
///
/// The C library checks an object when it becomes a message: texts are UTF-8, keys of dicts and
/// items of sets can be keys and occur once, and no value is nested deeper than
/// TENON_OBJECT_MAX_DEPTH.
class Object {
 public:
  Object() noexcept = default;
  Object(const Object&) = default;
  Object& operator=(const Object& other) {
    // The copy comes first, because the old content may be what keeps `other` alive.
    return *this = Object(other);
  }
  Object(Object&& other) noexcept : content_(std::exchange(other.content_, Content())) {}
  Object& operator=(Object&& other) noexcept {
    if (this != &other) content_ = std::exchange(other.content_, Content());
    return *this;
  }
  ~Object() = default;

  /// Makes an object of a bool, an int, a float or a complex number. std::nullopt gives None.
  /// Unsigned 64-bit ints must be cast to signed ints.
  template <class T>
    requires detail::IsPlain<T>
  Object(const T& from) : content_(plain(from)) {}
  /// Makes an object of a text in UTF-8.
  template <class T>
    requires(detail::IsText<T> && !detail::IsMovedIntoObject<T>)
  Object(const T& text) : content_(std::string(text)) {}
  /// Makes an object of a text in UTF-8, of bytes, of a tensor or of a composite. The elements of
  /// tensors are not copied.
  template <class T>
    requires detail::IsMovedIntoObject<T>
  Object(T from) : content_(std::move(from)) {}

  static Object none() noexcept { return {}; }
  /// Makes an object of bytes, which are copied.
  static Object bytes(std::span<const std::byte> from) {
    return std::vector<std::byte>(from.begin(), from.end());
  }
  static Object tuple(const Objects& items);
  static Object list(const Objects& items);
  static Object set(const Objects& items);
  /// Makes a dict. It keeps the order of its entries.
  static Object dict(const ObjectEntries& entries);

  ObjectKind kind() const noexcept;

  /// The number of items of a tuple, a list or a set, or of entries of a dict; otherwise 0.
  std::size_t size() const noexcept;
  /// The items of a tuple, a list or a set, borrowed from the object; otherwise empty.
  std::span<const Object> items() const& noexcept;
  std::span<const Object> items() const&& = delete;
  /// The entries of a dict in their order, borrowed from the object; otherwise empty.
  std::span<const ObjectEntry> entries() const& noexcept;
  std::span<const ObjectEntry> entries() const&& = delete;

  /// Gives the value that a dict has for this text. It fails with kNotFound if the dict has no such
  /// key, and with kInvalidArgument if the object is not a dict. The cost grows with the number of
  /// entries.
  Result<Object> try_find(std::string_view key) const;

  /// Gives the object as a C++ object: bool, an integer type, double, std::complex<double>,
  /// std::string, std::vector<std::byte>, Tensor or Composite. A std::string_view and a
  /// std::span<const std::byte> are borrowed from the object. The call does not round and does not
  /// convert between kinds: another kind is kInvalidArgument (an int is not a float, a bool is not
  /// an int), and so is an int that T cannot hold.
  template <class T>
    requires(detail::IsObjectTarget<T> || detail::IsBorrowedFromObject<T>)
  Result<T> try_as() const&;
  template <class T>
    requires detail::IsBorrowedFromObject<T>
  Result<T> try_as() const&& = delete;

  /// Makes a message that carries the object. The storages of its tensors are lent whole. Nothing
  /// may be added to the message. The error's detail "index" says which value is wrong, counted in
  /// the order in which the object would be written.
  Result<Message> try_to_message(Access access = Access::kAuto) const;
  /// Reads the object that a message carries. The sender is not trusted: nothing that it names is
  /// called, and every tensor is checked against its storage. The contents of composites are not
  /// checked; see Composite::check. It fails with kCorrupt if the message carries no object.
  static Result<Object> try_from(const Message& message);

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  Object find(std::string_view key) const { return try_find(key).value(); }
  template <class T>
    requires(detail::IsObjectTarget<T> || detail::IsBorrowedFromObject<T>)
  T as() const& {
    return try_as<T>().value();
  }
  template <class T>
    requires detail::IsBorrowedFromObject<T>
  T as() const&& = delete;
  Message to_message(Access access = Access::kAuto) const { return try_to_message(access).value(); }
  static Object from(const Message& message) { return try_from(message).value(); }
#endif

 private:
  // The items of a container. Each kind of container is a type of its own. Copies of the object
  // share the items.
  template <ObjectKind kKind>
  struct Container {
    std::shared_ptr<const detail::ObjectItems> items;
  };
  using Tuple = Container<ObjectKind::kTuple>;
  using List = Container<ObjectKind::kList>;
  using Set = Container<ObjectKind::kSet>;
  using Dict = Container<ObjectKind::kDict>;
  // The alternatives are in the order of ObjectKind.
  using Content =
      std::variant<std::monostate, bool, std::int64_t, double, std::complex<double>, std::string,
                   std::vector<std::byte>, Tensor, Composite, Tuple, List, Set, Dict>;
  static_assert(std::variant_size_v<Content> == TENON_OBJECT_DICT + 1);

  explicit Object(Content content) noexcept : content_(std::move(content)) {}

  template <class T>
  static Content plain(const T& from) {
    if constexpr (std::same_as<T, std::nullopt_t>) {
      return Content();
    } else if constexpr (std::same_as<T, bool>) {
      return Content(from);
    } else if constexpr (detail::IsInt<T>) {
      return Content(static_cast<std::int64_t>(from));
    } else if constexpr (std::floating_point<T>) {
      return Content(static_cast<double>(from));
    } else {
      return Content(std::complex<double>(from));
    }
  }

  template <class OneContainer>
  static Object container(detail::ObjectItems items);
  // Returns null if the object is not a container.
  const detail::ObjectItems* contents() const noexcept;
  // Makes the object of one node. The call takes the items of the node out of `done`. They are the
  // last objects there, with the first item at the end.
  static Object take(const tenon_object_node& node, std::vector<Object>* done);
  static std::vector<Object> take_items(std::size_t count, std::vector<Object>* done);
  tenon_object_node c_node() const noexcept;
  Result<tenon_object*> to_c() const;
  Error wrong_kind(ObjectKind wanted) const {
    return detail::wrong("the object is of kind " + std::string(name_of(kind())) +
                         " and not of kind " + std::string(name_of(wanted)));
  }

  Content content_;
};

/// A key of a dict and the object that the dict has for it.
struct ObjectEntry {
  Object key = {};
  Object value = {};
};

namespace detail {

// The contents of a container. Only a dict has entries, and only the other kinds have items.
struct ObjectItems {
  std::vector<Object> items = {};
  std::vector<ObjectEntry> entries = {};
  // The next items in the list of FreeObjectItems.
  mutable const ObjectItems* next = nullptr;
};

// A container can be nested so deep that freeing it by recursion would overflow the stack. So the
// contents of a container wait in a list, which the outermost call frees in a loop.
inline void FreeObjectItems::operator()(const ObjectItems* items) const noexcept {
  static thread_local const ObjectItems* waiting = nullptr;
  static thread_local bool is_freeing = false;
  items->next = std::exchange(waiting, items);
  if (is_freeing) return;
  is_freeing = true;
  while (waiting != nullptr) {
    const std::unique_ptr<const ObjectItems> each(waiting);
    waiting = each->next;
  }
  is_freeing = false;
}

struct ReleaseObject {
  void operator()(tenon_object* object) const noexcept { tenon_object_release(object); }
};
using CObject = std::unique_ptr<tenon_object, ReleaseObject>;

}  // namespace detail

template <class OneContainer>
Object Object::container(detail::ObjectItems items) {
  return Object(Content(OneContainer{std::shared_ptr<const detail::ObjectItems>(
      new detail::ObjectItems(std::move(items)), detail::FreeObjectItems())}));
}

inline Object Object::tuple(const Objects& items) {
  return container<Tuple>({.items = {items.get().begin(), items.get().end()}});
}
inline Object Object::list(const Objects& items) {
  return container<List>({.items = {items.get().begin(), items.get().end()}});
}
inline Object Object::set(const Objects& items) {
  return container<Set>({.items = {items.get().begin(), items.get().end()}});
}
inline Object Object::dict(const ObjectEntries& entries) {
  return container<Dict>({.entries = {entries.get().begin(), entries.get().end()}});
}

inline ObjectKind Object::kind() const noexcept {
  return static_cast<ObjectKind>(content_.index());
}

inline const detail::ObjectItems* Object::contents() const noexcept {
  if (const Tuple* const found = std::get_if<Tuple>(&content_)) return found->items.get();
  if (const List* const found = std::get_if<List>(&content_)) return found->items.get();
  if (const Set* const found = std::get_if<Set>(&content_)) return found->items.get();
  if (const Dict* const found = std::get_if<Dict>(&content_)) return found->items.get();
  return nullptr;
}

inline std::span<const Object> Object::items() const& noexcept {
  const detail::ObjectItems* const found = contents();
  return found == nullptr ? std::span<const Object>() : found->items;
}

inline std::span<const ObjectEntry> Object::entries() const& noexcept {
  const detail::ObjectItems* const found = contents();
  return found == nullptr ? std::span<const ObjectEntry>() : found->entries;
}

inline std::size_t Object::size() const noexcept { return items().size() + entries().size(); }

inline Result<Object> Object::try_find(std::string_view key) const {
  if (kind() != ObjectKind::kDict) return wrong_kind(ObjectKind::kDict);
  for (const ObjectEntry& entry : entries()) {
    const std::string* const text = std::get_if<std::string>(&entry.key.content_);
    if (text != nullptr && *text == key) return entry.value;
  }
  return Error(Code::kNotFound, "the dict has no key '" + std::string(key) + "'");
}

template <class T>
  requires(detail::IsObjectTarget<T> || detail::IsBorrowedFromObject<T>)
Result<T> Object::try_as() const& {
  if constexpr (std::same_as<T, std::string_view>) {
    const std::string* const text = std::get_if<std::string>(&content_);
    if (text == nullptr) return wrong_kind(ObjectKind::kStr);
    return std::string_view(*text);
  } else if constexpr (std::same_as<T, std::span<const std::byte>>) {
    const auto* const bytes = std::get_if<std::vector<std::byte>>(&content_);
    if (bytes == nullptr) return wrong_kind(ObjectKind::kBytes);
    return std::span<const std::byte>(*bytes);
  } else if constexpr (detail::IsInt<T>) {
    const std::int64_t* const number = std::get_if<std::int64_t>(&content_);
    if (number == nullptr) return wrong_kind(ObjectKind::kInt);
    if (!std::in_range<T>(*number)) {
      return detail::wrong("the int " + std::to_string(*number) + " is none of " +
                           std::to_string(std::numeric_limits<T>::min()) + " to " +
                           std::to_string(std::numeric_limits<T>::max()));
    }
    return static_cast<T>(*number);
  } else {
    const T* const found = std::get_if<T>(&content_);
    if (found == nullptr) return wrong_kind(static_cast<ObjectKind>(Content(T()).index()));
    return *found;
  }
}

// Leaves out the fields that the C library ignores for this kind. Text and bytes are borrowed from
// the object.
inline tenon_object_node Object::c_node() const noexcept {
  tenon_object_node node{};
  node.struct_size = sizeof node;
  node.kind = static_cast<std::int32_t>(kind());
  if (const bool* const found = std::get_if<bool>(&content_)) node.integer = *found ? 1 : 0;
  if (const std::int64_t* const found = std::get_if<std::int64_t>(&content_)) node.integer = *found;
  if (const double* const found = std::get_if<double>(&content_)) node.real = *found;
  if (const std::complex<double>* const found = std::get_if<std::complex<double>>(&content_)) {
    node.real = found->real();
    node.imaginary = found->imag();
  }
  if (const std::string* const found = std::get_if<std::string>(&content_)) {
    node.data = found->data();
    node.nbytes = found->size();
  }
  if (const auto* const found = std::get_if<std::vector<std::byte>>(&content_)) {
    node.data = reinterpret_cast<const char*>(found->data());
    node.nbytes = found->size();
  }
  if (const Tensor* const found = std::get_if<Tensor>(&content_)) node.tensor = found->get();
  if (const Composite* const found = std::get_if<Composite>(&content_))
    node.composite = found->get();
  return node;
}

inline Result<tenon_object*> Object::to_c() const {
  // The objects whose nodes are still to be written, the next object last.
  std::vector<const Object*> left{this};
  std::vector<tenon_object_node> nodes;
  while (!left.empty()) {
    const Object& next = *left.back();
    left.pop_back();
    tenon_object_node& node = nodes.emplace_back(next.c_node());
    const std::size_t count = next.size();
    if (count > std::numeric_limits<std::uint32_t>::max())
      return detail::wrong("a container has more than 2^32 - 1 items");
    node.count = static_cast<std::uint32_t>(count);
    const std::span<const Object> items = next.items();
    const std::span<const ObjectEntry> entries = next.entries();
    for (std::size_t i = items.size(); i > 0; --i) left.push_back(&items[i - 1]);
    for (std::size_t i = entries.size(); i > 0; --i) {
      left.push_back(&entries[i - 1].value);
      left.push_back(&entries[i - 1].key);
    }
  }
  tenon_object* made = nullptr;
  const Result<void> called = detail::call(
      [&](tenon_error** err) { return tenon_object_new(nodes.data(), nodes.size(), &made, err); });
  if (!called) return called.error();
  return made;
}

inline Result<Message> Object::try_to_message(Access access) const {
  const Result<tenon_object*> made = to_c();
  if (!made) return made.error();
  const detail::CObject object(*made);
  const tenon_share_options options = detail::c_options(access);
  return detail::make<Message>([&](tenon_message** out, tenon_error** err) {
    return tenon_message_new_from_object(object.get(), &options, out, err);
  });
}

inline std::vector<Object> Object::take_items(std::size_t count, std::vector<Object>* done) {
  const auto begin = done->end() - static_cast<std::ptrdiff_t>(count);
  std::vector<Object> items(std::make_move_iterator(begin), std::make_move_iterator(done->end()));
  std::reverse(items.begin(), items.end());
  done->erase(begin, done->end());
  return items;
}

inline Object Object::take(const tenon_object_node& node, std::vector<Object>* done) {
  switch (node.kind) {
    case TENON_OBJECT_BOOL: return Object(Content(node.integer != 0));
    case TENON_OBJECT_INT: return Object(Content(node.integer));
    case TENON_OBJECT_FLOAT: return Object(Content(node.real));
    case TENON_OBJECT_COMPLEX: return std::complex<double>(node.real, node.imaginary);
    case TENON_OBJECT_STR:
      return node.nbytes == 0 ? std::string() : std::string(node.data, node.nbytes);
    case TENON_OBJECT_BYTES:
      return bytes({reinterpret_cast<const std::byte*>(node.data), node.nbytes});
    case TENON_OBJECT_TENSOR: return Tensor::retain(node.tensor);
    case TENON_OBJECT_COMPOSITE: return Composite::retain(node.composite);
    case TENON_OBJECT_TUPLE: return container<Tuple>({.items = take_items(node.count, done)});
    case TENON_OBJECT_LIST: return container<List>({.items = take_items(node.count, done)});
    case TENON_OBJECT_SET: return container<Set>({.items = take_items(node.count, done)});
    case TENON_OBJECT_DICT: {
      std::vector<Object> both = take_items(std::size_t{2} * node.count, done);
      std::vector<ObjectEntry> entries;
      entries.reserve(node.count);
      for (std::size_t i = 0; i < both.size(); i += 2)
        entries.push_back({std::move(both[i]), std::move(both[i + 1])});
      return container<Dict>({.entries = std::move(entries)});
    }
    default: return {};
  }
}

inline Result<Object> Object::try_from(const Message& message) {
  tenon_object* raw = nullptr;
  const Result<void> read = detail::call(
      [&](tenon_error** err) { return tenon_object_new_from_message(message.get(), &raw, err); });
  if (!read) return read.error();
  const detail::CObject object(raw);
  std::vector<tenon_object_node> nodes(tenon_object_count(raw));
  nodes[0].struct_size = sizeof nodes[0];
  const Result<void> got = detail::call([&](tenon_error** err) {
    return tenon_object_get_nodes(raw, 0, nodes.data(), nodes.size(), err);
  });
  if (!got) return got.error();
  // The loop goes from the last node to the first, so that the contents of a container are ready
  // before it.
  std::vector<Object> done;
  for (std::size_t i = nodes.size(); i > 0; --i) {
    if (nodes[i - 1].kind < TENON_OBJECT_NONE || nodes[i - 1].kind > TENON_OBJECT_DICT) {
      return Error(Code::kIncompatible, "the C library is newer, and gives values of kind " +
                                            std::to_string(nodes[i - 1].kind));
    }
    Object each = take(nodes[i - 1], &done);
    done.push_back(std::move(each));
  }
  return std::move(done.back());
}

TENON_CPP_END

#endif
