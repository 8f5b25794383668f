#include "device/torch_message.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/immortal.h"
#include "base/keyed_hash.h"

namespace tenon::device {
namespace {

// The messages of this process that are still open. A forked child never takes this lock.
struct CudaMessageTable {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<CudaMessage>, KeyedHash> messages;
};
CudaMessageTable& cuda_message_table() noexcept { return immortal<CudaMessageTable>(); }

std::string slot_key(std::string_view counter, uint64_t slot) {
  return std::string(counter) + ":" + std::to_string(slot);
}

}  // namespace

CudaMessage::CudaMessage(CudaCounter counter, CudaEvent event, const Ref<storage::Storage>& storage)
    : counter_(std::move(counter)),
      event_(std::move(event)),
      key_(slot_key(counter_.name(), counter_.slot())),
      storage_(storage.get()),
      data_(const_cast<std::byte*>(storage->data())),
      nbytes_(storage->nbytes()),
      is_read_only_(storage->is_read_only()) {}

Result<std::shared_ptr<CudaMessage>> CudaMessage::create(CudaEvent event,
                                                         const Ref<storage::Storage>& storage) {
  TENON_ASSIGN(CudaCounter counter, CudaCounter::create());
  const std::shared_ptr<CudaMessage> message(
      new CudaMessage(std::move(counter), std::move(event), storage));
  const std::lock_guard<std::mutex> lock(cuda_message_table().mutex);
  cuda_message_table().messages[message->key_] = message;
  return message;
}

std::shared_ptr<CudaMessage> CudaMessage::find(std::string_view counter, uint64_t slot) {
  const std::string key = slot_key(counter, slot);
  const std::lock_guard<std::mutex> lock(cuda_message_table().mutex);
  const auto found = cuda_message_table().messages.find(key);
  return found == cuda_message_table().messages.end() ? nullptr : found->second.lock();
}

CudaMessage::~CudaMessage() {
  const std::lock_guard<std::mutex> lock(cuda_message_table().mutex);
  cuda_message_table().messages.erase(key_);
}

}  // namespace tenon::device
