#include <algorithm>
#include <numeric>
#include <utility>

#include "base/room.h"
#include "value/value.h"

namespace tenon::value {

size_t Attributes::place_of(std::string_view name) const noexcept {
  const auto place = std::lower_bound(order_.begin(), order_.end(), name,
                                      [this](uint32_t index, std::string_view wanted) { return entries_[index].name < wanted; });
  return static_cast<size_t>(place - order_.begin());
}

size_t Attributes::index_of(std::string_view name) const noexcept {
  const size_t place = place_of(name);
  return place < order_.size() && entries_[order_[place]].name == name ? order_[place] : entries_.size();
}

const ValueRef* Attributes::find(std::string_view name) const noexcept {
  const size_t index = index_of(name);
  return index < entries_.size() ? &entries_[index].value : nullptr;
}

Status Attributes::add(std::string name, ValueRef value) {
  const size_t place = place_of(name);
  if (place < order_.size() && entries_[order_[place]].name == name) {
    return {Code::kInvalidArgument, format("there is an attribute '%s' already", name.c_str())};
  }
  make_room(&order_, 1);
  entries_.push_back({std::move(name), std::move(value)});
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place), static_cast<uint32_t>(entries_.size() - 1));
  return Status::ok();
}

bool Attributes::replace(std::string_view name, ValueRef value) {
  const size_t index = index_of(name);
  if (index == entries_.size()) return false;
  entries_[index].value = std::move(value);
  return true;
}

bool Attributes::remove(std::string_view name) {
  const size_t place = place_of(name);
  if (place == order_.size() || entries_[order_[place]].name != name) return false;
  const uint32_t index = order_[place];
  order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(place));
  for (uint32_t& other : order_) other -= other > index ? 1 : 0;
  entries_.erase(entries_.begin() + index);
  return true;
}

const std::string* Attributes::assign(std::vector<Attribute> entries) {
  entries_ = std::move(entries);
  order_.resize(entries_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) { return entries_[a].name < entries_[b].name; });
  const auto twice =
      std::adjacent_find(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) { return entries_[a].name == entries_[b].name; });
  return twice != order_.end() ? &entries_[*twice].name : nullptr;
}

}  // namespace tenon::value
