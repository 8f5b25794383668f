// Hashes for tables whose keys other processes choose: names, numbers, offsets.
//
// A peer that knows the hash function can send keys that all fall into one bucket. Each look-up
// then walks over all of them. This hash (SipHash-1-3) depends on a random key that every program
// gets when it starts, so no other process knows which keys meet, except forked children, which
// have their parent's key.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tenon {

uint64_t keyed_hash(std::string_view text) noexcept;
uint64_t keyed_hash(std::initializer_list<uint64_t> words) noexcept;

// For the containers of the standard library. A map of strings that also names std::equal_to<> can
// be asked with a string_view.
struct KeyedHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept { return keyed_hash(text); }
  template <std::integral Number>
  size_t operator()(Number number) const noexcept {
    return keyed_hash({static_cast<uint64_t>(number)});
  }
};

}  // namespace tenon
