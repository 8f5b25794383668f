/* Tests the promise of a read-only lend. The borrower is another process that received the fd over
 * a socket. It tries every way to write, and none works. */
#include "check.h"

#include <sys/sendfile.h>
#include <sys/uio.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { kBytes = 5 * 4096 + 100, kSeed = 42 };

static void refused(const char *what, long result) {
  if (result < 0) return;
  fprintf(stderr, "a borrower could %s\n", what);
  fflush(NULL);
  _exit(1);
}

static void refuse_map(const char *what, void *mapped) {
  refused(what, mapped == MAP_FAILED ? -1 : 0);
}

/* Tries every way to write that an fd offers, whatever access it was opened with. */
static void attack_fd(int fd, off_t offset, off_t segment_nbytes) {
  static const int holes[] = {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
                              FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_COLLAPSE_RANGE,
                              FALLOC_FL_INSERT_RANGE};
  static const int seals[] = {F_SEAL_SEAL,  F_SEAL_SHRINK,       F_SEAL_GROW,
                              F_SEAL_WRITE, F_SEAL_FUTURE_WRITE, 0x0020};
  struct iovec part;
  size_t i;
  int source = memfd_create("source", MFD_CLOEXEC), pipes[2];
  char byte = 'X';
  loff_t at = offset;
  off_t from = 0;
  part.iov_base = &byte;
  part.iov_len = 1;
  CHECK(source >= 0 && pwrite(source, "XXXX", 4, 0) == 4 && pipe2(pipes, O_CLOEXEC) == 0 &&
        write(pipes[1], "X", 1) == 1);
  refused("pwrite", pwrite(fd, &byte, 1, offset));
  refused("pwritev", pwritev(fd, &part, 1, offset));
  CHECK(lseek(fd, offset, SEEK_SET) == offset);
  refused("write", write(fd, &byte, 1));
  refused("sendfile into it", sendfile(fd, source, &from, 1));
  from = 0;
  refused("copy_file_range into it", copy_file_range(source, &from, fd, &at, 1, 0));
  at = offset;
  refused("splice into it", splice(pipes[0], NULL, fd, &at, 1, SPLICE_F_NONBLOCK));
  refused("cut it short", ftruncate(fd, 0));
  refused("cut it short by a page", ftruncate(fd, segment_nbytes - 4096));
  refused("make it longer", ftruncate(fd, segment_nbytes + 4096));
  refused("fallocate past its end", fallocate(fd, 0, segment_nbytes, 4096));
  for (i = 0; i < COUNT_OF(holes); i++)
    refused("change it by fallocate", fallocate(fd, holes[i], offset & ~(off_t)4095, 4096));
  for (i = 0; i < COUNT_OF(seals); i++) refused("add seals", fcntl(fd, F_ADD_SEALS, seals[i]));
  refuse_map("map it writable", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  refuse_map("map it writable (validated)",
             mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, fd, 0));
  refuse_map("map it write-only", mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0));
  close(source);
  close(pipes[0]);
  close(pipes[1]);
}

