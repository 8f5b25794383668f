// Two processes with a connection between them, over which device memory goes under leases.
#pragma once

#include <csignal>

#include "channel/connection.h"
#include "modern_kit.h"
#include "tensor/message.h"
#include "tensor/tensor.h"

namespace cuda_test {

using channel::Connection;
using channel::ConnectionOptions;
using tensor::Message;

// Given to alarm(): a process that hangs is ended, and its test fails.
inline constexpr unsigned kSeconds = 20;

// A socket whose ends two processes have, one each: to be made before the second of them.
class Socket {
 public:
  Socket() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data()), 0); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { drop(); }
  // This process has no part in it.
  void drop() {
    for (int& end : ends_) {
      if (end >= 0) close(std::exchange(end, -1));
    }
  }
  Connection::Owned connect(int side, const ConnectionOptions& options = {}) {
    return adopt(take(side), options);
  }
  // For who writes to it by hand.
  int take(int side) {
    const int mine = std::exchange(ends_[side], -1);
    drop();
    return mine;
  }
  std::array<int, 2> take_both() {
    return {std::exchange(ends_[0], -1), std::exchange(ends_[1], -1)};
  }
  // Both ends are this process's.
  std::pair<Connection::Owned, Connection::Owned> connect_both() {
    return {adopt(std::exchange(ends_[0], -1), {}), adopt(std::exchange(ends_[1], -1), {})};
  }
  static Connection::Owned adopt(int fd, const ConnectionOptions& options) {
    Result<Connection::Owned> made = Connection::create(fd, options);
    EXPECT_TRUE(made.is_ok()) << made.status().message();
    made.value()->adopt_socket();
    return std::move(made).value();
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// All bytes of each as one tensor.
inline Result<std::unique_ptr<Message>> message_of(const std::vector<Ref<Storage>>& storages,
                                                   memory::Access access = memory::Access::kAuto) {
  auto message = std::make_unique<Message>();
  for (const Ref<Storage>& storage : storages) {
    const auto size = static_cast<int64_t>(storage->nbytes());
    constexpr int64_t kStride = 1;
    const tensor::Layout layout{{1, 8, 1}, {&size, 1}, {&kStride, 1}, 0};
    TENON_ASSIGN(const Ref<tensor::Tensor> made, tensor::Tensor::create(storage, layout, 0));
    tensor::Tensor* const one = made.get();
    TENON_TRY(message->add({&one, 1}, nullptr, access));
  }
  return message;
}
inline Status try_send(Connection& connection, const std::vector<Ref<Storage>>& storages,
                       memory::Access access = memory::Access::kAuto) {
  TENON_ASSIGN(const std::unique_ptr<Message> message, message_of(storages, access));
  return connection.send(message.get(), {});
}
inline void send(Connection& connection, const std::vector<Ref<Storage>>& storages) {
  const Status sent = try_send(connection, storages);
  ASSERT_TRUE(sent.is_ok()) << sent.message();
}
inline Result<std::vector<Ref<Storage>>> try_receive(Connection& connection) {
  TENON_ASSIGN(const std::unique_ptr<Message> message, connection.recv({}));
  std::vector<Ref<Storage>> storages;
  for (const Message::Item& item : message->items()) storages.push_back(item.tensor->storage());
  return storages;
}
inline std::vector<Ref<Storage>> receive(Connection& connection) {
  Result<std::vector<Ref<Storage>>> storages = try_receive(connection);
  EXPECT_TRUE(storages.is_ok()) << storages.status().message();
  return storages.is_ok() ? std::move(storages).value() : std::vector<Ref<Storage>>();
}

// Sender and receiver, as in_two().
inline void in_two_connected(const std::function<void(Line&, Connection&)>& sender,
                             const std::function<void(Line&, Connection&)>& receiver,
                             const ConnectionOptions& of_sender = {},
                             const ConnectionOptions& of_receiver = {},
                             const std::vector<std::string>& environment = {}) {
  // Made by the sender's process and not by the test's, whose copies of the ends would keep
  // messages that nobody reads.
  in_child(environment, [&] {
    Line line;
    Socket ends;
    const pid_t other = start([&] {
      line.become(1);
      const Connection::Owned connection = ends.connect(1, of_receiver);
      receiver(line, *connection);
    });
    line.become(0);
    {
      const Connection::Owned connection = ends.connect(0, of_sender);
      sender(line, *connection);
    }
    const int ended = wait_for(other);
    EXPECT_TRUE(ended == 0 || ended == -SIGKILL) << ended;
    expect_nothing_left();
  });
}

}  // namespace cuda_test
