// Helpers for tests in which two processes have a connection between them and lend device memory
// over it under leases.
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

// Seconds for alarm(): it ends a process that hangs, so that its test fails.
inline constexpr unsigned kSeconds = 20;

// A socket pair for two processes, one end each. Make it before the fork of the second process.
class Socket {
 public:
  Socket() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data()), 0); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { drop(); }
  // Closes this process's copies of both ends.
  void drop() {
    for (int& end : ends_) {
      if (end >= 0) close(std::exchange(end, -1));
    }
  }
  Connection::Owned connect(int side, const ConnectionOptions& options = {}) {
    return adopt(take(side), options);
  }
  // Returns one end as a bare fd, for a test that writes raw bytes to it, and closes the other end.
  int take(int side) {
    const int mine = std::exchange(ends_[side], -1);
    drop();
    return mine;
  }
  std::array<int, 2> take_both() {
    return {std::exchange(ends_[0], -1), std::exchange(ends_[1], -1)};
  }
  // Connects both ends inside this process.
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

// Returns a message with one tensor for each storage, which covers all its bytes.
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

// Runs a sender and a receiver, each in its own process, as in_two() does. The receiver may also
// end by SIGKILL.
inline void in_two_connected(const std::function<void(Line&, Connection&)>& sender,
                             const std::function<void(Line&, Connection&)>& receiver,
                             const ConnectionOptions& of_sender = {},
                             const ConnectionOptions& of_receiver = {},
                             const std::vector<std::string>& environment = {}) {
  // The sender's process makes the socket, and not the test's process. Copies of the ends in the
  // test's process would keep messages alive that nobody reads.
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
