// A hash set of objects that know their own keys, for the identity cache (cache.cc) and the table
// of addresses (storage_at.cc). It stores pointers and does not own the objects. There can be
// millions of objects. So the table uses open addressing, which costs one word for each place, and
// nothing more for each object.
//
// The table probes linearly from the home place that the key's hash gives. Erasing moves later
// objects back, so there are no tombstones, and a look-up ends at the first empty place. Alignment
// leaves the low bits of an address 0. The table stores some bits of the hash there, so that a
// look-up need not read most of the objects that it passes.
//
// `Traits` has a type `Key`; `static Key key_of(const T&) noexcept`, whose result must not change
// while the object is in the table; and `static uint64_t hash(const Key&) noexcept`, with good high
// bits. T must be aligned to 2 bytes or more. The table never shrinks below `kKept` places, because
// messages of thousands of objects come and go again and again. The caller locks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace tenon::share {

template <typename T, typename Traits, size_t kKept = 16384>
class ObjectTable {
 public:
  using Key = typename Traits::Key;

  // Null: no object has this key.
  T* find(const Key& key) const noexcept { return find_if(key, kAny); }

  // Adds an object and returns null, unless the table has one with the same key, which is returned
  // in that case. Throws std::bad_alloc, and changes nothing then.
  T* insert(T* object) {
    const Key key = Traits::key_of(*object);
    const uint64_t hash = Traits::hash(key);
    if (size_ == 0 && !resize(kFewest)) throw std::bad_alloc();
    size_t place = place_of(key, hash, kAny);
    if (words_[place] != 0) return object_of(words_[place]);
    if ((count_ + 1) * 4 > size_ * 3) {
      if (!resize(size_ * 2)) throw std::bad_alloc();
      place = place_of(key, hash, kAny);
    }
    words_[place] = word_of(object, hash);
    ++count_;
    return nullptr;
  }

  // Adds an object even if others with the same key are there. The object must not be in the table
  // yet. Throws std::bad_alloc, and changes nothing then.
  void insert_beside(T* object) {
    if ((count_ + 1) * 4 > size_ * 3 && !resize(size_ == 0 ? kFewest : size_ * 2))
      throw std::bad_alloc();
    const uint64_t hash = Traits::hash(Traits::key_of(*object));
    words_[empty_place(hash)] = word_of(object, hash);
    ++count_;
  }

  // Finds the first object with the key for which `is_wanted` returns true. Null: there is none.
  template <typename IsWanted>
  T* find_if(const Key& key, const IsWanted& is_wanted) const {
    if (count_ == 0) return nullptr;
    const uintptr_t word = words_[place_of(key, Traits::hash(key), is_wanted)];
    return word == 0 ? nullptr : object_of(word);
  }

  // Puts `with` in the place of `old`, which is in the table and has the same key.
  void replace(const T* old, T* with) noexcept {
    const uint64_t hash = Traits::hash(Traits::key_of(*old));
    words_[place_of_object(old, hash)] = word_of(with, hash);
  }

  // Removes exactly this object. Another one with the same key stays. If the table does not have
  // the object, nothing changes.
  void erase(const T* object) noexcept {
    if (count_ == 0) return;
    size_t hole = place_of_object(object, Traits::hash(Traits::key_of(*object)));
    if (words_[hole] == 0) return;
    for (size_t next = after(hole); words_[next] != 0; next = after(next)) {
      // An object whose home lies behind the hole, cyclically, would not be found in the hole.
      const size_t home = home_of(Traits::hash(Traits::key_of(*object_of(words_[next]))));
      if (distance(home, next) < distance(hole, next)) continue;
      words_[hole] = words_[next];
      hole = next;
    }
    words_[hole] = 0;
    --count_;
    // If there is no memory for the smaller table, the larger one stays.
    if (size_ > kKept && count_ * 8 < size_) (void)resize(size_ / 2);
  }

  size_t count() const noexcept { return count_; }
  size_t size() const noexcept { return size_; }

 private:
  static constexpr size_t kFewest = 16;
  static constexpr uintptr_t kTag = alignof(T) - 1;
  static_assert(kTag > 0);
  static constexpr auto kAny = [](const T&) noexcept { return true; };

  static T* object_of(uintptr_t word) noexcept { return reinterpret_cast<T*>(word & ~kTag); }
  // The tag is the low bits of the hash. The home comes from the high bits.
  static uintptr_t word_of(const T* object, uint64_t hash) noexcept {
    return reinterpret_cast<uintptr_t>(object) | (hash & kTag);
  }
  size_t home_of(uint64_t hash) const noexcept { return static_cast<size_t>(hash >> shift_); }
  size_t after(size_t place) const noexcept { return (place + 1) & (size_ - 1); }
  size_t distance(size_t from, size_t to) const noexcept { return (to - from) & (size_ - 1); }

  // Gives the place of the first object with the key for which `is_wanted` returns true, or the
  // empty place at which the search ends. There is always an empty place.
  template <typename IsWanted>
  size_t place_of(const Key& key, uint64_t hash, const IsWanted& is_wanted) const {
    size_t place = home_of(hash);
    for (; words_[place] != 0; place = after(place)) {
      if ((words_[place] & kTag) != (hash & kTag)) continue;
      T& object = *object_of(words_[place]);
      if (Traits::key_of(object) == key && is_wanted(object)) break;
    }
    return place;
  }

  size_t empty_place(uint64_t hash) const noexcept {
    size_t place = home_of(hash);
    while (words_[place] != 0) place = after(place);
    return place;
  }

  size_t place_of_object(const T* object, uint64_t hash) const noexcept {
    const uintptr_t word = word_of(object, hash);
    size_t place = home_of(hash);
    while (words_[place] != 0 && words_[place] != word) place = after(place);
    return place;
  }

  bool resize(size_t size) noexcept {
    std::unique_ptr<uintptr_t[]> words(new (std::nothrow) uintptr_t[size]());
    if (!words) return false;
    std::swap(words, words_);
    const size_t before = std::exchange(size_, size);
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
    for (size_t i = 0; i < before; ++i) {
      if (words[i] == 0) continue;
      words_[empty_place(Traits::hash(Traits::key_of(*object_of(words[i]))))] = words[i];
    }
    return true;
  }

  std::unique_ptr<uintptr_t[]> words_;  // an object's address with its tag; 0: empty
  size_t size_ = 0;                     // a power of two, or 0
  size_t count_ = 0;
  unsigned shift_ = 0;
};

}  // namespace tenon::share
