// An object in a message, and back: docs/format/object.md.
#pragma once

#include <memory>

#include "base/status.h"
#include "memory/mode.h"
#include "object/object.h"
#include "tensor/message.h"

namespace tenon::object {

// The message has one tensor for each storage of the object. Its user bytes have the pickle; a
// pickle that is too large for them is copied into one more tensor.
Result<std::unique_ptr<tensor::Message>> message_of(const Object& object, memory::Access access);

// CORRUPT: the message carries no object, or a wrong one. INCOMPATIBLE: a later version wrote it.
// Else as object_from_pickle.
Result<Ref<Object>> object_of(const tensor::Message& message);

}  // namespace tenon::object
