#include <tenon/tenon.h>

#include <cstdio>

int main() {
  tenon_storage *storage = nullptr;
  if (tenon_storage_new(nullptr, 64, &storage, nullptr) != TENON_OK) return 1;
  const bool right = tenon_storage_nbytes(storage) == 64;
  tenon_storage_release(storage);
  std::printf("tenon %d.%d.%d\n", TENON_VERSION_MAJOR, TENON_VERSION_MINOR, TENON_VERSION_PATCH);
  return right ? 0 : 2;
}
