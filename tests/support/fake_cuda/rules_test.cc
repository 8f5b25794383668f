// Runs the rules of the driver, each in a process of its own with a world of its own. The driver is
// the fake libcuda.so.1 or a real one. On a real driver the tests that need the fake's settings are
// left out. Run it without arguments, or run some tests with `rules_test NAME...`.
#include <ftw.h>

#include <algorithm>

#include "peer.h"

using namespace rules;

TEST(versions) {
  CHECK(cu.version >= 11030);
  // "If the specified CUDA version is greater than the driver version, the API will return
  // CUDA_ERROR_INVALID_VALUE."
  int nothing = 0;
  void* found = &nothing;
  const int newer = cu.version + 10;
  const CUresult result = cu.get_v2 != nullptr ? cu.get_v2("cuMemAlloc", &found, newer, 0, nullptr)
                                               : cu.get_v1("cuMemAlloc", &found, newer, 0);
  EQUAL(result, CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.ask("cuNoSuchFunction", 11030) == nullptr);
  CHECK(cu.ask("cuMemAllocAsync", 11010) == nullptr);
  CHECK(cu.ask("cuMemAllocAsync", 11020) != nullptr);
  CHECK((cu.ask("cuStreamGetId", std::min(cu.version, 12000)) != nullptr) == (cu.version >= 12000));
  // The two versions of the function for the UUID are different functions.
  CHECK(cu.version < 11040 || cu.ask("cuDeviceGetUuid", 11040) != cu.ask("cuDeviceGetUuid", 9020));
  // "If a per-thread version is not found, the API will return the legacy version of the driver
  // function."
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  CHECK(cu.ask("cuMemcpyDtoHAsync", 7000, kPerThread) != cu.ask("cuMemcpyDtoHAsync", 7000));
  CHECK(cu.ask("cuMemAlloc", 7000, kPerThread) == cu.ask("cuMemAlloc", 7000));
}

FAKE_TEST(old_driver, "FAKE_CUDA_DRIVER=11030") {
  EQUAL(cu.version, 11030);
  CHECK(cu.ask("cuDeviceGetUuid", 11030) == cu.ask("cuDeviceGetUuid", 9020));
  CHECK(cu.ask("cuMemPoolCreate", 11030) != nullptr);
  int nothing = 0;
  void* found = &nothing;
  EQUAL(cu.get_v1("cuDeviceGetUuid", &found, 11040, 0), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cu.get_v1("cuNoSuchFunction", &found, 11030, 0), CUDA_ERROR_NOT_FOUND);
  CHECK(found == nullptr);
}

