// Four workers use one copy of a model's weights. The first that opens the name loads the file, and
// the others map the same memory. The worker that loaded is then killed, and a fifth one attaches
// all the same.
//
// usage: weights_once [FILE DIRECTORY]   with arguments it is a worker; an empty FILE only attaches
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

namespace {

constexpr int kFloats = 4'000'000;

// A safetensors file of one tensor, as a model's weights come from a hub.
void write_file(const std::string& path) {
  const std::string nbytes = std::to_string(kFloats * sizeof(float));
  const std::string header = R"({"layer.weight":{"dtype":"F32","shape":[)" +
                             std::to_string(kFloats) + R"(],"data_offsets":[0,)" + nbytes + "]}}";
  const std::uint64_t length = header.size();
  const std::vector<float> values(kFloats, 2.5F);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length) << header;
  file.write(reinterpret_cast<const char*>(values.data()), kFloats * sizeof(float));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

// This process's share, in KiB, of the pages of the mapping at an address.
long pss_kib(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2)
      is_here = begin <= wanted && wanted < end;
    else if (is_here && line.starts_with("Pss:"))
      return std::stol(line.substr(4));
  }
  return 0;
}

void work(const std::string& file, const std::string& directory) {
  const auto weights = tenon::SharedWeights::open(file.empty() ? std::nullopt : std::optional(file),
                                                  "model", {.directory = directory});
  const auto tensor = weights.tensor("layer.weight").as<tenon::Tensor>();
  double sum = 0;
  for (const float each : tensor.view<float>()) sum += static_cast<double>(each);
  std::cout << weights.info().loaded << " " << std::fixed << std::setprecision(0) << sum
            << std::endl;
  std::string line;
  std::getline(std::cin, line);  // until all workers have read all weights
  std::cout << pss_kib(tensor.view<float>().data()) << std::endl;
  std::getline(std::cin, line);  // a worker would serve requests now
}

// Another process of this program.
class Worker {
 public:
  Worker(const std::string& file, const std::string& directory) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      execl("/proc/self/exe", "weights_once", file.c_str(), directory.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    end_ = ends[0];
  }

  std::istringstream ask(const std::string& say = {}) const {
    std::string line;
    char byte = 0;
    if (write(end_, say.data(), say.size()) < 0) throw std::runtime_error("a worker is gone");
    while (read(end_, &byte, 1) == 1 && byte != '\n') line += byte;
    return std::istringstream(line);
  }

  void end(bool at_once) const {
    if (at_once) kill(pid_, SIGKILL);
    close(end_);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  int end_ = -1;
};

void run() {
  std::string folder = "/tmp/tenon-weights-once-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder");
  const std::string file = folder + "/model.safetensors";
  write_file(file);
  std::vector<Worker> workers;
  for (int i = 0; i < 4; ++i) workers.emplace_back(file, folder);
  int loads = 0;
  std::size_t loader = 0;
  std::string sum;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    int loaded = 0;
    workers[i].ask() >> loaded >> sum;
    loads += loaded;
    if (loaded == 1) loader = i;
  }
  std::cout << "4 workers read " << sum << ", and " << loads << " of them loaded the file\n";
  long pss = 0;
  for (const Worker& worker : workers) {
    long own = 0;
    worker.ask("\n") >> own;
    pss += own;
  }
  std::cout << "the file has " << std::filesystem::file_size(file) / 1024
            << " KiB, and all workers together " << pss << " KiB\n";
  workers[loader].end(true);
  workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(loader));
  std::filesystem::remove(file);
  workers.emplace_back("", folder);  // without a file: it can only attach
  std::string loaded;
  workers.back().ask() >> loaded >> sum;
  std::cout << "the loader was killed, and a new worker reads " << sum << "\n";
  for (const Worker& worker : workers) worker.end(false);
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 3)
    work(argv[1], argv[2]);
  else
    run();
} catch (const std::exception& error) {
  std::cerr << "weights_once: " << error.what() << "\n";
  return 1;
}
