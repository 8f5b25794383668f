// Kills a borrower and uses its memory again. usage: reclaim BORROWER...
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <tenon/tenon.hpp>

int main(int argc, char** argv) try {
  int ends[2];
  if (argc < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 2;
  const pid_t borrower = fork();
  if (borrower == 0) {
    dup2(ends[1], STDIN_FILENO);
    execvp(argv[1], argv + 1);
    _exit(127);
  }
  close(ends[1]);

  auto connection = tenon::Connection::make(ends[0], {.adopt_socket = true});
  const auto arena = tenon::Arena::make({.capacity_nbytes = 4 << 20});  // room for one tensor
  tenon::StorageOptions options{.arena = &arena};
  connection.send(tenon::Message::of({{"weights", tenon::zeros<float>({1 << 20}, options)}}));
  connection.recv();  // the borrower is done, and still holds the tensor
  if (const auto full = tenon::Storage::try_make(4 << 20, options); !full)
    std::cout << "lender: no room. " << full.error().detail("holders").value_or("") << std::endl;

  kill(borrower, SIGKILL);
  options.wait.timeout = std::chrono::seconds(10);  // wait until there is room
  tenon::Storage::make(4 << 20, options);
  std::cout << "lender: the borrower was killed, and its memory is free" << std::endl;
  return waitpid(borrower, nullptr, 0) < 0;
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