/* Tries every way to write that an address offers. */
static void attack_memory(const void *address) {
  uintptr_t page = (uintptr_t)address & ~(uintptr_t)4095;
  struct iovec local, remote;
  char byte = 'X';
  int self = open("/proc/self/mem", O_RDWR | O_CLOEXEC),
      zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  CHECK(self >= 0 && zero >= 0);
  refused("mprotect it writable", mprotect((void *)page, 4096, PROT_READ | PROT_WRITE));
  refused("mprotect it writable and executable",
          mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
  refused("write through /proc/self/mem", pwrite(self, &byte, 1, (off_t)(uintptr_t)address));
  local.iov_base = &byte;
  local.iov_len = 1;
  remote.iov_base = (void *)(uintptr_t)address;
  remote.iov_len = 1;
  refused("process_vm_writev to itself", process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
  refused("let the kernel read into it", read(zero, (void *)(uintptr_t)address, 1));
  refused("MADV_REMOVE", madvise((void *)page, 4096, MADV_REMOVE));
  close(self);
  close(zero);
}

static void borrower(int sock) {
  tenon_fd_handle handle;
  tenon_open_options want_write = check_open_options(TENON_ACCESS_WRITABLE, 0);
  tenon_storage *storage = NULL, *out = PATTERN;
  void *writable = PATTERN, *raw;
  const unsigned char *data;
  char path[64];
  int fd, reopened, flags[] = {O_RDWR, O_WRONLY, O_RDWR | O_TRUNC, O_WRONLY | O_APPEND},
                    opened_one = 0;
  size_t i;
  tenon_mode mode;
  CHECK(check_recv(sock, &handle, sizeof(handle), &fd, 1) == 1);
  CHECK(check_recv(sock, &mode, sizeof(mode), NULL, 0) == 0);
  handle.fd = fd;
  FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, &want_write, &out, ERR));
  OK(tenon_open_fd(&handle, NULL, &storage, ERR));
  CHECK(tenon_storage_is_read_only(storage) == 1 && tenon_storage_is_sealed(storage) == 1 &&
        tenon_storage_mode(storage) == mode);
  FAILS_KEEPING(TENON_PERMISSION, writable, tenon_storage_data_mut(storage, &writable, ERR));
  FAILS(TENON_PERMISSION, tenon_storage_write(storage, 0, "X", 1, ERR));
  if (mode == TENON_MODE_FROZEN)
    OK(tenon_storage_freeze(storage, ERR)); /* nothing to do, nothing to undo */
  data = tenon_storage_data(storage);
  CHECK(check_filled(data, kBytes, kSeed));

  attack_memory(data);
  attack_memory(data + kBytes - 1);
  attack_fd(fd, (off_t)handle.offset, (off_t)handle.segment_nbytes);
  raw = mmap(NULL, handle.segment_nbytes, PROT_READ, MAP_SHARED, fd,
             0); /* a second, read-only mapping to attack */
  CHECK(raw != MAP_FAILED);
  attack_memory((const char *)raw + handle.offset);
  CHECK(munmap(raw, handle.segment_nbytes) == 0);

  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  (void)fchmod(fd, 0777);
  for (i = 0; i < COUNT_OF(flags); i++) {
    reopened = open(path, flags[i] | O_CLOEXEC);
    if (reopened < 0) continue;
    opened_one++;
    attack_fd(reopened, (off_t)handle.offset, (off_t)handle.segment_nbytes);
    raw = mmap(NULL, handle.segment_nbytes, PROT_READ, MAP_SHARED, reopened, 0);
    if (raw != MAP_FAILED) {
      attack_memory((const char *)raw + handle.offset);
      CHECK(munmap(raw, handle.segment_nbytes) == 0);
    }
    handle.fd = reopened; /* a better fd does not get better rights from the library */
    FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, &want_write, &out, ERR));
    close(reopened);
  }
  /* The same user can reopen the fd, and without the seals each attack above would have succeeded.
   * Another user may not even be able to reopen it. */
  if (geteuid() == 0) CHECK(opened_one > 0);

  CHECK(check_filled(data, kBytes, kSeed));
  check_signal(sock);
  check_await(sock); /* meanwhile the lender writes, if its mode allows that */
  if (mode == TENON_MODE_LENDER_WRITES) CHECK(memcmp(data, "the lender", 10) == 0);
  if (mode == TENON_MODE_FROZEN) CHECK(check_filled(data, kBytes, kSeed));
  tenon_storage_release(storage);
  close(fd);
  check_signal(sock);
}

