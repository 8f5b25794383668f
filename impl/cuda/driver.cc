#include "cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/fork.h"
#include "base/immortal.h"
#include "cuda/error.h"
#include "cuda/table.h"

namespace tenon::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// The state of the driver's start. `word` is 0 if no process has begun, twice the fork generation
// of the process that has begun, or one more than that when the start has ended and its result is
// kept. There is no lock: the driver may fork a helper while it starts, in the thread that would
// hold the lock, and the fork hooks would wait for it.
struct Start {
  std::atomic<uint64_t> word{0};
  Driver driver;
  Status failure;
};

template <typename Function>
void take_from_library(Function* to, void* library, const char* name) {
  *to = reinterpret_cast<Function>(dlsym(library, name));
}

// Looks functions up with the driver's own cuGetProcAddress, in the form that the driver has.
class Library final : public FunctionSource {
 public:
  explicit Library(void* library) {
    take_from_library(&get_version_, library, "cuDriverGetVersion");
    take_from_library(&get_v2_, library, "cuGetProcAddress_v2");
    take_from_library(&get_, library, "cuGetProcAddress");
  }

  bool get_version(int* out) const {
    return get_version_ != nullptr && get_version_(out) == CUDA_SUCCESS;
  }

  std::string path() const {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(get_version_), &info) == 0 ||
        info.dli_fname == nullptr)
      return kLibrary;
    return info.dli_fname;
  }

  void* find(const char* name, int version) const override {
    void* found = nullptr;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (get_v2_ != nullptr) {
      result = get_v2_(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
    } else if (get_ != nullptr) {
      result = get_(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    }
    return result == CUDA_SUCCESS ? found : nullptr;
  }

 private:
  PFN_cuDriverGetVersion_v2020 get_version_ = nullptr;
  PFN_cuGetProcAddress_v12000 get_v2_ = nullptr;
  PFN_cuGetProcAddress_v11030 get_ = nullptr;
};

// Whether an error may pass: a daemon, such as that of MPS, is still starting or has no room for
// another client, another process uses the device exclusively, or memory was short. Whether the
// driver then starts at a second try depends on the driver, and only a try tells. A child of fork
// of a process that used the driver gets NOT_INITIALIZED for ever.
bool may_pass(CUresult result) noexcept {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
    case CUDA_ERROR_SYSTEM_NOT_READY: return true;
    case CUDA_ERROR_NOT_INITIALIZED: return !has_forked();
    default: return false;
  }
}

// The status UNSUPPORTED, whatever the error is, even if the next call may get another result.
Status refused(const Driver& driver, CUresult result, const char* function) {
  std::string what = "CUDA cannot be used here: ";
  if (result == CUDA_ERROR_NOT_INITIALIZED && has_forked())
    what += "this may be a child of fork of a process that used it: ";
  const Status cause = result_status(driver, result, what + function);
  Status status = Status(Code::kUnsupported, cause.message())
                      .with("path", driver.path)
                      .with("driver_version", driver.version);
  for (const Detail& detail : cause.info()->details) {
    if (detail.key != "limit") status = std::move(status).with(detail.key.c_str(), detail.value);
  }
  return status;
}

// Makes the first calls of the driver.
Status start_driver(const Driver& driver, bool* passes) {
  int count = 0;
  const char* function = "cuInit";
  CUresult result = driver.cuInit(0);
  if (result == CUDA_SUCCESS) {
    function = "cuDeviceGetCount";
    result = driver.cuDeviceGetCount(&count);
  }
  if (result == CUDA_SUCCESS && count == 0) result = CUDA_ERROR_NO_DEVICE;
  if (result == CUDA_SUCCESS) return Status::ok();
  *passes = may_pass(result);
  return refused(driver, result, function);
}

// *passes becomes true if the error may pass by the next call.
Status open(Driver* driver, bool* passes) {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const words = dlerror();
    const std::string reason = words != nullptr ? words : kLibrary;
    // Only the message contains the reason. A driver that exists and cannot be loaded may have
    // found no memory, or no fd.
    *passes = reason.find(std::generic_category().message(ENOENT)) == std::string::npos;
    return Status(Code::kUnsupported,
                  "there is no CUDA driver here: " + reason +
                      "; install NVIDIA's driver, or start the container with its GPUs");
  }
  const Library functions(library);
  driver->path = functions.path();
  if (!functions.get_version(&driver->version))
    return Status(Code::kUnsupported,
                  driver->path + " is no CUDA driver: it does not tell its version")
        .with("path", driver->path);
  if (driver->version < kOldestDriver) {
    return Status(Code::kUnsupported,
                  "the CUDA driver " + driver->path + " is of " + version_text(driver->version) +
                      ", and Tenon needs one of " + version_text(kOldestDriver) + " or newer")
        .with("path", driver->path)
        .with("driver_version", driver->version);
  }
  TENON_TRY(fill(driver, functions));
  return start_driver(*driver, passes);
}

// Ends the start, whatever happened, even an exception for want of memory, so that no thread waits
// for ever. After an exception, or an error that may pass, the next call begins anew.
class Ending {
 public:
  explicit Ending(std::atomic<uint64_t>* word) noexcept : word_(word) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    word_->store(to_, std::memory_order_release);
    word_->notify_all();
  }
  void done(uint64_t word) noexcept { to_ = word; }

 private:
  std::atomic<uint64_t>* word_;
  uint64_t to_ = 0;
};

Status used_after_fork() {
  return Status(Code::kUnsupported,
                "CUDA cannot be used in this process: it is a child of fork of one that had "
                "started the driver; start it with exec (spawn) or "
                "fork it before the first use of CUDA");
}

}  // namespace

Result<const Driver*> driver() {
  Start& start = immortal<Start>();
  const uint64_t here = 2 * fork_generation();
  for (;;) {
    uint64_t word = start.word.load(std::memory_order_acquire);
    if (word == 0) {
      if (!start.word.compare_exchange_strong(word, here, std::memory_order_acquire)) continue;
      Ending ending(&start.word);
      start.driver = Driver{};
      bool passes = false;
      Status failure = open(&start.driver, &passes);
      if (passes) return failure;
      start.failure = std::move(failure);
      ending.done(here + 1);
    } else if (word == here) {
      start.word.wait(word, std::memory_order_acquire);
    } else if (word % 2 == 0) {
      return used_after_fork();  // another thread of the parent was starting the driver
    } else {
      if (!start.failure.is_ok()) return start.failure;
      if (word != here + 1) return used_after_fork();
      return &start.driver;
    }
  }
}

}  // namespace tenon::cuda
