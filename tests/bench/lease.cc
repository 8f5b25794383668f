// Leases: lending a block of a known arena and getting it back, what a lease costs in a batch, and how soon a killed borrower's blocks return.
//
// Round trip: allocate, send, borrow, let go, and a byte back, against a 64-byte socket message and its answer. Batch: messages of 10,000
// tensors, once lent from an arena (each takes a lease, and gives it back), once as views of one storage that is lent (one lease in all):
// the difference, for each tensor. Death: 10,000 leases in 64 MiB that the borrower has mapped and touched; from SIGKILL until an allocation
// that was waiting has its block.

#include <array>

#include "bench/hand_over.h"

namespace {

using bench::Child;
using bench::Sockets;
using Note = std::array<char, 64>;

tenon_arena* new_arena(uint64_t capacity) {
  tenon_arena_options options{};
  options.struct_size = sizeof options;
  options.capacity_nbytes = capacity;
  tenon_arena* arena = nullptr;
  BENCH_OK(tenon_arena_new(&options, &arena, &err));
  return arena;
}

tenon_storage* new_storage(tenon_arena* arena, uint64_t nbytes, int64_t timeout_ns = -1) {
  tenon_wait wait{};
  wait.struct_size = sizeof wait;
  wait.timeout_ns = timeout_ns;
  tenon_storage_options options{};
  options.struct_size = sizeof options;
  options.arena = arena;
  options.wait = &wait;
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_storage_new(&options, nbytes, &storage, &err));
  return storage;
}

tenon_tensor* tensor_of(tenon_storage* storage, uint64_t offset, int64_t size) {
  tenon_tensor_spec spec{};
  spec.struct_size = sizeof spec;
  spec.dtype = {TENON_DTYPE_UINT, 8, 1};
  spec.ndim = 1;
  spec.sizes = &size;
  spec.offset = offset;
  tenon_tensor* tensor = nullptr;
  BENCH_OK(tenon_tensor_new(storage, &spec, &tensor, &err));
  return tensor;
}

void send_all(tenon_connection* connection, const std::vector<tenon_tensor*>& tensors) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_message_new(&message, &err));
  BENCH_OK(tenon_message_add(message, tensors.data(), nullptr, tensors.size(), nullptr, &err));
  BENCH_OK(tenon_send(connection, message, nullptr, &err));
  tenon_message_release(message);
}

void round_trip(uint64_t nbytes, size_t rounds) {
  Sockets ours;
  Sockets theirs;
  Sockets ack;
  const Child borrower([&] {
    for (Sockets* each : {&ours, &theirs, &ack}) each->keep_there();
    tenon_connection* connection = bench::connect(ours.there);
    for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
      bench::borrow_tensor(connection);
      bench::put_byte(ack.there);
      Note note{};
      BENCH_CHECK(recv(theirs.there, note.data(), note.size(), 0) == static_cast<ssize_t>(note.size()));
      bench::put_byte(ack.there);
    }
    tenon_connection_release(connection);
  });
  for (Sockets* each : {&ours, &theirs, &ack}) each->keep_here();
  tenon_connection* connection = bench::connect(ours.here);
  tenon_arena* arena = new_arena(nbytes * 4);
  bench::Row row{"lend " + bench::size_text(nbytes) + " of a known arena, borrow, give back", "us", "64-byte socket message and answer",
                 {"ours/theirs", "at_most", 2}, {}, {}};
  const Note note{};
  bench::interleave(
      &row, rounds, 1e3,
      [&] {
        tenon_storage* storage = new_storage(arena, nbytes);
        tenon_tensor* tensor = tensor_of(storage, 0, static_cast<int64_t>(nbytes));
        tenon_storage_release(storage);
        bench::send_tensor(connection, tensor);
        tenon_tensor_release(tensor);
        bench::get_byte(ack.here);
      },
      [&] {
        BENCH_CHECK(send(theirs.here, note.data(), note.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(note.size()));
        bench::get_byte(ack.here);
      });
  tenon_connection_release(connection);
  tenon_arena_release(arena);
  bench::print(row);
}

constexpr size_t kBatch = 10'000;

