// Leases: a known arena's block lent and returned, a lease in a batch, a dead borrower's blocks.
//
// Round trip: send, borrow, release, and a byte back, against a 64-byte socket message and its
// answer. One row lends one block repeatedly, and its lease ends before the next one begins.
// Another row allocates a new block each time, which is zeroed because it was lent before. Batch:
// messages of 10,000 tensors, each with a storage of its own in an arena. Its lease is granted,
// given back, and taken back. One comparison has storages without a lease, because they were opened
// from a memfd that was never lent. The other comparison has views of one storage, with one lease
// in all. The figure is the difference for each tensor. Death: the borrower has mapped and touched
// 64 MiB under 10,000 leases. The time runs from SIGKILL until every block is free, and until a
// waiting allocation of half the arena has its block, which is zeroed because it was lent before.
// Hang-up: a process that has nothing mapped closes the only copy of the token. The time runs from
// then until every block is free, so the kernel's work for a dying process is not in it.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>

#include "bench/hand_over.h"
#include "support/die_with_parent.h"
#include "support/sized.h"

namespace {

using bench::Child;
using bench::Sockets;

tenon_arena* new_arena(uint64_t capacity) {
  auto options = tenon::test::sized<tenon_arena_options>();
  options.capacity_nbytes = capacity;
  tenon_arena* arena = nullptr;
  BENCH_OK(tenon_arena_new(&options, &arena, &err));
  return arena;
}

tenon_storage* new_storage(tenon_arena* arena, uint64_t nbytes, int64_t timeout_ns = -1) {
  auto wait = tenon::test::sized<tenon_wait>();
  wait.timeout_ns = timeout_ns;
  auto options = tenon::test::sized<tenon_storage_options>();
  options.arena = arena;
  options.wait = &wait;
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_storage_new(&options, nbytes, &storage, &err));
  return storage;
}

tenon_tensor* tensor_of(tenon_storage* storage, uint64_t offset, int64_t size) {
  auto spec = tenon::test::sized<tenon_tensor_spec>();
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

void round_trip(uint64_t nbytes, bool anew, size_t rounds) {
  const bench::TwoWays two(rounds, bench::receive_note);
  tenon_arena* arena = new_arena(nbytes * 4);
  bench::Row row{(anew ? "allocate and lend " : "lend ") + bench::size_text(nbytes) +
                     " of a known arena, borrow, give back",
                 "us",
                 "64-byte socket message and answer",
                 {},
                 {},
                 {}};
  if (!anew) row.goal = {"ours/theirs", "at_most", 2};
  tenon_storage* block = new_storage(arena, nbytes);
  bench::interleave(
      &row, rounds, 1e3,
      [&] {
        tenon_storage* storage = anew ? new_storage(arena, nbytes) : block;
        tenon_tensor* tensor = tensor_of(storage, 0, static_cast<int64_t>(nbytes));
        if (anew) tenon_storage_release(storage);
        bench::send_tensor(two.connection(), tensor);
        tenon_tensor_release(tensor);
        two.wait_for_ack();
      },
      [&] {
        bench::send_note(two.bare_socket());
        two.wait_for_ack();
      });
  tenon_storage_release(block);
  tenon_arena_release(arena);
  bench::print(row);
}

constexpr size_t kBatch = 10'000;
constexpr uint64_t kSmall = 64;

// Storages over a memfd that belongs to no arena, so that lending them takes no lease.
std::vector<tenon_tensor*> tensors_without_leases() {
  constexpr uint64_t kNbytes = kBatch * kSmall;
  const int fd = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  BENCH_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(kNbytes)) == 0 &&
              fallocate(fd, 0, 0, static_cast<off_t>(kNbytes)) == 0);
  BENCH_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  std::vector<tenon_tensor*> tensors;
  for (size_t i = 0; i < kBatch; ++i) {
    auto handle = tenon::test::sized<tenon_fd_handle>();
    handle.fd = fd;
    handle.offset = i * kSmall;
    handle.nbytes = kSmall;
    tenon_storage* storage = nullptr;
    BENCH_OK(tenon_open_fd(&handle, nullptr, &storage, &err));
    tensors.push_back(tensor_of(storage, 0, kSmall));
    tenon_storage_release(storage);
  }
  close(fd);
  return tensors;
}

