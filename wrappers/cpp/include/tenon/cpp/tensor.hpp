/// @file
/// Tensors: strided views of storages, and typed views of their elements. tenon/tensor.h has the
/// details.
#ifndef TENON_CPP_TENSOR_HPP
#define TENON_CPP_TENSOR_HPP

#include <tenon/tensor.h>
#include <tenon/cpp/dtype.hpp>
#include <tenon/cpp/storage.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// Sizes that a call takes as an argument: {2, 3}, a vector, an array or a span of int64_t. A Sizes
/// object is borrowed for the call: do not keep it.
class Sizes {
 public:
  Sizes(std::initializer_list<std::int64_t> numbers) noexcept
      : numbers_(std::data(numbers), numbers.size()) {}
  template <class Numbers>
    requires(!std::same_as<Numbers, Sizes> &&
             std::is_convertible_v<const Numbers&, std::span<const std::int64_t>>)
  Sizes(const Numbers& numbers) noexcept : numbers_(numbers) {}
  std::span<const std::int64_t> get() const noexcept { return numbers_; }

 private:
  std::span<const std::int64_t> numbers_;
};

/// The layout of a tensor over its storage, apart from its sizes and its element type. Strides and
/// offset are in elements.
struct TensorOptions {
  /// As many strides as there are sizes. An empty vector means contiguous elements, with the last
  /// dimension fastest.
  std::vector<std::int64_t> strides = {};
  /// The distance from the start of the storage to the element with index 0, 0, …
  std::uint64_t offset = 0;
  /// TENON_TENSOR_*.
  std::uint32_t flags = 0;
};

/// An item of an index: a number, a slice, new_axis() or ellipsis(), as numpy has them.
class Index : private tenon_index {
 public:
  /// Picks one index of a dimension, which the view then lacks. A negative one counts from the end.
  Index(std::int64_t number) noexcept : Index(of(TENON_INDEX_NUMBER, number)) {}
  /// Picks the indices from `start` on, before `stop`, with Python's meaning of all three numbers.
  /// A bound that is not given is the end of the dimension at which the slice begins or ends.
  static Index slice(std::optional<std::int64_t> start = {}, std::optional<std::int64_t> stop = {},
                     std::int64_t step = 1) noexcept {
    return of(TENON_INDEX_SLICE, start.value_or(step < 0 ? INT64_MAX : 0),
              stop.value_or(step < 0 ? INT64_MIN : INT64_MAX), step);
  }
  /// Adds a dimension of size 1.
  static Index new_axis() noexcept { return of(TENON_INDEX_NEW_AXIS); }
  /// Keeps all dimensions that the other items leave over.
  static Index ellipsis() noexcept { return of(TENON_INDEX_ELLIPSIS); }

 private:
  friend class Tensor;
  explicit Index(const tenon_index& item) noexcept : tenon_index(item) {}
  static Index of(std::int32_t kind, std::int64_t start = 0, std::int64_t stop = 0,
                  std::int64_t step = 0) noexcept {
    return Index(tenon_index{sizeof(tenon_index), kind, 0, start, stop, step});
  }
};
static_assert(sizeof(Index) == sizeof(tenon_index), "arrays of both are the same to the C library");

/// The properties of a tensor that a reader needs, as plain numbers and pointers. They are borrowed
/// from the tensor, or from the message that holds the tensor. Sizes, strides and offset are in
/// elements. tenon_tensor_get_view and tenon_message_get_views fill a view in.
class TensorView : private tenon_tensor_view {
 public:
  TensorView() noexcept : tenon_tensor_view{} { struct_size = sizeof(tenon_tensor_view); }

