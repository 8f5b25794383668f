// tenon/queue.h: queues of messages between processes (impl/queue/queue.h).
#include <tenon/queue.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "boundary.h"
#include "handles.h"
#include "queue/queue.h"
#include "wait.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::queue::MemberInfo;
using tenon::queue::Queue;
using tenon::queue::QueueOptions;
namespace page = tenon::queue::page;

namespace {

constexpr page::Geometry kDefaultGeometry{32, 128, 1024};

// The content of a tenon_queue_options.
struct QueueRequest {
  page::Geometry geometry;  // a number is 0 if the caller did not give it
  QueueOptions options;
};

tenon::Result<QueueRequest> read_queue_options(const tenon_queue_options* options) {
  tenon_queue_options given{};
  TENON_TRY(read_struct(options, "tenon_queue_options", &given));
  TENON_TRY(check_flags(given.flags, TENON_QUEUE_IGNORE_DEATHS | TENON_QUEUE_REDELIVER,
                        "tenon_queue_options"));
  TENON_TRY(check_flags(given.reserved, 0, "tenon_queue_options"));
  QueueRequest request;
  request.geometry = {given.members, given.capacity, given.slot_nbytes,
                      (given.flags & TENON_QUEUE_REDELIVER) != 0};
  request.options.report_deaths = (given.flags & TENON_QUEUE_IGNORE_DEATHS) == 0;
  tenon::tensor::DescriptorLimits& limits = request.options.fetch.limits;
  if (given.max_message_nbytes != 0) limits.max_nbytes = given.max_message_nbytes;
  if (given.max_tensors != 0) limits.max_tensors = given.max_tensors;
  return request;
}

page::Geometry with_defaults(const page::Geometry& given) noexcept {
  const auto or_default = [](uint32_t number, uint32_t otherwise) {
    return number != 0 ? number : otherwise;
  };
  return {or_default(given.members, kDefaultGeometry.members),
          or_default(given.capacity, kDefaultGeometry.capacity),
          or_default(given.slot_nbytes, kDefaultGeometry.slot_nbytes), given.redelivers};
}

// The list of members also looks who has joined and died since, which changes nothing that a caller
// sees.
Queue* mutable_object(const tenon_queue* queue) noexcept {
  return object(const_cast<tenon_queue*>(queue));
}

tenon_queue_member describe_member(const MemberInfo& info) noexcept {
  tenon_queue_member member{};
  member.index = info.index;
  member.state = static_cast<tenon_queue_member_state>(info.word.state);
  member.pid = static_cast<int32_t>(info.word.pid);
  member.uid = info.user;
  member.waiting = info.waiting;
  member.asleep = info.asleep ? 1 : 0;
  member.self = info.is_self ? 1 : 0;
  return member;
}

}  // namespace

extern "C" {

tenon_status tenon_queue_new(const tenon_queue_options* options, tenon_queue** out,
                             tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const QueueRequest request, read_queue_options(options));
    TENON_ASSIGN(Ref<Queue> queue, Queue::create(with_defaults(request.geometry), request.options));
    *out = handle<tenon_queue>(queue.detach());
    return Status::ok();
  });
}

tenon_status tenon_queue_join(tenon_storage* storage, const tenon_queue_options* options,
                              tenon_queue** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const QueueRequest request, read_queue_options(options));
    TENON_ASSIGN(Ref<Queue> queue, Queue::join(Ref<tenon::storage::Storage>::share(object(storage)),
                                               request.geometry, request.options));
    *out = handle<tenon_queue>(queue.detach());
    return Status::ok();
  });
}

tenon_storage* tenon_queue_storage(const tenon_queue* queue) noexcept {
  return queue == nullptr ? nullptr : handle<tenon_storage>(object(queue)->storage().get());
}

tenon_status tenon_queue_send(tenon_queue* queue, const tenon_message* message,
                              const tenon_wait* wait, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    return object(queue)->send(*object(message), how);
  });
}

tenon_status tenon_queue_recv(tenon_queue* queue, const tenon_wait* wait, tenon_message** out,
                              tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    TENON_ASSIGN(auto message, object(queue)->recv(how));
    *out = handle<tenon_message>(message.release());
    return Status::ok();
  });
}

tenon_status tenon_queue_send_many(tenon_queue* queue, const tenon_message* const* messages,
                                   size_t n, const tenon_wait* wait, size_t* sent,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(messages != nullptr || n == 0, "messages is NULL"));
    TENON_TRY(check_argument(sent != nullptr, "sent is NULL"));
    std::vector<const tenon::tensor::Message*> all(n);
    for (size_t i = 0; i < n; ++i) {
      TENON_TRY(check_argument(messages[i] != nullptr, "a message is NULL"));
      all[i] = object(messages[i]);
    }
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    TENON_ASSIGN(*sent, object(queue)->send_many(all, how));
    return Status::ok();
  });
}

