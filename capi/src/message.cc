// tenon/message.h: messages, which are lists of tensors (impl/tensor/message.h).
#include <tenon/message.h>

#include <cstring>
#include <memory>
#include <span>

#include "boundary.h"
#include "by_fd.h"
#include "handles.h"
#include "tensor/name.h"
#include "tensor_view.h"

using namespace tenon::capi;
using tenon::Status;
using tenon::tensor::Message;
using tenon::tensor::Tensor;

static_assert(tenon::tensor::kMaxUserNbytes == TENON_MESSAGE_MAX_USER_NBYTES &&
              tenon::tensor::kMaxNameNbytes == TENON_MESSAGE_MAX_NAME_NBYTES);

extern "C" {

tenon_status tenon_message_new(tenon_message** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    *out = handle<tenon_message>(std::make_unique<Message>().release());
    return Status::ok();
  });
}

tenon_status tenon_message_add(tenon_message* message, tenon_tensor* const* tensors,
                               const char* const* names, size_t n,
                               const tenon_share_options* options, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_TRY(check_argument(tensors != nullptr || n == 0, "tensors is NULL"));
    TENON_TRY(check_argument(n <= SIZE_MAX / sizeof(void*) / 64, "n is larger than memory"));
    TENON_ASSIGN(const tenon::memory::Access access, read_share_options(options));
    return object(message)->add({reinterpret_cast<Tensor* const*>(tensors), n}, names, access);
  });
}

tenon_status tenon_message_set_user_bytes(tenon_message* message, const void* data, size_t nbytes,
                                          tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_TRY(check_argument(data != nullptr || nbytes == 0, "data is NULL"));
    return object(message)->set_user_bytes({static_cast<const std::byte*>(data), nbytes});
  });
}

size_t tenon_message_count(const tenon_message* message) noexcept {
  return message == nullptr ? 0 : object(message)->items().size();
}

tenon_tensor* tenon_message_tensor(const tenon_message* message, size_t index) noexcept {
  if (index >= tenon_message_count(message)) return nullptr;
  return handle<tenon_tensor>(object(message)->items()[index].tensor.get());
}

const char* tenon_message_name(const tenon_message* message, size_t index) noexcept {
  if (index >= tenon_message_count(message)) return nullptr;
  const Message* const own = object(message);
  const std::string* const name = own->name_of(own->items()[index]);
  return name == nullptr ? nullptr : name->c_str();
}

tenon_tensor* tenon_message_find(const tenon_message* message, const char* name) noexcept {
  if (message == nullptr || name == nullptr) return nullptr;
  const Message::Item* found = nullptr;
  // The index may need memory. If there is none, the tensor counts as not found.
  (void)boundary(nullptr, [&]() -> Status {
    found = object(message)->find(name);
    return Status::ok();
  });
  return found == nullptr ? nullptr : handle<tenon_tensor>(found->tensor.get());
}

tenon_status tenon_message_get_views(const tenon_message* message, tenon_tensor_view* out, size_t n,
                                     tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_TRY(
        check_argument(n <= object(message)->items().size(), "the message has fewer tensors"));
    if (n == 0) return Status::ok();
    TENON_TRY(check_output(out, "tenon_tensor_view"));
    // A caller with a newer header has a larger struct.
    const size_t size = out->struct_size;
    auto* at = reinterpret_cast<std::byte*>(out);
    for (size_t i = 0; i < n; ++i, at += size) {
      const Message::Item& item = object(message)->items()[i];
      tenon_tensor_view view = view_of(item.tensor.get());
      view.struct_size = size;
      const std::string* const name = object(message)->name_of(item);
      view.name = name == nullptr ? nullptr : name->c_str();
      std::memcpy(at, &view, sizeof view);
    }
    return Status::ok();
  });
}

const void* tenon_message_user_bytes(const tenon_message* message, size_t* nbytes) noexcept {
  const size_t count = message == nullptr ? 0 : object(message)->user_bytes().size();
  if (nbytes != nullptr) *nbytes = count;
  return count == 0 ? nullptr : object(message)->user_bytes().data();
}

void tenon_message_release(tenon_message* message) noexcept { delete object(message); }
}