  /// The name of a tensor in a message. Its data() is null if the tensor has no name.
  std::string_view name() const noexcept {
    return tenon_tensor_view::name == nullptr ? std::string_view() : tenon_tensor_view::name;
  }
  Dtype dtype() const noexcept { return tenon_tensor_view::dtype; }
  std::span<const std::int64_t> sizes() const noexcept {
    return {tenon_tensor_view::sizes, static_cast<std::size_t>(ndim)};
  }
  std::span<const std::int64_t> strides() const noexcept {
    return {tenon_tensor_view::strides, static_cast<std::size_t>(ndim)};
  }
  std::uint64_t offset() const noexcept { return tenon_tensor_view::offset; }
  std::uint64_t numel() const noexcept { return tenon_tensor_view::numel; }
  /// How many bytes the elements take when they are packed.
  std::uint64_t nbytes() const noexcept { return tenon_tensor_view::nbytes; }
  /// TENON_TENSOR_*.
  std::uint32_t flags() const noexcept { return tenon_tensor_view::flags; }
  bool is_contiguous() const noexcept { return tenon_tensor_view::is_contiguous != 0; }
  bool is_read_only() const noexcept {
    return tenon_tensor_view::data_mut == nullptr && data() != nullptr;
  }
  /// The device on which the bytes lie.
  Device device() const noexcept {
    return {tenon_tensor_view::device.type, tenon_tensor_view::device.id};
  }
  /// The address of the element with index 0, 0, …, for reading, on device(). It is null for a
  /// tensor over an empty storage, and if the storage was dropped before this view was made
  /// (LenderGone::kDrop).
  const void* data() const noexcept { return tenon_tensor_view::data; }
  /// The C tensor, borrowed.
  tenon_tensor* get() const noexcept { return tensor; }

  /// Gives the address of the element with index 0, 0, …, for writing. Use this address for
  /// elements that do not lie packed or have no C++ type. The call fails with kPermission if the
  /// storage is read-only.
  Result<void*> try_data_mut() {
    void* address = tenon_tensor_view::data_mut;
    if (is_read_only() || (address == nullptr && numel() > 0)) {
      // The library makes the error, because its message is the best one.
      const Result<void> refused = detail::call(
          [&](tenon_error** err) { return tenon_tensor_data_mut(tensor, &address, err); });
      if (!refused) return refused.error();
    }
    return address;
  }

  /// Gives the elements for reading. It fails with
  /// - kInvalidArgument if T does not stand for their type, if they do not lie packed, or if the
  ///   address is misaligned for T;
  /// - kUnsupported if the elements must be conjugated or negated, or are not in memory of the CPU;
  /// - kPeerGone if the storage was dropped because its lender is gone.
  template <IsElement T>
  Result<std::span<const T>> try_view() const {
    if (const Result<void> fits = check<T>(); !fits) return fits.error();
    return std::span<const T>(static_cast<const T*>(data()), count());
  }

