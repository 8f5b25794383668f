// Tests modules whose tensors lie on a device: exports to archives and imports from archives.
#include <filesystem>
#include <fstream>
#include <thread>

#include "cuda/host_copy.h"
#include "gate.h"
#include "support/sanitizers.h"
#include "unit/module/module_kit.h"

namespace tenon::module {
namespace {

using cuda_test::driver;
using cuda_test::in_child;
using cuda_test::library;
using cuda_test::Memory;
using cuda_test::on_the_fake;
using cuda_test::pointer_of;
using cuda_test::start;
using cuda_test::use_device;
using cuda_test::wait_for;
using storage::Storage;
using value::StorageValue;
using value::StorageValueRef;

constexpr uint64_t kPiece = cuda::HostCopy::kPieceNbytes;

using Place = std::function<Ref<Storage>(const std::vector<std::byte>& bytes)>;

Ref<Storage> on_host(const std::vector<std::byte>& bytes) {
  return must(Storage::create_from({}, bytes.data(), bytes.size()));
}

void free_and_delete(void* context) {
  cuda_test::free_memory(context);
  delete static_cast<Memory*>(context);
}

Ref<Storage> on_device(const std::vector<std::byte>& bytes, int device) {
  if (bytes.empty()) return must(device::wrap_cuda(nullptr, 0, device, nullptr, nullptr, false));
  use_device(device);
  auto* const memory = new Memory(bytes.size());
  EXPECT_EQ(
      driver().cuMemcpy(memory->pointer, reinterpret_cast<uintptr_t>(bytes.data()), bytes.size()),
      CUDA_SUCCESS);
  return must(
      device::wrap_cuda(memory->data(), bytes.size(), device, free_and_delete, memory, false));
}
Ref<Storage> on_first(const std::vector<std::byte>& bytes) { return on_device(bytes, 0); }

std::vector<std::byte> bytes_of(const Storage& storage) {
  std::vector<std::byte> bytes(storage.nbytes());
  if (bytes.empty()) return bytes;
  if (storage.device_memory() == nullptr) {
    std::memcpy(bytes.data(), storage.data(), bytes.size());
  } else {
    EXPECT_EQ(driver().cuMemcpy(reinterpret_cast<uintptr_t>(bytes.data()),
                                reinterpret_cast<uintptr_t>(storage.data()), bytes.size()),
              CUDA_SUCCESS);
  }
  return bytes;
}

// Small numbers that differ from one piece to the next.
std::vector<std::byte> some_floats(uint64_t numel) {
  std::vector<std::byte> bytes(numel * sizeof(float));
  for (uint64_t i = 0; i < numel; ++i) {
    const auto number = static_cast<float>(i % 1021);
    std::memcpy(bytes.data() + i * sizeof number, &number, sizeof number);
  }
  return bytes;
}

ValueRef tensor(const StorageValueRef& storage, int64_t numel, int64_t offset = 0) {
  value::StridedSpec spec;
  spec.storage = storage;
  spec.sizes = {numel};
  spec.strides = {1};
  spec.offset = offset;
  return Value::of_tensor(must(value::TensorValue::create(spec)));
}

StorageValueRef floats_at(const Place& place, uint64_t numel) {
  return must(StorageValue::whole(tensor::ScalarType::kFloat, place(some_floats(numel))));
}

// A module with parameters, buffers, attributes and constants of the code. Two of its tensors share
// a storage, one views a part of a storage, and one has no elements. Its records have all the
// lengths at which the code takes another path.
Ref<Module> net(const Place& place) {
  const Ref<Module> module = must(Module::create("Net"));
  const StorageValueRef w = floats_at(place, 4);
  const StorageValueRef big = floats_at(place, 2 * kPiece / sizeof(float) + 1000);
  ok(module->add_parameter("w", tensor(w, 4)));
  ok(module->add_parameter("tied", tensor(w, 4)));
  ok(module->add_buffer("big", tensor(big, 1000)));
  ok(module->add_buffer("part", tensor(big, 3, 2000)));
  ok(module->add_buffer("none", tensor(floats_at(place, 0), 0)));
  for (const uint64_t nbytes : {uint64_t{64} << 10, (uint64_t{64} << 10) + 4, kPiece, kPiece + 4}) {
    const std::string name = "of_" + std::to_string(nbytes);
    ok(module->add_buffer(name, tensor(floats_at(place, nbytes / sizeof(float)), 1)));
  }
  const TypeRef list = type("List[Tensor]");
  ok(module->add_attribute("parts", list,
                           Value::list(list, {tensor(floats_at(place, 2), 2), tensor(w, 2, 1)})));
  ok(
      module->define("def forward(self, x: Tensor) -> Tensor:\n"
                     "  return x * self.w + self.tied + torch.sum(self.part) + torch.sum(self.big) "
                     "+ torch.sum(self.parts[1])\n"));
  return module;
}

// Expects that an export or an import left no object, and that no rule was broken.
void expect_clean() {
  for (const int kind : {FAKE_CUDA_HOST_ALLOCATION, FAKE_CUDA_HOST_REGISTRATION, FAKE_CUDA_STREAM,
                         FAKE_CUDA_EVENT}) {
    EXPECT_COUNT(0U, fake_cuda_live, kind, 0) << kind;
  }
  EXPECT_COUNT(0U, fake_cuda_faults, 0);
}
uint64_t allocations() { return COUNT(fake_cuda_live, FAKE_CUDA_ALLOCATION, 0); }

ExportOptions keeping() {
  ExportOptions options;
  options.keep_device = true;
  return options;
}
ImportOptions to_device(int32_t device = 0) {
  ImportOptions options = with_tensors(Tensors::kDevice);
  options.device = device;
  return options;
}

Ref<Storage> storage_of(const Module& module, const char* path) {
  return must(module.find(path)).value->as_tensor()->storage()->bytes();
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

TEST(CudaArchive, TheSameBytesAsOfTheHost) {
  in_child({}, [] {
    use_device();
    const std::vector<std::byte> of_host = exported(*net(on_host));
    const uint64_t before = allocations();
    {
      const Ref<Module> module = net(on_first);
      const uint64_t calls = COUNT(fake_cuda_calls, "cuMemHostAlloc", 0);
      EXPECT_TRUE(exported(*module) == of_host);
      EXPECT_COUNT(calls + cuda::HostCopy::kPieces, fake_cuda_calls, "cuMemHostAlloc", 0);
      expect_clean();
    }
    EXPECT_EQ(allocations(), before);
  });
}

TEST(CudaArchive, TheDeviceIsKeptIfAsked) {
  in_child({"FAKE_CUDA_DEVICES=gpu=512,gpu=512"}, [] {
    const int32_t last = on_the_fake() ? 1 : 0;  // a real machine may have one device only
    const std::string name_of_last = "cuda:" + std::to_string(last);
    const std::vector<std::byte> of_host = exported(*net(on_host));
    int next = 0;
    const std::vector<std::byte> of_all = exported(
        *net([&](const auto& bytes) { return on_device(bytes, next++ % (last + 1)); }), keeping());
    const std::string pickle = records_of(of_all).at("data.pkl");
    EXPECT_NE(pickle.find("cuda:0"), std::string::npos);
    EXPECT_NE(pickle.find(name_of_last), std::string::npos);
    EXPECT_EQ(pickle.find("cpu"), std::string::npos);
    expect_clean();
    // Without an option the tensors come to the host, and the report says so.
    for (const Tensors tensors : {Tensors::kMap, Tensors::kFill}) {
      const Ref<Module> back = must(imported(of_all, with_tensors(tensors)));
      EXPECT_EQ(storage_of(*back, "w")->device(), storage::kCpu);
      EXPECT_TRUE(exported(*back) == of_host);
      ASSERT_EQ(back->package().report.warnings.size(), 1U);
      EXPECT_NE(back->package().report.warnings[0].find("another device (cuda:"),
                std::string::npos);
    }
    EXPECT_TRUE(must(imported(of_host))->package().report.warnings.empty());
    // All tensors go to the named device, wherever they were before.
    const Ref<Module> there = must(imported(of_all, to_device(last)));
    EXPECT_EQ(storage_of(*there, "w")->device(), (storage::Device{storage::kCuda, last}));
    EXPECT_EQ(must(there->find("w")).value->as_tensor()->device(), name_of_last);
    if (last != 0)
      EXPECT_EQ(records_of(exported(*there, keeping())).at("data.pkl").find("cuda:0"),
                std::string::npos);
    EXPECT_TRUE(exported(*there) == of_host);
  });
}

uint64_t anonymous_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8));
  }
  ADD_FAILURE() << "the kernel does not tell";
  return 0;
}

