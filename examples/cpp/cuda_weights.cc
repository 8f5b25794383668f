// Lends weights on a GPU to another process, as a trainer does for its workers. The lender reads an
// archive into device memory, and lends the tensors over a connection. Then it does the same with
// the next archive. The worker uses the tensors in place, without a copy. Without CUDA the program
// says why, and exits with 77, as a skipped test does. usage: cuda_weights FILE...
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <tenon/tenon.hpp>
#include <vector>

namespace {

// The host cannot read device memory, so the elements travel through an archive.
double sum_of(const tenon::Tensor& tensor) {
  auto module = tenon::Module::make("Weight");
  module.add_buffer("weight", tensor);
  const auto archive = std::make_shared<std::vector<std::byte>>();
  tenon::export_module_to(module, [&](std::span<const std::byte> piece) {
    archive->insert(archive->end(), piece.begin(), piece.end());
  });
  const auto copy =
      tenon::import_module_memory(*archive, [archive] {}).value("weight").as<tenon::Tensor>();
  const auto values = copy.view<float>();
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void show(const tenon::Message& weights) {
  const auto file = weights.user_bytes();
  std::cout << std::string_view(reinterpret_cast<const char*>(file.data()), file.size()) << ":\n";
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const tenon::Tensor tensor = weights[k];
    const tenon::TensorView view = tensor.view();
    std::cout << "  " << *weights.name(k) << ": " << tenon::name_of(view.dtype()) << " [";
    for (std::size_t i = 0; i < view.sizes().size(); ++i)
      std::cout << (i == 0 ? "" : ", ") << view.sizes()[i];
    std::cout << "] on cuda:" << view.device().id << ", the sum is " << sum_of(tensor) << "\n";
  }
}

int work(int end) try {
  auto lender = tenon::Connection::make(end);
  for (tenon::Message weights;;) {
    weights = lender.recv();  // the old weights go back to the lender
    show(weights);
  }
} catch (const tenon::PeerGone&) {
  return 0;
}

void lend(tenon::Connection& worker, const std::string& file) {
  const auto model = tenon::import_module(file, {.tensors = tenon::ImportTensors::kDevice});
  auto message = tenon::Message::make();
  message.set_user_bytes(std::as_bytes(std::span(file)));
  for (const tenon::Member& member : model.tensors())
    message.add(member.value.as<tenon::Tensor>(), member.name);
  worker.send(message);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: cuda_weights FILE...\n";
    return 2;
  }
  if (std::string_view(argv[1]) == "--worker") return work(STDIN_FILENO);
  if (const auto available = tenon::try_cuda_available(); !available) {
    std::cerr << "cuda_weights: " << available.error().what() << "\n";
    return 77;
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 1;
  const pid_t child = fork();
  // The worker is a new program, because CUDA's driver does not work in a child of a process that
  // has used it.
  if (child == 0) {
    if (dup2(ends[1], STDIN_FILENO) == STDIN_FILENO)
      execl("/proc/self/exe", argv[0], "--worker", nullptr);
    _exit(127);
  }
  close(ends[1]);
  {
    auto worker = tenon::Connection::make(ends[0], {.adopt_socket = true});
    for (int i = 1; i < argc; ++i) lend(worker, argv[i]);
  }
  int result = 0;
  // The lent memory exists as long as this process.
  if (waitpid(child, &result, 0) != child || result != 0) return 1;
  std::cout << tenon::cuda_collect() << " storages are still lent\n";
} catch (const tenon::Error& error) {
  std::cerr << "cuda_weights: " << error.what() << "\n";
  return 1;
}
