#include "tensor/message.h"

#include <atomic>

#include "base/room.h"
#include "memory/holding.h"
#include "share/by_fd.h"
#include "tensor/name.h"

namespace tenon::tensor {
namespace {

std::atomic<uint64_t> g_next_id{1};

constexpr size_t kMaxTensors = size_t{1} << 31;  // the descriptor's indices have 32 bits

}  // namespace

Message::Message() : id_(g_next_id.fetch_add(1, std::memory_order_relaxed)) {}

Message::~Message() {
  const memory::GivingBack together;
  items_.clear();
}

Status Message::add(std::span<Tensor* const> tensors, const char* const* names, memory::Access access) {
  if (tensors.size() > kMaxTensors - items_.size()) {
    return Status(Code::kInvalidArgument,
                  format("%zu tensors more than the message's %zu are too many: a message carries %zu; send several messages",
                         tensors.size(), items_.size(), kMaxTensors));
  }
  std::vector<Item> added;
  std::vector<std::string> added_names;
  added.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) return Status(Code::kInvalidArgument, format("tensor %zu is NULL", i));
    Item item;
    const storage::Storage& storage = *tensors[i]->storage();
    // How a device's memory can be lent the driver says, when it is.
    Result<memory::Access> granted =
        storage.device_memory() != nullptr ? share::check_lend_device(storage, access) : share::check_lend(storage, access);
    if (!granted.is_ok()) {
      Status refused(granted.status().code(), format("tensor %zu: %s", i, granted.status().message().c_str()));
      return std::move(refused).with_details_of(granted.status()).caused_by(granted.status());
    }
    item.access = granted.value();
    item.tensor = Ref<Tensor>::share(tensors[i]);
    if (names != nullptr && names[i] != nullptr) {
      item.name_ = static_cast<uint32_t>(names_.size() + added_names.size());
      added_names.emplace_back(names[i]);
      if (!is_valid_name(added_names.back())) {
        return Status(Code::kInvalidArgument, format("the name of tensor %zu is not UTF-8 of at most %zu bytes", i, kMaxNameNbytes));
      }
    }
    added.push_back(std::move(item));
  }
  make_room(&items_, added.size());  // before the first push, so that it is all or none
  make_room(&names_, added_names.size());
  for (Item& item : added) items_.push_back(std::move(item));
  for (std::string& name : added_names) names_.push_back(std::move(name));
  // Names may have moved with their strings.
  indexed_ = 0;
  index_.clear();
  return Status::ok();
}

void Message::add_received(Ref<Tensor> tensor, memory::Access access, std::optional<std::string_view> name) {
  Item item;
  item.tensor = std::move(tensor);
  item.access = access;
  if (name) {
    item.name_ = static_cast<uint32_t>(names_.size());
    names_.emplace_back(*name);
  }
  items_.push_back(std::move(item));
}

Status Message::set_user_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxUserNbytes) {
    return Status(Code::kInvalidArgument, format("%zu user bytes are more than the %zu that a message carries: put them into a tensor",
                                                 bytes.size(), kMaxUserNbytes));
  }
  user_ = std::vector<std::byte>(bytes.begin(), bytes.end());
  return Status::ok();
}

const Message::Item* Message::find(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(index_mutex_);
  for (; indexed_ < items_.size(); ++indexed_) {
    if (const std::string* const own = name_of(items_[indexed_]); own != nullptr) index_.try_emplace(*own, indexed_);
  }
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &items_[found->second];
}

}  // namespace tenon::tensor
