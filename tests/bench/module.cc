// A module of 512 MiB and of 4 GiB: export against pwrite, its memory, opening of 1,000 tensors.
//
// The module has layers of four tensors, over memory that exists and is filled before. It goes to a
// new file in TMPDIR, or /tmp. The same bytes go to another file by one pwrite for each tensor.
// Both files are removed before the next round, which begins without dirty pages. The sides take
// turns in going first. The opened file is in the page cache, and the checksums of the level
// `structure` are verified.

#include <malloc.h>
#include <sys/mman.h>

#include <iostream>

#include "bench/bench.h"
#include "bench/files.h"
#include "support/sized.h"

namespace {

constexpr size_t kTensorsOfLayer = 4;

constexpr bench::Goal kAsQuick{"ours/theirs", "at_least", 0.9};
constexpr bench::Goal at_most(double value) { return {"ours", "at_most", value}; }

// Shared memory that is filled: a new memfd, or the memory of an fd.
class Memory {
 public:
  Memory(uint64_t nbytes, int fd) : nbytes_(nbytes) {
    void* const at = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE,
                          fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    BENCH_CHECK(at != MAP_FAILED);
    std::memset(at, 7, nbytes);
    bytes_ = static_cast<std::byte*>(at);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(bytes_, nbytes_); }

  std::byte* bytes() const noexcept { return bytes_; }
  uint64_t nbytes() const noexcept { return nbytes_; }

 private:
  std::byte* bytes_;
  uint64_t nbytes_;
};

tenon_value* new_tensor(std::byte* bytes, uint64_t nbytes) {
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_storage_wrap(bytes, nbytes, nullptr, nullptr, nullptr, &storage, &err));
  const auto numel = static_cast<int64_t>(nbytes / sizeof(float));
  auto spec = tenon::test::sized<tenon_tensor_spec>();
  spec.dtype = {TENON_DTYPE_FLOAT, 32, 1};
  spec.ndim = 1;
  spec.sizes = &numel;
  tenon_tensor* tensor = nullptr;
  BENCH_OK(tenon_tensor_new(storage, &spec, &tensor, &err));
  tenon_value* value = nullptr;
  BENCH_OK(tenon_value_new_tensor(tensor, &value, &err));
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  return value;
}

class Net {
 public:
  Net(const Memory& memory, size_t tensors) : memory_(&memory), tensors_(tensors) {
    constexpr const char* kNames[kTensorsOfLayer] = {"weight", "bias", "scale", "shift"};
    constexpr const char* kForward = "def forward(self, x: Tensor) -> Tensor:\n  return x\n";
    const uint64_t each = memory.nbytes() / tensors / 64 * 64;
    BENCH_CHECK(each > 0 && tensors % kTensorsOfLayer == 0);
    std::byte* at = memory.bytes();
    BENCH_OK(tenon_module_new("Net", &module_, &err));
    for (size_t i = 0; i < tensors / kTensorsOfLayer; ++i) {
      tenon_module* layer = nullptr;
      BENCH_OK(tenon_module_new("Layer", &layer, &err));
      for (const char* name : kNames) {
        tenon_value* value = new_tensor(at, each);
        BENCH_OK(tenon_module_add_buffer(layer, name, value, &err));
        tenon_value_release(value);
        at += each;
      }
      BENCH_OK(tenon_module_define(layer, kForward, &err));
      BENCH_OK(tenon_module_add_submodule(module_, ("layer" + std::to_string(i)).c_str(), layer,
                                          nullptr, &err));
      tenon_module_release(layer);
    }
    BENCH_OK(tenon_module_define(module_, kForward, &err));
    nbytes_ = static_cast<uint64_t>(at - memory.bytes());
  }
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;
  ~Net() { tenon_module_release(module_); }

  const tenon_module* module() const noexcept { return module_; }
  uint64_t nbytes() const noexcept { return nbytes_; }
  int64_t pwrite_ns(bool durable) const {
    return bench::pwrite_ns(memory_->bytes(), nbytes_, tensors_, durable);
  }

 private:
  const Memory* memory_;
  tenon_module* module_ = nullptr;
  size_t tensors_;
  uint64_t nbytes_ = 0;
};

int64_t export_ns(const tenon_module* module, const std::string& path, bool durable) {
  auto options = tenon::test::sized<tenon_export_options>();
  options.durability = durable ? TENON_DURABILITY_FILE : TENON_DURABILITY_NONE;
  const int64_t begin = bench::now_ns();
  BENCH_OK(tenon_export_module(module, path.c_str(), &options, nullptr, &err));
  return bench::now_ns() - begin;
}

struct Opened {
  int64_t ns;
  tenon_module* module;
};

// Opens a module after the heap has returned what earlier rounds left in it, as in a process that
// opens its first module.
Opened open_module(const std::string& path) {
  Opened opened{};
  malloc_trim(0);
  const int64_t begin = bench::now_ns();
  BENCH_OK(tenon_import_module(path.c_str(), nullptr, &opened.module, &err));
  opened.ns = bench::now_ns() - begin;
  return opened;
}