// Measures this process's anonymous memory during an export. The fake driver pins anonymous memory,
// and keeps device memory in a file, so device memory does not count.
struct Peak {
  uint64_t before = anonymous_kib();
  uint64_t most = 0;
  uint64_t nbytes = 0;
  static int64_t write(void* context, const void* /*data*/, size_t nbytes) {
    auto* const peak = static_cast<Peak*>(context);
    peak->most = std::max(peak->most, anonymous_kib());
    peak->nbytes += nbytes;
    return static_cast<int64_t>(nbytes);
  }
};

TEST(CudaArchive, TheHostNeverHasTheWhole) {
#if TENON_TEST_TSAN
  GTEST_SKIP()
      << "what ThreadSanitizer keeps of each byte that was touched is anonymous memory, too";
#endif
  in_child({}, [] {
    constexpr uint64_t kMiB = uint64_t{1} << 20;
    use_device();
    Memory memory(256 * kMiB);
    const Ref<Module> module = must(Module::create("Net"));
    const StorageValueRef storage =
        must(StorageValue::whole(tensor::ScalarType::kFloat, cuda_test::wrap(&memory)));
    ok(module->add_parameter("w", tensor(storage, 4)));
    const auto peak_of_an_export = [&] {
      Peak peak;
      archive::CallbackSink sink(Peak::write, &peak);
      ok(export_module(*module, &sink, {}, nullptr));
      return peak;
    };
    if (!on_the_fake()) peak_of_an_export();  // the driver allocates its own memory in this run
    const Peak peak = peak_of_an_export();
    EXPECT_GT(peak.nbytes, 256 * kMiB);
    EXPECT_GT(peak.most, 0U);
    EXPECT_LT(peak.most - std::min(peak.most, peak.before), 32 * 1024U);
    expect_clean();
  });
}

