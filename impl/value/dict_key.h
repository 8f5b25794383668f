// The keys of a dict: which values can be one, and an order of them, so that one is found in
// logarithmic time whatever keys a file has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "value/value.h"

namespace tenon::value {

// Gives the indices of `entries` in the order of their keys. INVALID_ARGUMENT as Value::dict says.
Status order_keys(std::span<const DictEntry> entries, std::vector<uint32_t>* order);

// The index of the entry with that key, or entries.size().
size_t find_key(std::span<const DictEntry> entries, std::span<const uint32_t> order,
                const Value& key) noexcept;
size_t find_key(std::span<const DictEntry> entries, std::span<const uint32_t> order,
                std::string_view key) noexcept;

// How many bytes the texts among the keys have: what ordering them costs. A file can give one text
// to many dicts, so a reader bounds the sum.
uint64_t keys_nbytes(std::span<const DictEntry> entries) noexcept;

// A key as an error message shows it: "'name'", "3".
std::string key_text(const Value& key);

}  // namespace tenon::value
