// Message: tensors that travel together, their names, and the user's bytes. A tenon_message is one of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "memory/mode.h"
#include "tensor/tensor.h"

namespace tenon::tensor {

inline constexpr size_t kMaxUserNbytes = 65536;

class Message {
 public:
  struct Item {
    Ref<Tensor> tensor;
    memory::Access access = memory::Access::kAuto;
    bool has_name = false;
    std::string name;
  };

  Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // All or none. `names` is null or as long as `tensors`, entries may be null.
  Status add(std::span<Tensor* const> tensors, const char* const* names, memory::Access access);
  void add_received(Item item) { items_.push_back(std::move(item)); }
  void reserve(size_t count) { items_.reserve(count); }
  Status set_user_bytes(std::span<const std::byte> bytes);

  const std::vector<Item>& items() const noexcept { return items_; }
  const std::vector<std::byte>& user_bytes() const noexcept { return user_; }
  // The first item of that name, or null.
  const Item* find(std::string_view name) const;
  // Never the same for two messages of this process: how a send that is called again knows what it had begun.
  uint64_t id() const noexcept { return id_; }

 private:
  std::vector<Item> items_;
  std::vector<std::byte> user_;
  uint64_t id_;
  mutable std::mutex index_mutex_;
  mutable std::unordered_map<std::string_view, size_t> index_;  // filled by the first find(), covers items_[0, indexed_)
  mutable size_t indexed_ = 0;
};

}  // namespace tenon::tensor
