// Puts an object into a message, and takes it out again (docs/format/object.md). The C API calls
// this.
#pragma once

#include <memory>

#include "base/status.h"
#include "memory/mode.h"
#include "object/object.h"
#include "tensor/message.h"

namespace tenon::object {

// The message has one tensor for each storage of the object. The pickle is in its user bytes. A
// pickle that is too large for them is copied into one more tensor. The errors are those of
// Message::add(), such as UNSUPPORTED for private memory, and of making that tensor.
Result<std::unique_ptr<tensor::Message>> message_of(const Object& object, memory::Access access);

// CORRUPT: the message carries no object, or a wrong one. INCOMPATIBLE: a later version wrote it.
// RESOURCE_EXHAUSTED: the pickle has more than 256 MiB. Other errors are those of
// object_from_pickle(). The numbers in index parts of composites are not checked
// (tensor::check_contents()).
Result<Ref<Object>> object_of(const tensor::Message& message);

}  // namespace tenon::object
