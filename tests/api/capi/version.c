/* Tests tenon/version.h: the loaded library has the version of the header. */
#include "check.h"

static void versions(void) {
  char text[64];
  snprintf(text, sizeof(text), "%d.%d.%d", TENON_VERSION_MAJOR, TENON_VERSION_MINOR,
           TENON_VERSION_PATCH);
  CHECK(strcmp(tenon_version_string(), text) == 0);
  CHECK_EQ(tenon_version_number(),
           TENON_VERSION_MAJOR * 1000000 + TENON_VERSION_MINOR * 1000 + TENON_VERSION_PATCH);
  CHECK_EQ(tenon_abi_version(), TENON_ABI_VERSION);
}

int main(void) {
  check_begin(60);
  RUN(versions);
  return 0;
}