// The work on the stream is unfinished when the export begins. The export must wait for it.
TEST(CudaArchive, WhatWasGivenToTheStreamComesFirst) {
  in_child({}, [] {
    use_device();
    CUstream stream = nullptr;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUstream used : {stream, CUstream{}}) {
      Memory memory(cuda_test::kNbytes);
      const Ref<Module> module = must(Module::create("Net"));
      ok(module->add_parameter("w", tensor(must(StorageValue::whole(tensor::ScalarType::kFloat,
                                                                    cuda_test::wrap(&memory))),
                                           4)));
      cuda_test::Gate gate;
      gate.stand_in(used);
      for (unsigned char byte = 1; byte <= 5; ++byte)
        cuda_test::fill(memory.pointer, byte, memory.nbytes, used);
      EXPECT_EQ(driver().cuStreamQuery(used), CUDA_ERROR_NOT_READY);
      ExportOptions options;
      options.stream = used;
      std::thread opener([&] {
        usleep(200'000);
        gate.open();
      });
      EXPECT_EQ(records_of(exported(*module, options)).at("data/0"),
                std::string(memory.nbytes, '\5'));
      opener.join();
    }
    CU(cuStreamDestroy(stream));
    expect_clean();
  });
}

// Also runs with slow copies: no piece of the buffer is refilled before its copy is done, and all
// copies are done when the import returns.
TEST(CudaArchive, ImportedIntoOneAllocation) {
  const auto body = [] {
    use_device();
    const Ref<Module> host = net(on_host);
    const std::vector<std::byte> bytes = exported(*host);
    {
      const Ref<Module> module = must(imported(bytes, to_device()));
      EXPECT_COUNT(1U, fake_cuda_live, FAKE_CUDA_ALLOCATION, 0);
      expect_clean();
      for (const char* name :
           {"w", "big", "part", "of_65536", "of_65540", "of_4194304", "of_4194308"}) {
        const Ref<Storage> there = storage_of(*module, name);
        EXPECT_EQ(there->device(), (storage::Device{storage::kCuda, 0})) << name;
        EXPECT_EQ(pointer_of(there) % 256, 0U);
        EXPECT_TRUE(bytes_of(*there) == bytes_of(*storage_of(*host, name))) << name;
      }
      EXPECT_EQ(storage_of(*module, "w").get(), storage_of(*module, "tied").get());
      EXPECT_EQ(storage_of(*module, "none")->device().type, storage::kCuda);
      EXPECT_EQ(module->package().report.mapped_tensors, 0U);
      EXPECT_EQ(module->package().report.filled_tensors, 7U);
      EXPECT_TRUE(exported(*module) == bytes);
      // Imported memory can be lent, like any memory of cudaMalloc.
      EXPECT_FALSE(cuda_test::share(storage_of(*module, "big")).memory.empty());
      EXPECT_EQ(storage_of(*module, "w")->read(0, nullptr, 0).code(), Code::kUnsupported);
    }
    // The handle that was not opened keeps the allocation. So one tensor keeps the memory of all.
    EXPECT_COUNT(1U, fake_cuda_live, FAKE_CUDA_ALLOCATION, 0);
  };
  in_child({}, body);
  if (on_the_fake()) in_child({"FAKE_CUDA_LATENCY=stream=5000"}, body);
}

