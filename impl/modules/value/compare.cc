#include "modules/value/compare.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "modules/value/path.h"
#include "modules/value/tensor_checks.h"

namespace tenon::value {
namespace {

using Difference = std::optional<std::string>;

std::string two(const std::string& what, const std::string& a, const std::string& b) {
  return what + " " + a + " and " + b;
}

std::string name_of(bool value) { return value ? "true" : "false"; }

bool same_bits(double a, double b) noexcept {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

std::string float_text(double value) {
  return format("%.17g (%016llx)", value,
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
}

std::string type_text(const TypeRef& type) { return type ? type->print() : "no type"; }

// Remembers which element of one tree corresponds to which element of the other.
template <typename Key>
class Pairing {
 public:
  // False if one of the two already has another partner. *is_new: neither had a partner.
  bool pair(const Key& a, const Key& b, bool* is_new) {
    const auto [there, new_a] = there_.try_emplace(a, b);
    const auto [back, new_b] = back_.try_emplace(b, a);
    *is_new = new_a && new_b;
    return there->second == b && back->second == a;
  }

 private:
  std::map<Key, Key> there_;
  std::map<Key, Key> back_;
};

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options) : options_(options) {}

  Difference run(Value& a, Value& b) {
    steps_.push_back({&a, &b, 0, 0});
    // Children are appended behind their parents, and each pair is compared once. So trees of any
    // depth and graphs with any sharing are possible.
    for (size_t i = 0; i < steps_.size(); ++i) {
      const ValuePair step = steps_[i];
      bool descend = false;
      if (Difference found = compare_node(*step.a, *step.b, &descend))
        return path_of(i) + ": " + *found;
      if (!descend) continue;
      for (size_t child = 0; child < step.a->child_count(); ++child) {
        steps_.push_back({&step.a->child(child), partner_of(step, child), i, child});
      }
    }
    return std::nullopt;
  }

 private:
  struct ValuePair {
    Value* a;
    Value* b;
    size_t parent;
    size_t child;
  };

  // The child of step.b that corresponds to child number `index` of step.a.
  Value* partner_of(const ValuePair& step, size_t index) const {
    if (step.a->is(ValueKind::kObject) && !step.a->is_opaque() && !options_.attribute_order) {
      return step.b->attributes().find(step.a->attributes().all()[index].name)->get();
    }
    return &step.b->child(index);
  }

  std::string path_of(size_t index) const {
    std::string path;
    for (; index != 0; index = steps_[index].parent) {
      path.insert(0, step_text(*steps_[steps_[index].parent].a, steps_[index].child));
    }
    return "root" + path;
  }

  Difference compare_node(const Value& a, const Value& b, bool* descend) {
    if (a.kind() != b.kind())
      return two("kinds", value_kind_name(a.kind()), value_kind_name(b.kind()));
    if (has_identity(a.kind())) {
      bool is_new = false;
      if (options_.sharing) {
        if (!values_.pair(&a, &b, &is_new)) return "shared in one and not in the other";
      } else {
        is_new = seen_.try_emplace({&a, &b}, true).second;
      }
      if (!is_new) return std::nullopt;
    }
    *descend = a.child_count() > 0;
    switch (a.kind()) {
      case ValueKind::kNone: return std::nullopt;
      case ValueKind::kBool:
        if (a.as_bool() != b.as_bool())
          return two("bools", name_of(a.as_bool()), name_of(b.as_bool()));
        return std::nullopt;
      case ValueKind::kInt:
        if (a.as_int() != b.as_int())
          return two("ints", std::to_string(a.as_int()), std::to_string(b.as_int()));
        return std::nullopt;
      case ValueKind::kFloat: return compare_floats(a.as_float(), b.as_float());
      case ValueKind::kComplex:
        if (Difference found = compare_floats(a.as_complex().real(), b.as_complex().real()))
          return found;
        return compare_floats(a.as_complex().imag(), b.as_complex().imag());
      case ValueKind::kStr:
      case ValueKind::kDevice:
        if (a.as_str() != b.as_str())
          return two("texts", "'" + a.as_str() + "'", "'" + b.as_str() + "'");
        return std::nullopt;
      case ValueKind::kTensor: return compare_tensors(*a.as_tensor(), *b.as_tensor());
      default: return compare_shapes(a, b);
    }
  }

  static Difference compare_floats(double a, double b) {
    if (!same_bits(a, b)) return two("floats", float_text(a), float_text(b));
    return std::nullopt;
  }

  // Compares everything about a container except its children.
  Difference compare_shapes(const Value& a, const Value& b) const {
    if (a.class_name() != b.class_name())
      return two("classes", "'" + a.class_name() + "'", "'" + b.class_name() + "'");
    const TypeRef& type_a = a.declared_type();
    const TypeRef& type_b = b.declared_type();
    const bool same_type = type_a && type_b ? type_a->equals(*type_b) : !type_a && !type_b;
    if (!same_type) return two("types", type_text(type_a), type_text(type_b));
    if (a.is(ValueKind::kObject) && a.is_opaque() != b.is_opaque())
      return "a state in one, attributes in the other";
    if (a.child_count() != b.child_count()) {
      const size_t unit = a.is(ValueKind::kDict) ? 2 : 1;
      return two("lengths", std::to_string(a.child_count() / unit),
                 std::to_string(b.child_count() / unit));
    }
    if (!a.is(ValueKind::kObject) || a.is_opaque()) return std::nullopt;
    for (size_t i = 0; i < a.attributes().size(); ++i) {
      const std::string& name = a.attributes().all()[i].name;
      if (b.attributes().find(name) == nullptr)
        return "the attribute '" + name + "' is in one only";
      if (options_.attribute_order && b.attributes().all()[i].name != name) {
        return two("attributes in another order:", name, b.attributes().all()[i].name);
      }
    }
    return std::nullopt;
  }

  Difference compare_tensors(const TensorValue& a, const TensorValue& b) {
    if (a.layout() != b.layout()) {
      return two("layouts", tensor_layout_name(a.layout()), tensor_layout_name(b.layout()));
    }
    if (a.type() != b.type()) {
      return two("element types", tensor::scalar_type_info(a.type()).name,
                 tensor::scalar_type_info(b.type()).name);
    }
    if (!std::ranges::equal(a.sizes(), b.sizes()))
      return two("sizes", dims_text(a.sizes()), dims_text(b.sizes()));
    if (a.requires_grad() != b.requires_grad())
      return two("requires_grad", name_of(a.requires_grad()), name_of(b.requires_grad()));
    if (a.layout() != TensorLayout::kStrided) return compare_sparse(a, b);
    if (!std::ranges::equal(a.strides(), b.strides()))
      return two("strides", dims_text(a.strides()), dims_text(b.strides()));
    if (a.offset() != b.offset())
      return two("offsets", std::to_string(a.offset()), std::to_string(b.offset()));
    if (a.is_conj() != b.is_conj() || a.is_neg() != b.is_neg()) return "other math bits";
    if (Difference found = compare_quantizers(a, b)) return found;
    return compare_storages(*a.storage(), *b.storage());
  }

  Difference compare_sparse(const TensorValue& a, const TensorValue& b) {
    if (a.is_coalesced() != b.is_coalesced()) return "coalesced in one and not in the other";
    if (Difference found = compare_tensors(*a.indices(), *b.indices())) return "indices: " + *found;
    if (a.plain_indices()) {
      if (Difference found = compare_tensors(*a.plain_indices(), *b.plain_indices()))
        return "plain indices: " + *found;
    }
    if (Difference found = compare_tensors(*a.values(), *b.values())) return "values: " + *found;
    return std::nullopt;
  }

  Difference compare_quantizers(const TensorValue& a, const TensorValue& b) {
    if (!a.quantizer())
      return std::nullopt;  // element types are equal, so both have one or
                            // neither has
    const Quantizer& one = *a.quantizer();
    const Quantizer& other = *b.quantizer();
    if (one.scheme != other.scheme)
      return two("quantizers", qscheme_name(one.scheme), qscheme_name(other.scheme));
    if (one.scheme == QScheme::kPerTensorAffine) {
      if (!same_bits(one.scale, other.scale))
        return two("scales", float_text(one.scale), float_text(other.scale));
      if (one.zero_point != other.zero_point)
        return two("zero points", std::to_string(one.zero_point), std::to_string(other.zero_point));
      return std::nullopt;
    }
    if (one.axis != other.axis)
      return two("axes", std::to_string(one.axis), std::to_string(other.axis));
    if (Difference found = compare_tensors(*one.scales, *other.scales)) return "scales: " + *found;
    if (Difference found = compare_tensors(*one.zero_points, *other.zero_points))
      return "zero points: " + *found;
    return std::nullopt;
  }

  Difference compare_storages(const StorageValue& a, const StorageValue& b) {
    bool is_new = true;
    if (options_.sharing && !storages_.pair(a.key(), b.key(), &is_new))
      return "a storage shared in one and not in the other";
    if (!is_new) return std::nullopt;
    if (a.device() != b.device()) return two("devices", a.device(), b.device());
    if (a.numel() != b.numel())
      return two("storages of", std::to_string(a.numel()), std::to_string(b.numel()) + " elements");
    if (!options_.tensor_bytes) return std::nullopt;
    if (a.is_on_device() && a.nbytes() > 0 && a.key() != b.key())
      return "storages on " + a.device() + ", whose bytes are not looked at";
    if (a.data() == nullptr) return std::nullopt;
    const std::byte* const end = a.data() + a.nbytes();
    const auto at = std::mismatch(a.data(), end, b.data()).first;
    if (at != end) return "storages differ from byte " + std::to_string(at - a.data()) + " on";
    return std::nullopt;
  }

  CompareOptions options_;
  std::vector<ValuePair> steps_;
  Pairing<const Value*> values_;
  Pairing<StorageKey> storages_;
  std::map<std::pair<const Value*, const Value*>, bool> seen_;
};

}  // namespace

std::optional<std::string> difference(Value& a, Value& b, const CompareOptions& options) {
  return Comparison(options).run(a, b);
}

}  // namespace tenon::value
