// Streams. A stream does its work in order, on a thread that starts with the first work that cannot
// be done at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "process.h"

namespace fake_cuda {

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Role { legacy, per_thread, created };

  // at_once: the calling thread may do the work if nothing is before it. queued: the work may block
  // or is a caller's function, so the stream's thread does it. at_its_end: the work and the
  // completion of its number become visible together.
  enum class When { at_once, queued, at_its_end };
  // Queues work, and returns its number. wait() and done() take that number.
  uint64_t submit(std::function<void()> run, When when = When::at_once);

  uint64_t submitted();
  bool done(uint64_t number);
  void wait(uint64_t number);
  // Waits until the work that is just completing has released what it held.
  static void settle();
  // Ends the stream: no more work comes, and the thread ends after the queued work.
  void close();

  Context* context = nullptr;
  Role role = Role::created;
  unsigned flags = 0;
  uint64_t id = 0;
  uint32_t object = kNoObject;

 private:
  using After = std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>>;
  struct Work {
    std::function<void()> run;
    After after;
    uint64_t number = 0;
    When when = When::at_once;
  };

  bool blocking() const { return role != Role::legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
  After what_is_before();
  static bool reached(const After& after);
  void loop();
  void finished(std::function<void()> at_its_end);

  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  bool thread_ = false;
  bool closed_ = false;
  std::deque<Work> queue_;
};

std::shared_ptr<Stream> make_stream(Context& context, Stream::Role role, unsigned flags);
// `per_thread`: the meaning of a null handle for this symbol.
CUresult find_stream(CUstream handle, bool per_thread, std::shared_ptr<Stream>* out);
void synchronise(Context& context);

// A function that takes a stream has two symbols, which take a null handle for different streams.
#define FAKE_CUDA_BOTH(symbol, suffix, parameters, implementation, ...) \
  FAKE_CUDA_EXPORT CUresult symbol parameters {                         \
    FAKE_CUDA_ENTER(symbol)                                             \
    return implementation(false, __VA_ARGS__);                          \
  }                                                                     \
  FAKE_CUDA_EXPORT CUresult symbol##suffix parameters {                 \
    FAKE_CUDA_ENTER(symbol##suffix)                                     \
    return implementation(true, __VA_ARGS__);                           \
  }

}  // namespace fake_cuda