TEST(CudaArchive, AMapPutsTheTensorsOfEachDevice) {
  if (!on_the_fake())
    GTEST_SKIP() << "it takes two devices, and one is what every real machine has";
  in_child({"FAKE_CUDA_DEVICES=gpu=512,gpu=512"}, [] {
    use_device();
    const Ref<Module> both = must(Module::create("Both"));
    ok(both->add_parameter("first", tensor(floats_at(on_first, 4), 4)));
    ok(both->add_parameter(
        "second", tensor(floats_at([](const auto& bytes) { return on_device(bytes, 1); }, 5), 5)));
    ok(both->add_buffer("host", tensor(floats_at(on_host, 6), 6)));
    const std::vector<std::byte> bytes = exported(*both, keeping());
    const auto place_of = [](const Module& module, const char* name) {
      const storage::Device device = storage_of(module, name)->device();
      return device.type == storage::kCuda ? device.id : -1;
    };
    struct {
      const char* map;
      Tensors tensors;
      std::array<int32_t, 3> places;  // places of `first`, `second` and `host`
      size_t warnings;
    } const cases[] = {
        {"", Tensors::kMap, {-1, -1, -1}, 1},
        {"cuda:0=cuda:1,cuda:1=cuda:0", Tensors::kMap, {1, 0, -1}, 0},
        {"cuda=cuda:1,cuda:0=cpu", Tensors::kMap, {-1, 1, -1}, 0},
        {"cuda=cpu", Tensors::kFill, {-1, -1, -1}, 0},
        {"cuda:1=cuda:1", Tensors::kFill, {-1, 1, -1}, 1},
        {"cpu=cuda:1", Tensors::kMapPrivate, {-1, -1, 1}, 1},
        {"cuda:0=cpu", Tensors::kDevice, {-1, 0, 0}, 0},
    };
    for (const auto& each : cases) {
      ImportOptions options = with_tensors(each.tensors);
      options.device_map = must(DeviceMap::parse(each.map));
      const Ref<Module> module = must(imported(bytes, options));
      size_t index = 0;
      for (const char* name : {"first", "second", "host"}) {
        EXPECT_EQ(place_of(*module, name), each.places[index++]) << each.map << " " << name;
        EXPECT_TRUE(bytes_of(*storage_of(*module, name)) == bytes_of(*storage_of(*both, name)))
            << each.map << " " << name;
      }
      EXPECT_EQ(module->package().report.warnings.size(), each.warnings) << each.map;
      expect_clean();
    }
    ImportOptions options = with_tensors(Tensors::kMap);
    options.device_map = must(DeviceMap::parse("mps=cuda:7"));
    EXPECT_EQ(imported(bytes, options).status().code(), Code::kInvalidArgument);
  });
}

