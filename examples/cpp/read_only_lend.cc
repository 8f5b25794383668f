// Lends weights that nobody can change any more. The borrower reads them in place, and is refused
// when it tries to write.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <tenon/tenon.hpp>
#include <vector>

int main() try {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  if (fork() == 0) {  // the borrower
    auto connection = tenon::Connection::make(ends[1]);
    tenon::Tensor weights = connection.recv()["weights"];
    std::cout << "borrower: the third weight is " << weights.view<float>()[2] << "\n";
    try {
      weights.view_mut<float>()[2] = 0;
    } catch (const tenon::PermissionDenied& error) {
      std::cout << "borrower: cannot write: " << error.what() << "\n";
      return 0;
    }
    return 1;
  }
  const std::vector<float> values{0.5F, 1.5F, 2.5F, 3.5F};
  const auto weights = tenon::Tensor::make_from<float>(values, {4}, {.mode = tenon::Mode::kFrozen});
  auto connection = tenon::Connection::make(ends[0]);
  connection.send(tenon::Message::of({{"weights", weights}}));
  int result = 0;
  if (wait(&result) < 0 || result != 0) return 1;
  std::cout << "lender: lent once, " << weights.nbytes() << " bytes, nothing copied on the way\n";
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
