// Lends a tensor to another program. usage: lender shared|frozen BORROWER...
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <string_view>
#include <tenon/tenon.hpp>
#include <vector>

int main(int argc, char** argv) try {
  int ends[2];
  if (argc < 3 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 2;
  if (fork() == 0) {
    dup2(ends[1], STDIN_FILENO);  // the borrower's standard input is the other end of the socket
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  close(ends[1]);

  const bool frozen = std::string_view(argv[1]) == "frozen";
  const auto mode = frozen ? tenon::Mode::kFrozen : tenon::Mode::kShared;
  const std::vector<float> ones(1000, 1);
  const auto weights = tenon::Tensor::make_from<float>(ones, {1000}, {.mode = mode});
  {
    auto connection = tenon::Connection::make(ends[0], {.adopt_socket = true});
    connection.send(tenon::Message::of({{"weights", weights}}));
    connection.recv();  // the borrower is done
    std::cout << "lender: the first weight is " << weights.view<float>()[0] << std::endl;
  }
  return wait(nullptr) < 0;
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
