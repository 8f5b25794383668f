// A tensor through a queue, known and new: one way in C against two bare cache lines. And how many
// messages a second go from one member to another, from four to one, and from one to four.
//
// For the first rows two processes, each pinned to a CPU of its own, hand one message to and fro.
// The bare side hands a number to and fro in two words of shared memory, which is the least that
// two processes need. A row says beside it what a tenon_tensor_new and its release take, because
// each receive makes a tensor.

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <vector>

#include "bench/hand_over.h"

namespace {

struct Line {
  alignas(64) std::atomic<uint64_t> there;
  alignas(64) std::atomic<uint64_t> back;
};

// The compiler must not take the loads out of a loop.
void look_again() { asm volatile("" ::: "memory"); }

// Pins this process to one of the CPUs that it had when it began.
void pin(unsigned index) {
  static const cpu_set_t all = [] {
    cpu_set_t set;
    BENCH_CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    return set;
  }();
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    BENCH_CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    return;
  }
}

void send_in(tenon_queue* queue, tenon_tensor* tensor) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_message_new(&message, &err));
  BENCH_OK(tenon_message_add(message, &tensor, nullptr, 1, nullptr, &err));
  BENCH_OK(tenon_queue_send(queue, message, nullptr, &err));
  tenon_message_release(message);
}

void receive_from(tenon_queue* queue) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_queue_recv(queue, nullptr, &message, &err));
  bench::touch(tenon_tensor_data(tenon_message_tensor(message, 0)));
  tenon_message_release(message);
}

tenon_queue* new_queue() {
  tenon_queue* queue = nullptr;
  BENCH_OK(tenon_queue_new(nullptr, &queue, &err));
  return queue;
}

tenon_queue* join(tenon_queue* inherited) {
  tenon_queue* queue = nullptr;
  BENCH_OK(tenon_queue_join(tenon_queue_storage(inherited), nullptr, &queue, &err));
  return queue;
}

constexpr size_t kEach = 20;  // round trips of one sample

