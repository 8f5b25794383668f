#include "modules/value/dict_key.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <numeric>

namespace tenon::value {
namespace {

// Limits for tuples and enums as keys, which may contain other values.
constexpr size_t kMaxKeyDepth = 8;
constexpr size_t kMaxKeyNodes = 256;
constexpr size_t kMaxShownKeyNbytes = 64;

bool can_be_dict_key(const Value& key, size_t depth, size_t* nodes) noexcept {
  if (depth > kMaxKeyDepth || ++*nodes > kMaxKeyNodes) return false;
  switch (key.kind()) {
    case ValueKind::kList:
    case ValueKind::kDict:
    case ValueKind::kObject: return false;
    case ValueKind::kTuple:
    case ValueKind::kEnum:
      for (size_t i = 0; i < key.child_count(); ++i) {
        if (!can_be_dict_key(key.child(i), depth + 1, nodes)) return false;
      }
      return true;
    default: return true;
  }
}

// Counts only a part of a value that cannot be a key.
uint64_t key_nbytes(const Value& key, size_t depth, size_t* nodes) noexcept {
  if (key.is(ValueKind::kStr)) return key.as_str().size();
  if ((!key.is(ValueKind::kTuple) && !key.is(ValueKind::kEnum)) || depth > kMaxKeyDepth) return 0;
  uint64_t nbytes = 0;
  for (size_t i = 0; i < key.child_count() && ++*nodes <= kMaxKeyNodes; ++i)
    nbytes += key_nbytes(key.child(i), depth + 1, nodes);
  return nbytes;
}

// Orders numbers by value, so 0 equals -0. A NaN is sorted behind the numbers. It equals no key
// (has_nan()).
std::strong_ordering order_of(double a, double b) noexcept {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) <=> std::isnan(b);
  if (a < b) return std::strong_ordering::less;
  return a > b ? std::strong_ordering::greater : std::strong_ordering::equal;
}

bool has_nan(const Value& key) noexcept {
  if (key.is(ValueKind::kFloat)) return std::isnan(key.as_float());
  if (key.is(ValueKind::kComplex))
    return std::isnan(key.as_complex().real()) || std::isnan(key.as_complex().imag());
  for (size_t i = 0; i < key.child_count(); ++i) {
    if (has_nan(key.child(i))) return true;
  }
  return false;
}

std::strong_ordering order_of(const Value& a, const Value& b) noexcept {
  if (&a == &b) return std::strong_ordering::equal;
  if (a.kind() != b.kind()) return a.kind() <=> b.kind();
  switch (a.kind()) {
    case ValueKind::kBool: return a.as_bool() <=> b.as_bool();
    case ValueKind::kInt: return a.as_int() <=> b.as_int();
    case ValueKind::kFloat: return order_of(a.as_float(), b.as_float());
    case ValueKind::kComplex: {
      const std::strong_ordering real = order_of(a.as_complex().real(), b.as_complex().real());
      return real != 0 ? real : order_of(a.as_complex().imag(), b.as_complex().imag());
    }
    case ValueKind::kStr:
    case ValueKind::kDevice: return a.as_str() <=> b.as_str();
    case ValueKind::kTensor: return std::compare_three_way()(&a, &b);
    case ValueKind::kTuple:
    case ValueKind::kEnum: {
      if (const std::strong_ordering names = a.class_name() <=> b.class_name(); names != 0)
        return names;
      if (a.child_count() != b.child_count()) return a.child_count() <=> b.child_count();
      for (size_t i = 0; i < a.child_count(); ++i) {
        if (const std::strong_ordering items = order_of(a.child(i), b.child(i)); items != 0)
          return items;
      }
      return std::strong_ordering::equal;
    }
    default: return std::strong_ordering::equal;
  }
}

// The index of the first entry for which `is_before` is false, if it is the wanted one, else
// entries.size().
template <typename IsBefore, typename IsSame>
size_t find_entry(std::span<const DictEntry> entries, std::span<const uint32_t> order,
                  IsBefore is_before, IsSame is_same) noexcept {
  const auto place = std::partition_point(
      order.begin(), order.end(), [&](uint32_t index) { return is_before(*entries[index].key); });
  return place != order.end() && is_same(*entries[*place].key) ? *place : entries.size();
}

}  // namespace

uint64_t keys_nbytes(std::span<const DictEntry> entries) noexcept {
  uint64_t nbytes = 0;
  for (const DictEntry& entry : entries) {
    size_t nodes = 0;
    nbytes += key_nbytes(*entry.key, 0, &nodes);
  }
  return nbytes;
}

std::string key_text(const Value& key) {
  switch (key.kind()) {
    case ValueKind::kNone: return "None";
    case ValueKind::kBool: return key.as_bool() ? "True" : "False";
    case ValueKind::kInt: return std::to_string(key.as_int());
    case ValueKind::kFloat: return format("%.17g", key.as_float());
    case ValueKind::kStr:
    case ValueKind::kDevice: {
      const std::string& text = key.as_str();
      return "'" +
             (text.size() <= kMaxShownKeyNbytes ? text
                                                : text.substr(0, kMaxShownKeyNbytes) + "...") +
             "'";
    }
    default: return std::string("a key of kind ") + value_kind_name(key.kind());
  }
}

Status order_keys(std::span<const DictEntry> entries, std::vector<uint32_t>* order) {
  if (entries.size() > std::numeric_limits<uint32_t>::max())
    return invalid(format("a dict of %zu entries", entries.size()));
  for (const DictEntry& entry : entries) {
    size_t nodes = 0;
    if (!can_be_dict_key(*entry.key, 0, &nodes))
      return invalid(
          format("a %s cannot be the key of a dict", value_kind_name(entry.key->kind())));
  }
  order->resize(entries.size());
  std::iota(order->begin(), order->end(), 0U);
  std::sort(order->begin(), order->end(),
            [&](uint32_t a, uint32_t b) { return order_of(*entries[a].key, *entries[b].key) < 0; });
  for (size_t i = 1; i < order->size(); ++i) {
    const Value& key = *entries[(*order)[i]].key;
    if (order_of(*entries[(*order)[i - 1]].key, key) == 0 && !has_nan(key)) {
      return invalid(format("the key %s stands in a dict twice", key_text(key).c_str()));
    }
  }
  return Status::ok();
}

size_t find_key(std::span<const DictEntry> entries, std::span<const uint32_t> order,
                const Value& key) noexcept {
  size_t nodes = 0;
  if (!can_be_dict_key(key, 0, &nodes) || has_nan(key)) return entries.size();
  return find_entry(
      entries, order, [&](const Value& other) { return order_of(other, key) < 0; },
      [&](const Value& other) { return order_of(other, key) == 0; });
}

size_t find_key(std::span<const DictEntry> entries, std::span<const uint32_t> order,
                std::string_view key) noexcept {
  return find_entry(
      entries, order,
      [&](const Value& other) {
        return other.kind() != ValueKind::kStr ? other.kind() < ValueKind::kStr
                                               : other.as_str() < key;
      },
      [&](const Value& other) { return other.kind() == ValueKind::kStr && other.as_str() == key; });
}

}  // namespace tenon::value
