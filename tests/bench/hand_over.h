// One tensor from lender to borrower with Tenon's C header: the shared part of lend_new, lend_known
// and lease.
#pragma once

#include <array>

#include "bench/bench.h"
#include "support/sized.h"

namespace bench {

inline tenon_connection* connect(int socket) {
  tenon_connection* connection = nullptr;
  BENCH_OK(tenon_connection_new(socket, nullptr, &connection, &err));
  return connection;
}

inline tenon_tensor* new_tensor(uint32_t flags, uint64_t nbytes, int fill) {
  auto options = tenon::test::sized<tenon_storage_options>();
  options.flags = flags;
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_storage_new(&options, nbytes, &storage, &err));
  void* bytes = nullptr;
  BENCH_OK(tenon_storage_data_mut(storage, &bytes, &err));
  std::memset(bytes, fill, nbytes);
  const auto size = static_cast<int64_t>(nbytes);
  auto spec = tenon::test::sized<tenon_tensor_spec>();
  spec.dtype = {TENON_DTYPE_UINT, 8, 1};
  spec.ndim = 1;
  spec.sizes = &size;
  tenon_tensor* tensor = nullptr;
  BENCH_OK(tenon_tensor_new(storage, &spec, &tensor, &err));
  tenon_storage_release(storage);
  return tensor;
}

inline void send_tensor(tenon_connection* connection, tenon_tensor* tensor) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_message_new(&message, &err));
  BENCH_OK(tenon_message_add(message, &tensor, nullptr, 1, nullptr, &err));
  BENCH_OK(tenon_send(connection, message, nullptr, &err));
  tenon_message_release(message);
}

// A bare message, against which a tensor that is lent is compared.
using Note = std::array<char, 64>;
inline void send_note(int socket) {
  const Note note{};
  BENCH_CHECK(send(socket, note.data(), note.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(note.size()));
}
inline void receive_note(int socket) {
  Note note{};
  BENCH_CHECK(recv(socket, note.data(), note.size(), 0) == static_cast<ssize_t>(note.size()));
}

// Opens the tensor, reads its first byte and releases it.
inline void borrow_tensor(tenon_connection* connection) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_recv(connection, nullptr, &message, &err));
  touch(tenon_tensor_data(tenon_message_tensor(message, 0)));
  tenon_message_release(message);
}

// A lender and a borrower in another process. In each round the borrower borrows a tensor of Tenon,
// then takes what the bare side sends, and acknowledges both with one byte.
class TwoWays {
 public:
  TwoWays(size_t rounds, const std::function<void(int socket)>& take_bare)
      : borrower_([&] {
          for (Sockets* each : {&ours_, &theirs_, &ack_}) each->keep_there();
          tenon_connection* connection = connect(ours_.there);
          for (size_t round = 0; round < total_rounds(rounds); ++round) {
            borrow_tensor(connection);
            put_byte(ack_.there);
            take_bare(theirs_.there);
            put_byte(ack_.there);
          }
          tenon_connection_release(connection);
        }) {
    for (Sockets* each : {&ours_, &theirs_, &ack_}) each->keep_here();
    connection_ = connect(ours_.here);
  }
  TwoWays(const TwoWays&) = delete;
  TwoWays& operator=(const TwoWays&) = delete;
  ~TwoWays() { tenon_connection_release(connection_); }
  void lend(tenon_tensor* tensor) const {
    send_tensor(connection_, tensor);
    wait_for_ack();
  }
  tenon_connection* connection() const { return connection_; }
  void wait_for_ack() const { get_byte(ack_.here); }
  int bare_socket() const { return theirs_.here; }

 private:
  Sockets ours_;
  Sockets theirs_;
  Sockets ack_;
  Child borrower_;
  tenon_connection* connection_ = nullptr;
};

}  // namespace bench
