// A message through a queue, both processes awake: one way in C against two bare cache lines.
//
// Two processes, each pinned to a CPU of its own, hand one message to and fro. The bare side hands
// a number to and fro in two words of shared memory, which is the least that two processes need.
//
// With --samples ROUNDS the program prints no rows. It prints one line of JSON with a list of
// ROUNDS samples for each kind of message, in nanoseconds one way. bench_iceoryx2.py runs it so.

#include <iterator>

#include "bench/queue_pair.h"

namespace {

constexpr size_t kEach = 20;  // round trips of one sample

enum Kind : size_t {
  kRecord,  // 64 bytes and no tensor
  kLease,   // a tensor in a message that is sent again and again, and released unread
  kKnown,   // a tensor of 4 KiB that was sent before. Its first byte is read.
  kNew,     // a tensor of 4 KiB that is made and filled for each message
  kLarge,   // as kKnown, with a large tensor
  kKinds
};

// One process's end of both queues.
class Side {
 public:
  Side(tenon_queue* to, tenon_queue* from, uint64_t large_nbytes)
      : to_(to),
        from_(from),
        known_(bench::new_tensor(0, 4096, 1)),
        large_(bench::new_tensor(0, large_nbytes, 1)),
        lease_(bench::message_of(known_)) {}
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    tenon_message_release(lease_);
    tenon_tensor_release(known_);
    tenon_tensor_release(large_);
    tenon_queue_release(to_);
    tenon_queue_release(from_);
  }

  void send(Kind kind) const {
    if (kind == kRecord) {
      const bench::Note note{};
      tenon_message* message = nullptr;
      BENCH_OK(tenon_message_new(&message, &err));
      BENCH_OK(tenon_message_set_user_bytes(message, note.data(), note.size(), &err));
      BENCH_OK(tenon_queue_send(to_, message, nullptr, &err));
      tenon_message_release(message);
    } else if (kind == kLease) {
      BENCH_OK(tenon_queue_send(to_, lease_, nullptr, &err));
    } else if (kind == kNew) {
      tenon_tensor* tensor = bench::new_tensor(0, 4096, 1);
      bench::send_in(to_, tensor);
      tenon_tensor_release(tensor);
    } else {
      bench::send_in(to_, kind == kLarge ? large_ : known_);
    }
  }

  void receive(Kind kind) const {
    tenon_message* message = bench::receive_from(from_);
    if (kind == kRecord) {
      size_t nbytes = 0;
      bench::touch(tenon_message_user_bytes(message, &nbytes));
    } else if (kind != kLease) {
      bench::touch(tenon_tensor_data(tenon_message_tensor(message, 0)));
    }
    tenon_message_release(message);
  }

  // Makes another tensor over the storage of the known tensor, and releases it.
  void make_tensor() const {
    const int64_t size = 4096;
    auto spec = tenon::test::sized<tenon_tensor_spec>();
    spec.dtype = {TENON_DTYPE_UINT, 8, 1};
    spec.ndim = 1;
    spec.sizes = &size;
    tenon_tensor* tensor = nullptr;
    BENCH_OK(tenon_tensor_new(tenon_tensor_storage(known_), &spec, &tensor, &err));
    bench::touch(tenon_tensor_data(tensor));
    tenon_tensor_release(tensor);
  }

 private:
  tenon_queue* to_;
  tenon_queue* from_;
  tenon_tensor* known_;
  tenon_tensor* large_;
  tenon_message* lease_;
};

// Nanoseconds one way, and of one tenon_tensor_new with its release. The samples of one index were
// taken in one round.
struct Samples {
  std::vector<double> of[kKinds];
  std::vector<double> bare;
  std::vector<double> make_tensor;
};

double per_call(size_t calls, const std::function<void()>& call) {
  const int64_t begin = bench::now_ns();
  for (size_t i = 0; i < kEach; ++i) call();
  return static_cast<double>(bench::now_ns() - begin) / static_cast<double>(calls);
}

