#include "tensor/message.h"

#include <algorithm>
#include <unordered_map>

#include "base/keyed_hash.h"
#include "base/make_room.h"
#include "memory/holding.h"
#include "share/by_fd.h"
#include "tensor/name.h"

namespace tenon::tensor {
namespace {

std::atomic<uint64_t> g_next_id{1};

constexpr size_t kMaxTensors = size_t{1} << 31;  // the descriptor's indices have 32 bits

template <typename Named>
const Named* first_named(const Message& message, std::span<const Named> all,
                         std::string_view name) noexcept {
  const auto found = std::ranges::find_if(all, [&](const Named& each) {
    const std::string* const own = message.name_of(each);
    return own != nullptr && *own == name;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

struct Message::Index {
  std::unordered_map<std::string_view, size_t, KeyedHash> by_name;
};

Message::Message() noexcept = default;

Message::~Message() {
  if (items_.empty() && composites_.empty()) return;  // one tensor has one lease
  const memory::GivingBack together;
  composites_.clear();
  items_.clear();
  only_.tensor = nullptr;
}

std::unique_ptr<Message> Message::copy() const {
  auto copied = std::make_unique<Message>();
  copied->only_ = only_;
  copied->has_only_ = has_only_;
  copied->items_ = items_;
  copied->composites_ = composites_;
  copied->names_ = names_;
  copied->user_ = user_;
  return copied;
}

uint64_t Message::id() const noexcept {
  uint64_t id = id_.load(std::memory_order_relaxed);
  if (id != 0) return id;
  const uint64_t mine = g_next_id.fetch_add(1, std::memory_order_relaxed);
  return id_.compare_exchange_strong(id, mine, std::memory_order_relaxed) ? mine : id;
}

// Makes room for items, so that append() cannot fail.
void Message::make_room_for_items(size_t more) {
  if (items_.empty() && !has_only_ && more <= 1) return;
  make_room(&items_, more + (has_only_ ? 1 : 0));
}

void Message::append(Item item) noexcept {
  if (items_.empty() && items_.capacity() == 0) {
    only_ = std::move(item);
    has_only_ = true;
    return;
  }
  if (std::exchange(has_only_, false)) items_.push_back(std::move(only_));
  items_.push_back(std::move(item));
}

namespace {

Status check_room(size_t added, size_t there) {
  if (added <= kMaxTensors - there) return Status::ok();
  return invalid(
      format("%zu tensors more than the message's %zu are too many: a message carries %zu; send "
             "several messages",
             added, there, kMaxTensors));
}

// The access that a lend of this tensor has.
Result<memory::Access> access_of(const Tensor& tensor, memory::Access wanted) {
  const storage::Storage& storage = *tensor.storage();
  // The driver says how a device's memory can be lent when the message is sent.
  return storage.device_memory() != nullptr ? share::check_lend_device(storage, wanted)
                                            : share::check_lend(storage, wanted);
}

Status refuse(const std::string& what, const Status& why) {
  Status refused(why.code(), format("%s: %s", what.c_str(), why.message().c_str()));
  return std::move(refused).with_details_of(why).caused_by(why);
}

Status check_new_name(const std::string& name, const char* what, size_t i) {
  if (is_valid_name(name)) return Status::ok();
  return invalid(
      format("the name of %s %zu is not UTF-8 of at most %zu bytes", what, i, kMaxNameNbytes));
}

}  // namespace

Status Message::add(std::span<Tensor* const> tensors, const char* const* names,
                    memory::Access access) {
  TENON_TRY(check_room(tensors.size(), items().size()));
  if (tensors.size() == 1 && names == nullptr && tensors[0] != nullptr) {
    // The most common call needs no list.
    Result<memory::Access> granted = access_of(*tensors[0], access);
    if (!granted.is_ok()) return refuse("tensor 0", granted.status());
    make_room_for_items(1);
    Item item;
    item.access = granted.value();
    item.tensor = Ref<Tensor>::share(tensors[0]);
    append(std::move(item));
    return Status::ok();
  }
  std::vector<Item> added;
  std::vector<std::string> added_names;
  added.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) return invalid(format("tensor %zu is NULL", i));
    Item item;
    Result<memory::Access> granted = access_of(*tensors[i], access);
    if (!granted.is_ok()) return refuse(format("tensor %zu", i), granted.status());
    item.access = granted.value();
    item.tensor = Ref<Tensor>::share(tensors[i]);
    if (names != nullptr && names[i] != nullptr) {
      item.name_ = static_cast<uint32_t>(names_.size() + added_names.size());
      added_names.emplace_back(names[i]);
      TENON_TRY(check_new_name(added_names.back(), "tensor", i));
    }
    added.push_back(std::move(item));
  }
  append(&added, nullptr, &added_names);
  return Status::ok();
}

Status Message::add(std::span<Composite* const> composites, const char* const* names,
                    memory::Access access) {
  TENON_TRY(check_room(composites.size(), composites_.size()));
  TENON_TRY(check_room(composites.size() * kMaxParts, items().size()));
  std::vector<Item> added;
  std::vector<CompositeItem> added_composites;
  std::vector<std::string> added_names;
  for (size_t i = 0; i < composites.size(); ++i) {
    if (composites[i] == nullptr) return invalid(format("composite %zu is NULL", i));
    const CompositeSpec& spec = composites[i]->spec();
    const std::span<const Part> parts = parts_of(spec.layout, spec.quantizer);
    CompositeItem composite;
    composite.first_part = static_cast<uint32_t>(items().size() + added.size());
    for (size_t part = 0; part < spec.parts.size(); ++part) {
      Item item;
      Result<memory::Access> granted = access_of(*spec.parts[part], access);
      if (!granted.is_ok())
        return refuse(format("composite %zu: its %s", i, part_name(parts[part])), granted.status());
      item.access = granted.value();
      item.tensor = spec.parts[part];
      added.push_back(std::move(item));
    }
    composite.composite = Ref<Composite>::share(composites[i]);
    if (names != nullptr && names[i] != nullptr) {
      composite.name_ = static_cast<uint32_t>(names_.size() + added_names.size());
      added_names.emplace_back(names[i]);
      TENON_TRY(check_new_name(added_names.back(), "composite", i));
    }
    added_composites.push_back(std::move(composite));
  }
  append(&added, &added_composites, &added_names);
  return Status::ok();
}

void Message::append(std::vector<Item>* items, std::vector<CompositeItem>* composites,
                     std::vector<std::string>* names) {
  // Room is made before the first push, so that all are added or none.
  make_room_for_items(items->size());
  if (composites != nullptr) make_room(&composites_, composites->size());
  make_room(&names_, names->size());
  for (Item& item : *items) append(std::move(item));
  if (composites != nullptr) {
    for (CompositeItem& composite : *composites) composites_.push_back(std::move(composite));
  }
  for (std::string& name : *names) names_.push_back(std::move(name));
  // The strings of the names may have moved, and the index has views of them.
  indexed_ = 0;
  index_ = nullptr;
}

void Message::add_received(Ref<Tensor> tensor, memory::Access access,
                           std::optional<std::string_view> name) {
  Item item;
  item.tensor = std::move(tensor);
  item.access = access;
  item.name_ = keep_name(name);
  make_room_for_items(1);
  append(std::move(item));
}

void Message::add_received(Ref<Composite> composite, uint32_t first_part,
                           std::optional<std::string_view> name) {
  CompositeItem item;
  item.composite = std::move(composite);
  item.first_part = first_part;
  item.name_ = keep_name(name);
  composites_.push_back(std::move(item));
}

uint32_t Message::keep_name(std::optional<std::string_view> name) {
  if (!name) return Item::kNoName;
  names_.emplace_back(*name);
  return static_cast<uint32_t>(names_.size() - 1);
}

namespace {

Status check_user_nbytes(size_t nbytes) {
  if (nbytes <= kMaxUserNbytes) return Status::ok();
  return invalid(
      format("%zu user bytes are more than the %zu that a message carries: put them into a tensor",
             nbytes, kMaxUserNbytes));
}

}  // namespace

Status Message::set_user_bytes(std::span<const std::byte> bytes) {
  TENON_TRY(check_user_nbytes(bytes.size()));
  user_ = std::vector<std::byte>(bytes.begin(), bytes.end());
  return Status::ok();
}

Status Message::set_user_bytes(std::vector<std::byte>&& bytes) {
  TENON_TRY(check_user_nbytes(bytes.size()));
  user_ = std::move(bytes);
  return Status::ok();
}

const Message::Item* Message::find(std::string_view name) const {
  std::unique_lock<std::mutex> lock(index_mutex_, std::defer_lock);
  if (generation_ == fork_generation()) {
    lock.lock();
  } else if (!lock.try_lock()) {
    // A thread of the parent was in find() at the fork, so the index is not whole in this child.
    return first_named(*this, items(), name);
  }
  const std::span<const Item> all = items();
  if (!index_) index_ = std::make_unique<Index>();
  auto& by_name = index_->by_name;
  for (; indexed_ < all.size(); ++indexed_) {
    if (const std::string* const own = name_of(all[indexed_]); own != nullptr)
      by_name.try_emplace(*own, indexed_);
  }
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &all[found->second];
}

const Message::CompositeItem* Message::find_composite(std::string_view name) const noexcept {
  return first_named(*this, std::span(composites_), name);
}

}  // namespace tenon::tensor
