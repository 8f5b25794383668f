// Says which C++ object is behind each handle of the C API. object() and handle() convert between
// the two. Only arrays of handles are cast elsewhere.
//
// Neither function counts a reference. A handle whose type has a retain function is one reference
// of a Counted object (Ref::detach()). Messages, descriptors, connections, deposits, tickets,
// fetched messages, publishers, subscribers, cancels and the three lists have no count: their
// handle owns the object, and release destroys it.
#pragma once

#include <tenon/tenon.h>

#include <cstddef>
#include <vector>

#include "channel/connection.h"
#include "channel/deposit.h"
#include "channel/fetch_pieces.h"
#include "cuda_event.h"
#include "device/arena.h"
#include "memory/arena.h"
#include "modules/module/module.h"
#include "modules/module/package_archive.h"
#include "modules/module_lists.h"
#include "modules/shared_weights/shared_weights.h"
#include "modules/value/value.h"
#include "modules/weights/weights.h"
#include "object/object.h"
#include "os/wait.h"
#include "publish/publisher.h"
#include "publish/subscriber.h"
#include "queue/queue.h"
#include "storage/storage.h"
#include "tensor/composite.h"
#include "tensor/message.h"
#include "tensor/portable.h"
#include "tensor/tensor.h"

namespace tenon::capi {

template <typename Handle>
struct ObjectOf;
template <>
struct ObjectOf<tenon_storage> {
  using Type = storage::Storage;
};
template <>
struct ObjectOf<tenon_arena> {
  using Type = memory::Arena;
};
template <>
struct ObjectOf<tenon_cuda_arena> {
  using Type = device::CudaArena;
};
template <>
struct ObjectOf<tenon_weak> {
  // The same object with a weak count, so a weak reference needs no memory and its making cannot
  // fail.
  using Type = storage::Storage;
};
template <>
struct ObjectOf<tenon_tensor> {
  using Type = tensor::Tensor;
};
template <>
struct ObjectOf<tenon_composite> {
  using Type = tensor::Composite;
};
template <>
struct ObjectOf<tenon_object> {
  using Type = object::Object;
};
template <>
struct ObjectOf<tenon_value> {
  using Type = value::Value;
};
template <>
struct ObjectOf<tenon_module> {
  using Type = module::Module;
};
template <>
struct ObjectOf<tenon_package> {
  using Type = module::PackageArchive;
};
template <>
struct ObjectOf<tenon_weights> {
  using Type = weights::Weights;
};
template <>
struct ObjectOf<tenon_shared_weights> {
  using Type = shared_weights::SharedWeights;
};
template <>
struct ObjectOf<tenon_member_list> {
  using Type = MemberList;
};
template <>
struct ObjectOf<tenon_name_list> {
  using Type = NameList;
};
template <>
struct ObjectOf<tenon_file_list> {
  using Type = FileList;
};
template <>
struct ObjectOf<tenon_message> {
  using Type = tensor::Message;
};
template <>
struct ObjectOf<tenon_descriptor> {
  using Type = tensor::Descriptor;
};
template <>
struct ObjectOf<tenon_ticket> {
  using Type = std::vector<std::byte>;
};
template <>
struct ObjectOf<tenon_deposit> {
  using Type = channel::Deposit;
};
template <>
struct ObjectOf<tenon_fetched> {
  using Type = channel::Fetched;
};
template <>
struct ObjectOf<tenon_connection> {
  using Type = channel::Connection;
};
template <>
struct ObjectOf<tenon_queue> {
  using Type = queue::Queue;
};
template <>
struct ObjectOf<tenon_publisher> {
  using Type = publish::Publisher;
};
template <>
struct ObjectOf<tenon_subscriber> {
  using Type = publish::Subscriber;
};
template <>
struct ObjectOf<tenon_cuda_event> {
  using Type = CudaEvent;
};
template <>
struct ObjectOf<tenon_cancel> {
  using Type = os::Cancel;
};

template <typename Handle>
typename ObjectOf<Handle>::Type* object(Handle* handle) noexcept {
  return reinterpret_cast<typename ObjectOf<Handle>::Type*>(handle);
}
template <typename Handle>
const typename ObjectOf<Handle>::Type* object(const Handle* handle) noexcept {
  return reinterpret_cast<const typename ObjectOf<Handle>::Type*>(handle);
}
// The module behind a handle may be incomplete. complete_module() in modules/tree_boundary.h gives
// the one to use. counted() is for complete_module() and for the count of the handle.
module::Module* object(tenon_module* handle) = delete;
const module::Module* object(const tenon_module* handle) = delete;
inline module::Module* counted(const tenon_module* handle) noexcept {
  return const_cast<module::Module*>(reinterpret_cast<const module::Module*>(handle));
}
template <typename Handle>
Handle* handle(typename ObjectOf<Handle>::Type* object) noexcept {
  return reinterpret_cast<Handle*>(object);
}

}  // namespace tenon::capi
