// These tests write archives to fds of every kind, and to functions that behave in every way.
#include "modules/archive/sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "unit/archive/zip_kit.h"

namespace tenon::archive {
namespace {

using namespace test;

Bytes read_to_end(int fd) {
  Bytes all;
  std::byte piece[5000];
  for (;;) {
    const ssize_t got = read(fd, piece, sizeof piece);
    if (got <= 0) break;
    all.insert(all.end(), piece, piece + got);
  }
  close(fd);
  return all;
}

TEST(FdSink, PipesAndSocketsWithSlowReaders) {
  const Bytes bytes = noise(3'000'000);
  for (const bool is_socket : {false, true}) {
    for (const bool non_blocking : {false, true}) {
      int ends[2];
      if (is_socket) {
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      } else {
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
      }
      if (non_blocking) ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
      Bytes got;
      std::thread reader([&got, end = ends[0]] { got = read_to_end(end); });
      FdSink sink(ends[1]);
      EXPECT_OK(sink.write(std::span(bytes).first(1'000'000)));
      EXPECT_OK(sink.write({}));
      EXPECT_OK(sink.write_both(std::span(bytes).subspan(1'000'000, 500'000),
                                std::span(bytes).subspan(1'500'000, 499'999)));
      EXPECT_OK(sink.write_both({}, {}));
      EXPECT_OK(sink.write_both(std::span(bytes).last(1'000'001).first(1), {}));
      EXPECT_OK(sink.write_both({}, std::span(bytes).last(1'000'000)));
      close(ends[1]);
      reader.join();
      EXPECT_EQ(got, bytes);
    }
  }
}

// A pipe or a socket that nobody reads gives an error, and no SIGPIPE.
TEST(FdSink, NobodyReads) {
  const Bytes bytes = noise(1000);
  for (const bool was_blocked : {false, true}) {
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    if (was_blocked) pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    FdSink to_pipe(ends[1]);
    EXPECT_EQ(to_pipe.write(bytes).code(), Code::kPeerGone);
    close(ends[1]);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    close(ends[0]);
    FdSink to_socket(ends[1]);
    EXPECT_EQ(to_socket.write(bytes).code(), Code::kPeerGone);
    close(ends[1]);
    sigset_t pending;
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
    sigset_t mask;
    pthread_sigmask(SIG_UNBLOCK, &pipe_signal, &mask);
    EXPECT_EQ(sigismember(&mask, SIGPIPE), was_blocked ? 1 : 0);
  }
}

// A SIGPIPE that was pending before the call belongs to the user, and stays pending.
TEST(FdSink, ASignalThatWasPendingStays) {
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
  raise(SIGPIPE);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  FdSink sink(ends[1]);
  EXPECT_EQ(sink.write(noise(10)).code(), Code::kPeerGone);
  close(ends[1]);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
  const timespec at_once{};
  EXPECT_EQ(sigtimedwait(&pipe_signal, nullptr, &at_once), SIGPIPE);
  pthread_sigmask(SIG_UNBLOCK, &pipe_signal, nullptr);
}

TEST(FdSink, AFileFromItsPositionOn) {
  const Folder folder;
  const int fd = open((folder / "a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(fd, "head", 4), 4);
  FdSink sink(fd);
  EXPECT_OK(sink.write(view_of("tail")));
  const Bytes all = read_file(folder / "a");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(all.data()), all.size()), "headtail");
  // Writing past the limit gives an error, and not the limit's signal.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = sink.write(view_of("more"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "RLIMIT_FSIZE");
  close(fd);
}

TEST(FdSink, FdsThatCannotBeWritten) {
  EXPECT_EQ(FdSink(-1).write(view_of("x")).code(), Code::kInvalidArgument);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const Status status = FdSink(full).write(view_of("x"));
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("errno"), std::to_string(ENOSPC));
  close(full);
}

struct Answer {
  int64_t value;
  Code code;
};

TEST(CallbackSink, Answers) {
  for (const Answer& answer : {Answer{4, Code::kOk}, Answer{3, Code::kIo}, Answer{5, Code::kIo},
                               Answer{0, Code::kIo}, Answer{-ENOSPC, Code::kResourceExhausted},
                               Answer{-EPIPE, Code::kPeerGone}, Answer{-1'000'000, Code::kIo},
                               Answer{INT64_MIN, Code::kIo}, Answer{INT64_MAX, Code::kIo}}) {
    int64_t value = answer.value;
    CallbackSink sink(
        [](void* context, const void* data, size_t nbytes) {
          EXPECT_EQ(std::string_view(static_cast<const char*>(data), nbytes), "four");
          return *static_cast<int64_t*>(context);
        },
        &value);
    const Status status = sink.write(view_of("four"));
    EXPECT_EQ(status.code(), answer.code) << text_of(status);
  }
}

// A user's function may throw. The exception reaches the caller of finish(), and the writer leaks
// nothing.
TEST(CallbackSink, AFunctionThatThrows) {
  CallbackSink sink([](void*, const void*, size_t) -> int64_t { throw 7; }, nullptr);
  Result<ZipWriter> writer = ZipWriter::create(&sink);
  ASSERT_OK(writer.value().add_text("a", "b"));
  EXPECT_THROW((void)writer.value().finish(), int);
}

}  // namespace
}  // namespace tenon::archive