TEST(nothing_before_init) {
  int count = 0;
  EQUAL(cu.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EQUAL(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuInit(0));
  OK(cu.cuDeviceGetCount(&count));
  CHECK(count >= 1);
  // Nothing of a device works before there is a context.
  CUdeviceptr pointer = 0;
  EQUAL(cu.cuMemAlloc(&pointer, 4096), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(memory) {
  const Started started;
  CUdeviceptr pointer = 0;
  EQUAL(cu.cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemAlloc(&pointer, 1 << 20));
  EQUAL(pointer % 256, 0U);
  OK(cu.cuMemsetD8(pointer, 7, 1 << 20));
  EQUAL(first_byte(pointer + 1000), 7);
  CUdeviceptr base = 0;
  size_t size = 0;
  OK(cu.cuMemGetAddressRange(&base, &size, pointer + 5000));
  EQUAL(base, pointer);
  EQUAL(size, size_t{1} << 20);
  unsigned type = 0;
  OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
  EQUAL(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  CUcontext context = nullptr;
  OK(cu.cuPointerGetAttribute(static_cast<void*>(&context), CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
  CHECK(context == started.context);
  unsigned long long id = 0;
  OK(cu.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
  OK(cu.cuMemFree(pointer));
  OK(cu.cuMemAlloc(&pointer, 1 << 20));
  // "Subsequent allocations do not reuse IDs from previous freed allocations."
  unsigned long long next = 0;
  OK(cu.cuPointerGetAttribute(&next, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
  CHECK(next != id);
  OK(cu.cuMemFree(pointer));
  // A query of a host address alone is an error. Among several attributes it gives "default NULL
  // values".
  int local = 0;
  const auto host = reinterpret_cast<CUdeviceptr>(&local);
  EQUAL(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host),
        CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
  void* into[] = {&type, static_cast<void*>(&context)};
  OK(cu.cuPointerGetAttributes(2, asked, into, host));
  EQUAL(type, 0U);
  CHECK(context == nullptr);
}

TEST(host_memory) {
  const Started started;
  void* page = aligned_alloc(4096, 8192);
  OK(cu.cuMemHostRegister(page, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
  EQUAL(cu.cuMemHostRegister(page, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr device = 0;
  OK(cu.cuMemHostGetDevicePointer(&device, page, 0));
  OK(cu.cuMemsetD8(device, 9, 8192));
  EQUAL(static_cast<unsigned char*>(page)[8191], 9);
  unsigned type = 0;
  OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                              reinterpret_cast<CUdeviceptr>(page)));
  EQUAL(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  CUipcMemHandle handle{};
  EQUAL(cu.cuIpcGetMemHandle(&handle, device), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemHostUnregister(page));
  EQUAL(cu.cuMemHostUnregister(page), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  free(page);
  void* pinned = nullptr;
  OK(cu.cuMemHostAlloc(&pinned, 4096, 0));
  OK(cu.cuMemFreeHost(pinned));
}

FAKE_TEST(failures_and_counts, "FAKE_CUDA_FAIL=cuMemAlloc:2=2,cuIpcGetMemHandle:1+=801") {
  const Started started;
  cu.fake_cuda_reset();
  CUdeviceptr one = 0;
  CUdeviceptr two = 0;
  OK(cu.cuMemAlloc(&one, 4096));
  EQUAL(cu.cuMemAlloc(&two, 4096), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.cuMemAlloc(&two, 4096));
  CUipcMemHandle handle{};
  EQUAL(cu.cuIpcGetMemHandle(&handle, one), CUDA_ERROR_NOT_SUPPORTED);
  EQUAL(cu.cuIpcGetMemHandle(&handle, one), CUDA_ERROR_NOT_SUPPORTED);
  EQUAL(cu.fake_cuda_calls("cuMemAlloc", 0), 3U);
  EQUAL(cu.fake_cuda_calls("cuMemAlloc", getpid()), 3U);
  EQUAL(cu.fake_cuda_calls("cuIpcGetMemHandle", 0), 2U);
  cu.fake_cuda_fail("cuMemFree", 1, 700);
  EQUAL(cu.cuMemFree(one), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(cu.cuMemFree(one));
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_ALLOCATION, 0), 1U);
  EQUAL(cu.fake_cuda_bytes(0), 4096U);
  OK(cu.cuMemFree(two));
  EQUAL(cu.fake_cuda_bytes(0), 0U);
  EQUAL(cu.fake_cuda_faults(0), 0U);
  EQUAL(cu.cuMemFree(two), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cu.fake_cuda_faults(FAKE_CUDA_FREED_TWICE), 1U);
  fake_cuda_fault fault{};
  CHECK(cu.fake_cuda_get_fault(0, &fault) == 1);
  EQUAL(fault.pid, getpid());
  CHECK(std::strcmp(fault.function, "cuMemFree") == 0);
}

FAKE_TEST(full_device, "FAKE_CUDA_DEVICES=gpu=4") {
  const Started started;
  CUdeviceptr three = 0;
  CUdeviceptr two = 0;
  OK(cu.cuMemAlloc(&three, 3 << 20));
  EQUAL(cu.cuMemAlloc(&two, 2 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  size_t free = 0;
  size_t total = 0;
  OK(cu.cuMemGetInfo(&free, &total));
  EQUAL(free, size_t{1} << 20);
  EQUAL(total, size_t{4} << 20);
  OK(cu.cuMemFree(three));
  OK(cu.cuMemAlloc(&two, 2 << 20));
  OK(cu.cuMemFree(two));
  EQUAL(cu.cuMemcpyDtoH(&free, two, 8), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cu.fake_cuda_faults(FAKE_CUDA_STRAY_POINTER), 1U);
}

RULES_TEST(no_device, false, "CUDA_VISIBLE_DEVICES=") { EQUAL(cu.cuInit(0), CUDA_ERROR_NO_DEVICE); }

FAKE_TEST(uuids, "FAKE_CUDA_DEVICES=gpu=64,mig=32,mig=32", "CUDA_VISIBLE_DEVICES=2") {
  const Started started;
  int count = 0;
  OK(cu.cuDeviceGetCount(&count));
  EQUAL(count, 1);
  CUuuid gpu{};
  CUuuid instance{};
  OK(cu.cuDeviceGetUuid(&gpu, 0));
  const auto second =
      reinterpret_cast<PFN_cuDeviceGetUuid_v11040>(cu.ask("cuDeviceGetUuid", 11040));
  OK(second(&instance, 0));
  CHECK(std::memcmp(&gpu, &instance, sizeof gpu) != 0);
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc(&pointer, 4096));
  CUipcMemHandle handle{};
  EQUAL(cu.cuIpcGetMemHandle(&handle, pointer), CUDA_ERROR_NOT_SUPPORTED);
  OK(cu.cuMemFree(pointer));
}

namespace {

int remove_entry(const char* path, const struct stat*, int, FTW*) { return remove(path); }

int run(const std::string& name, const Test& test) {
  char world[] = "/tmp/rules_test.XXXXXX";
  if (mkdtemp(world) == nullptr) return 1;
  const pid_t child = fork();
  if (child == 0) {
    setenv("FAKE_CUDA_WORLD", world, 1);
    for (const std::string& entry : test.environment) putenv(::strdup(entry.c_str()));
    execl("/proc/self/exe", "rules_test", "--test", name.c_str(), nullptr);
    _exit(4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  nftw(world, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  const bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return 0;  // it has printed why
  std::printf("%s %s\n", passed ? "ok  " : "FAIL", name.c_str());
  std::fflush(stdout);
  return passed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (!cu.open()) {
    std::printf("skipped: there is no libcuda.so.1 (%s)\n", dlerror());
    return 77;
  }
  if (argc == 4 && std::strcmp(argv[1], "--peer") == 0) {
    Channel parent(std::atoi(argv[3]));
    peers().at(argv[2])(parent);
    return failures == 0 ? 0 : 1;
  }
  if (argc == 3 && std::strcmp(argv[1], "--test") == 0) {
    Channel none(-1);
    tests().at(argv[2]).run(none);
    if (failures == 0 && !lacking.empty()) {
      std::printf("skip %s: not on this device: %s\n", argv[2], lacking.c_str());
      return 77;
    }
    return failures == 0 ? 0 : 1;
  }
  int failed = 0;
  int skipped = 0;
  for (const auto& [name, test] : tests()) {
    const bool wanted = argc == 1 || std::find_if(argv + 1, argv + argc, [&](const char* arg) {
                                       return name == arg;
                                     }) != argv + argc;
    if (!wanted) continue;
    if (test.fake_only && !cu.fake) {
      std::string why = "what is seen then is not promised";
      for (const std::string& entry : test.environment) {
        if (!entry.empty()) why = "it cannot be told " + entry;
      }
      std::printf("skip %s: not on a real driver: %s\n", name.c_str(), why.c_str());
      ++skipped;
      continue;
    }
    failed += run(name, test);
  }
  std::printf("driver %d, %s; %d failed, %d not for a real driver\n", cu.version,
              cu.fake ? "the fake" : "a real one", failed, skipped);
  return failed == 0 ? 0 : 1;
}
