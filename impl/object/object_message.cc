#include "object/object_message.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "object/object_from_pickle.h"
#include "object/object_to_pickle.h"
#include "object/one_tensor.h"
#include "object/split_tensors.h"

namespace tenon::object {
namespace {

using tensor::Message;
using tensor::Tensor;

// The head of the user bytes. All numbers are little-endian.
struct Head {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t storages;
};
static_assert(sizeof(Head) == 16 && std::endian::native == std::endian::little);
constexpr std::array<char, 8> kMagic = {'t', 'e', 'n', 'o', 'n', 'o', 'b', 'j'};
constexpr uint32_t kInline = 1;  // the pickle follows the head
constexpr uint32_t kApart = 2;   // the pickle is in the message's last tensor, behind the storages
constexpr uint64_t kMostPickleNbytes = uint64_t{256} << 20;

Ref<Tensor> whole(Ref<storage::Storage> storage) {
  const std::array<int64_t, 1> sizes = {static_cast<int64_t>(storage->nbytes())};
  const std::array<int64_t, 1> strides = {1};
  return Tensor::create_checked(std::move(storage), {kByte, sizes, strides, 0}, 0);
}

// Copies the pickle, because the sender may still write its tensor.
Result<std::vector<std::byte>> copy_of(const Tensor& tensor) {
  if (!is_byte_tensor(tensor) || tensor.storage()->device_memory() != nullptr) {
    return Status(Code::kCorrupt,
                  "the tensor that has the object's pickle is no contiguous one of uint8 in the "
                  "host's memory");
  }
  if (tensor.nbytes() > kMostPickleNbytes) {
    return Status(Code::kResourceExhausted,
                  format("the object's pickle has %llu bytes, and %llu are read",
                         as_llu(tensor.nbytes()), as_llu(kMostPickleNbytes)));
  }
  std::vector<std::byte> bytes(tensor.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), tensor.data(), bytes.size());
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Message>> message_of(const Object& object, memory::Access access) {
  SplitPickle pickle = object_to_pickle(object);
  auto message = std::make_unique<Message>();
  const size_t count = pickle.storages.size();
  if (count == 1) {
    const Ref<Tensor> only = whole(std::move(pickle.storages[0]));
    Tensor* const pointer = only.get();
    TENON_TRY(message->add({&pointer, 1}, nullptr, access));
  } else {
    std::vector<Ref<Tensor>> tensors;
    tensors.reserve(count);
    for (Ref<storage::Storage>& storage : pickle.storages)
      tensors.push_back(whole(std::move(storage)));
    std::vector<Tensor*> pointers;
    pointers.reserve(count);
    for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
    TENON_TRY(message->add(pointers, nullptr, access));
  }

  Head head{kMagic, kInline, static_cast<uint32_t>(count)};
  if (sizeof head + pickle.bytes.size() > tensor::kMaxUserNbytes) {
    head.version = kApart;
    TENON_ASSIGN(Ref<storage::Storage> storage,
                 storage::Storage::create_from({}, pickle.bytes.data(), pickle.bytes.size()));
    const Ref<Tensor> last = whole(std::move(storage));
    Tensor* const pointer = last.get();
    TENON_TRY(message->add({&pointer, 1}, nullptr, memory::Access::kAuto));
    pickle.bytes.clear();
  }
  std::vector<std::byte> user(sizeof head + pickle.bytes.size());
  std::memcpy(user.data(), &head, sizeof head);
  std::ranges::copy(pickle.bytes, user.begin() + sizeof head);
  TENON_TRY(message->set_user_bytes(std::move(user)));
  return message;
}

Result<Ref<Object>> object_of(const Message& message) {
  const std::vector<std::byte>& user = message.user_bytes();
  Head head{};
  if (user.size() >= sizeof head) std::memcpy(&head, user.data(), sizeof head);
  if (head.magic != kMagic) {
    return Status(Code::kCorrupt, format("the message carries %zu tensors and no object: it was "
                                         "sent as a message, so use its tensors",
                                         message.items().size()));
  }
  if (head.version != kInline && head.version != kApart) {
    return Status(Code::kIncompatible, format("the object is of version %u, and versions 1 and 2 "
                                              "are read: update Tenon in this process",
                                              head.version))
        .with("version", uint64_t{head.version});
  }
  const size_t tensors = head.storages + (head.version == kApart ? size_t{1} : size_t{0});
  if (message.items().size() != tensors || !message.composites().empty()) {
    return Status(Code::kCorrupt, format("the object has %u storages, and its message %zu tensors",
                                         head.storages, message.items().size()));
  }
  if (head.version == kInline && head.storages == 1) {
    if (Ref<Object> one = read_one_tensor(std::span(user).subspan(sizeof head),
                                          std::span(&message.items()[0].tensor, 1)))
      return one;
  }
  std::vector<Ref<Tensor>> storages;
  storages.reserve(head.storages);
  for (size_t i = 0; i < head.storages; ++i) storages.push_back(message.items()[i].tensor);
  std::vector<std::byte> bytes;
  if (head.version == kInline) {
    bytes.assign(user.begin() + sizeof head, user.end());
  } else {
    TENON_ASSIGN(bytes, copy_of(*message.items().back().tensor));
  }
  return object_from_pickle(std::move(bytes), storages);
}

}  // namespace tenon::object
