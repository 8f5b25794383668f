// Reads a borrowed tensor and writes to it. Its standard input is a socket to the lender.
#include <unistd.h>

#include <iostream>
#include <tenon/tenon.hpp>

int main() try {
  auto lender = tenon::Connection::make(STDIN_FILENO);
  tenon::Tensor weights = lender.recv()["weights"];
  std::cout << "borrower: the first weight is " << weights.view<float>()[0] << std::endl;
  try {
    weights.view_mut<float>()[0] = 42;
  } catch (const tenon::PermissionDenied& error) {
    std::cout << "borrower: cannot write: " << error.what() << std::endl;
  }
  lender.send(tenon::Message::make());  // the borrower is done
  try {
    lender.recv();  // waits until the lender closes the connection
  } catch (const tenon::PeerGone&) {
  }
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
