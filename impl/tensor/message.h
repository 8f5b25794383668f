// Message is a list of tensors that travel together, with their names and the user's bytes. A
// tenon_message of the C API is a Message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "memory/mode.h"
#include "tensor/composite.h"
#include "tensor/tensor.h"

namespace tenon::tensor {

inline constexpr size_t kMaxUserNbytes = 65536;

// One thread at a time may change a message, and none may read it meanwhile. Several threads may
// read it. The destructor ends storages, so its caller holds no ranked lock (base/lock_rank.h). A
// forked child may use and destroy its copy.
class Message {
 public:
  // One tensor of the message. It is small, because there can be millions, and few have a name.
  class Item {
   public:
    Ref<Tensor> tensor;
    memory::Access access = memory::Access::kAuto;

   private:
    friend class Message;
    static constexpr uint32_t kNoName = UINT32_MAX;
    uint32_t name_ = kNoName;  // index into the message's names
  };
  // One composite of the message. Its parts are items without a name, one after another.
  class CompositeItem {
   public:
    Ref<Composite> composite;
    // The index of its first part in items(). Without parts, the number of items before it.
    uint32_t first_part = 0;

   private:
    friend class Message;
    uint32_t name_ = Item::kNoName;
  };

  // The destructor of the message ends it, after the tensors. A carrier learns by it that the
  // receiver is done with the message.
  class Receipt {
   public:
    Receipt() noexcept = default;
    Receipt(const Receipt&) = delete;
    Receipt& operator=(const Receipt&) = delete;
    virtual ~Receipt() = default;
    // How often the message had been given to a receiver before.
    virtual uint32_t redelivered() const noexcept = 0;
  };

  Message() noexcept;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message();

  // Adds all tensors or none. `names` is null or as long as `tensors`. Its entries may be null.
  // INVALID_ARGUMENT: more than 2^31 tensors, a null tensor, or a name that is not valid. The
  // errors of share::check_lend(): a tensor cannot be lent with this access. After an error or
  // std::bad_alloc the message is as it was.
  Status add(std::span<Tensor* const> tensors, const char* const* names, memory::Access access);
  // Adds all composites or none, with the same errors. Their parts become items.
  Status add(std::span<Composite* const> composites, const char* const* names,
             memory::Access access);
  // These two are for unpack() (pack.h). They add what a decoded descriptor names, without a check.
  // After std::bad_alloc the message is half filled, and the caller drops it.
  void add_received(Ref<Tensor> tensor, memory::Access access,
                    std::optional<std::string_view> name);
  void add_received(Ref<Composite> composite, uint32_t first_part,
                    std::optional<std::string_view> name);
  void reserve(size_t count) {
    if (count > 1) items_.reserve(count);
  }
  // INVALID_ARGUMENT for more than kMaxUserNbytes bytes.
  Status set_user_bytes(std::span<const std::byte> bytes);
  Status set_user_bytes(std::vector<std::byte>&& bytes);

  // A message of the same tensors, composites, names and user's bytes, with an id of its own.
  std::unique_ptr<Message> copy() const;
  void set_receipt(std::unique_ptr<Receipt> receipt) noexcept { receipt_ = std::move(receipt); }
  uint32_t redelivered() const noexcept { return receipt_ ? receipt_->redelivered() : 0; }

  std::span<const Item> items() const noexcept {
    return items_.empty() ? std::span<const Item>(&only_, has_only_ ? 1 : 0) : std::span(items_);
  }
  // Null if the item has no name.
  const std::string* name_of(const Item& item) const noexcept { return name_at(item.name_); }
  // In the order of their parts in items().
  const std::vector<CompositeItem>& composites() const noexcept { return composites_; }
  const std::string* name_of(const CompositeItem& item) const noexcept {
    return name_at(item.name_);
  }
  const std::vector<std::byte>& user_bytes() const noexcept { return user_; }
  // The first item of that name, or null.
  const Item* find(std::string_view name) const;
  // The first composite of that name, or null. It looks at each composite, because there are few.
  const CompositeItem* find_composite(std::string_view name) const noexcept;
  // The id of the message. No two messages of this process have the same id. By the id a repeated
  // send finds the message that it had begun to send.
  uint64_t id() const noexcept;

 private:
  const std::string* name_at(uint32_t index) const noexcept {
    return index == Item::kNoName ? nullptr : &names_[index];
  }
  void append(std::vector<Item>* items, std::vector<CompositeItem>* composites,
              std::vector<std::string>* names);
  uint32_t keep_name(std::optional<std::string_view> name);
  void make_room_for_items(size_t more);
  void append(Item item) noexcept;

  std::unique_ptr<Receipt> receipt_;  // the first member, so that it ends last
  // Most messages have one tensor, which needs no memory of its own. With a second one, all items
  // lie in `items_`.
  Item only_;
  bool has_only_ = false;
  std::vector<Item> items_;
  std::vector<CompositeItem> composites_;
  std::vector<std::string> names_;
  std::vector<std::byte> user_;
  mutable std::atomic<uint64_t> id_{0};  // 0 until the first call of id()
  uint64_t generation_ = fork_generation();
  mutable std::mutex index_mutex_;
  // Filled by find(). It covers the first `indexed_` items.
  struct Index;
  mutable std::unique_ptr<Index> index_;
  mutable size_t indexed_ = 0;
};

}  // namespace tenon::tensor
