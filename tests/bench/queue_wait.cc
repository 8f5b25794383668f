// Waits in a queue against a bare futex: waking a process, one CPU, a busy third process, CPU time.
//
// The bare side hands a number over in a word of shared memory, and its reader sleeps at once. Our
// side sends a tensor of 4 KiB that the receiver knows. The receiver reads the tensor's first byte
// and releases it.

#include "bench/queue_pair.h"

namespace {

void sleep_ns(int64_t ns) {
  const struct timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&time, nullptr);
}

// The CPU time that all threads of this process have used.
int64_t cpu_ns() {
  struct timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// What both processes have by fork.
struct Shared {
  bench::FutexWord there;
  bench::FutexWord back;
  alignas(64) std::atomic<int64_t> sent_ns{0};  // when the message in flight was sent
  std::atomic<int64_t> woken_ns{0};             // the median of a block, from send to receive
  std::atomic<int64_t> used_ns{0};              // the receiver's CPU time in a block
};

// The sending process's end, or the receiving process's end, of a queue for each direction.
struct Ends {
  tenon_queue* to;
  tenon_queue* from;
  tenon_tensor* tensor = bench::new_tensor(0, 4096, 1);

  void send() const { bench::send_in(to, tensor); }
  void receive() const { bench::read_and_release(bench::receive_from(from)); }
};

// Runs `there` in this process and `here` in a child. They get their ends of two queues.
void run_pair(const std::function<void(const Ends&, Shared*)>& here,
              const std::function<void(const Ends&, Shared*)>& there) {
  tenon_queue* forth = bench::new_queue();
  tenon_queue* back = bench::new_queue();
  auto* shared = bench::shared_with_children<Shared>();
  {
    const bench::Child other([&] {
      const Ends ends{bench::join(back), bench::join(forth)};
      there(ends, shared);
      ends.receive();  // then the parent has received all messages of this process
    });
    const Ends ends{forth, back};
    here(ends, shared);
    ends.send();
    tenon_tensor_release(ends.tensor);
  }
  tenon_queue_release(forth);
  tenon_queue_release(back);
}

// ---- a message after each pause: how long the wake takes, and the CPU time of both processes

struct Block {
  double wake_us;
  double cpu_us;  // of both processes, for each message
};

Block send_block(Shared* shared, size_t messages, int64_t pause_ns,
                 const std::function<void()>& send) {
  shared->woken_ns = 0;
  const int64_t begin = cpu_ns();
  for (size_t i = 0; i < messages; ++i) {
    sleep_ns(pause_ns);
    shared->sent_ns.store(bench::now_ns(), std::memory_order_release);
    send();
  }
  const int64_t used = cpu_ns() - begin;
  while (shared->woken_ns == 0) sleep_ns(100'000);
  const auto all = static_cast<double>(used + shared->used_ns);
  return {static_cast<double>(shared->woken_ns) / 1e3, all / 1e3 / static_cast<double>(messages)};
}

void receive_block(Shared* shared, size_t messages, const std::function<void()>& receive) {
  std::vector<double> times;
  const int64_t begin = cpu_ns();
  for (size_t i = 0; i < messages; ++i) {
    receive();
    times.push_back(static_cast<double>(bench::now_ns() - shared->sent_ns));
  }
  shared->used_ns = cpu_ns() - begin;
  shared->woken_ns = static_cast<int64_t>(median(times));
}

void run_pauses(size_t blocks, size_t messages) {
  const int64_t pause_ns = 1'000'000;
  bench::Row wake{"wake a process that waits in a queue, C", "us", "a futex",
                  {"ours/theirs", "at_most", 1.3},           {},   {}};
  bench::Row used{"CPU time with 1 ms between messages, each, C",
                  "us",
                  "a futex",
                  {"ours/theirs", "at_most", 1.2},
                  {},
                  {}};
  bench::pin(0);
  run_pair(
      [&](const Ends& ends, Shared* shared) {
        uint32_t number = 0;
        for (size_t block = 0; block <= blocks; ++block) {
          const Block ours = send_block(shared, messages, pause_ns, [&] { ends.send(); });
          const Block theirs =
              send_block(shared, messages, pause_ns, [&] { shared->there.put(++number); });
          if (block == 0) continue;  // it warms up
          wake.ours.push_back(ours.wake_us);
          wake.theirs.push_back(theirs.wake_us);
          used.ours.push_back(ours.cpu_us);
          used.theirs.push_back(theirs.cpu_us);
        }
      },
      [&](const Ends& ends, Shared* shared) {
        bench::pin(1);
        uint32_t number = 0;
        for (size_t block = 0; block <= blocks; ++block) {
          receive_block(shared, messages, [&] { ends.receive(); });
          receive_block(shared, messages, [&] { shared->there.await(++number); });
        }
      });
  bench::print(wake);
  bench::print(used);
}

// ---- no message for a while

void run_idle(size_t rounds, int64_t pause_ns) {
  bench::Row row{"CPU time of a process that waits in a queue, of each second, C",
                 "us",
                 "",
                 {"ours", "at_most", 100},
                 {},
                 {}};
  bench::pin(0);
  run_pair(
      [&](const Ends& ends, Shared* shared) {
        for (size_t round = 0; round <= rounds; ++round) {
          sleep_ns(pause_ns);
          shared->woken_ns = 0;
          ends.send();
          while (shared->woken_ns == 0) sleep_ns(100'000);
          if (round == 0) continue;
          row.ours.push_back(static_cast<double>(shared->used_ns) * 1e6 /
                             static_cast<double>(pause_ns));
        }
      },
      [&](const Ends& ends, Shared* shared) {
        bench::pin(1);
        for (size_t round = 0; round <= rounds; ++round)
          receive_block(shared, 1, [&] { ends.receive(); });
      });
  bench::print(row);
}

// ---- to and fro without a pause

void run_busy(const char* measure, size_t rounds, size_t trips,
              const std::function<void()>& place_here, const std::function<void()>& place_there) {
  bench::Row row{measure, "us", "a futex pair", {"ours/theirs", "at_most", 1.2}, {}, {}};
  // A sample is the median of its trips, because a trip that waits for the scheduler's next slice
  // takes a thousand times as long as the others.
  const auto time_trips = [&](const std::function<void()>& trip) {
    std::vector<double> times;
    for (size_t i = 0; i < trips; ++i) {
      const int64_t begin = bench::now_ns();
      trip();
      times.push_back(static_cast<double>(bench::now_ns() - begin) / 1e3);
    }
    return median(times);
  };
  place_here();
  run_pair(
      [&](const Ends& ends, Shared* shared) {
        uint32_t number = 0;
        for (size_t round = 0; round <= rounds; ++round) {
          const double ours = time_trips([&] {
            ends.send();
            ends.receive();
          });
          const double theirs = time_trips([&] {
            shared->there.put(++number);
            shared->back.await(number);
          });
          if (round == 0) continue;
          row.ours.push_back(ours);
          row.theirs.push_back(theirs);
        }
      },
      [&](const Ends& ends, Shared* shared) {
        place_there();
        uint32_t number = 0;
        for (size_t round = 0; round <= rounds; ++round) {
          for (size_t i = 0; i < trips; ++i) {
            ends.receive();
            ends.send();
          }
          for (size_t i = 0; i < trips; ++i) {
            shared->there.await(++number);
            shared->back.put(number);
          }
        }
      });
  bench::print(row);
}

// Runs `run` while another process keeps one of two CPUs busy.
void beside_busy(const std::function<void()>& run) {
  auto* is_over = bench::shared_with_children<std::atomic<bool>>();
  bench::pin(0, 2);
  const bench::Child busy([=] {
    while (!is_over->load(std::memory_order_relaxed)) asm volatile("" ::: "memory");
  });
  run();
  is_over->store(true);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  const size_t rounds = smoke ? 2 : 40;
  const size_t trips = smoke ? 20 : 2000;
  run_pauses(smoke ? 2 : 40, smoke ? 5 : 100);
  run_idle(smoke ? 1 : 5, smoke ? 100'000'000 : 2'000'000'000);
  run_busy(
      "to and fro through two queues on one CPU, C", rounds, trips, [] { bench::pin(0); },
      [] { bench::pin(0); });
  beside_busy([&] {
    run_busy(
        "to and fro through two queues beside a busy process, C", rounds, trips,
        [] { bench::pin(0); }, [] { bench::pin(1); });
  });
  return 0;
}
