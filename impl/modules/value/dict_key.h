// Decides which values can be keys of a dict, and orders keys. Value::dict() uses the order to find
// a key in logarithmic time, whatever keys a file contains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/value/value.h"

namespace tenon::value {

// Gives the indices of `entries` in the order of their keys. INVALID_ARGUMENT for the reasons that
// Value::dict() lists. `*order` is of no use then.
Status order_keys(std::span<const DictEntry> entries, std::vector<uint32_t>* order);

// The index of the entry with that key, or entries.size() if there is none. A key with a NaN is
// never found. The second function finds only keys of kind str.
size_t find_key(std::span<const DictEntry> entries, std::span<const uint32_t> order,
                const Value& key) noexcept;
size_t find_key(std::span<const DictEntry> entries, std::span<const uint32_t> order,
                std::string_view key) noexcept;

// The size of the texts among the keys in bytes, which is the cost of ordering them. A file can use
// one text in many dicts, so a reader limits the sum.
uint64_t keys_nbytes(std::span<const DictEntry> entries) noexcept;

// A key as an error message shows it: "'name'", "3".
std::string key_text(const Value& key);

}  // namespace tenon::value