TEST(CudaArchive, TheLastTensorGivesTheMemoryBack) {
  in_child({}, [] {
    use_device();
    Ref<Storage> last;
    {
      const Ref<Module> module = must(imported(exported(*net(on_host)), to_device()));
      last = storage_of(*module, "part");
    }
    EXPECT_COUNT(1U, fake_cuda_live, FAKE_CUDA_ALLOCATION, 0);
    EXPECT_EQ(bytes_of(*last).size(), 2 * kPiece + 4000);
    last = nullptr;
    EXPECT_EQ(allocations(), 0U);
    expect_clean();
  });
}

// Returns an archive in which every storage is compressed and has the other byte order.
std::vector<std::byte> packed_and_big(const std::vector<std::byte>& bytes) {
  archive::MemorySink sink;
  auto writer = must(archive::ZipWriter::create(&sink));
  for (const auto& [name, text] : records_of(bytes)) {
    const bool is_data = name.starts_with("data/");
    ok(writer.add_text(name, name == "byteorder" ? "big" : text,
                       is_data ? archive::Compression::kDeflated : archive::Compression::kStored));
  }
  ok(writer.finish());
  return sink.take();
}

TEST(CudaArchive, BytesTheOtherWayRoundAndCompressed) {
  in_child({}, [] {
    use_device();
    const std::vector<std::byte> bytes = packed_and_big(exported(*net(on_host)));
    const Ref<Module> host = must(imported(bytes, with_tensors(Tensors::kFill)));
    const Ref<Module> module = must(imported(bytes, to_device()));
    for (const char* name : {"w", "big", "of_65536", "of_65540", "of_4194304", "of_4194308"}) {
      EXPECT_TRUE(bytes_of(*storage_of(*module, name)) == bytes_of(*storage_of(*host, name)))
          << name;
    }
    EXPECT_EQ(module->package().report.compressed, host->package().report.compressed);
    EXPECT_EQ(module->package().report.foreign_endian, host->package().report.foreign_endian);
    expect_clean();
  });
}

// Makes the first, the second, … call of one driver function fail, until an attempt succeeds.
// Returns that number. An attempt also succeeds without calls that only make it faster.
template <typename Attempt>
int fail_each(const char* function, const Attempt& attempt) {
  for (int nth = 1;; ++nth) {
    LEDGER(fake_cuda_fail)(function, static_cast<uint64_t>(nth), CUDA_ERROR_OUT_OF_MEMORY);
    const Status status = attempt();
    LEDGER(fake_cuda_fail)(function, 0, 0);
    EXPECT_EQ(LEDGER(fake_cuda_live)(FAKE_CUDA_HOST_ALLOCATION, 0), 0U) << function << ' ' << nth;
    EXPECT_EQ(LEDGER(fake_cuda_live)(FAKE_CUDA_STREAM, 0), 0U) << function << ' ' << nth;
    EXPECT_EQ(LEDGER(fake_cuda_live)(FAKE_CUDA_EVENT, 0), 0U) << function << ' ' << nth;
    if (status.is_ok() || nth == 100) return nth;
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
    EXPECT_NE(status.message().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos)
        << status.message();
  }
}

