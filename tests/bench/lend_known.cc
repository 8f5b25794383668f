// Send + open + first byte + ack, segment known: Tenon in C against a bare message and its answer.
//
// The storage stays alive and is sent repeatedly, in a new message each time. The borrower reads
// the first byte, releases the tensor and acknowledges with one byte. The bare side sends 64 bytes
// over a socket and gets one byte back. It touches no memory.

#include <array>

#include "bench/hand_over.h"

namespace {

using bench::Child;
using bench::Sockets;
using Note = std::array<char, 64>;

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
      Note note{};
      BENCH_CHECK(recv(theirs.there, note.data(), note.size(), 0) ==
                  static_cast<ssize_t>(note.size()));
      bench::put_byte(ack.there);
    }
    tenon_connection_release(connection);
  });
  for (Sockets* each : {&ours, &theirs, &ack}) each->keep_here();
  tenon_connection* connection = bench::connect(ours.here);
  tenon_tensor* tensor = bench::new_tensor(0, nbytes, 1);
  bench::Row row{"hand over " + bench::size_text(nbytes) + ", segment known, C",
                 "us",
                 "64-byte socket message and answer",
                 {"ours/theirs", "at_most", 1.3},
                 {},
                 {}};
  const Note note{};
  bench::interleave(
      &row, rounds, 1e3,
      [&] {
        bench::send_tensor(connection, tensor);
        bench::get_byte(ack.here);
      },
      [&] {
        BENCH_CHECK(send(theirs.here, note.data(), note.size(), MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(note.size()));
        bench::get_byte(ack.here);
      });
  tenon_tensor_release(tensor);
  tenon_connection_release(connection);
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  for (const uint64_t nbytes : {uint64_t{4} << 10, uint64_t{1} << 20, uint64_t{64} << 20})
    run(nbytes, smoke ? 5 : 5000);
  return 0;
}
