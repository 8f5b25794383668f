// A set of objects that know their own keys, for the identity cache: a word for each place of an
// open table, and nothing for each object, for there can be millions.
//
// Linear probing from the home that the key's hash says. Erasing moves back what stood behind, so
// that there are no tombstones, and a look-up ends at the first empty place. An address has bits
// that alignment leaves 0: they keep some of the hash, so that most objects that a look-up passes
// are not read.
//
// Traits: `Key`; `static Key key_of(const T&) noexcept`, which gives the same as long as the object
// is in the table; and `static uint64_t hash(const Key&) noexcept`, with good high bits. kKept:
// places that stay once there were so many objects, for a message of thousands comes and goes again
// and again. The caller locks.
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

  T* find(const Key& key) const noexcept { return find_if(key, kAny); }

  // Puts it in, unless there is one of its key: then that one is returned. Throws std::bad_alloc:
  // then nothing has changed.
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

  // Puts it in, whether or not others of its key are there. It must not be in the table yet. Throws
  // std::bad_alloc: then nothing has changed.
  void insert_beside(T* object) {
    if ((count_ + 1) * 4 > size_ * 3 && !resize(size_ == 0 ? kFewest : size_ * 2))
      throw std::bad_alloc();
    const uint64_t hash = Traits::hash(Traits::key_of(*object));
    words_[empty_place(hash)] = word_of(object, hash);
    ++count_;
  }

  // The first of that key for which `is_wanted` says true.
  template <typename IsWanted>
  T* find_if(const Key& key, const IsWanted& is_wanted) const {
    if (count_ == 0) return nullptr;
    const uintptr_t word = words_[place_of(key, Traits::hash(key), is_wanted)];
    return word == 0 ? nullptr : object_of(word);
  }

  // `with` has the key of `old`, which is in the table.
  void replace(const T* old, T* with) noexcept {
    const uint64_t hash = Traits::hash(Traits::key_of(*old));
    words_[place_of_object(old, hash)] = word_of(with, hash);
  }

  // That very object: another one of its key is let be.
  void erase(const T* object) noexcept {
    if (count_ == 0) return;
    size_t hole = place_of_object(object, Traits::hash(Traits::key_of(*object)));
    if (words_[hole] == 0) return;
    for (size_t next = after(hole); words_[next] != 0; next = after(next)) {
      // What has its home behind the hole, cyclically, would not be found in it.
      const size_t home = home_of(Traits::hash(Traits::key_of(*object_of(words_[next]))));
      if (distance(home, next) < distance(hole, next)) continue;
      words_[hole] = words_[next];
      hole = next;
    }
    words_[hole] = 0;
    --count_;
    // Without memory it stays as large as it is.
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
  // The tag is of the hash's low bits, the home of its high ones.
  static uintptr_t word_of(const T* object, uint64_t hash) noexcept {
    return reinterpret_cast<uintptr_t>(object) | (hash & kTag);
  }
  size_t home_of(uint64_t hash) const noexcept { return static_cast<size_t>(hash >> shift_); }
  size_t after(size_t place) const noexcept { return (place + 1) & (size_ - 1); }
  size_t distance(size_t from, size_t to) const noexcept { return (to - from) & (size_ - 1); }

  // Where the first object of that key is for which `is_wanted` says true, or the empty place at
  // which the search ends. There is always an empty place.
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

  std::unique_ptr<uintptr_t[]> words_;  // an object's address and its tag; 0: empty
  size_t size_ = 0;                     // a power of two, or 0
  size_t count_ = 0;
  unsigned shift_ = 0;
};

}  // namespace tenon::share
