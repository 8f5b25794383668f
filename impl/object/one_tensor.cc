#include "object/one_tensor.h"

#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "object/split_tensors.h"
#include "pickle/opcodes.h"
#include "tensor/layout.h"

namespace tenon::object {
namespace {

using pickle::Opcode;
using tensor::Tensor;

// PROTO 4, the texts "tenon.pickle" and "_tensor", STACK_GLOBAL, MEMOIZE, MARK.
constexpr std::string_view kHead = "\x80\x04\x8c\x0ctenon.pickle\x8c\x07_tensor\x93\x94(";
// TUPLE, REDUCE, STOP.
constexpr std::string_view kTail = "tR.";

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) noexcept : left_(bytes) {}

  bool take(std::string_view expected) noexcept {
    if (left_.size() < expected.size() ||
        std::memcmp(left_.data(), expected.data(), expected.size()) != 0)
      return false;
    left_ = left_.subspan(expected.size());
    return true;
  }
  bool take(Opcode opcode) noexcept {
    if (left_.empty() || left_[0] != static_cast<std::byte>(opcode)) return false;
    left_ = left_.subspan(1);
    return true;
  }
  bool take_integer(int64_t* out) noexcept {
    if (take(Opcode::kBinInt1)) return take_number<uint8_t>(out);
    if (take(Opcode::kBinInt)) return take_number<int32_t>(out);
    return take(Opcode::kLong1) && take("\x08") && take_number<int64_t>(out);
  }
  // Returns how many integers a tuple has, of at most `out.size()`. No value: it is no such tuple.
  std::optional<size_t> take_integers(std::span<int64_t> out) noexcept {
    if (take(Opcode::kEmptyTuple)) return 0;
    if (!take(Opcode::kMark)) return std::nullopt;
    for (size_t count = 0;; ++count) {
      if (count > 0 && take(Opcode::kTuple)) return count;
      if (count == out.size() || !take_integer(&out[count])) return std::nullopt;
    }
  }
  bool is_at_end() const noexcept { return left_.empty(); }

 private:
  template <typename Number>
  bool take_number(int64_t* out) noexcept {
    Number number{};
    if (left_.size() < sizeof number) return false;
    std::memcpy(&number, left_.data(), sizeof number);
    left_ = left_.subspan(sizeof number);
    *out = number;
    return true;
  }

  std::span<const std::byte> left_;
};

}  // namespace

Ref<Object> read_one_tensor(std::span<const std::byte> bytes,
                            std::span<const Ref<Tensor>> storages) {
  constexpr size_t kMostDims = 16;
  std::array<int64_t, kMostDims> sizes;
  std::array<int64_t, kMostDims> strides;
  Cursor cursor(bytes);
  int64_t number = 0;
  int64_t dtype = 0;
  if (!cursor.take(kHead) || !cursor.take_integer(&number) || !cursor.take_integer(&dtype))
    return {};
  const std::optional<size_t> ndim = cursor.take_integers(sizes);
  int64_t offset = 0;
  int64_t flags = 0;
  if (!ndim || cursor.take_integers(strides) != ndim || !cursor.take_integer(&offset) ||
      !cursor.take_integer(&flags) || !cursor.take(kTail) || !cursor.is_at_end())
    return {};
  if (number != 0 || storages.size() != 1 || !is_byte_tensor(*storages[0]) || dtype < 0 ||
      dtype > UINT32_MAX || offset < 0 || flags < 0 || flags > UINT32_MAX)
    return {};
  // The layout counts from the first byte of the storage that was sent, which may lie inside a
  // larger storage here. That is rare.
  if (storages[0]->offset_nbytes() != 0) return {};
  const tensor::Layout layout{{static_cast<uint8_t>(dtype), static_cast<uint8_t>(dtype >> 8),
                               static_cast<uint16_t>(dtype >> 16)},
                              std::span(sizes).first(*ndim),
                              std::span(strides).first(*ndim),
                              static_cast<uint64_t>(offset)};
  if (!tensor::check_layout(layout, storages[0]->nbytes()).is_ok()) return {};
  Result<Ref<Tensor>> made =
      Tensor::create(storages[0]->storage(), layout, static_cast<uint32_t>(flags));
  if (!made.is_ok()) return {};
  Contents contents;
  Node& node = contents.nodes.emplace_back();
  node.kind = Kind::kTensor;
  node.content.index = 0;
  contents.tensors.push_back(std::move(made).value());
  Result<Ref<Object>> object = Object::create(std::move(contents));
  return object.is_ok() ? std::move(object).value() : Ref<Object>();
}

}  // namespace tenon::object
