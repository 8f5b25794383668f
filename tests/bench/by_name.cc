// Memory made, lent and opened by name: Tenon in C against the bare primitives.
//
// File: in every round each side makes a new file under its own name, reserves its pages, maps it
// and fills it by memset. The name goes to the borrower, which opens and maps the file, reads the
// first byte, unmaps it and acknowledges with one byte. The lender unmaps the file and removes the
// name. Only Tenon draws a random name, asks for headroom, completes the file before it has a name,
// locks it, counts its holders, and checks at release whether others hold it. Socket: the borrower
// connects to the lender's name, receives the fd, maps, reads and releases. With --pairs the
// program makes a file pair for each hand-over that a line on stdin asks for, and prints
// nanoseconds. bench_by_name.py uses that to compare it with PyTorch.

#include <poll.h>
#include <sys/un.h>

#include <array>
#include <iostream>

#include "bench/names.h"
#include "support/die_with_parent.h"
#include "support/packet.h"
#include "support/sized.h"

namespace {

using bench::Child;
using bench::Sockets;
using Name = std::array<char, 64>;

constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;

Name bare_lend(uint64_t number, uint64_t nbytes, void** bytes) {
  Name name{};
  std::snprintf(name.data(), name.size(), "/bench_%d_%llu", static_cast<int>(getpid()),
                static_cast<unsigned long long>(number));
  const int fd = shm_open(name.data(), kFlags | O_CREAT | O_EXCL, 0600);
  BENCH_CHECK(fd >= 0);
  BENCH_CHECK(ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  BENCH_CHECK(fallocate(fd, 0, 0, static_cast<off_t>(nbytes)) == 0);
  *bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BENCH_CHECK(*bytes != MAP_FAILED);
  close(fd);
  std::memset(*bytes, 1, nbytes);
  return name;
}

void bare_borrow(const Name& name) {
  const int fd = shm_open(name.data(), kFlags, 0);
  BENCH_CHECK(fd >= 0);
  struct stat info{};
  BENCH_CHECK(fstat(fd, &info) == 0);
  const auto nbytes = static_cast<size_t>(info.st_size);
  void* bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BENCH_CHECK(bytes != MAP_FAILED);
  close(fd);
  bench::touch(bytes);
  munmap(bytes, nbytes);
}

void our_pair(const tenon_filename_options& options, const Sockets& names, const Sockets& ack,
              uint64_t nbytes) {
  tenon_storage* storage = bench::new_file(options, nbytes, 1);
  bench::put(names.here, bench::share_name(storage, options));
  bench::get_byte(ack.here);
  tenon_storage_release(storage);
}

void our_borrow(const Sockets& names, const Sockets& ack) {
  tenon_storage* storage = bench::open_name(bench::get<tenon_filename_handle>(names.there));
  bench::touch(tenon_storage_data(storage));
  tenon_storage_release(storage);
  bench::put_byte(ack.there);
}

void run_files(uint64_t nbytes, size_t rounds) {
  const bench::Folder folder;
  const tenon_filename_options options = bench::name_options(folder.path());
  Sockets ours;
  Sockets theirs;
  Sockets ack;
  const Child borrower([&] {
    for (Sockets* each : {&ours, &theirs, &ack}) each->keep_there();
    for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
      our_borrow(ours, ack);
      bare_borrow(bench::get<Name>(theirs.there));
      bench::put_byte(ack.there);
    }
  });
  for (Sockets* each : {&ours, &theirs, &ack}) each->keep_here();
  bench::Row row{"make, lend and open a file by name, " + bench::size_text(nbytes) + ", C",
                 "us",
                 "shm_open + fallocate + mmap + unlink",
                 {},
                 {},
                 {}};
  uint64_t number = 0;
  bench::interleave(
      &row, rounds, 1e3, [&] { our_pair(options, ours, ack, nbytes); },
      [&] {
        void* bytes = nullptr;
        const Name name = bare_lend(number++, nbytes, &bytes);
        bench::put(theirs.here, name);
        bench::get_byte(ack.here);
        munmap(bytes, nbytes);
        shm_unlink(name.data());
      });
  bench::print_plain(row);
}

// The least work of a lender of one fd.
void bare_serve(int listener, int fd) {
  for (;;) {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    BENCH_CHECK(client >= 0);
    BENCH_CHECK(packets::put_packet(client, "x", 1, fd));
    close(client);
  }
}

void bare_connect(const sockaddr_un& address, uint64_t nbytes) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  BENCH_CHECK(connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  char byte = 0;
  int fd = -1;
  BENCH_CHECK(packets::take_packet(socket, &byte, 1, &fd));
  void* bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BENCH_CHECK(bytes != MAP_FAILED);
  bench::touch(bytes);
  munmap(bytes, nbytes);
  close(fd);
  close(socket);
}

void run_socket(uint64_t nbytes, size_t rounds) {
  const bench::Folder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/bare", folder.path().c_str());
  bench::Holder ours([&](int socket) {
    auto options = tenon::test::sized<tenon_storage_options>();
    options.flags = TENON_STORAGE_ISOLATED;
    tenon_storage* storage = nullptr;
    BENCH_OK(tenon_storage_new(&options, nbytes, &storage, &err));
    bench::put(socket, bench::share_name(storage, bench::name_options(folder.path())));
  });
  const auto handle = bench::get<tenon_filename_handle>(ours.socket());
  ours.wait();
  bench::Holder theirs([&](int socket) {
    const int fd = memfd_create("bare", MFD_CLOEXEC);
    BENCH_CHECK(ftruncate(fd, static_cast<off_t>(nbytes)) == 0 &&
                fallocate(fd, 0, 0, static_cast<off_t>(nbytes)) == 0);
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    BENCH_CHECK(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                listen(listener, 16) == 0);
    bench::put_byte(socket);
    bare_serve(listener, fd);
  });
  theirs.wait();
  bench::Row row{"open a segment by its socket's name, " + bench::size_text(nbytes) + ", C",
                 "us",
                 "connect + SCM_RIGHTS + mmap",
                 {},
                 {},
                 {}};
  bench::interleave(
      &row, rounds, 1e3,
      [&] {
        tenon_storage* storage = bench::open_name(handle);
        bench::touch(tenon_storage_data(storage));
        tenon_storage_release(storage);
      },
      [&] { bare_connect(address, nbytes); });
  bench::print_plain(row);
}

// Makes a batch of pairs for each line "NBYTES COUNT" on stdin.
void serve_pairs() {
  const tenon_filename_options options = bench::name_options("/dev/shm");
  Sockets names;
  Sockets ack;
  const pid_t parent = getpid();
  const pid_t borrower = fork();
  BENCH_CHECK(borrower >= 0);
  if (borrower == 0) {
    tenon::test::die_with_parent(parent);
    for (Sockets* each : {&names, &ack}) each->keep_there();
    for (;;) our_borrow(names, ack);
  }
  for (Sockets* each : {&names, &ack}) each->keep_here();
  uint64_t nbytes = 0;
  uint64_t count = 0;
  while (std::cin >> nbytes >> count) {
    const int64_t begin = bench::now_ns();
    for (uint64_t i = 0; i < count; ++i) our_pair(options, names, ack, nbytes);
    std::cout << (bench::now_ns() - begin) / static_cast<int64_t>(count) << std::endl;
  }
  kill(borrower, SIGKILL);
  waitpid(borrower, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--pairs") == 0) {
    serve_pairs();
    return 0;
  }
  const bool smoke = bench::wants_smoke(argc, argv);
  run_files(uint64_t{4} << 10, smoke ? 5 : 2000);
  run_files(uint64_t{1} << 20, smoke ? 3 : 400);
  run_files(uint64_t{64} << 20, smoke ? 1 : 20);
  run_socket(uint64_t{1} << 20, smoke ? 5 : 2000);
  return 0;
}
