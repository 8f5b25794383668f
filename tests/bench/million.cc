// A million live tensors, each in its own leased block: time for each, fds, mappings, bookkeeping.
//
// The messages have 50,000 tensors each. The lender releases its storages once they are sent, so
// only the bookkeeping of the leases stays there: its Pss without the arena's pages, before and
// after. Shared pages of the bookkeeping count in full, because they exist once for both processes.
// Memory that malloc keeps free (a message's worth of handles and tables here) is returned before
// each measurement. The borrower holds everything: messages, tensors of rank 4, storages, leases.
// At the end it gives everything back, and the arena is empty again.

#include <dirent.h>
#include <malloc.h>

#include <fstream>

#include "bench/hand_over.h"
#include "support/mappings.h"
#include "support/open_fds.h"
#include "support/sized.h"

namespace {

using bench::Child;
using bench::Sockets;

// Counts all memory except the arena's own pages: private memory, and Tenon's shared pages in
// mappings of a few megabytes at most, such as the lease page.
double books_nbytes() {
  malloc_trim(0);
  std::ifstream smaps("/proc/self/smaps");
  constexpr unsigned long kArenaMin = 16UL << 20;
  double sum = 0;
  bool is_arena = false;
  const char* counts = "";
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const bool is_tenon = line.find("memfd:tenon") != std::string::npos;
      is_arena = is_tenon && end - begin > kArenaMin;
      // Pages of programs and libraries do not count. Other processes share them, and their number
      // changes.
      counts = is_tenon ? "Rss:" : line.find('/') == std::string::npos ? "Pss:" : "none";
    }
    double kib = 0;
    if (!is_arena && line.starts_with(counts) &&
        std::sscanf(line.c_str() + std::strlen(counts), "%lf kB", &kib) == 1)
      sum += kib * 1024;
  }
  return sum;
}

void print_one(const char* measure, const char* unit, double goal, double value) {
  bench::print({measure, unit, "", {"ours", "at_most", goal}, {value}, {}});
}

void run(size_t total, size_t batch) {
  Sockets ours;
  Sockets ack;
  struct Answer {
    double books;
    long fds;
    long mappings;
  };
  const Child borrower([&] {
    for (Sockets* each : {&ours, &ack}) each->keep_there();
    tenon_connection* connection = bench::connect(ours.there);
    std::vector<tenon_message*> held;
    const double before = books_nbytes();
    for (size_t sent = 0; sent < total; sent += batch) {
      tenon_message* message = nullptr;
      BENCH_OK(tenon_recv(connection, nullptr, &message, &err));
      held.push_back(message);
      bench::put_byte(ack.there);
    }
    const Answer answer{books_nbytes() - before, tenon::test::count_open_fds(),
                        count_mappings_of("memfd:tenon")};
    BENCH_CHECK(send(ack.there, &answer, sizeof answer, 0) == sizeof answer);
    bench::get_byte(ack.there);
    for (tenon_message* each : held) tenon_message_release(each);
    bench::put_byte(ack.there);
    bench::get_byte(ack.there);
    tenon_connection_release(connection);
  });
  for (Sockets* each : {&ours, &ack}) each->keep_here();
  tenon_connection* connection = bench::connect(ours.here);
  tenon_arena* arena = nullptr;
  BENCH_OK(tenon_arena_new(nullptr, &arena, &err));
  auto options = tenon::test::sized<tenon_storage_options>();
  options.arena = arena;
  constexpr int64_t kSizes[] = {2, 2, 2, 2};
  auto spec = tenon::test::sized<tenon_tensor_spec>();
  spec.dtype = {TENON_DTYPE_FLOAT, 32, 1};
  spec.ndim = 4;
  spec.sizes = kSizes;
  std::vector<tenon_tensor*> tensors(batch);
  const auto lend = [&] {
    for (tenon_tensor*& each : tensors) {
      tenon_storage* storage = nullptr;
      BENCH_OK(tenon_storage_new(&options, 64, &storage, &err));
      BENCH_OK(tenon_tensor_new(storage, &spec, &each, &err));
      tenon_storage_release(storage);
    }
    tenon_message* message = nullptr;
    BENCH_OK(tenon_message_new(&message, &err));
    BENCH_OK(tenon_message_add(message, tensors.data(), nullptr, batch, nullptr, &err));
    BENCH_OK(tenon_send(connection, message, nullptr, &err));
    tenon_message_release(message);
    for (tenon_tensor* each : tensors) tenon_tensor_release(each);
    bench::get_byte(ack.here);
  };
  const double before = books_nbytes();
  int64_t begin = bench::now_ns();
  for (size_t sent = 0; sent < total; sent += batch) lend();
  const auto count = static_cast<double>(total);
  const std::string name = std::to_string(total) + " tensors";
  print_one((name + ": made, lent and opened, each").c_str(), "us", 5,
            static_cast<double>(bench::now_ns() - begin) / count / 1e3);
  Answer answer{};
  BENCH_CHECK(recv(ack.here, &answer, sizeof answer, 0) == sizeof answer);
  auto stats = tenon::test::sized<tenon_arena_stats>();
  BENCH_OK(tenon_arena_stats_get(arena, &stats, &err));
  BENCH_CHECK(stats.blocks_lent == total && stats.blocks_live == 0);
  print_one((name + ": the lender's books, each").c_str(), "B", 64,
            (books_nbytes() - before) / count);
  print_one((name + ": the borrower's storages and tensors, each").c_str(), "B", 256,
            answer.books / count);
  print_one((name + ": fds, lender").c_str(), "fds", 64,
            static_cast<double>(tenon::test::count_open_fds()));
  print_one((name + ": fds, borrower").c_str(), "fds", 64, static_cast<double>(answer.fds));
  print_one((name + ": shared mappings, lender").c_str(), "mappings", 64,
            static_cast<double>(count_mappings_of("memfd:tenon")));
  print_one((name + ": shared mappings, borrower").c_str(), "mappings", 64,
            static_cast<double>(answer.mappings));
  begin = bench::now_ns();
  bench::put_byte(ack.here);
  bench::get_byte(ack.here);
  const int64_t given_back = bench::now_ns();
  BENCH_OK(tenon_arena_stats_get(arena, &stats, &err));
  BENCH_CHECK(stats.blocks_lent == 0);
  print_one((name + ": given back by the borrower, each").c_str(), "us", 1,
            static_cast<double>(given_back - begin) / count / 1e3);
  print_one((name + ": taken back by the lender, each").c_str(), "ns", 200,
            static_cast<double>(bench::now_ns() - given_back) / count);
  bench::put_byte(ack.here);
  tenon_connection_release(connection);
  tenon_arena_release(arena);
}

}  // namespace

int main(int argc, char** argv) {
  if (bench::wants_smoke(argc, argv)) {
    run(2000, 1000);
    return 0;
  }
  run(1'000'000, 50'000);
  return 0;
}
