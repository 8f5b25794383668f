// Finds the objects of a list by their names. Contents (weights.h) has one for its weights and one
// for its values.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"

namespace tenon::weights {

// A hash table that has indices of the list and no names, so the list may be moved. The table is
// one array: a file may have 10,000 names, and an allocation for each would take longer than the
// hashes.
class NameIndex {
 public:
  // Makes room. Call this before the first add_next().
  void reserve(size_t count) { table_.resize(std::bit_ceil(std::max<size_t>(count, 1) * 2)); }

  // Adds the object of the list behind those that were added. False, and nothing is added: another
  // object has that name.
  template <typename Named>
  bool add_next(const std::vector<Named>& list) {
    const std::string_view name = list[count_].name;
    const uint64_t hash = keyed_hash(name);
    Entry& entry = table_[place_of(hash, name, list)];
    if (entry.number != 0) return false;
    entry = {hash, ++count_};
    return true;
  }

  // Null: no object has the name.
  template <typename Named>
  const Named* find(std::string_view name, const std::vector<Named>& list) const noexcept {
    if (table_.empty()) return nullptr;
    const Entry& entry = table_[place_of(keyed_hash(name), name, list)];
    return entry.number == 0 ? nullptr : &list[entry.number - 1];
  }

 private:
  struct Entry {
    uint64_t hash = 0;
    size_t number = 0;  // the index in the list plus 1; 0 for an empty place
  };
  // Where the name is, or the empty place for it. At most half of the table is full.
  template <typename Named>
  size_t place_of(uint64_t hash, std::string_view name,
                  const std::vector<Named>& list) const noexcept {
    const size_t mask = table_.size() - 1;
    size_t place = hash & mask;
    for (; table_[place].number != 0; place = (place + 1) & mask) {
      const Entry& entry = table_[place];
      if (entry.hash == hash && list[entry.number - 1].name == name) break;
    }
    return place;
  }

  std::vector<Entry> table_;
  size_t count_ = 0;
};

}  // namespace tenon::weights