// Measures the export of a module that has the net's tensors.
void measure_export(bench::Row row, const Net& net, const tenon_module* module, bool durable,
                    size_t rounds) {
  const std::string path = bench::file_path();
  row.against = durable ? "pwrite and fsync" : "pwrite";
  for (size_t round = 0; round <= rounds; ++round) {
    int64_t ours = 0;
    int64_t theirs = 0;
    for (const bool our_turn : {round % 2 == 0, round % 2 != 0}) {
      bench::settle_files();
      if (our_turn) {
        ours = export_ns(module, path, durable);
        BENCH_CHECK(unlink(path.c_str()) == 0);
      } else {
        theirs = net.pwrite_ns(durable);
      }
    }
    if (round == 0) continue;  // warm-up
    row.ours.push_back(static_cast<double>(net.nbytes()) / static_cast<double>(ours));
    row.theirs.push_back(static_cast<double>(net.nbytes()) / static_cast<double>(theirs));
  }
  bench::print(row);
}

uint64_t peak_nbytes() {
  std::ifstream figures("/proc/self/status");
  unsigned long long kib = 0;
  for (std::string line; std::getline(figures, line);) {
    if (std::sscanf(line.c_str(), "VmHWM: %llu kB", &kib) == 1) break;
  }
  BENCH_CHECK(kib != 0);
  return uint64_t{kib} << 10;
}

// Resets the process's peak to its current memory.
void forget_peak() {
  std::ofstream order("/proc/self/clear_refs");
  BENCH_CHECK(order << "5" << std::flush);
}

// Measures the first export of this process, which also reads the tables that later exports reuse.
void measure_memory(const std::string& what, const Net& net) {
  const std::string path = bench::file_path();
  forget_peak();
  const uint64_t before = peak_nbytes();
  export_ns(net.module(), path, false);
  const uint64_t after = peak_nbytes();
  BENCH_CHECK(unlink(path.c_str()) == 0);
  bench::print({what, "MB", "", at_most(16), {static_cast<double>(after - before) / 1e6}, {}});
}

// Measures opening a file, and exporting the opened module, whose tensors are views of that file.
void measure_opening(const std::string& size, const Memory& memory, size_t tensors, size_t rounds,
                     size_t export_rounds) {
  const Net net(memory, tensors);
  const std::string path = bench::file_path() + ".open";
  const std::string of_many = size + " in " + std::to_string(tensors) + " tensors";
  export_ns(net.module(), path, false);
  bench::Row row{"open a module of " + of_many, "ms", "", at_most(5), {}, {}};
  for (size_t round = 0; round <= rounds; ++round) {
    const Opened opened = open_module(path);
    if (round > 0) row.ours.push_back(static_cast<double>(opened.ns) / 1e6);
    tenon_module_release(opened.module);
  }
  bench::print(row);
  const Opened opened = open_module(path);
  unlink(path.c_str());
  auto report = tenon::test::sized<tenon_import_report>();
  BENCH_OK(tenon_module_import_report(opened.module, &report, &err));
  BENCH_CHECK(report.mapped_storages == tensors);
  measure_export({"export the opened module of " + of_many, "GB/s", {}, {}, {}, {}}, net,
                 opened.module, false, export_rounds);
  tenon_module_release(opened.module);
}

bool has_room(uint64_t nbytes, uint64_t files) {
  const std::string lack = bench::lack_of_room(nbytes, files);
  if (!lack.empty())
    std::printf("{\"left_out\": \"a module of %s: %s\"}\n", bench::size_text(nbytes).c_str(),
                lack.c_str());
  return lack.empty();
}

void measure_exports(const Net& net, const std::string& size, size_t tensors, size_t rounds) {
  const std::string what =
      "export a module of " + size + " in " + std::to_string(tensors) + " tensors";
  measure_export({what, "GB/s", {}, kAsQuick, {}, {}}, net, net.module(), false, rounds);
  measure_export({what + ", durable", "GB/s", {}, kAsQuick, {}, {}}, net, net.module(), true,
                 rounds);
}

void run_medium(uint64_t nbytes, size_t tensors, size_t many_tensors, size_t rounds,
                size_t open_rounds) {
  if (!has_room(nbytes, 2)) return;  // the file that is opened, and its export
  const std::string size = bench::size_text(nbytes);
  const Memory memory(nbytes, -1);
  {
    const Net net(memory, tensors);
    measure_memory("memory of an export of " + size + ", beside its tensors", net);
    measure_exports(net, size, tensors, rounds);
  }
  measure_opening(size, memory, many_tensors, open_rounds, rounds);
}

void run_large(uint64_t nbytes, size_t tensors, size_t rounds) {
  if (!has_room(nbytes, 1)) return;
  const Memory memory(nbytes, -1);
  measure_exports(Net(memory, tensors), bench::size_text(nbytes), tensors, rounds);
}

// Serves lines "export PATH" and "open PATH" on stdin, and answers each with its nanoseconds. The
// tensors lie in the memory of the fd, so PyTorch's tensors can lie there, too.
void serve_pairs(int fd, uint64_t nbytes, size_t tensors) {
  const Memory memory(nbytes, fd);
  const Net net(memory, tensors);
  std::cout << net.nbytes() << std::endl;
  for (std::string order, path; std::cin >> order >> path;) {
    if (order == "export") {
      std::cout << export_ns(net.module(), path, false) << std::endl;
      continue;
    }
    const Opened opened = open_module(path);
    std::cout << opened.ns << std::endl;
    tenon_module_release(opened.module);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--pairs") == 0) {
    serve_pairs(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10),
                std::strtoull(argv[4], nullptr, 10));
    return 0;
  }
  if (bench::wants_smoke(argc, argv)) {
    run_medium(uint64_t{1} << 20, 20, 40, 1, 1);
    run_large(uint64_t{2} << 20, 20, 1);
    return 0;
  }
  run_medium(uint64_t{512} << 20, 100, 1000, 9, 50);
  run_large(uint64_t{4} << 30, 100, 5);
  return 0;
}
