// The driver that the rule tests call, real or fake. It is opened by name, and each function has
// the version of its type.
#pragma once

#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "ledger.h"

namespace rules {

class Driver {
 public:
  void* library = nullptr;
  int version = 0;
  bool fake = false;
  PFN_cuGetProcAddress_v12000 get_v2 = nullptr;
  PFN_cuGetProcAddress_v11030 get_v1 = nullptr;

#define DRIVER(name, version) PFN_##name##_v##version name = nullptr;
#define LEDGER(name) decltype(&::name) name = nullptr;
#include "driver_functions.inc"
#undef DRIVER
#undef LEDGER

  void* ask(const char* name, int at, cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM) const {
    void* found = nullptr;
    if (get_v2 != nullptr) {
      get_v2(name, &found, at, flags, nullptr);
    } else {
      get_v1(name, &found, at, flags);
    }
    return found;
  }

  // Returns false if there is no driver.
  bool open() {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    take(get_v2, "cuGetProcAddress_v2");
    take(get_v1, "cuGetProcAddress");
    PFN_cuDriverGetVersion_v2020 get_version = nullptr;
    take(get_version, "cuDriverGetVersion");
    get_version(&version);
#define DRIVER(name, version) name = reinterpret_cast<PFN_##name##_v##version>(ask(#name, version));
#define LEDGER(name) take(name, #name);
#include "driver_functions.inc"
#undef DRIVER
#undef LEDGER
    fake = fake_cuda_live != nullptr;
    return true;
  }

 private:
  template <typename Pointer>
  void take(Pointer& to, const char* name) {
    to = reinterpret_cast<Pointer>(dlsym(library, name));
  }
};

inline Driver cu;

}  // namespace rules
