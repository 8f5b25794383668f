// NodeMemory: the memory of one parsed tree. It hands out memory in order and frees all of it at
// once. The parser makes its nodes here. It holds only types without a destructor. Throws
// std::bad_alloc, and what was handed out before stays then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon::script {

class NodeMemory {
 public:
  template <typename T>
  T* make() {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T), alignof(T))) T();
  }

  template <typename T>
  std::span<const T> copy(const std::vector<T>& items) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    if (items.empty()) return {};
    T* const copied = static_cast<T*>(allocate(std::span(items).size_bytes(), alignof(T)));
    std::uninitialized_copy(items.begin(), items.end(), copied);
    return {copied, items.size()};
  }

  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* const copied = static_cast<char*>(allocate(text.size(), 1));
    std::copy(text.begin(), text.end(), copied);
    return {copied, text.size()};
  }

  // The number of bytes taken from the system so far.
  size_t nbytes() const noexcept { return nbytes_; }

 private:
  static constexpr size_t kFirstChunk = size_t{4} << 10;
  static constexpr size_t kLargestChunk = size_t{1} << 20;

  void* allocate(size_t nbytes, size_t alignment) {
    const size_t begin = (used_ + alignment - 1) / alignment * alignment;
    if (chunks_.empty() || begin > size_ || nbytes > size_ - begin) {
      size_ = std::max(nbytes, std::clamp(size_ * 2, kFirstChunk, kLargestChunk));
      chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size_));
      nbytes_ += size_;
      used_ = nbytes;
      return chunks_.back().get();
    }
    used_ = begin + nbytes;
    return chunks_.back().get() + begin;
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  size_t size_ = 0;  // the size of the last chunk, in bytes
  size_t used_ = 0;  // how many of its bytes are handed out
  size_t nbytes_ = 0;
};

}  // namespace tenon::script
