// Uses the wrapper without exceptions and without run-time type information. The same program
// contains a file that has both (with_exceptions.cc).
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <tenon/tenon.hpp>
#include <vector>

#ifndef TENON_NO_EXCEPTIONS
#error "compiled with exceptions"
#endif

// Without exceptions, a conversion that can fail is not implicit.
static_assert(std::is_convertible_v<int, tenon::Value> &&
              std::is_convertible_v<std::nullopt_t, tenon::Value>);
static_assert(!std::is_convertible_v<const char*, tenon::Value> &&
              !std::is_convertible_v<tenon::Tensor, tenon::Value>);

// Defined in with_exceptions.cc. Adopts the storage that this file detached and uses it with
// exceptions. Returns 0 if that works.
int with_exceptions(tenon_storage* storage);

namespace {

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                               \
    }                                                                              \
  } while (false)

constexpr std::chrono::seconds kReplyWithin{60};

int borrow_without_exceptions(int socket) {
  tenon::Result<tenon::Connection> connection = tenon::Connection::try_make(socket);
  CHECK(connection);
  const tenon::Result<tenon::Message> message = connection->try_recv({.timeout = kReplyWithin});
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
    std::_Exit(borrow_without_exceptions(ends[1]));
  }
  close(ends[1]);
  const tenon::Result<tenon::Tensor> weight = tenon::try_zeros<float>({2});
  CHECK(weight);
  const tenon::Result<tenon::Message> message = tenon::Message::try_of({{"weight", *weight}});
  CHECK(message);
  tenon::Result<tenon::Connection> connection =
      tenon::Connection::try_make(ends[0], {.adopt_socket = true});
  CHECK(connection);
  CHECK(connection->try_send(*message, {.timeout = kReplyWithin}));
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(weight->try_view<float>().value()[1] == 42);
  const tenon::Result<tenon::Message> more = connection->try_recv({.timeout = kReplyWithin});
  CHECK(more.code() == tenon::Code::kPeerGone && more.error().what()[0] != '\0');
}

void errors() {
  const tenon::Result<tenon::Storage> missing =
      tenon::try_open_filename({.name = "/tenon-cpp-no-such-name", .nbytes = 8});
  CHECK(!missing && missing.code() == tenon::Code::kNotFound);
  CHECK(missing.error().detail("path").has_value());
  const tenon::Result<tenon::Tensor> tensor = tenon::try_zeros<float>({4});
  CHECK(tensor);
  const tenon::Tensor& known = *tensor;
  CHECK(known.try_view<int>().code() == tenon::Code::kInvalidArgument);
  CHECK(tenon::Tensor().storage().nbytes() == 0);
}

// Using the value of a failed Result ends the process, with the reason.
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

// Sends an object in a message and back. Making one cannot fail, so every plain type converts.
void objects() {
  const tenon::Result<tenon::Tensor> weight = tenon::try_zeros<float>({2});
  CHECK(weight);
  const tenon::Object object = tenon::Object::dict({{"n", 3}, {"weight", *weight}});
  const tenon::Result<tenon::Message> message = object.try_to_message();
  CHECK(message);
  const tenon::Result<tenon::Object> back = tenon::Object::try_from(*message);
  CHECK(back && back->size() == 2);
  CHECK(back->try_find("n")->try_as<int>().value() == 3);
  CHECK(back->try_find("weight")->try_as<tenon::Tensor>()->numel() == 2);
  CHECK(back->try_find("no").code() == tenon::Code::kNotFound);
  CHECK(tenon::Object("\xff").try_to_message().error().detail("index") == "0");
}

// Builds a module, writes it through a callable, lets the callable fail, and reads the module
// again.
void modules() {
  tenon::Result<tenon::Module> module = tenon::Module::try_make("Net");
  CHECK(module);
  const tenon::Result<tenon::Tensor> weight = tenon::try_zeros<float>({3});
  CHECK(weight);
  const tenon::Result<tenon::Value> value = tenon::Value::try_make(*weight);
  const tenon::Result<tenon::Value> text = tenon::Value::try_make("net");
  CHECK(value && text && tenon::Value::try_make("\xff").code() == tenon::Code::kInvalidArgument);
  CHECK(module->try_add_parameter("weight", *value));
  CHECK(module->try_add_attribute("name", std::nullopt, *text));
  CHECK(module->try_add_attribute("n", "int", 3));
  CHECK(module->try_add_attribute("m", "int", 0.5).error().detail("wanted") == "int");
  CHECK(module->try_add_parameter("bias", tenon::Value::none()));
  CHECK(module->try_define(
      "def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n"));

  const tenon::Error refusal(tenon::Code::kCancelled, "enough");
  const auto refuses = [&](std::span<const std::byte>) -> tenon::Result<void> { return refusal; };
  CHECK(tenon::try_export_module_to(*module, refuses).code() == tenon::Code::kCancelled);
  std::vector<std::byte> bytes;
  const auto writer = [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  };
  CHECK(tenon::try_export_module_to(*module, writer, {.hook = [&](const tenon::Module&) {
          return refusal;
        }}).code() == tenon::Code::kCancelled);
  CHECK(bytes.empty());
  const tenon::Result<tenon::ExportReport> report = tenon::try_export_module_to(*module, writer);
  CHECK(report && report->nbytes == bytes.size());

  int called = 0;
  {
    const tenon::Result<tenon::Module> back =
        tenon::try_import_module_memory(bytes, [&called] { ++called; });
    CHECK(back);
    CHECK(back->try_value("name")->try_as<std::string>().value() == "net");
    CHECK(back->try_value("n")->try_as<int>().value() == 3);
    CHECK(back->try_value("weight")->try_as<tenon::Tensor>()->numel() == 3);
    CHECK(back->try_find("no").code() == tenon::Code::kNotFound);
    CHECK(called == 0);
  }
  CHECK(called == 1);
}

}  // namespace

int main() {
  errors();
  deleter();
  no_value();
  objects();
  modules();
  lend();
  tenon::Result<tenon::Storage> storage = tenon::Storage::try_make(64, {.zeroed = true});
  CHECK(storage);
  tenon::Storage mine = *storage;
  CHECK(with_exceptions(storage->detach()) == 0);
  CHECK(mine.use_count() == 1);
  std::puts("ok");
  return 0;
}