uint32_t tenon_queue_redelivered(const tenon_message* message) noexcept {
  return message == nullptr ? 0 : object(message)->redelivered();
}

tenon_status tenon_queue_discard(tenon_queue* queue, size_t* discarded,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(discarded != nullptr, "discarded is NULL"));
    TENON_ASSIGN(*discarded, object(queue)->discard());
    return Status::ok();
  });
}

tenon_status tenon_queue_recv_many(tenon_queue* queue, const tenon_wait* wait, tenon_message** out,
                                   size_t n, size_t* received, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(out != nullptr || n == 0, "out is NULL"));
    TENON_TRY(check_argument(received != nullptr, "received is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    // Room for a large n would be made in vain, if few messages are there.
    constexpr size_t kAtOnce = 1024;
    std::vector<std::unique_ptr<tenon::tensor::Message>> all(std::min(n, kAtOnce));
    TENON_ASSIGN(const size_t got, object(queue)->recv_many(all, how));
    for (size_t i = 0; i < got; ++i) out[i] = handle<tenon_message>(all[i].release());
    *received = got;
    return Status::ok();
  });
}

tenon_status tenon_queue_recv_fd(tenon_queue* queue, int* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(*out, object(queue)->recv_fd());
    return Status::ok();
  });
}

tenon_status tenon_queue_send_fd(tenon_queue* queue, int* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(*out, object(queue)->send_fd());
    return Status::ok();
  });
}

void tenon_queue_pause_fds(tenon_queue* queue) noexcept {
  if (queue != nullptr) object(queue)->pause_fds();
}

tenon_status tenon_queue_options_get(const tenon_queue* queue, tenon_queue_options* out,
                                     tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_output(out, "tenon_queue_options"));
    const page::Geometry& geometry = object(queue)->geometry();
    const QueueOptions& given = object(queue)->options();
    tenon_queue_options options{};
    options.flags = given.report_deaths ? 0 : TENON_QUEUE_IGNORE_DEATHS;
    if (geometry.redelivers) options.flags |= TENON_QUEUE_REDELIVER;
    options.members = geometry.members;
    options.capacity = geometry.capacity;
    options.slot_nbytes = geometry.slot_nbytes;
    options.max_message_nbytes = given.fetch.limits.max_nbytes;
    options.max_tensors = given.fetch.limits.max_tensors;
    write_struct(out, options);
    return Status::ok();
  });
}

tenon_status tenon_queue_nbytes(const tenon_queue_options* options, uint64_t* nbytes,
                                tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(nbytes != nullptr, "nbytes is NULL"));
    TENON_ASSIGN(const QueueRequest request, read_queue_options(options));
    const page::Geometry geometry = with_defaults(request.geometry);
    TENON_TRY(page::check_geometry(geometry));
    *nbytes = geometry.nbytes();
    return Status::ok();
  });
}

tenon_status tenon_queue_stats_get(const tenon_queue* queue, tenon_queue_stats* out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_output(out, "tenon_queue_stats"));
    const tenon::queue::QueueStats now = mutable_object(queue)->stats();
    tenon_queue_stats stats{};
    stats.waiting = now.waiting;
    stats.sent = now.sent;
    stats.received = now.received;
    stats.lost = now.lost;
    write_struct(out, stats);
    return Status::ok();
  });
}

tenon_status tenon_queue_members(const tenon_queue* queue, tenon_queue_member* out, size_t n,
                                 size_t* total, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(queue != nullptr, "queue is NULL"));
    TENON_TRY(check_argument(out != nullptr || n == 0, "out is NULL"));
    TENON_TRY(check_argument(total != nullptr, "total is NULL"));
    const size_t step = n > 0 ? out->struct_size : 0;
    if (n > 0) TENON_TRY(check_output(out, "tenon_queue_member"));
    const std::vector<MemberInfo> all = mutable_object(queue)->members();
    for (size_t i = 0; i < std::min(n, all.size()); ++i) {
      auto* each =
          reinterpret_cast<tenon_queue_member*>(reinterpret_cast<std::byte*>(out) + i * step);
      each->struct_size = step;
      write_struct(each, describe_member(all[i]));
    }
    *total = all.size();
    return Status::ok();
  });
}

void tenon_queue_leave(tenon_queue* queue) noexcept {
  if (queue != nullptr) object(queue)->leave();
}

void tenon_queue_release(tenon_queue* queue) noexcept {
  if (queue != nullptr) object(queue)->release();
}
}