static void lend(tenon_mode mode, uint32_t flags) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, borrower, &sock);
  tenon_storage *storage = check_storage(mode, flags, kBytes, kSeed);
  tenon_share_options options = check_share_options(TENON_ACCESS_READ_ONLY);
  tenon_fd_handle handle = check_handle();
  struct stat before, after;
  OK(tenon_share_fd(storage, &options, &handle, ERR));
  CHECK(fstat(handle.fd, &before) == 0);
  check_send(sock, &handle, sizeof(handle), &handle.fd, 1);
  check_send(sock, &mode, sizeof(mode), NULL, 0);
  check_await(sock);
  CHECK(check_filled(tenon_storage_data(storage), kBytes, kSeed));
  CHECK(fstat(handle.fd, &after) == 0 && before.st_size == after.st_size);
  if (mode == TENON_MODE_LENDER_WRITES) {
    void *data = NULL;
    OK(tenon_storage_data_mut(storage, &data, ERR));
    memcpy(data, "the lender", 10);
    OK(tenon_storage_write(storage, 10, " again", 6, ERR));
  } else {
    char path[64];
    int reopened;
    FAILS(TENON_PERMISSION, tenon_storage_write(storage, 0, "X", 1, ERR));
    attack_memory(tenon_storage_data(storage));
    attack_fd(handle.fd, (off_t)handle.offset, (off_t)handle.segment_nbytes);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", handle.fd);
    reopened = open(path, O_RDWR | O_CLOEXEC);
    if (reopened >= 0) {
      attack_fd(reopened, (off_t)handle.offset,
                (off_t)handle.segment_nbytes); /* frozen memory: the lender cannot write either */
      close(reopened);
    }
  }
  check_signal(sock);
  check_await(sock);
  check_join(child);
  tenon_fd_handle_close(&handle);
  tenon_storage_release(storage);
  close(sock);
}

static void lender_writes(void) { lend(TENON_MODE_LENDER_WRITES, 0); }
static void lender_writes_isolated(void) { lend(TENON_MODE_LENDER_WRITES, TENON_STORAGE_ISOLATED); }
static void frozen(void) { lend(TENON_MODE_FROZEN, 0); }
static void frozen_isolated(void) { lend(TENON_MODE_FROZEN, TENON_STORAGE_ISOLATED); }

/* Proves that the attacks are real: on a writable lend the first one succeeds. */
static void writable_borrower(int sock) {
  tenon_fd_handle handle;
  tenon_storage *storage = NULL;
  void *data = NULL;
  int fd;
  CHECK(check_recv(sock, &handle, sizeof(handle), &fd, 1) == 1);
  handle.fd = fd;
  CHECK(pwrite(fd, "by fd", 5, (off_t)handle.offset) == 5);
  OK(tenon_open_fd(&handle, NULL, &storage, ERR));
  OK(tenon_storage_data_mut(storage, &data, ERR));
  memcpy((char *)data + 5, "by memory", 9);
  OK(tenon_storage_write(storage, 14, "by write", 8, ERR));
  CHECK(ftruncate(fd, 0) < 0 && errno == EPERM); /* no memory can be cut short, shared or not */
  CHECK(ftruncate(fd, (off_t)handle.segment_nbytes + 4096) < 0);
  tenon_storage_release(storage);
  close(fd);
}

static void shared_is_writable_by_both(void) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, writable_borrower, &sock);
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, kBytes, kSeed);
  tenon_fd_handle handle = check_handle();
  OK(tenon_share_fd(storage, NULL, &handle, ERR));
  check_send(sock, &handle, sizeof(handle), &handle.fd, 1);
  check_join(child);
  CHECK(memcmp(tenon_storage_data(storage), "by fdby memoryby write", 22) == 0);
  tenon_fd_handle_close(&handle);
  tenon_storage_release(storage);
  close(sock);
}

int main(void) {
  check_begin(60);
  RUN(lender_writes);
  RUN(lender_writes_isolated);
  RUN(frozen);
  RUN(frozen_isolated);
  RUN(shared_is_writable_by_both);
  return 0;
}
