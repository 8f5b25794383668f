/* Tests tenon/stats.h: the figures change with what they count. */
#include "check.h"

static tenon_stats now(void) {
  tenon_stats stats;
  SIZED(stats);
  OK(tenon_stats_get(&stats, ERR));
  CHECK(stats.struct_size == sizeof(stats));
  return stats;
}

static void figures(void) {
  enum { kBytes = 100000 };
  static unsigned char bytes[kBytes];
  tenon_stats before = now(), after;
  tenon_storage *storage = NULL, *opened = NULL;
  tenon_fd_handle handle = check_handle();
  tenon_open_options copy = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY);
  OK(tenon_storage_new_from(NULL, bytes, kBytes, &storage, ERR));
  after = now();
  CHECK_EQ(after.bytes_copied - before.bytes_copied, kBytes);
  CHECK_EQ(after.storages - before.storages, 1);
  CHECK(after.segments >= 1 && after.segment_fds >= 1);
  CHECK(after.bytes_live - before.bytes_live >= kBytes &&
        after.bytes_live - before.bytes_live <= kBytes / 4 * 5);
  CHECK(after.bytes_reserved >= after.bytes_live);
  OK(tenon_storage_read(storage, 0, bytes, 1000, ERR));
  OK(tenon_storage_write(storage, 0, bytes, 24, ERR));
  CHECK_EQ(now().bytes_copied - after.bytes_copied, 1024);
  OK(tenon_share_fd(storage, NULL, &handle, ERR));
  CHECK_EQ(now().bytes_copied - after.bytes_copied, 1024);
  OK(tenon_open_fd(&handle, &copy, &opened, ERR));
  CHECK_EQ(now().bytes_copied - after.bytes_copied, 1024 + kBytes);
  CHECK_EQ(now().storages - before.storages, 2);
  tenon_storage_release(opened);
  tenon_fd_handle_close(&handle);
  tenon_storage_release(storage);
  after = now();
  CHECK_EQ(after.storages, before.storages);
  CHECK_EQ(after.bytes_live, before.bytes_live);
  (void)tenon_storage_trim();
  after = now();
  CHECK_EQ(after.storages, 0);
  CHECK_EQ(after.segments, 0);
  CHECK_EQ(after.segment_fds, 0);
  CHECK_EQ(after.bytes_reserved, 0);
  CHECK_EQ(after.bytes_live, 0);
  CHECK_EQ(after.bytes_retired, 0);
  CHECK_EQ(after.bytes_opened, 0);
}

static void lend_in_child(int sock) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 12345, 1);
  tenon_fd_handle handle = check_handle();
  OK(tenon_share_fd(storage, NULL, &handle, ERR));
  check_send(sock, &handle, sizeof(handle), &handle.fd, 1);
  check_await(sock);
}

static void opened_bytes(void) {
  int sock, fd;
  pid_t child = check_spawn(SOCK_STREAM, lend_in_child, &sock);
  tenon_fd_handle handle;
  tenon_storage *storage = NULL;
  tenon_stats before = now(), after;
  CHECK(check_recv(sock, &handle, sizeof(handle), &fd, 1) == 1);
  handle.fd = fd;
  OK(tenon_open_fd(&handle, NULL, &storage, ERR));
  after = now();
  CHECK_EQ(after.bytes_opened - before.bytes_opened, 12345);
  CHECK_EQ(after.segments - before.segments, 1);
  CHECK_EQ(after.bytes_reserved, before.bytes_reserved);
  CHECK_EQ(after.bytes_copied, before.bytes_copied);
  tenon_storage_release(storage);
  CHECK_EQ(now().bytes_opened, before.bytes_opened);
  tenon_fd_handle_close(&handle);
  check_signal(sock);
  check_join(child);
  close(sock);
}

static void bad_input(void) {
  struct {
    tenon_stats stats;
    unsigned char tail[32];
  } larger;
  tenon_stats out;
  memset(&out, 0x5a, sizeof(out));
  INVALID(tenon_stats_get(NULL, ERR));
  out.struct_size = 0;
  INVALID_KEEPING(out, tenon_stats_get(&out, ERR));
  out.struct_size = sizeof(out) - 1;
  INVALID_KEEPING(out, tenon_stats_get(&out, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.stats.struct_size = sizeof(larger);
  larger.tail[0] = larger.tail[31] = 1; /* a newer caller's struct: unknown fields do not change */
  OK(tenon_stats_get(&larger.stats, ERR));
  CHECK(larger.stats.struct_size == sizeof(larger) && larger.tail[0] == 1 && larger.tail[1] == 0 &&
        larger.tail[31] == 1);
}

int main(void) {
  check_begin(60);
  RUN(figures);
  RUN(opened_bytes);
  RUN(bad_input);
  return 0;
}
