// Lend a tensor to another process, which changes it in place.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <tenon/tenon.hpp>

int main() try {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  if (fork() == 0) {  // the borrower
    auto connection = tenon::Connection::make(ends[1]);
    tenon::Tensor weight = connection.recv()["weight"];
    weight.view_mut<float>()[999'999] = 42;
    return 0;
  }
  const tenon::Tensor weight = tenon::zeros<float>({1000, 1000});
  auto connection = tenon::Connection::make(ends[0]);
  connection.send(tenon::Message::of({{"weight", weight}}));
  int result = 0;
  if (wait(&result) < 0 || result != 0) return 1;
  std::cout << "the last element is now " << weight.view<float>()[999'999] << "\n";
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
