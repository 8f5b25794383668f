// Send + open + first byte + ack, segment new each time: Tenon in C against the bare primitive.
//
// In every round each side creates a memfd, reserves its pages, maps it, fills it by memset, and
// sends the fd. The borrower maps it, reads the first byte, releases it and acknowledges with one
// byte. Then the lender releases it. Only Tenon draws a random name, asks for headroom, seals, and
// checks type, size, access and seals before it maps. Tenon's borrower unmaps when the next message
// says that the segment is gone, and that is in the clock too.

#include <fcntl.h>
#include <sys/mman.h>

#include <array>

#include "bench/hand_over.h"
#include "support/packet.h"

namespace {

// The 64 bytes that travel with the fd, like a small descriptor.
struct Note {
  uint64_t nbytes;
  std::array<char, 56> rest;
};

void* map(int fd, uint64_t nbytes) {
  void* bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BENCH_CHECK(bytes != MAP_FAILED);
  return bytes;
}

void bare_lend(const bench::TwoWays& two, uint64_t nbytes) {
  const int fd = memfd_create("bare", MFD_CLOEXEC);
  BENCH_CHECK(fd >= 0);
  BENCH_CHECK(ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  BENCH_CHECK(fallocate(fd, 0, 0, static_cast<off_t>(nbytes)) == 0);
  void* bytes = map(fd, nbytes);
  std::memset(bytes, 1, nbytes);
  const Note note{nbytes, {}};
  BENCH_CHECK(packets::put_packet(two.bare_socket(), &note, sizeof note, fd));
  two.wait_for_ack();
  munmap(bytes, nbytes);
  close(fd);
}

void bare_borrow(int socket) {
  Note note{};
  int fd = -1;
  BENCH_CHECK(packets::take_packet(socket, &note, sizeof note, &fd));
  void* bytes = map(fd, note.nbytes);
  bench::touch(bytes);
  munmap(bytes, note.nbytes);
  close(fd);
}

void run(uint64_t nbytes, size_t rounds) {
  const bench::TwoWays two(rounds, bare_borrow);
  bench::Row row{"hand over " + bench::size_text(nbytes) + ", segment new, C",
                 "us",
                 "memfd + fallocate + mmap + SCM_RIGHTS",
                 {"ours/theirs", "at_most", 1.3},
                 {},
                 {}};
  bench::interleave(
      &row, rounds, 1e3,
      [&] {
        tenon_tensor* tensor = bench::new_tensor(TENON_STORAGE_ISOLATED, nbytes, 1);
        two.lend(tensor);
        tenon_tensor_release(tensor);
      },
      [&] { bare_lend(two, nbytes); });
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  run(uint64_t{4} << 10, smoke ? 5 : 3000);
  run(uint64_t{1} << 20, smoke ? 3 : 600);
  run(uint64_t{64} << 20, smoke ? 1 : 40);
  return 0;
}