void batch(size_t rounds) {
  Sockets ours;
  Sockets ack;
  const Child borrower([&] {
    for (Sockets* each : {&ours, &ack}) each->keep_there();
    tenon_connection* connection = bench::connect(ours.there);
    for (size_t round = 0; round < 2 * bench::total_rounds(rounds); ++round) {
      bench::borrow_tensor(connection);
      bench::put_byte(ack.there);
    }
    tenon_connection_release(connection);
  });
  for (Sockets* each : {&ours, &ack}) each->keep_here();
  tenon_connection* connection = bench::connect(ours.here);
  tenon_arena* arena = new_arena(uint64_t{64} << 20);
  std::vector<tenon_tensor*> own;
  std::vector<tenon_tensor*> views;
  tenon_storage* whole = new_storage(arena, kBatch * 64);
  for (size_t i = 0; i < kBatch; ++i) {
    tenon_storage* storage = new_storage(arena, 64);
    own.push_back(tensor_of(storage, 0, 64));
    tenon_storage_release(storage);
    views.push_back(tensor_of(whole, i * 64, 64));
  }
  bench::Row row{"a storage and its lease, lent, opened and given back, in a message of 10,000", "ns", "a view of one storage",
                 {"ours-theirs", "at_most", 500}, {}, {}};
  bench::interleave(
      &row, rounds, kBatch,
      [&] {
        send_all(connection, own);
        bench::get_byte(ack.here);
      },
      [&] {
        send_all(connection, views);
        bench::get_byte(ack.here);
      });
  for (tenon_tensor* each : own) tenon_tensor_release(each);
  for (tenon_tensor* each : views) tenon_tensor_release(each);
  tenon_storage_release(whole);
  tenon_connection_release(connection);
  tenon_arena_release(arena);
  bench::print(row);
}

void death(size_t rounds) {
  constexpr uint64_t kCapacity = uint64_t{64} << 20;
  constexpr uint64_t kBlock = 6144;  // 10,000 of them nearly fill it
  bench::Row row{"from SIGKILL of a borrower with 10,000 leases until a waiting allocation has its block", "ms", "", {"ours", "at_most", 10},
                 {}, {}};
  for (size_t round = 0; round < rounds; ++round) {
    Sockets ours;
    Sockets ack;
    const pid_t parent = getpid();
    const pid_t borrower = fork();
    BENCH_CHECK(borrower >= 0);
    if (borrower == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) std::_Exit(1);
      for (Sockets* each : {&ours, &ack}) each->keep_there();
      tenon_connection* connection = bench::connect(ours.there);
      tenon_message* message = nullptr;
      BENCH_OK(tenon_recv(connection, nullptr, &message, &err));
      for (size_t i = 0; i < kBatch; ++i) bench::touch(tenon_tensor_data(tenon_message_tensor(message, i)));
      bench::put_byte(ack.there);
      for (;;) pause();
    }
    for (Sockets* each : {&ours, &ack}) each->keep_here();
    tenon_connection* connection = bench::connect(ours.here);
    tenon_arena* arena = new_arena(kCapacity);
    std::vector<tenon_tensor*> tensors;
    for (size_t i = 0; i < kBatch; ++i) {
      tenon_storage* storage = new_storage(arena, kBlock);
      tensors.push_back(tensor_of(storage, 0, static_cast<int64_t>(kBlock)));
      tenon_storage_release(storage);
    }
    send_all(connection, tensors);
    for (tenon_tensor* each : tensors) tenon_tensor_release(each);
    bench::get_byte(ack.here);
    const int64_t begin = bench::now_ns();
    BENCH_CHECK(kill(borrower, SIGKILL) == 0);
    tenon_storage* storage = new_storage(arena, kCapacity / 2);
    row.ours.push_back(static_cast<double>(bench::now_ns() - begin) / 1e6);
    tenon_storage_release(storage);
    BENCH_CHECK(waitpid(borrower, nullptr, 0) == borrower);
    tenon_connection_release(connection);
    tenon_arena_release(arena);
  }
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  for (const uint64_t nbytes : {uint64_t{4} << 10, uint64_t{1} << 20}) round_trip(nbytes, smoke ? 5 : 5000);
  batch(smoke ? 1 : 50);
  death(smoke ? 1 : 50);
  return 0;
}