  /// Gives the elements for writing. It fails in the same cases as try_view, and with kPermission
  /// if the storage is read-only.
  template <IsElement T>
  Result<std::span<T>> try_view_mut() {
    if (const Result<void> fits = check<T>(); !fits) return fits.error();
    const Result<void*> address = try_data_mut();
    if (!address) return address.error();
    return std::span<T>(static_cast<T*>(*address), count());
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  void* data_mut() { return try_data_mut().value(); }
  template <IsElement T>
  std::span<const T> view() const {
    return try_view<T>().value();
  }
  template <IsElement T>
  std::span<T> view_mut() {
    return try_view_mut<T>().value();
  }
#endif

 private:
  friend class Tensor;
  friend class Message;

  std::size_t count() const noexcept {
    return data() == nullptr ? 0 : static_cast<std::size_t>(numel());
  }

  std::string text() const {
    const std::string_view known = name();
    return known.empty() ? "the tensor" : "the tensor '" + std::string(known) + "'";
  }

  template <class T>
  Result<void> check() const {
    if (const Result<void> host = detail::for_host(device()); !host) return host.error();
    if (data() == nullptr) {
      if (const Result<void> lender = detail::check_lender(tenon_tensor_storage(tensor)); !lender)
        return lender.error();
    }
    if (dtype() != kDtypeOf<T>)
      return detail::wrong(text() + " is of " + name_of(dtype()) + ", not of " +
                           name_of(kDtypeOf<T>));
    if ((flags() & (std::uint32_t{TENON_TENSOR_CONJ} | std::uint32_t{TENON_TENSOR_NEG})) != 0) {
      return Error(Code::kUnsupported,
                   text() + " is to be read conjugated or negated: its bytes are not its values");
    }
    if (!is_contiguous())
      return detail::wrong(text() + " is not contiguous: read it through data() and strides()");
    if (reinterpret_cast<std::uintptr_t>(data()) % alignof(T) != 0) {
      return detail::wrong(text() + " begins at an address that is no multiple of " +
                           std::to_string(alignof(T)));
    }
    return {};
  }
};
static_assert(sizeof(TensorView) == sizeof(tenon_tensor_view),
              "arrays of both are the same to the C library");

/// Strided elements over a storage. A tensor never changes. A copy of the object is another
/// reference to the same tensor.
class Tensor
    : public detail::Counted<Tensor, tenon_tensor, tenon_tensor_retain, tenon_tensor_release> {
 public:
  /// Makes a tensor over a storage. Every element that the layout can address must lie inside the
  /// storage. No byte is read or moved.
  static Result<Tensor> try_over(const Storage& storage, const Sizes& sizes, Dtype dtype,
                                 const TensorOptions& options = {}) {
    const std::span<const std::int64_t> numbers = sizes.get();
    const bool strided = !options.strides.empty();
    if (numbers.size() > TENON_TENSOR_MAX_NDIM)
      return detail::wrong(std::to_string(numbers.size()) + " dimensions are more than 64");
    if (strided && options.strides.size() != numbers.size()) {
      return detail::wrong(std::to_string(options.strides.size()) + " strides for " +
                           std::to_string(numbers.size()) + " sizes");
    }
    tenon_tensor_spec spec{};
    spec.struct_size = sizeof spec;
    spec.dtype = dtype;
    spec.ndim = static_cast<std::int32_t>(numbers.size());
    spec.sizes = numbers.data();
    spec.strides = strided ? options.strides.data() : nullptr;
    spec.offset = options.offset;
    spec.flags = options.flags;
    return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) {
      return tenon_tensor_new(storage.get(), &spec, out, err);
    });
  }

  /// Makes a contiguous tensor in a new storage.
  static Result<Tensor> try_make(const Sizes& sizes, Dtype dtype,
                                 const StorageOptions& options = {}) {
    const Result<std::uint64_t> nbytes = nbytes_of(sizes.get(), dtype);
    if (!nbytes) return nbytes.error();
    const Result<Storage> storage = Storage::try_make(*nbytes, options);
    if (!storage) return storage.error();
    return try_over(*storage, sizes, dtype);
  }

  /// Makes a contiguous tensor in a new storage that holds a copy of `values`. There must be as
  /// many values as `sizes` says. A tensor of Mode::kFrozen is frozen when the call returns.
  template <IsElement T>
  static Result<Tensor> try_make_from(std::span<const T> values, const Sizes& sizes,
                                      const StorageOptions& options = {}) {
    const Result<std::uint64_t> nbytes = nbytes_of(sizes.get(), kDtypeOf<T>);
    if (!nbytes) return nbytes.error();
    if (*nbytes != values.size_bytes())
      return detail::wrong(std::to_string(values.size()) + " values do not fit the sizes");
    const Result<Storage> storage = Storage::try_make_from(std::as_bytes(values), options);
    if (!storage) return storage.error();
    return try_over(*storage, sizes, kDtypeOf<T>);
  }

  /// Makes a tensor with the same elements in another shape, of which one size may be -1. It fails
  /// with kInvalidArgument if the elements do not fit the shape, or would have to be copied.
  Result<Tensor> try_reshape(const Sizes& sizes) const {
    const std::span<const std::int64_t> numbers = sizes.get();
    if (numbers.size() > TENON_TENSOR_MAX_NDIM)
      return detail::wrong(std::to_string(numbers.size()) + " dimensions are more than 64");
    return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) {
      return tenon_tensor_reshape(get(), numbers.data(), static_cast<std::int32_t>(numbers.size()),
                                  out, err);
    });
  }

  /// Makes a tensor that reads the same bytes as elements of another type. If their sizes differ,
  /// the last dimension takes up the difference. See tenon_tensor_view_dtype.
  Result<Tensor> try_view_as(Dtype dtype) const {
    return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) {
      return tenon_tensor_view_dtype(get(), dtype, out, err);
    });
  }

  /// Makes a tensor of the elements that the items pick: `tensor.try_index({0, Index::slice(2)})`.
  /// Dimensions without an item are kept whole.
  Result<Tensor> try_index(std::span<const Index> items) const {
    return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) {
      return tenon_tensor_index(get(), items.data(), items.size(), out, err);
    });
  }
  Result<Tensor> try_index(std::initializer_list<Index> items) const {
    return try_index(std::span<const Index>(std::data(items), items.size()));
  }

  /// Gives the layout, the data pointer and the other properties of the tensor, borrowed from the
  /// tensor.
  Result<TensorView> try_view() const& {
    TensorView view;
    const Result<void> called =
        detail::call([&](tenon_error** err) { return tenon_tensor_get_view(get(), &view, err); });
    if (!called) return called.error();
    return view;
  }
  Result<TensorView> try_view() const&& = delete;

  /// Gives the elements for reading, borrowed from the tensor. See TensorView::try_view.
  template <IsElement T>
  Result<std::span<const T>> try_view() const& {
    const Result<TensorView> view = try_view();
    return view ? view->template try_view<T>() : view.error();
  }
  template <IsElement T>
  Result<std::span<const T>> try_view() const&& = delete;

  /// Gives the elements for writing, borrowed from the tensor. See TensorView::try_view_mut.
  template <IsElement T>
  Result<std::span<T>> try_view_mut() & {
    Result<TensorView> view = try_view();
    return view ? view->template try_view_mut<T>() : view.error();
  }
  template <IsElement T>
  Result<std::span<T>> try_view_mut() && = delete;

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Tensor over(const Storage& storage, const Sizes& sizes, Dtype dtype,
                     const TensorOptions& options = {}) {
    return try_over(storage, sizes, dtype, options).value();
  }
  static Tensor make(const Sizes& sizes, Dtype dtype, const StorageOptions& options = {}) {
    return try_make(sizes, dtype, options).value();
  }
  template <IsElement T>
  static Tensor make_from(std::span<const T> values, const Sizes& sizes,
                          const StorageOptions& options = {}) {
    return try_make_from<T>(values, sizes, options).value();
  }
  Tensor reshape(const Sizes& sizes) const { return try_reshape(sizes).value(); }
  Tensor view_as(Dtype dtype) const { return try_view_as(dtype).value(); }
  Tensor index(std::span<const Index> items) const { return try_index(items).value(); }
  Tensor index(std::initializer_list<Index> items) const { return try_index(items).value(); }
  TensorView view() const& { return try_view().value(); }
  TensorView view() const&& = delete;
  template <IsElement T>
  std::span<const T> view() const& {
    return try_view<T>().value();
  }
  template <IsElement T>
  std::span<const T> view() const&& = delete;
  template <IsElement T>
  std::span<T> view_mut() & {
    return try_view_mut<T>().value();
  }
  template <IsElement T>
  std::span<T> view_mut() && = delete;