TEST(CudaArchive, AFailedExportLeavesTheOldFile) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({}, [] {
    use_device();
    const cuda_test::World folder;
    const std::string path = folder.path() + "/model.pt";
    const Ref<Module> module = net(on_first);
    ok(export_module(*must(Module::create("Old")), path, archive::Durability::kNone, {}, nullptr));
    const auto size = std::filesystem::file_size(path);
    const std::vector<std::pair<const char*, int>> functions = {{"cuStreamCreate", 2},
                                                                {"cuEventCreate", 4},
                                                                {"cuEventRecord", 2},
                                                                {"cuMemcpyAsync", 10},
                                                                {"cuEventSynchronize", 10}};
    for (const auto& [function, at_least] : functions) {
      const int good = fail_each(function, [&] {
        const Status status = export_module(*module, path, archive::Durability::kNone, {}, nullptr);
        EXPECT_EQ(files_in(folder.path()), std::vector<std::string>{"model.pt"}) << function;
        if (!status.is_ok()) EXPECT_EQ(std::filesystem::file_size(path), size);
        return status;
      });
      EXPECT_GE(good, at_least) << function;
      EXPECT_LT(good, 100) << function;
      ok(export_module(*must(Module::create("Old")), path, archive::Durability::kNone, {},
                       nullptr));
    }
    // Pinned memory only makes the export faster. The export succeeds without it.
    EXPECT_EQ(
        fail_each(
            "cuMemHostAlloc",
            [&] { return export_module(*module, path, archive::Durability::kNone, {}, nullptr); }),
        1);
    expect_clean();
  });
}

TEST(CudaArchive, AFailedImportLeavesNothing) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({}, [] {
    use_device();
    const std::vector<std::byte> bytes = exported(*net(on_host));
    // When the device is full, the import gives kept memory back and tries once more.
    LEDGER(fake_cuda_fail)("cuMemAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
    refused(imported(bytes, to_device()),
            {"CUDA_ERROR_OUT_OF_MEMORY", "release memory of the device"}, Code::kResourceExhausted);
    EXPECT_EQ(allocations(), 0U);
    LEDGER(fake_cuda_fail)("cuMemAlloc", 0, 0);
    const std::vector<std::pair<const char*, int>> functions = {
        {"cuMemAlloc", 1},     {"cuStreamCreate", 2}, {"cuEventCreate", 3},
        {"cuMemcpyAsync", 10}, {"cuEventRecord", 10}, {"cuStreamSynchronize", 2}};
    for (const auto& [function, at_least] : functions) {
      const int good = fail_each(function, [&] {
        const Status status = imported(bytes, to_device()).status();
        EXPECT_EQ(allocations(), 0U) << function;
        return status;
      });
      EXPECT_GE(good, at_least) << function;
      EXPECT_LT(good, 100) << function;
    }
    expect_clean();
  });
}

TEST(CudaArchive, ARefusedImportLeavesNothing) {
  in_child({}, [] {
    use_device();
    std::vector<std::byte> bytes = exported(*net(on_host));
    refused(imported(bytes, to_device(999)), {"no CUDA device 999"});
    refused(imported(bytes, to_device(-1)), {"no CUDA device -1"});
    // Changes a byte of the first long storage. The checksum of a record is computed while the
    // record is copied.
    const auto reader = must(archive::ZipReader::open(archive::MemorySource::create(bytes)));
    const uint64_t offset = reader->find("data/1")->data_offset + kPiece;
    bytes[offset] ^= std::byte{1};
    refused(imported(bytes, to_device()), {"data/1", "CRC-32"}, Code::kCorrupt);
    EXPECT_EQ(allocations(), 0U);
    expect_clean();
  });
}

TEST(CudaArchive, AChildOfForkIsTold) {
  in_child({}, [] {
    const Ref<Module> module = net(on_first);
    const std::vector<std::byte> before = exported(*module);
    EXPECT_EQ(wait_for(start([&] {
                archive::MemorySink sink;
                refused(export_module(*module, &sink, {}, nullptr), {"child of fork"},
                        Code::kUnsupported);
                refused(imported(before, to_device()), {"child of fork"}, Code::kUnsupported);
                // After the failure a module on the host can still be exported.
                EXPECT_TRUE(exported(*must(imported(before))) == before);
              })),
              0);
    EXPECT_TRUE(exported(*module) == before);
    expect_clean();
  });
}

TEST(CudaArchive, WithoutADevice) {
  NEEDS_THE_FAKE("it has devices");
  in_child({"FAKE_CUDA_WORLD"}, [] {
    const std::vector<std::byte> bytes = exported(*must(Module::create("Net")));
    refused(imported(bytes, to_device()), {"CUDA"}, Code::kUnsupported);
    (void)must(imported(bytes));
  });
}

