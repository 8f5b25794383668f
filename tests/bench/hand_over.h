// One tensor from lender to borrower with Tenon's C header: the shared part of lend_new and
// lend_known.
#pragma once

#include "bench/bench.h"

namespace bench {

inline tenon_connection* connect(int socket) {
  tenon_connection* connection = nullptr;
  BENCH_OK(tenon_connection_new(socket, nullptr, &connection, &err));
  return connection;
}

inline tenon_tensor* new_tensor(uint32_t flags, uint64_t nbytes, int fill) {
  tenon_storage_options options{};
  options.struct_size = sizeof options;
  options.flags = flags;
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_storage_new(&options, nbytes, &storage, &err));
  void* bytes = nullptr;
  BENCH_OK(tenon_storage_data_mut(storage, &bytes, &err));
  std::memset(bytes, fill, nbytes);
  const auto size = static_cast<int64_t>(nbytes);
  tenon_tensor_spec spec{};
  spec.struct_size = sizeof spec;
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

// Opens the tensor, reads its first byte and releases it.
inline void borrow_tensor(tenon_connection* connection) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_recv(connection, nullptr, &message, &err));
  touch(tenon_tensor_data(tenon_message_tensor(message, 0)));
  tenon_message_release(message);
}

}  // namespace bench
