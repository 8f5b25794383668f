// Lends a sparse matrix. The borrower checks its indices and reads it in place.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <numeric>
#include <tenon/tenon.hpp>
#include <vector>

int main() try {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  if (fork() == 0) {  // the borrower
    auto connection = tenon::Connection::make(ends[1]);
    // The lender could have sent an index that leads out of the matrix.
    const tenon::CompositeSpec features =
        connection.recv().find_composite("features").check().spec();
    const auto first = features.indices.view<std::int64_t>();
    const auto values = features.values.view<float>();
    std::cout << "borrower: the rows sum to";
    for (std::size_t row = 0; row + 1 < first.size(); ++row) {
      std::cout << " "
                << std::accumulate(values.begin() + first[row], values.begin() + first[row + 1],
                                   0.0F);
    }
    std::cout << "\n";
    return 0;
  }
  const tenon::StorageOptions frozen{.mode = tenon::Mode::kFrozen};
  // [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]]
  tenon::CompositeSpec spec;
  spec.layout = tenon::TensorLayout::kSparseCsr;
  spec.sizes = {3, 4};
  spec.values = tenon::Tensor::make_from<float>(std::vector<float>{1, 2, 3}, {3}, frozen);
  spec.indices =
      tenon::Tensor::make_from<std::int64_t>(std::vector<std::int64_t>{0, 2, 2, 3}, {4}, frozen);
  spec.plain_indices =
      tenon::Tensor::make_from<std::int64_t>(std::vector<std::int64_t>{0, 3, 1}, {3}, frozen);
  auto message = tenon::Message::make();
  message.add(tenon::Composite::make(spec), "features");
  auto connection = tenon::Connection::make(ends[0]);
  connection.send(message);
  int result = 0;
  if (wait(&result) < 0 || result != 0) return 1;
  std::cout << "lender: lent " << spec.values.numel()
            << " of 12 elements, nothing copied on the way\n";
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