Samples measure(size_t rounds, uint64_t large_nbytes) {
  tenon_queue* there = bench::new_queue();
  tenon_queue* back = bench::new_queue();
  auto* lines = bench::shared_with_children<bench::CacheLines>();
  bench::pin(0);
  const bench::Child other([&] {
    bench::pin(1);
    const Side side(bench::join(back), bench::join(there), large_nbytes);
    uint64_t number = 0;
    for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
      for (size_t kind = 0; kind < kKinds; ++kind) {
        for (size_t i = 0; i < kEach; ++i) {
          side.receive(static_cast<Kind>(kind));
          side.send(static_cast<Kind>(kind));
        }
      }
      for (size_t i = 0; i < kEach; ++i) lines->answer(++number);
    }
    side.receive(kRecord);  // then the parent has received all messages of this process
  });
  Samples samples;
  const Side side(there, back, large_nbytes);
  uint64_t number = 0;
  for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
    Samples taken;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      taken.of[kind].push_back(per_call(2 * kEach, [&] {
        side.send(static_cast<Kind>(kind));
        side.receive(static_cast<Kind>(kind));
      }));
    }
    taken.bare.push_back(per_call(2 * kEach, [&] { lines->ask(++number); }));
    taken.make_tensor.push_back(per_call(kEach, [&] { side.make_tensor(); }));
    if (round < bench::total_rounds(rounds) - rounds) continue;  // these only warm up
    for (size_t kind = 0; kind < kKinds; ++kind) samples.of[kind].push_back(taken.of[kind].front());
    samples.bare.push_back(taken.bare.front());
    samples.make_tensor.push_back(taken.make_tensor.front());
  }
  side.send(kRecord);
  return samples;
}

void print_all(const Samples& samples) {
  std::printf("{\"rounds\": %zu", samples.bare.size());
  const char* const names[] = {"record", "lease", "tensor", "filled"};
  for (size_t kind = 0; kind < std::size(names); ++kind)
    bench::print_samples(names[kind], samples.of[kind]);
  bench::print_samples("bare", samples.bare);
  std::printf("}\n");
}

void print_rows(const Samples& samples, const std::string& large) {
  const char* const lines = "two cache lines";
  const auto row = [&](const std::string& what, const std::string& against, bench::Goal goal,
                       const std::vector<double>& ours, const std::vector<double>& theirs) {
    bench::print({what + ", C", "ns", against, goal, ours, theirs});
  };
  const bench::Goal twice{"ours/theirs", "at_most", 2};
  const std::string way = "one way through a queue, ";
  row(way + "64 bytes", lines, twice, samples.of[kRecord], samples.bare);
  row(way + "4 KiB known, not opened", lines, twice, samples.of[kLease], samples.bare);
  std::vector<double> bound;
  for (size_t i = 0; i < samples.bare.size(); ++i)
    bound.push_back(2 * samples.bare[i] + 1.2 * samples.make_tensor[i]);
  row(way + "4 KiB known, made, read and released", "2 x two cache lines + 1.2 x a tensor made",
      {"ours/theirs", "at_most", 1}, samples.of[kKnown], bound);
  row(way + "4 KiB known", lines, {}, samples.of[kKnown], samples.bare);
  row(way + "4 KiB new", lines, {}, samples.of[kNew], samples.bare);
  row(way + large + " known", "the same, 4 KiB", {"ours/theirs", "at_most", 1.1},
      samples.of[kLarge], samples.of[kKnown]);
  row("a tensor over a known storage, made and released", "", {}, samples.make_tensor, {});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--samples") == 0) {
    print_all(measure(std::strtoul(argv[2], nullptr, 10), 4096));
    return 0;
  }
  const bool smoke = bench::wants_smoke(argc, argv);
  // A smoke run has no time for a gigabyte.
  const uint64_t large_nbytes = smoke ? uint64_t{1} << 20 : uint64_t{1} << 30;
  print_rows(measure(smoke ? 5 : 2000, large_nbytes), bench::size_text(large_nbytes));
  return 0;
}