void batch(size_t rounds) {
  Sockets ours;
  Sockets ack;
  const Child borrower([&] {
    for (Sockets* each : {&ours, &ack}) each->keep_there();
    tenon_connection* connection = bench::connect(ours.there);
    for (size_t round = 0; round < 4 * bench::total_rounds(rounds); ++round) {
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
  tenon_storage* whole = new_storage(arena, kBatch * kSmall);
  for (size_t i = 0; i < kBatch; ++i) {
    tenon_storage* storage = new_storage(arena, kSmall);
    own.push_back(tensor_of(storage, 0, kSmall));
    tenon_storage_release(storage);
  }
  // The views come in a loop of their own, so that tensors and storages lie side by side in all
  // three cases.
  for (size_t i = 0; i < kBatch; ++i) views.push_back(tensor_of(whole, i * kSmall, kSmall));
  const std::vector<tenon_tensor*> bare = tensors_without_leases();
  // Both sides read the figures, which takes back the leases that were given back.
  const auto hand_over = [&](const std::vector<tenon_tensor*>& tensors) {
    send_all(connection, tensors);
    bench::get_byte(ack.here);
    auto stats = tenon::test::sized<tenon_arena_stats>();
    BENCH_OK(tenon_arena_stats_get(arena, &stats, &err));
    BENCH_CHECK(stats.blocks_lent == 0);
  };
  bench::Row lease{
      "a lease, granted, given back and taken back, of a tensor in a message of 10,000",
      "ns",
      "the same without a lease",
      {"ours-theirs", "at_most", 50},
      {},
      {}};
  bench::interleave(&lease, rounds, kBatch, [&] { hand_over(own); }, [&] { hand_over(bare); });
  bench::print(lease);
  bench::Row row{"a storage and its lease, lent, opened and given back, in a message of 10,000",
                 "ns",
                 "a view of one storage",
                 {"ours-theirs", "at_most", 500},
                 {},
                 {}};
  bench::interleave(&row, rounds, kBatch, [&] { hand_over(own); }, [&] { hand_over(views); });
  bench::print(row);
  for (const auto* each : {static_cast<const std::vector<tenon_tensor*>*>(&own),
                           static_cast<const std::vector<tenon_tensor*>*>(&views), &bare})
    for (tenon_tensor* tensor : *each) tenon_tensor_release(tensor);
  tenon_storage_release(whole);
  tenon_connection_release(connection);
  tenon_arena_release(arena);
}

void fill_and_lend(tenon_connection* connection, tenon_arena* arena, size_t count,
                   uint64_t nbytes) {
  std::vector<tenon_tensor*> tensors;
  for (size_t i = 0; i < count; ++i) {
    tenon_storage* storage = new_storage(arena, nbytes);
    tensors.push_back(tensor_of(storage, 0, static_cast<int64_t>(nbytes)));
    tenon_storage_release(storage);
  }
  send_all(connection, tensors);
  for (tenon_tensor* each : tensors) tenon_tensor_release(each);
}

void wait_until_free(tenon_arena* arena) {
  auto stats = tenon::test::sized<tenon_arena_stats>();
  while (true) {
    BENCH_OK(tenon_arena_stats_get(arena, &stats, &err));
    if (stats.blocks_lent == 0) return;
    // Reading the figures takes the arenas' lock. Without a pause the loop would measure its own
    // reads.
    usleep(100);
  }
}

void death(size_t rounds) {
  constexpr uint64_t kCapacity = uint64_t{64} << 20;
  constexpr uint64_t kBlock = 6144;  // 10,000 of them nearly fill it
  bench::Row row{"from SIGKILL of a borrower with 10,000 leases until every block is free again",
                 "ms",
                 "",
                 {"ours", "at_most", 10},
                 {},
                 {}};
  bench::Row filled{
      "from SIGKILL until an allocation that waited for half of the arena has it, zeroed",
      "ms",
      "",
      {},
      {},
      {}};
  for (size_t round = 0; round < rounds; ++round) {
    Sockets ours;
    Sockets ack;
    const pid_t parent = getpid();
    const pid_t borrower = fork();
    BENCH_CHECK(borrower >= 0);
    if (borrower == 0) {
      tenon::test::die_with_parent(parent);
      for (Sockets* each : {&ours, &ack}) each->keep_there();
      tenon_connection* connection = bench::connect(ours.there);
      tenon_message* message = nullptr;
      BENCH_OK(tenon_recv(connection, nullptr, &message, &err));
      for (size_t i = 0; i < kBatch; ++i)
        bench::touch(tenon_tensor_data(tenon_message_tensor(message, i)));
      bench::put_byte(ack.there);
      for (;;) pause();
    }
    for (Sockets* each : {&ours, &ack}) each->keep_here();
    tenon_connection* connection = bench::connect(ours.here);
    tenon_arena* arena = new_arena(kCapacity);
    fill_and_lend(connection, arena, kBatch, kBlock);
    bench::get_byte(ack.here);
    const int64_t begin = bench::now_ns();
    BENCH_CHECK(kill(borrower, SIGKILL) == 0);
    if (round % 2 == 0) {
      wait_until_free(arena);
      row.ours.push_back(static_cast<double>(bench::now_ns() - begin) / 1e6);
    } else {
      tenon_storage* storage = new_storage(arena, kCapacity / 2);
      filled.ours.push_back(static_cast<double>(bench::now_ns() - begin) / 1e6);
      tenon_storage_release(storage);
    }
    BENCH_CHECK(waitpid(borrower, nullptr, 0) == borrower);
    tenon_connection_release(connection);
    tenon_arena_release(arena);
  }
  bench::print(row);
  bench::print(filled);
}

// Takes a message off the socket and returns the token among its fds, which is the only pipe. The
// other fds are closed.
int take_token(int socket) {
  std::vector<char> bytes(uint64_t{1} << 17);
  std::array<int, 253> fds{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  iovec into{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  BENCH_CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) > 0);
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  BENCH_CHECK(head != nullptr && head->cmsg_type == SCM_RIGHTS);
  const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  std::memcpy(fds.data(), CMSG_DATA(head), count * sizeof(int));
  int token = -1;
  for (size_t i = 0; i < count; ++i) {
    struct stat info{};
    BENCH_CHECK(fstat(fds[i], &info) == 0);
    if (S_ISFIFO(info.st_mode)) {
      BENCH_CHECK(token < 0);
      token = fds[i];
    } else {
      close(fds[i]);
    }
  }
  BENCH_CHECK(token >= 0);
  return token;
}

void hang_up(size_t count, size_t rounds) {
  bench::Row row{
      "from the hang-up of " + std::to_string(count) + " leases until none of them stands",
      "ms",
      "",
      {"ours", "at_most", 1 + static_cast<double>(count) * 50e-6},
      {},
      {}};
  constexpr uint64_t kBlock = 256;
  const uint64_t capacity = (count * kBlock + 4095) / 4096 * 4096;
  for (size_t round = 0; round < rounds; ++round) {
    const Sockets ours;
    tenon_connection* connection = bench::connect(ours.here);
    tenon_arena* arena = new_arena(capacity);
    fill_and_lend(connection, arena, count, kBlock);
    const int token = take_token(ours.there);
    const int64_t begin = bench::now_ns();
    close(token);
    wait_until_free(arena);
    row.ours.push_back(static_cast<double>(bench::now_ns() - begin) / 1e6);
    tenon_connection_release(connection);
    tenon_arena_release(arena);
  }
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  for (const uint64_t nbytes : {uint64_t{4} << 10, uint64_t{1} << 20}) {
    for (const bool anew : {false, true}) round_trip(nbytes, anew, smoke ? 5 : 5000);
  }
  batch(smoke ? 1 : 50);
  death(smoke ? 2 : 50);
  hang_up(10'000, smoke ? 1 : 50);
  hang_up(smoke ? 20'000 : 200'000, smoke ? 1 : 10);
  return 0;
}
