// The functions of Attributes (value.h).
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/make_room.h"
#include "modules/value/value.h"

namespace tenon::value {

namespace {

// Up to this number of attributes, names are compared one by one, and order_ is empty. Most objects
// have no more.
constexpr size_t kFewAttributes = 8;

bool are_unique(std::span<const Attribute> attributes) noexcept {
  for (size_t i = 1; i < attributes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (attributes[i].name == attributes[j].name) return false;
    }
  }
  return true;
}

}  // namespace

size_t Attributes::place_of(std::string_view name) const noexcept {
  const auto place = std::lower_bound(
      order_.begin(), order_.end(), name,
      [this](uint32_t index, std::string_view wanted) { return entries_[index].name < wanted; });
  return static_cast<size_t>(place - order_.begin());
}

size_t Attributes::index_of(std::string_view name) const noexcept {
  if (order_.empty()) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [name](const Attribute& entry) { return entry.name == name; });
    return static_cast<size_t>(found - entries_.begin());
  }
  const size_t place = place_of(name);
  return place < order_.size() && entries_[order_[place]].name == name ? order_[place]
                                                                       : entries_.size();
}

const ValueRef* Attributes::find(std::string_view name) const noexcept {
  const size_t index = index_of(name);
  return index < entries_.size() ? &entries_[index].value : nullptr;
}

Status Attributes::add(std::string name, ValueRef value) {
  if (index_of(name) < entries_.size()) {
    return {Code::kInvalidArgument, format("there is an attribute '%s' already", name.c_str())};
  }
  const bool has_order = !order_.empty();
  const size_t place = place_of(name);
  if (has_order || entries_.size() >= kFewAttributes)
    make_room(&order_, has_order ? 1 : entries_.size() + 1);
  entries_.push_back({std::move(name), std::move(value)});
  if (has_order) {
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place),
                  static_cast<uint32_t>(entries_.size() - 1));
  } else if (entries_.size() > kFewAttributes) {
    order_names();
  }
  return Status::ok();
}

bool Attributes::replace(std::string_view name, ValueRef value) {
  const size_t index = index_of(name);
  if (index == entries_.size()) return false;
  entries_[index].value = std::move(value);
  return true;
}

bool Attributes::remove(std::string_view name) {
  const size_t index = index_of(name);
  if (index == entries_.size()) return false;
  if (!order_.empty()) order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(place_of(name)));
  for (uint32_t& other : order_) other -= other > index ? 1 : 0;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

const std::string* Attributes::assign(std::vector<Attribute> entries) {
  entries_ = std::move(entries);
  order_.clear();
  if (entries_.size() <= kFewAttributes && are_unique(entries_)) return nullptr;
  order_names();
  const auto twice = std::adjacent_find(
      order_.begin(), order_.end(),
      [this](uint32_t a, uint32_t b) { return entries_[a].name == entries_[b].name; });
  return twice != order_.end() ? &entries_[*twice].name : nullptr;
}

void Attributes::order_names() {
  order_.resize(entries_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::sort(order_.begin(), order_.end(),
            [this](uint32_t a, uint32_t b) { return entries_[a].name < entries_[b].name; });
}

}  // namespace tenon::value
