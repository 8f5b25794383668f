// Message: tensors that travel together, their names, and the user's bytes. A tenon_message is one of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/keyed_hash.h"
#include "base/status.h"
#include "memory/mode.h"
#include "tensor/tensor.h"

namespace tenon::tensor {

inline constexpr size_t kMaxUserNbytes = 65536;

class Message {
 public:
  // Small: there can be millions, and few have a name.
  class Item {
   public:
    Ref<Tensor> tensor;
    memory::Access access = memory::Access::kAuto;

   private:
    friend class Message;
    static constexpr uint32_t kNoName = UINT32_MAX;
    uint32_t name_ = kNoName;  // which of the message's names
  };

  Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message();

  // All or none. `names` is null or as long as `tensors`, entries may be null.
  Status add(std::span<Tensor* const> tensors, const char* const* names, memory::Access access);
  void add_received(Ref<Tensor> tensor, memory::Access access, std::optional<std::string_view> name);
  void reserve(size_t count) { items_.reserve(count); }
  Status set_user_bytes(std::span<const std::byte> bytes);

  const std::vector<Item>& items() const noexcept { return items_; }
  // Null: none.
  const std::string* name_of(const Item& item) const noexcept { return item.name_ == Item::kNoName ? nullptr : &names_[item.name_]; }
  const std::vector<std::byte>& user_bytes() const noexcept { return user_; }
  // The first item of that name, or null.
  const Item* find(std::string_view name) const;
  // Never the same for two messages of this process: how a send that is called again knows what it had begun.
  uint64_t id() const noexcept { return id_; }

 private:
  std::vector<Item> items_;
  std::vector<std::string> names_;
  std::vector<std::byte> user_;
  uint64_t id_;
  mutable std::mutex index_mutex_;
  mutable std::unordered_map<std::string_view, size_t, KeyedHash> index_;  // filled by the first find(), covers items_[0, indexed_)
  mutable size_t indexed_ = 0;
};

}  // namespace tenon::tensor
