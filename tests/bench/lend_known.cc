// Send + open + first byte + ack, segment known: Tenon in C against a bare message and its answer.
//
// The storage stays alive and is sent repeatedly, in a new message each time. The borrower reads
// the first byte, releases the tensor and acknowledges with one byte. The bare side sends 64 bytes
// over a socket and gets one byte back. It touches no memory.

#include "bench/hand_over.h"

namespace {

void run(uint64_t nbytes, size_t rounds) {
  const bench::TwoWays two(rounds, bench::receive_note);
  tenon_tensor* tensor = bench::new_tensor(0, nbytes, 1);
  bench::Row row{"hand over " + bench::size_text(nbytes) + ", segment known, C",
                 "us",
                 "64-byte socket message and answer",
                 {"ours/theirs", "at_most", 1.3},
                 {},
                 {}};
  bench::interleave(
      &row, rounds, 1e3, [&] { two.lend(tensor); },
      [&] {
        bench::send_note(two.bare_socket());
        two.wait_for_ack();
      });
  tenon_tensor_release(tensor);
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  for (const uint64_t nbytes : {uint64_t{4} << 10, uint64_t{1} << 20, uint64_t{64} << 20})
    run(nbytes, smoke ? 5 : 5000);
  return 0;
}
