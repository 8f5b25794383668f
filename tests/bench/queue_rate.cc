// Messages per second through a queue, one or four processes to one or four, and p99.9 one way.
//
// A message has one tensor of 4 KiB that the receiver knows. The receiver reads the tensor's first
// byte and releases it. The processes of a rate are not pinned. Those of p99.9 are pinned to two
// CPUs, and each round trip is timed by itself.

#include <array>
#include <deque>

#include "bench/queue_pair.h"

namespace {

// ---- messages per second

struct alignas(64) Counter {
  std::atomic<uint64_t> received{0};
};

struct Shared {
  alignas(64) std::atomic<uint64_t> round{0};  // the producers send when it grows
  std::array<Counter, 4> consumers;
};

void sleep_us(int64_t us) {
  const struct timespec time{0, us * 1000};
  nanosleep(&time, nullptr);
}

void send_batch(tenon_queue* queue, tenon_tensor* tensor, size_t n) {
  if (n == 1) {
    bench::send_in(queue, tensor);
    return;
  }
  std::vector<tenon_message*> messages;
  for (size_t i = 0; i < n; ++i) messages.push_back(bench::message_of(tensor));
  for (size_t done = 0, sent = 0; done < n; done += sent)
    BENCH_OK(tenon_queue_send_many(queue, messages.data() + done, n - done, nullptr, &sent, &err));
  for (tenon_message* each : messages) tenon_message_release(each);
}

// Returns how many of the messages were received.
size_t receive_batch(tenon_queue* queue, std::vector<tenon_message*>* messages) {
  size_t received = 1;
  if (messages->size() == 1) {
    messages->front() = bench::receive_from(queue);
  } else {
    BENCH_OK(
        tenon_queue_recv_many(queue, nullptr, messages->data(), messages->size(), &received, &err));
  }
  return received;
}

void produce(tenon_queue* queue, const Shared& shared, size_t rounds, size_t count, size_t batch) {
  tenon_tensor* tensor = bench::new_tensor(0, 4096, 1);
  for (size_t round = 1; round <= rounds; ++round) {
    while (shared.round.load(std::memory_order_acquire) < round) sleep_us(100);
    for (size_t i = 0; i < count; i += batch) send_batch(queue, tensor, std::min(batch, count - i));
  }
  tenon_tensor_release(tensor);
  // This process must live until its messages are received. The parent says when.
  while (shared.round.load(std::memory_order_acquire) <= rounds) sleep_us(100);
}

// Receives until a message without a tensor comes. One call can take several of these, and the
// other processes need one each.
void consume(tenon_queue* queue, Counter* counter, size_t batch) {
  std::vector<tenon_message*> messages(batch);
  for (uint64_t received = 0;;) {
    const size_t n = receive_batch(queue, &messages);
    bool is_over = false;
    for (size_t i = 0; i < n; ++i) {
      const bool is_last = tenon_message_count(messages[i]) == 0;
      if (is_last && is_over) BENCH_OK(tenon_queue_send(queue, messages[i], nullptr, &err));
      if (!is_last) bench::touch(tenon_tensor_data(tenon_message_tensor(messages[i], 0)));
      tenon_message_release(messages[i]);
      is_over = is_over || is_last;
      if (!is_last) ++received;
    }
    if (is_over) return;
    counter->received.store(received, std::memory_order_release);
  }
}

void run_rate(size_t producers, size_t consumers, size_t rounds, size_t messages, size_t batch) {
  tenon_queue* queue = bench::new_queue();
  auto* shared = bench::shared_with_children<Shared>();
  std::deque<bench::Child> children;
  for (size_t i = 0; i < consumers; ++i)
    children.emplace_back([=] { consume(bench::join(queue), &shared->consumers[i], batch); });
  for (size_t i = 0; i < producers; ++i)
    children.emplace_back(
        [=] { produce(bench::join(queue), *shared, rounds + 1, messages / producers, batch); });

  bench::Row row{"messages through a queue, " + std::to_string(producers) + " to " +
                     std::to_string(consumers) + ", " + std::to_string(batch) + " in a call, C",
                 "million/s",
                 "",
                 {},
                 {},
                 {}};
  for (size_t round = 1; round <= rounds + 1; ++round) {
    const int64_t begin = bench::now_ns();
    shared->round.store(round, std::memory_order_release);
    const auto received = [&] {
      uint64_t sum = 0;
      for (const Counter& each : shared->consumers)
        sum += each.received.load(std::memory_order_acquire);
      return sum;
    };
    while (received() < round * messages) sleep_us(100);
    const auto ns = static_cast<double>(bench::now_ns() - begin);
    // In the first round the processes meet.
    if (round > 1) row.ours.push_back(static_cast<double>(messages) * 1e3 / ns);
  }
  tenon_message* last = nullptr;
  BENCH_OK(tenon_message_new(&last, &err));
  for (size_t i = 0; i < consumers; ++i) BENCH_OK(tenon_queue_send(queue, last, nullptr, &err));
  tenon_message_release(last);
  shared->round.store(rounds + 2, std::memory_order_release);
  children.clear();
  tenon_queue_release(queue);
  bench::print(row);
}

// ---- p99.9

// Half of the round trip of which one in a thousand takes longer.
double slow_way(size_t trips, const std::function<void()>& trip) {
  std::vector<double> ways;
  for (size_t i = 0; i < trips; ++i) {
    const int64_t begin = bench::now_ns();
    trip();
    ways.push_back(static_cast<double>(bench::now_ns() - begin) / 2);
  }
  const auto at = ways.begin() + static_cast<std::ptrdiff_t>(trips * 999 / 1000);
  std::nth_element(ways.begin(), at, ways.end());
  return *at;
}

void run_slowest(size_t rounds, size_t trips) {
  tenon_queue* there = bench::new_queue();
  tenon_queue* back = bench::new_queue();
  auto* lines = bench::shared_with_children<bench::CacheLines>();
  bench::pin(0);
  {
    const bench::Child other([&] {
      bench::pin(1);
      tenon_queue* from = bench::join(there);
      tenon_queue* to = bench::join(back);
      tenon_tensor* tensor = bench::new_tensor(0, 4096, 1);
      uint64_t number = 0;
      for (size_t round = 0; round < rounds + 1; ++round) {
        for (size_t i = 0; i < trips; ++i) {
          bench::read_and_release(bench::receive_from(from));
          bench::send_in(to, tensor);
        }
        for (size_t i = 0; i < trips; ++i) lines->answer(++number);
      }
      // When this message is here, the parent has received all messages of this process.
      bench::read_and_release(bench::receive_from(from));
    });
    tenon_tensor* tensor = bench::new_tensor(0, 4096, 1);
    bench::Row row{
        "p99.9 one way through a queue, 4 KiB known, C", "ns", "two cache lines", {}, {}, {}};
    uint64_t number = 0;
    for (size_t round = 0; round < rounds + 1; ++round) {
      const double ours = slow_way(trips, [&] {
        bench::send_in(there, tensor);
        bench::read_and_release(bench::receive_from(back));
      });
      const double theirs = slow_way(trips, [&] { lines->ask(++number); });
      if (round == 0) continue;
      row.ours.push_back(ours);
      row.theirs.push_back(theirs);
    }
    bench::send_in(there, tensor);
    tenon_tensor_release(tensor);
    bench::print(row);
  }
  tenon_queue_release(there);
  tenon_queue_release(back);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  for (const size_t batch : {1, 16, 256}) {
    for (const auto& [producers, consumers] : {std::pair{1, 1}, {4, 1}, {1, 4}})
      run_rate(producers, consumers, smoke ? 2 : 20, smoke ? 400 : 200'000, batch);
  }
  run_slowest(smoke ? 2 : 30, smoke ? 1000 : 20'000);
  return 0;
}