#endif

  /// The storage under the tensor. It is empty for an empty tensor object.
  Storage storage() const noexcept { return Storage::retain(tenon_tensor_storage(get())); }
  std::uint64_t numel() const noexcept { return tenon_tensor_numel(get()); }
  /// How many bytes the elements take when they are packed.
  std::uint64_t nbytes() const noexcept { return tenon_tensor_nbytes(get()); }
  /// The device on which the bytes lie.
  Device device() const noexcept { return detail::device_of(tenon_tensor_storage(get())); }
  bool is_contiguous() const noexcept { return tenon_tensor_is_contiguous(get()) != 0; }
  bool is_read_only() const noexcept {
    return tenon_storage_is_read_only(tenon_tensor_storage(get())) != 0;
  }

 private:
  // Checks for overflow, because the storage is made before the library sees the sizes.
  static Result<std::uint64_t> nbytes_of(std::span<const std::int64_t> sizes, Dtype dtype) {
    if (sizes.size() > TENON_TENSOR_MAX_NDIM)
      return detail::wrong(std::to_string(sizes.size()) + " dimensions are more than 64");
    std::uint64_t nbytes = 0;
    const Result<void> counted = detail::call([&](tenon_error** err) {
      return tenon_dtype_nbytes(dtype, sizes.data(), static_cast<std::int32_t>(sizes.size()),
                                &nbytes, err);
    });
    if (!counted) return counted.error();
    return nbytes;
  }
};

/// Makes a tensor of T in a new storage. The bytes are unspecified.
template <IsElement T>
Result<Tensor> try_empty(const Sizes& sizes, const StorageOptions& options = {}) {
  return Tensor::try_make(sizes, kDtypeOf<T>, options);
}

/// Makes a tensor of T in a new storage whose bytes are all zero.
template <IsElement T>
Result<Tensor> try_zeros(const Sizes& sizes, StorageOptions options = {}) {
  options.zeroed = true;
  return Tensor::try_make(sizes, kDtypeOf<T>, options);
}

#ifndef TENON_NO_EXCEPTIONS
template <IsElement T>
Tensor empty(const Sizes& sizes, const StorageOptions& options = {}) {
  return try_empty<T>(sizes, options).value();
}
template <IsElement T>
Tensor zeros(const Sizes& sizes, const StorageOptions& options = {}) {
  return try_zeros<T>(sizes, options).value();
}
#endif

TENON_CPP_END

#endif
