// Two processes share nothing but a name. One process makes memory for a tensor under the name. The
// other one is started with the name as its argument, opens it and writes. usage: by_name [NAME]
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <tenon/tenon.hpp>

namespace {

constexpr int kCount = 1000;

void borrow(const char* name) {
  // Every process that may write to a named file can cut it short. A process that opens the file
  // trusts them.
  const tenon::Storage storage = tenon::open_filename(
      {.name = name, .nbytes = kCount * sizeof(int)}, {.allow_unsealed = true});
  tenon::Tensor numbers = tenon::Tensor::over(storage, {kCount}, tenon::kDtypeOf<int>);
  const std::span<int> values = numbers.view_mut<int>();
  for (int i = 0; i < kCount; ++i) values[static_cast<std::size_t>(i)] = i * i;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2) {
    borrow(argv[1]);
    return 0;
  }
  tenon::FilenameHandle handle;
  {
    const tenon::Storage storage = tenon::make_filename(kCount * sizeof(int));
    handle = tenon::share_filename(storage);
    if (fork() == 0) {
      execl("/proc/self/exe", argv[0], handle.name.c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    if (wait(&status) < 0 || status != 0) return 1;
    const auto numbers = tenon::Tensor::over(storage, {kCount}, tenon::kDtypeOf<int>);
    std::cout << "the other process wrote " << numbers.view<int>()[kCount - 1] << "\n";
  }  // the last holder releases the storage, and the name goes
  const bool gone = tenon::try_open_filename(handle).code() == tenon::Code::kNotFound;
  std::cout << "the name is " << (gone ? "gone" : "still there") << "\n";
} catch (const tenon::Error& error) {
  std::cerr << "by_name: " << error.what() << "\n";
  return 1;
}
