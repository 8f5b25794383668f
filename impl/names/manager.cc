#include "names/manager.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "names/manager_line.h"
#include "names/manager_protocol.h"
#include "os/fd.h"
#include "os/host.h"
#include "os/sender.h"
#include "os/socket.h"

namespace tenon::names {
namespace {

using os::Fd;
using os::Waiter;

// Makes an error about the manager. The waiter's own error names an fd that the caller never saw.
Status about(const std::string& manager, Status status) {
  const Code code = status.code();
  if (code == Code::kTimeout || code == Code::kWouldBlock)
    return Status(code, format("the time is over and the manager at %s has not answered",
                               manager.c_str()))
        .with("path", manager);
  return std::move(status).with("path", manager);
}

Status gone(const std::string& manager, int error) {
  Status status =
      Status(Code::kPeerGone, format("the manager at %s closed the connection", manager.c_str()))
          .with("path", manager);
  return error == 0 ? status : std::move(status).with("errno", error);
}

Status send_whole(const Fd& socket, const ManagerBytes& message, const std::string& manager,
                  Waiter* waiter) {
  std::span<const std::byte> left = message;
  while (!left.empty()) {
    const os::Transfer sent = os::send_message(socket.get(), left, {}, {});
    left = left.subspan(sent.nbytes);
    if (sent.error == EPIPE || sent.error == ECONNRESET) return gone(manager, sent.error);
    if (sent.error == EAGAIN) {
      if (Status waited =
              waiter->until_ready(socket.get(), POLLOUT, "room for a request to the manager");
          !waited.is_ok())
        return about(manager, std::move(waited));
    } else if (sent.error != 0) {
      return errno_status(sent.error, "sending to the manager at " + manager).with("path", manager);
    }
  }
  return {};
}

Status send_unsent(const Fd& socket, const std::string& manager, Waiter* waiter) {
  std::vector<ManagerBytes> unsent = take_unsent(manager);
  Status status;
  while (!unsent.empty() && status.is_ok()) {
    status = send_whole(socket, unsent.back(), manager, waiter);
    if (status.is_ok()) unsent.pop_back();
  }
  for (const ManagerBytes& message : unsent) keep_unsent(manager, message);
  return status;
}

Status receive_ok(const Fd& socket, const std::string& manager, Waiter* waiter) {
  // The buffer has one byte more than the answer, because a peer that sends more is no manager.
  std::array<std::byte, kManagerReply.size() + 1> answer{};
  size_t have = 0;
  while (have < kManagerReply.size()) {
    if (Status waited = waiter->until_ready(socket.get(), POLLIN, "an answer of the manager");
        !waited.is_ok())
      return about(manager, std::move(waited));
    const os::FromSender got =
        os::receive_from_sender(socket.get(), std::span(answer).subspan(have));
    if (got.error == EAGAIN) continue;
    if (got.error != 0 && got.error != ECONNRESET)
      return errno_status(got.error, "receiving from the manager at " + manager)
          .with("path", manager);
    if (got.nbytes == 0) return gone(manager, got.error);
    have += got.nbytes;
  }
  const bool is_ok =
      have == kManagerReply.size() && std::equal(kManagerReply.begin(), kManagerReply.end(),
                                                 answer.begin(), [](char expected, std::byte byte) {
                                                   return static_cast<std::byte>(expected) == byte;
                                                 });
  if (is_ok) return {};
  return Status(Code::kCorrupt, format("the manager at %s did not answer OK", manager.c_str()))
      .with("path", manager);
}

Status exchange(const Fd& socket, const ManagerBytes& message, const std::string& name,
                const std::string& manager, Waiter* waiter) {
  TENON_TRY(send_whole(socket, message, manager, waiter));
  Status answered = receive_ok(socket, manager, waiter);
  // A manager that is only slow will count the name for this process later. This deallocation takes
  // that back.
  if (!answered.is_ok() && answered.code() != Code::kPeerGone) {
    Result<ManagerBytes> back =
        encode_manager_message({os::process_id(), ManagerOp::kDeallocate, name});
    if (back.is_ok()) (void)send_at_once(socket, back.value());
  }
  return answered;
}

}  // namespace

Status register_with_manager(const std::string& manager, const std::string& name, Waiter* waiter) {
  TENON_ASSIGN(const ManagerBytes message,
               encode_manager_message({os::process_id(), ManagerOp::kRegister, name}));
  TENON_TRY(waiter->check_cancel());
  Fd socket = take_manager_line(manager);
  for (bool again = true;; again = false) {
    if (!socket.is_open()) {
      TENON_ASSIGN(socket, connect_to_manager(manager, waiter));
    }
    Status status = send_unsent(socket, manager, waiter);
    if (status.is_ok()) status = exchange(socket, message, name, manager, waiter);
    if (status.is_ok()) {
      give_manager_line(manager, std::move(socket));
      return status;
    }
    socket.reset();
    if (status.code() != Code::kPeerGone || !again) return status;
  }
}

void deallocate_at_manager(const std::string& manager, const std::string& name) noexcept {
  try {
    Result<ManagerBytes> encoded =
        encode_manager_message({os::process_id(), ManagerOp::kDeallocate, name});
    if (!encoded.is_ok()) return;
    const ManagerBytes& message = encoded.value();
    Fd socket = take_manager_line(manager);
    if (!socket.is_open()) {
      Waiter at_once({.timeout_ns = 0});
      Result<Fd> connected = connect_to_manager(manager, &at_once);
      if (!connected.is_ok()) {
        if (connected.status().code() == Code::kWouldBlock) keep_unsent(manager, message);
        return;
      }
      socket = std::move(connected).value();
    }
    if (!send_unsent_at_once(manager, socket) || !send_at_once(socket, message))
      keep_unsent(manager, message);
    give_manager_line(manager, std::move(socket));
  } catch (const std::bad_alloc&) {
    // No memory for the message. The manager learns it when this process ends.
  }
}

}  // namespace tenon::names
