// tenon/version.h: the version of the library that was loaded.
#include <tenon/version.h>

#define TENON_TEXT_(x) #x
#define TENON_TEXT(x) TENON_TEXT_(x)

extern "C" {

const char* tenon_version_string(void) noexcept {
  return TENON_TEXT(TENON_VERSION_MAJOR) "." TENON_TEXT(TENON_VERSION_MINOR) "." TENON_TEXT(
      TENON_VERSION_PATCH);
}

uint32_t tenon_version_number(void) noexcept {
  return TENON_VERSION_MAJOR * 1000000U + TENON_VERSION_MINOR * 1000U + TENON_VERSION_PATCH;
}

uint32_t tenon_abi_version(void) noexcept { return TENON_ABI_VERSION; }
}
