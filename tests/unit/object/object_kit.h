// The tests of objects share these helpers, which compare two objects, and wrap the storages of a
// pickle as a message carries them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "object/object.h"
#include "object/object_to_pickle.h"

namespace tenon::object::test {

using Tensors = std::vector<Ref<tensor::Tensor>>;

// Returns a uint8 tensor over all bytes of each storage.
inline Tensors whole(std::span<const Ref<storage::Storage>> storages) {
  Tensors tensors;
  for (const Ref<storage::Storage>& each : storages) {
    const std::array<int64_t, 1> sizes = {static_cast<int64_t>(each->nbytes())};
    const std::array<int64_t, 1> strides = {1};
    tensors.push_back(tensor::Tensor::create(each, {{1, 8, 1}, sizes, strides, 0}, 0).value());
  }
  return tensors;
}

inline bool are_same(const tensor::Tensor& a, const tensor::Tensor& b) {
  return a.storage().get() == b.storage().get() && a.dtype() == b.dtype() &&
         std::ranges::equal(a.sizes(), b.sizes()) && std::ranges::equal(a.strides(), b.strides()) &&
         a.offset() == b.offset() && a.flags() == b.flags();
}

inline bool are_same(const tensor::CompositeSpec& a, const tensor::CompositeSpec& b) {
  const auto same_parts = [](const Ref<tensor::Tensor>& x, const Ref<tensor::Tensor>& y) {
    return are_same(*x, *y);
  };
  return a.layout == b.layout && a.coalesced == b.coalesced && a.quantizer == b.quantizer &&
         a.flags == b.flags && a.dim == b.dim &&
         std::bit_cast<uint64_t>(a.scale) == std::bit_cast<uint64_t>(b.scale) &&
         a.zero_point == b.zero_point && a.offset == b.offset && a.dtype == b.dtype &&
         a.sizes == b.sizes && a.strides == b.strides &&
         std::ranges::equal(a.parts, b.parts, same_parts);
}

inline bool have_same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

inline bool are_same(const Object& a, const Node& x, const Object& b, const Node& y) {
  if (x.kind != y.kind || x.count != y.count || x.next != y.next) return false;
  switch (x.kind) {
    case Kind::kBool:
    case Kind::kInt: return x.content.integer == y.content.integer;
    case Kind::kFloat: return have_same_bits(x.content.real, y.content.real);
    case Kind::kComplex:
      return have_same_bits(x.content.complex.real, y.content.complex.real) &&
             have_same_bits(x.content.complex.imaginary, y.content.complex.imaginary);
    case Kind::kStr:
    case Kind::kBytes: return a.text(x) == b.text(y);
    case Kind::kTensor: return are_same(*a.tensor(x), *b.tensor(y));
    case Kind::kComposite: return are_same(a.composite(x)->spec(), b.composite(y)->spec());
    default: return true;
  }
}

// Describes the first node in which two objects differ: in its kind, in its contents or in a
// tensor's storage.
inline std::optional<std::string> difference(const Object& a, const Object& b) {
  const size_t both = std::min(a.nodes().size(), b.nodes().size());
  for (size_t i = 0; i < both; ++i) {
    if (!are_same(a, a.nodes()[i], b, b.nodes()[i])) {
      return format("node %zu, a %s and a %s", i, kind_name(a.nodes()[i].kind),
                    kind_name(b.nodes()[i].kind));
    }
  }
  if (a.nodes().size() == b.nodes().size()) return std::nullopt;
  return format("%zu nodes and %zu", a.nodes().size(), b.nodes().size());
}

}  // namespace tenon::object::test
