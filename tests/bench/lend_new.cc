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

namespace {

using bench::Child;
using bench::Sockets;

// The 64 bytes that travel with the fd, like a small descriptor.
struct Note {
  uint64_t nbytes;
  std::array<char, 56> rest;
};

void send_note(int socket, const Note& note, int fd) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec part{const_cast<Note*>(&note), sizeof note};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  BENCH_CHECK(sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof note);
}

int recv_note(int socket, Note* note) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec part{note, sizeof *note};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  BENCH_CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == sizeof *note);
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

void* map(int fd, uint64_t nbytes) {
  void* bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BENCH_CHECK(bytes != MAP_FAILED);
  return bytes;
}

void bare_lend(int socket, int ack, uint64_t nbytes) {
  const int fd = memfd_create("bare", MFD_CLOEXEC);
  BENCH_CHECK(fd >= 0);
  BENCH_CHECK(ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  BENCH_CHECK(fallocate(fd, 0, 0, static_cast<off_t>(nbytes)) == 0);
  void* bytes = map(fd, nbytes);
  std::memset(bytes, 1, nbytes);
  send_note(socket, {nbytes, {}}, fd);
  bench::get_byte(ack);
  munmap(bytes, nbytes);
  close(fd);
}

void bare_borrow(int socket) {
  Note note{};
  const int fd = recv_note(socket, &note);
  void* bytes = map(fd, note.nbytes);
  bench::touch(bytes);
  munmap(bytes, note.nbytes);
  close(fd);
}

void run(uint64_t nbytes, size_t rounds) {
  Sockets ours;
  Sockets theirs;
  Sockets ack;
  const Child borrower([&] {
    for (Sockets* each : {&ours, &theirs, &ack}) each->keep_there();
    tenon_connection* connection = bench::connect(ours.there);
    for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
      bench::borrow_tensor(connection);
      bench::put_byte(ack.there);
      bare_borrow(theirs.there);
      bench::put_byte(ack.there);
    }
    tenon_connection_release(connection);
  });
  for (Sockets* each : {&ours, &theirs, &ack}) each->keep_here();
  tenon_connection* connection = bench::connect(ours.here);
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
        bench::send_tensor(connection, tensor);
        bench::get_byte(ack.here);
        tenon_tensor_release(tensor);
      },
      [&] { bare_lend(theirs.here, ack.here, nbytes); });
  tenon_connection_release(connection);
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
