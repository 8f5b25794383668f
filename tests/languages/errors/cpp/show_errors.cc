// Prints the text of some errors as the C++ wrapper gives it. A line has an id of
// docs/guides/errors.md, a tab, the code, a tab and what(). errors_test.py reads the lines.
// usage: show_errors FILE, which is no archive
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <tenon/tenon.hpp>

namespace {

bool g_all_failed = true;

void show(const char* id, const std::function<void()>& mistake) {
  try {
    mistake();
    g_all_failed = false;
  } catch (const tenon::Error& error) {
    std::printf("%s\t%s\t%s\n", id, tenon::name_of(error.code()), error.what());
  }
}

// Receives from a connection whose other end was closed.
void receive_from_nobody() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  auto connection = tenon::Connection::make(ends[0]);
  close(ends[1]);
  (void)connection.recv();
}

void connect_a_listening_socket() {
  const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // no name, so the kernel chooses one
  if (bind(listening, reinterpret_cast<const sockaddr*>(&address),
           offsetof(sockaddr_un, sun_path)) != 0)
    return;
  if (listen(listening, 1) != 0) return;
  (void)tenon::Connection::make(listening);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const tenon::Storage storage = tenon::Storage::make(4096);
  show("shape", [&] { (void)tenon::Tensor::over(storage, {2000}, tenon::kDtypeOf<float>); });
  show("name_missing",
       [] { (void)tenon::open_filename({.name = "/tenon-no-such-name", .nbytes = 16}); });
  show("peer_gone", receive_from_nobody);
  show("listening", connect_a_listening_socket);
  show("not_archive", [&] { (void)tenon::import_module(argv[1]); });
  return g_all_failed ? 0 : 1;
}
