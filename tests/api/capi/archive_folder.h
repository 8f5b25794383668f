/* A folder of this process with the paths of two files, for tests that write archives. */
#ifndef TENON_TESTS_CAPI_ARCHIVE_FOLDER_H
#define TENON_TESTS_CAPI_ARCHIVE_FOLDER_H

#include "module_kit.h"

static char folder[64], path[128], other_path[128];

/* Makes the folder. `file` is the name of the first file. */
static void make_folder(const char *file) {
  snprintf(folder, sizeof(folder), "/tmp/tenon-archive-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  snprintf(other_path, sizeof(other_path), "%s/other.pt", folder);
}

/* Removes the folder, which must hold only the two files: a failed export leaves nothing behind. */
static void remove_folder(void) {
  unlink(path);
  unlink(other_path);
  CHECK(rmdir(folder) == 0);
}

#endif
