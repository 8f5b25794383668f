// The wrapper without exceptions and without run-time type information, in one program with a file that has both (with_exceptions.cc).
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <tenon/tenon.hpp>

#ifndef TENON_NO_EXCEPTIONS
#error "compiled with exceptions"
#endif

// With exceptions: lends through what this file detached, and gives 0 if what came back is right.
int with_exceptions(tenon_storage* storage);

namespace {

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                               \
    }                                                                              \
  } while (false)

constexpr std::chrono::seconds kPatience{60};

int borrow(int socket) {
  tenon::Result<tenon::Connection> connection = tenon::Connection::try_make(socket);
  CHECK(connection);
  const tenon::Result<tenon::Message> message = connection->try_recv({.timeout = kPatience});
  CHECK(message);
  tenon::Tensor weight = message->find("weight");
  CHECK(weight);
  const tenon::Result<std::span<float>> values = weight.try_view_mut<float>();
  CHECK(values);
  (*values)[1] = 42;
  return 0;
}

void lend() {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(100);
    close(ends[0]);
    std::_Exit(borrow(ends[1]));
  }
  close(ends[1]);
  const tenon::Result<tenon::Tensor> weight = tenon::try_zeros<float>({2});
  CHECK(weight);
  const tenon::Result<tenon::Message> message = tenon::Message::try_of({{"weight", *weight}});
  CHECK(message);
  tenon::Result<tenon::Connection> connection = tenon::Connection::try_make(ends[0], {.adopt_socket = true});
  CHECK(connection);
  CHECK(connection->try_send(*message, {.timeout = kPatience}));
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(weight->try_view<float>().value()[1] == 42);
  const tenon::Result<tenon::Message> more = connection->try_recv({.timeout = kPatience});
  CHECK(more.code() == tenon::Code::kPeerGone && more.error().what()[0] != '\0');
}

void errors() {
  const tenon::Result<tenon::Storage> missing = tenon::try_open_filename({.name = "/tenon-cpp-no-such-name", .nbytes = 8});
  CHECK(!missing && missing.code() == tenon::Code::kNotFound);
  CHECK(missing.error().detail("path").has_value());
  const tenon::Result<tenon::Tensor> tensor = tenon::try_zeros<float>({4});
  CHECK(tensor);
  const tenon::Tensor& known = *tensor;
  CHECK(known.try_view<int>().code() == tenon::Code::kInvalidArgument);
  CHECK(tenon::Tensor().storage().nbytes() == 0);
}

// To use a value that is not there ends the process, with the reason.
void no_value() {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    (void)tenon::Storage::try_make(8, {.alignment = 3}).value();
    std::_Exit(0);
  }
  close(ends[1]);
  char text[400] = "";
  CHECK(read(ends[0], text, sizeof text - 1) > 0);
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(std::string_view(text).find("INVALID_ARGUMENT") != std::string_view::npos);
}

void deleter() {
  int called = 0;
  {
    tenon::Result<tenon::Storage> storage = tenon::Storage::try_wrap({}, [&called] { ++called; });
    CHECK(storage);
    storage->close();
    storage->close();
  }
  CHECK(called == 1);
}

}  // namespace

int main() {
  errors();
  deleter();
  no_value();
  lend();
  tenon::Result<tenon::Storage> storage = tenon::Storage::try_make(64, {.zeroed = true});
  CHECK(storage);
  tenon::Storage mine = *storage;
  CHECK(with_exceptions(storage->detach()) == 0);
  CHECK(mine.use_count() == 1);
  std::puts("ok");
  return 0;
}