void run(const char* name, uint64_t nbytes, size_t rounds, bool is_new) {
  tenon_queue* there = new_queue();
  tenon_queue* back = new_queue();
  auto* line = static_cast<Line*>(
      mmap(nullptr, sizeof(Line), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  BENCH_CHECK(line != MAP_FAILED);
  const size_t total = bench::total_rounds(rounds);
  pin(0);  // before the fork: the child knows the CPUs that were there at first
  const auto bare_there = [line](uint64_t number) {
    while (line->there.load(std::memory_order_acquire) != number) look_again();
  };
  {
    const bench::Child other([&] {
      pin(1);
      tenon_queue* from = join(there);
      tenon_queue* to = join(back);
      tenon_tensor* tensor = bench::new_tensor(0, nbytes, 1);
      for (size_t round = 0; round < total; ++round) {
        for (size_t i = 0; i < kEach; ++i) {
          receive_from(from);
          send_in(to, tensor);
        }
        for (size_t i = 0; i < kEach; ++i) {
          const uint64_t number = round * kEach + i + 1;
          bare_there(number);
          line->back.store(number, std::memory_order_release);
        }
      }
      tenon_message* last = nullptr;
      BENCH_OK(tenon_queue_recv(from, nullptr, &last, &err));  // its own messages were received
    });
    tenon_tensor* tensor = bench::new_tensor(0, nbytes, 1);
    uint64_t number = 0;
    bench::Row row{name, "us", "two cache lines", {"ours/theirs", "at_most", 10}, {}, {}};
    bench::interleave(
        &row, rounds, 1e3 * 2 * kEach,
        [&] {
          for (size_t i = 0; i < kEach; ++i) {
            tenon_tensor* made = is_new ? bench::new_tensor(0, nbytes, 1) : nullptr;
            send_in(there, made != nullptr ? made : tensor);
            tenon_tensor_release(made);
            receive_from(back);
          }
        },
        [&] {
          for (size_t i = 0; i < kEach; ++i) {
            line->there.store(++number, std::memory_order_release);
            while (line->back.load(std::memory_order_acquire) != number) look_again();
          }
        });
    send_in(there, tensor);
    tenon_tensor_release(tensor);
    bench::print(row);
  }
  tenon_queue_release(there);
  tenon_queue_release(back);
  munmap(line, sizeof(Line));
}

// A view of a storage that is there already: what each receive makes, and each release ends.
void make_view(tenon_storage* storage) {
  const int64_t size = 4096;
  auto spec = tenon::test::sized<tenon_tensor_spec>();
  spec.dtype = {TENON_DTYPE_UINT, 8, 1};
  spec.ndim = 1;
  spec.sizes = &size;
  tenon_tensor* tensor = nullptr;
  BENCH_OK(tenon_tensor_new(storage, &spec, &tensor, &err));
  tenon_tensor_release(tensor);
}

void run_tensor(size_t rounds) {
  pin(0);
  tenon_tensor* tensor = bench::new_tensor(0, 4096, 1);
  bench::Row row{"a tensor made and released, C", "us", "", {}, {}, {}};
  for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
    const int64_t begin = bench::now_ns();
    for (size_t i = 0; i < kEach; ++i) make_view(tenon_tensor_storage(tensor));
    row.ours.push_back(static_cast<double>(bench::now_ns() - begin) / 1e3 / kEach);
  }
  tenon_tensor_release(tensor);
  bench::print(row);
}

// Each of `senders` processes sends `n_each` messages of a known tensor, and `receivers` processes
// take all of them. There are more processes than CPUs, so none is pinned.
void run_rate(const char* name, uint32_t senders, uint32_t receivers, size_t rounds,
              uint64_t n_each) {
  bench::Row row{name, "million messages/s", "", {}, {}, {}};
  const uint64_t total = senders * n_each;
  for (size_t round = 0; round < rounds; ++round) {
    tenon_queue* queue = new_queue();
    auto* taken = static_cast<std::atomic<uint64_t>*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    BENCH_CHECK(taken != MAP_FAILED);
    std::atomic<uint64_t>& ready = taken[8];
    std::atomic<uint64_t>& go = taken[16];
    int64_t begin = 0;
    {
      std::vector<std::unique_ptr<bench::Child>> children;
      const auto start = [&] {
        ready.fetch_add(1);
        while (go.load() == 0) sched_yield();
      };
      for (uint32_t i = 0; i < senders; ++i) {
        children.push_back(std::make_unique<bench::Child>([&] {
          tenon_queue* to = join(queue);
          tenon_tensor* tensor = bench::new_tensor(0, 4096, 1);
          start();
          for (uint64_t k = 0; k < n_each; ++k) send_in(to, tensor);
          while (taken[0].load() < total) usleep(1000);  // its messages end with it
        }));
      }
      for (uint32_t i = 0; i < receivers; ++i) {
        children.push_back(std::make_unique<bench::Child>([&] {
          tenon_queue* from = join(queue);
          auto wait = tenon::test::sized<tenon_wait>();
          wait.timeout_ns = 10'000'000;
          start();
          while (taken[0].load() < total) {
            tenon_message* message = nullptr;
            const tenon_status status = tenon_queue_recv(from, &wait, &message, nullptr);
            // A sender may have seen that all were taken, and ended, before this process saw it.
            if (status == TENON_TIMEOUT || status == TENON_PEER_GONE) continue;
            BENCH_CHECK(status == TENON_OK);
            bench::touch(tenon_tensor_data(tenon_message_tensor(message, 0)));
            tenon_message_release(message);
            taken[0].fetch_add(1);
          }
        }));
      }
      while (ready.load() < senders + receivers) sched_yield();
      begin = bench::now_ns();
      go.store(1);
      while (taken[0].load() < total) usleep(100);
      const auto taken_ns = static_cast<double>(bench::now_ns() - begin);
      row.ours.push_back(static_cast<double>(total) * 1e3 / taken_ns);
    }
    tenon_queue_release(queue);
    munmap(static_cast<void*>(taken), 4096);
  }
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  const size_t rounds = smoke ? 5 : 2000;
  const uint64_t n_each = smoke ? 200 : 200'000;
  run_rate("messages from one to one, 4 KiB known, C", 1, 1, smoke ? 1 : 5, n_each);
  run_rate("messages from four to one, 4 KiB known, C", 4, 1, smoke ? 1 : 5, n_each / 4);
  run_rate("messages from one to four, 4 KiB known, C", 1, 4, smoke ? 1 : 5, n_each);
  run("one way through a queue, 4 KiB known, C", 4096, rounds, false);
  run("one way through a queue, 4 KiB new, C", 4096, rounds, true);
  run_tensor(rounds);
  return 0;
}
