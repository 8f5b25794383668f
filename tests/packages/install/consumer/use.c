#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

/* Allocates, writes, lends by fd and opens the lend: enough to need the library and not only its
 * header. */
int main(void) {
  tenon_storage *storage = NULL;
  tenon_storage *opened = NULL;
  tenon_fd_handle handle;
  void *bytes = NULL;
  tenon_error *error = NULL;
  int rc = 1;
  memset(&handle, 0, sizeof handle);
  handle.struct_size = sizeof handle;
  if (tenon_abi_version() == TENON_ABI_VERSION &&
      tenon_storage_new(NULL, 4096, &storage, &error) == TENON_OK &&
      tenon_storage_data_mut(storage, &bytes, &error) == TENON_OK) {
    memset(bytes, 7, 4096);
    if (tenon_share_fd(storage, NULL, &handle, &error) == TENON_OK) {
      if (tenon_open_fd(&handle, NULL, &opened, &error) == TENON_OK) {
        rc = ((const unsigned char *)tenon_storage_data(opened))[4095] == 7 ? 0 : 2;
      }
      tenon_fd_handle_close(&handle);
    }
  }
  if (error != NULL) fprintf(stderr, "%s\n", tenon_error_message(error));
  tenon_error_release(error);
  tenon_storage_release(opened);
  tenon_storage_release(storage);
  if (rc == 0) printf("tenon %s\n", tenon_version_string());
  return rc;
}
