// Two processes with two queues between them, and the bare primitives against which queues are
// compared: two cache lines, and futexes. The shared part of queue, queue_rate and queue_wait.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <new>

#include "bench/hand_over.h"

namespace bench {

// Restricts this process to some of the CPUs that it had when it first called this function: those
// from `first` on, `count` of them. A machine with fewer CPUs changes nothing. Call it before fork,
// so that the child knows those CPUs too.
inline void pin(unsigned first, unsigned count = 1) {
  static const cpu_set_t all = [] {
    cpu_set_t set;
    BENCH_CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    return set;
  }();
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  unsigned index = 0;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if (index >= first && index < first + count) CPU_SET(cpu, &chosen);
    ++index;
  }
  if (CPU_COUNT(&chosen) != 0) BENCH_CHECK(sched_setaffinity(0, sizeof chosen, &chosen) == 0);
}

// Makes a T in memory that is shared with the children of fork. It is never removed.
template <class T>
T* shared_with_children() {
  void* memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  BENCH_CHECK(memory != MAP_FAILED);
  return new (memory) T();
}

// A number that two processes hand to and fro through two cache lines, both awake.
class CacheLines {
 public:
  void ask(uint64_t number) {
    there_.store(number, std::memory_order_release);
    await(back_, number);
  }
  void answer(uint64_t number) {
    await(there_, number);
    back_.store(number, std::memory_order_release);
  }

 private:
  static void await(const std::atomic<uint64_t>& line, uint64_t number) {
    // The compiler must not take the load out of the loop.
    while (line.load(std::memory_order_acquire) != number) asm volatile("" ::: "memory");
  }
  alignas(64) std::atomic<uint64_t> there_{0};
  alignas(64) std::atomic<uint64_t> back_{0};
};

// A number in shared memory, for which a reader sleeps at once.
class FutexWord {
 public:
  void put(uint32_t number) {
    word_.store(number, std::memory_order_release);
    call(FUTEX_WAKE, 1);
  }
  // A reader that comes late may find a later number.
  void await(uint32_t number) {
    for (uint32_t seen; (seen = word_.load(std::memory_order_acquire)) < number;)
      call(FUTEX_WAIT, seen);
  }

 private:
  void call(int operation, uint32_t value) {
    const long rc = syscall(SYS_futex, &word_, operation, value, nullptr, nullptr, 0);
    BENCH_CHECK(rc >= 0 || errno == EAGAIN || errno == EINTR);
  }
  alignas(64) std::atomic<uint32_t> word_{0};
};

// The other process of a benchmark ends without leaving its queues, and its death is no news.
inline tenon_queue_options unaware_of_deaths() {
  auto options = tenon::test::sized<tenon_queue_options>();
  options.flags = TENON_QUEUE_IGNORE_DEATHS;
  return options;
}

inline tenon_queue* new_queue(tenon_queue_options options = unaware_of_deaths()) {
  tenon_queue* queue = nullptr;
  BENCH_OK(tenon_queue_new(&options, &queue, &err));
  return queue;
}

// A membership of this process in a queue that it has by fork.
inline tenon_queue* join(const tenon_queue* inherited) {
  const tenon_queue_options options = unaware_of_deaths();
  tenon_queue* queue = nullptr;
  BENCH_OK(tenon_queue_join(tenon_queue_storage(inherited), &options, &queue, &err));
  return queue;
}

inline tenon_message* message_of(tenon_tensor* tensor) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_message_new(&message, &err));
  BENCH_OK(tenon_message_add(message, &tensor, nullptr, 1, nullptr, &err));
  return message;
}

inline void send_in(tenon_queue* queue, tenon_tensor* tensor) {
  tenon_message* message = message_of(tensor);
  BENCH_OK(tenon_queue_send(queue, message, nullptr, &err));
  tenon_message_release(message);
}

inline tenon_message* receive_from(tenon_queue* queue) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_queue_recv(queue, nullptr, &message, &err));
  return message;
}

// Reads the first byte of the message's tensor and releases the message.
inline void read_and_release(tenon_message* message) {
  touch(tenon_tensor_data(tenon_message_tensor(message, 0)));
  tenon_message_release(message);
}

}  // namespace bench