TEST(CudaArchive, AStorageIsWhereItsBytesAre) {
  in_child({}, [] {
    const Ref<Storage> bytes = on_first(some_floats(4));
    const StorageValueRef known =
        must(StorageValue::create(tensor::ScalarType::kFloat, 4, bytes, 0, "cuda:0"));
    EXPECT_EQ(known->device(), "cuda:0");
    EXPECT_EQ(known->data(), nullptr);
    refused(StorageValue::create(tensor::ScalarType::kFloat, 4, bytes, 0, "cpu"),
            {"cpu", "cuda:0"});
    refused(StorageValue::create(tensor::ScalarType::kFloat, 4, bytes, 0, "cuda:1"), {"cuda:1"},
            Code::kUnsupported);
  });
}

// The host waits once for each piece, and not once for each tensor.
TEST(CudaArchive, ManySmallTensorsAreWaitedForTogether) {
  in_child({}, [] {
    const auto many = [](const Place& place) {
      const Ref<Module> module = must(Module::create("Net"));
      for (int i = 0; i < 1500; ++i) {
        std::vector<std::byte> bytes = some_floats(1024);
        std::memcpy(bytes.data(), &i, sizeof i);
        ok(module->add_buffer(
            "of_" + std::to_string(i),
            tensor(must(StorageValue::whole(tensor::ScalarType::kFloat, place(bytes))), 1024)));
      }
      return module;
    };
    use_device();
    const std::vector<std::byte> of_host = exported(*many(on_host));
    const Ref<Module> module = many(on_first);
    const uint64_t waits = COUNT(fake_cuda_calls, "cuEventSynchronize", 0);
    const uint64_t copies = COUNT(fake_cuda_calls, "cuMemcpyAsync", 0);
    EXPECT_TRUE(exported(*module) == of_host);
    EXPECT_COUNT(waits + (1500U * 4096 + kPiece - 1) / kPiece, fake_cuda_calls,
                 "cuEventSynchronize", 0);
    EXPECT_COUNT(copies + 1500U, fake_cuda_calls, "cuMemcpyAsync", 0);
    expect_clean();
  });
}

// The tensors lie on two devices by turns, with empty tensors between them, and copies are slow.
TEST(CudaArchive, SmallTensorsKeepTheirOrder) {
  in_child({"FAKE_CUDA_DEVICES=gpu=512,gpu=512", "FAKE_CUDA_LATENCY=stream=500"}, [] {
    const auto some = [](const Place& place) {
      const Ref<Module> module = must(Module::create("Net"));
      for (uint64_t i = 0; i < 12; ++i) {
        const uint64_t numel = i % 5 == 4 ? 0 : 7 * i + 1;
        ok(module->add_buffer("of_" + std::to_string(i),
                              tensor(floats_at(place, numel), static_cast<int64_t>(numel))));
      }
      return module;
    };
    use_device();
    const int devices = on_the_fake() ? 2 : 1;  // a real machine may have one device only
    const std::vector<std::byte> of_host = exported(*some(on_host));
    int next = 0;
    const Ref<Module> module =
        some([&](const auto& bytes) { return on_device(bytes, next++ / 3 % devices); });
    EXPECT_TRUE(exported(*module) == of_host);
    expect_clean();
  });
}

// archive_torch_test.py opens these archives in PyTorch.
TEST(CudaArchive, WritesForPyTorch) {
  const char* const folder = std::getenv("TENON_TEST_ARCHIVES");
  if (folder == nullptr) GTEST_SKIP() << "TENON_TEST_ARCHIVES is not set";
  in_child({}, [&] {
    const std::string path(folder);
    ok(export_module(*net(on_host), path + "/host.pt", archive::Durability::kNone, {}, nullptr));
    const Ref<Module> module = net(on_first);
    ok(export_module(*module, path + "/cpu.pt", archive::Durability::kNone, {}, nullptr));
    ok(export_module(*module, path + "/cuda.pt", archive::Durability::kNone, keeping(), nullptr));
    const Ref<Module> back = must(import_module(path + "/host.pt", to_device()));
    ok(export_module(*back, path + "/back.pt", archive::Durability::kNone, {}, nullptr));
  });
}

}  // namespace
}  // namespace tenon::module
