// Finds the function of a name at a version. A driver has no symbol that is newer than itself.
#include "proc_address.h"

#include <dlfcn.h>

#include <cstring>

namespace fake_cuda {
namespace {

enum class DefaultStream { Legacy, PerThread };

struct Entry {
  const char* symbol;
  const char* name;
  int version;
  DefaultStream stream;
};

const Entry kEntries[] = {
#define FUNCTION(symbol, name, version, stream) {#symbol, name, version, DefaultStream::stream},
#include "functions.inc"
#undef FUNCTION
};

void* address_of(const char* symbol) {
  Dl_info self = {};
  // Opens this library by its own path, because the program may have a real driver loaded as well.
  static void* const library = dladdr(reinterpret_cast<void*>(&look_up), &self) != 0
                                   ? dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD)
                                   : nullptr;
  return library == nullptr ? nullptr : dlsym(library, symbol);
}

}  // namespace

CUresult look_up(const char* symbol, void** out, int version, cuuint64_t flags, Found* found) {
  *found = Found::no_such_name;
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || out == nullptr || flags > kPerThread) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  // "If the specified CUDA version is greater than the driver version, the API will return
  // CUDA_ERROR_INVALID_VALUE."
  if (version > config().driver) return CUDA_ERROR_INVALID_VALUE;
  const Entry* best = nullptr;
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, symbol) != 0 || entry.version > config().driver) continue;
    if (*found == Found::no_such_name) *found = Found::version_too_old;
    if (entry.version > version) continue;
    if (entry.stream == DefaultStream::PerThread && flags != kPerThread) continue;
    // If a version has both forms, the per-thread form follows in the table. Here it was asked for.
    if (best == nullptr || entry.version >= best->version) best = &entry;
  }
  if (best == nullptr) return CUDA_SUCCESS;
  *out = address_of(best->symbol);
  if (*out != nullptr) *found = Found::yes;
  return CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

// The form of CUDA 11, where a name that is not found is an error.
FAKE_CUDA_EXPORT CUresult cuGetProcAddress(const char* symbol, void** out, int version,
                                           cuuint64_t flags) {
  FAKE_CUDA_TRY(enter(Function::cuGetProcAddress, false));
  Found found = Found::no_such_name;
  const CUresult result = look_up(symbol, out, version, flags, &found);
  return result == CUDA_SUCCESS && found != Found::yes ? CUDA_ERROR_NOT_FOUND : result;
}
