/* Tests tenon/by_fd.h: share and open, and every fd that does not match its handle. */
#include "check.h"

#include <sys/eventfd.h>

static tenon_storage *const kNothing = PATTERN;

static int make_memfd(uint64_t nbytes, int seals) {
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)nbytes) == 0);
  if (seals != 0) CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
  return fd;
}

static int make_file(uint64_t nbytes) {
  char path[] = "/tmp/tenon-by-fd-XXXXXX";
  int fd = mkostemp(path, O_CLOEXEC);
  CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, (off_t)nbytes) == 0);
  return fd;
}

static tenon_fd_handle handle_of(int fd, tenon_access access, uint64_t offset, uint64_t nbytes,
                                 uint64_t segment_nbytes) {
  tenon_fd_handle handle = check_handle();
  handle.fd = fd;
  handle.access = access;
  handle.offset = offset;
  handle.nbytes = nbytes;
  handle.segment_nbytes = segment_nbytes;
  return handle;
}

static void handles(void) {
  static const struct {
    tenon_mode mode;
    uint32_t flags;
    tenon_access access;
  } kinds[] = {{TENON_MODE_SHARED, 0, TENON_ACCESS_WRITABLE},
               {TENON_MODE_LENDER_WRITES, 0, TENON_ACCESS_READ_ONLY},
               {TENON_MODE_FROZEN, 0, TENON_ACCESS_READ_ONLY},
               {TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, TENON_ACCESS_WRITABLE},
               {TENON_MODE_LENDER_WRITES, TENON_STORAGE_ISOLATED, TENON_ACCESS_READ_ONLY},
               {TENON_MODE_FROZEN, TENON_STORAGE_ISOLATED, TENON_ACCESS_READ_ONLY}};
  size_t i;
  for (i = 0; i < COUNT_OF(kinds); i++) {
    tenon_storage *storage = check_storage(kinds[i].mode, kinds[i].flags, 5000, i);
    tenon_share_options options = check_share_options(kinds[i].access);
    tenon_fd_handle handle = check_handle(), again = check_handle();
    struct stat info;
    unsigned char bytes[5000];
    int seals;
    OK(tenon_share_fd(storage, NULL, &handle, ERR));
    CHECK(handle.struct_size == sizeof(handle) && handle.fd >= 0 &&
          handle.access == kinds[i].access && handle.nbytes == 5000);
    CHECK(handle.offset % 64 == 0 && handle.offset + handle.nbytes <= handle.segment_nbytes);
    CHECK(fstat(handle.fd, &info) == 0 && S_ISREG(info.st_mode) &&
          (uint64_t)info.st_size == handle.segment_nbytes);
    CHECK((fcntl(handle.fd, F_GETFD) & FD_CLOEXEC) != 0);
    seals = fcntl(handle.fd, F_GET_SEALS);
    CHECK(seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW));
    CHECK((fcntl(handle.fd, F_GETFL) & O_ACCMODE) ==
          (kinds[i].access == TENON_ACCESS_READ_ONLY ? O_RDONLY : O_RDWR));
    if (kinds[i].mode == TENON_MODE_LENDER_WRITES)
      CHECK((seals & 0x0010) && (seals & F_SEAL_SEAL)); /* F_SEAL_FUTURE_WRITE */
    if (kinds[i].mode == TENON_MODE_FROZEN) CHECK((seals & F_SEAL_WRITE) && (seals & F_SEAL_SEAL));
    CHECK(pread(handle.fd, bytes, sizeof(bytes), (off_t)handle.offset) == (ssize_t)sizeof(bytes) &&
          check_filled(bytes, sizeof(bytes), i));
    OK(tenon_share_fd(storage, &options, &again, ERR));
    CHECK(again.fd != handle.fd && again.offset == handle.offset);
    tenon_fd_handle_close(&again);
    CHECK(again.fd == -1);
    tenon_fd_handle_close(&again);
    tenon_storage_release(storage);
    CHECK(pread(handle.fd, bytes, sizeof(bytes), (off_t)handle.offset) == (ssize_t)sizeof(bytes) &&
          check_filled(bytes, sizeof(bytes), i));
    tenon_fd_handle_close(&handle);
  }
  tenon_fd_handle_close(NULL);
}

static void refused_lends(void) {
  tenon_share_options read_only = check_share_options(TENON_ACCESS_READ_ONLY),
                      writable = check_share_options(TENON_ACCESS_WRITABLE);
  tenon_storage_options frozen = check_storage_options(TENON_MODE_FROZEN, 0);
  tenon_fd_handle out = check_handle();
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 100, 1);
  FAILS_SAYING(TENON_PERMISSION, "option", "LENDER_WRITES",
               tenon_share_fd(storage, &read_only, &out, ERR));
  FAILS_SAYING(TENON_PERMISSION, "option", "FROZEN",
               tenon_share_fd(storage, &read_only, &out, ERR));
  tenon_storage_release(storage);
  storage = check_storage(TENON_MODE_LENDER_WRITES, 0, 100, 1);
  FAILS_SAYING(TENON_PERMISSION, "option", "SHARED", tenon_share_fd(storage, &writable, &out, ERR));
  tenon_storage_release(storage);
  OK(tenon_storage_new(&frozen, 100, &storage, ERR));
  FAILS_SAYING(TENON_PERMISSION, "option", "tenon_storage_freeze",
               tenon_share_fd(storage, NULL, &out, ERR));
  OK(tenon_storage_freeze(storage, ERR));
  FAILS_SAYING(TENON_PERMISSION, "option", "SHARED", tenon_share_fd(storage, &writable, &out, ERR));
  tenon_storage_release(storage);
  storage = check_storage(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE, 100, 1);
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_share_fd(storage, NULL, &out, ERR));
  tenon_storage_release(storage);
  CHECK(out.fd == -1 && out.nbytes == 0 && out.segment_nbytes == 0);
}

static void empty_storages(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  const tenon_open_options read_only = check_open_options(TENON_ACCESS_READ_ONLY, 0);
  size_t i;
  for (i = 0; i < COUNT_OF(modes); i++) {
    tenon_storage *storage = check_storage(modes[i], 0, 0, 0), *opened = NULL;
    tenon_fd_handle handle = check_handle(), again = check_handle();
    OK(tenon_share_fd(storage, NULL, &handle, ERR));
    CHECK(handle.fd == -1 && handle.nbytes == 0);
    OK(tenon_open_fd(&handle, NULL, &opened, ERR));
    CHECK(tenon_storage_nbytes(opened) == 0 && tenon_storage_data(opened) == NULL &&
          tenon_storage_is_sealed(opened) == 1);
    /* An empty storage has no fd, so the handle alone says who may write. Lending it on gives no
     * more access. */
    CHECK(handle.access ==
          (modes[i] == TENON_MODE_SHARED ? TENON_ACCESS_WRITABLE : TENON_ACCESS_READ_ONLY));
    CHECK(tenon_storage_is_read_only(opened) == (modes[i] == TENON_MODE_SHARED ? 0 : 1));
    OK(tenon_share_fd(opened, NULL, &again, ERR));
    CHECK(again.fd == -1 && again.access == handle.access);
    tenon_storage_release(opened);
    handle.access = TENON_ACCESS_WRITABLE;
    OK(tenon_open_fd(&handle, &read_only, &opened, ERR));
    CHECK(tenon_storage_is_read_only(opened) == 1);
    tenon_storage_release(opened);
    tenon_storage_release(storage);
  }
}

static void bad_share(void) {
  struct {
    tenon_share_options options;
    unsigned char tail[24];
  } larger_options;
  struct {
    tenon_fd_handle handle;
    unsigned char tail[24];
  } larger;
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 100, 1);
  tenon_share_options options = check_share_options(TENON_ACCESS_AUTO);
  tenon_fd_handle out;
  memset(&out, 0x5a, sizeof(out));
  out.struct_size = sizeof(out);
  INVALID(tenon_share_fd(storage, NULL, NULL, ERR));
  INVALID_KEEPING(out, tenon_share_fd(NULL, NULL, &out, ERR));
  options.struct_size = 0;
  INVALID_KEEPING(out, tenon_share_fd(storage, &options, &out, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID_KEEPING(out, tenon_share_fd(storage, &options, &out, ERR));
  options = check_share_options(3);
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_share_fd(storage, &options, &out, ERR));
  options = check_share_options(TENON_ACCESS_AUTO);
  options.flags = 1;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_share_fd(storage, &options, &out, ERR));
  memset(&larger_options, 0, sizeof(larger_options));
  larger_options.options.struct_size = sizeof(larger_options);
  larger_options.tail[23] = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out,
                tenon_share_fd(storage, &larger_options.options, &out, ERR));
  larger_options.tail[23] = 0;
  memset(&larger, 0, sizeof(larger));
  larger.handle.struct_size = sizeof(larger);
  larger.tail[0] = 1; /* a newer caller's struct: unknown fields do not change */
  OK(tenon_share_fd(storage, &larger_options.options, &larger.handle, ERR));
  CHECK(larger.tail[0] == 1 && larger.tail[23] == 0 && larger.handle.struct_size == sizeof(larger));
  tenon_fd_handle_close(&larger.handle);
  out.struct_size = 0;
  INVALID_KEEPING(out, tenon_share_fd(storage, NULL, &out, ERR));
  out.struct_size = sizeof(out) - 8;
  INVALID_KEEPING(out, tenon_share_fd(storage, NULL, &out, ERR));
  tenon_storage_release(storage);
}

static void bad_structs_on_open(void) {
  struct {
    tenon_open_options options;
    unsigned char tail[24];
  } larger_options;
  struct {
    tenon_fd_handle handle;
    unsigned char tail[24];
  } larger;
  int fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW);
  tenon_fd_handle handle = handle_of(fd, TENON_ACCESS_AUTO, 0, 100, 8192);
  tenon_open_options options = check_open_options(TENON_ACCESS_AUTO, 0);
  tenon_storage *out = kNothing;
  INVALID(tenon_open_fd(&handle, NULL, NULL, ERR));
  INVALID_KEEPING(out, tenon_open_fd(NULL, NULL, &out, ERR));
  handle.struct_size = 0;
  INVALID_KEEPING(out, tenon_open_fd(&handle, NULL, &out, ERR));
  handle.struct_size = sizeof(handle) - 1;
  INVALID_KEEPING(out, tenon_open_fd(&handle, NULL, &out, ERR));
  handle.struct_size = sizeof(handle);
  handle.access = 3;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_open_fd(&handle, NULL, &out, ERR));
  handle.access = TENON_ACCESS_AUTO;
  options.struct_size = 0;
  INVALID_KEEPING(out, tenon_open_fd(&handle, &options, &out, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID_KEEPING(out, tenon_open_fd(&handle, &options, &out, ERR));
  options = check_open_options(3, 0);
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_open_fd(&handle, &options, &out, ERR));
  options = check_open_options(TENON_ACCESS_AUTO, 1U << 31);
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_open_fd(&handle, &options, &out, ERR));
  options = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COW | TENON_OPEN_PRIVATE_COPY);
  INVALID_KEEPING(out, tenon_open_fd(&handle, &options, &out, ERR));
  memset(&larger_options, 0, sizeof(larger_options));
  larger_options.options.struct_size = sizeof(larger_options);
  larger_options.tail[5] = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_open_fd(&handle, &larger_options.options, &out, ERR));
  larger_options.tail[5] = 0;
  memset(&larger, 0, sizeof(larger));
  larger.handle = handle;
  larger.handle.struct_size = sizeof(larger);
  larger.tail[23] = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_open_fd(&larger.handle, NULL, &out, ERR));
  larger.tail[23] = 0;
  out = NULL;
  OK(tenon_open_fd(&larger.handle, &larger_options.options, &out, ERR));
  tenon_storage_release(out);
  close(fd);
}

static void wrong_fds(void) {
  int pipes[2], sockets[2], i, fds[10], n = 0, closed;
  tenon_open_options unsealed = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_ALLOW_UNSEALED);
  tenon_open_options copy =
      check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY | TENON_OPEN_ALLOW_UNSEALED);
  tenon_storage *out = kNothing;
  CHECK(pipe2(pipes, O_CLOEXEC) == 0 &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  fds[n++] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fds[n++] = open("/tmp", O_PATH | O_CLOEXEC);
  fds[n++] = open("/dev/null", O_RDWR | O_CLOEXEC);
  fds[n++] = open("/dev/zero", O_RDWR | O_CLOEXEC);
  fds[n++] = eventfd(0, EFD_CLOEXEC);
  fds[n++] = pipes[0];
  fds[n++] = pipes[1];
  fds[n++] = sockets[0];
  fds[n++] = sockets[1];
  for (i = 0; i < n; i++) {
    tenon_fd_handle handle = handle_of(fds[i], TENON_ACCESS_AUTO, 0, 64, 0);
    char text[16];
    CHECK(fds[i] >= 0);
    snprintf(text, sizeof(text), "%d", fds[i]);
    INVALID_SAYING("fd", text, tenon_open_fd(&handle, NULL, &out, ERR));
    INVALID_KEEPING(out, tenon_open_fd(&handle, &unsealed, &out, ERR));
    INVALID_KEEPING(out, tenon_open_fd(&handle, &copy, &out, ERR));
    CHECK(fcntl(fds[i], F_GETFD) >= 0);
  }
  closed = fds[0];
  for (i = 0; i < n; i++) close(fds[i]);
  {
    tenon_fd_handle handle = handle_of(closed, TENON_ACCESS_AUTO, 0, 64, 0);
    INVALID_KEEPING(out, tenon_open_fd(&handle, NULL, &out, ERR));
    handle.fd = -1;
    INVALID_KEEPING(out, tenon_open_fd(&handle, NULL, &out, ERR));
    handle.fd = -100;
    INVALID_KEEPING(out, tenon_open_fd(&handle, NULL, &out, ERR));
    handle.fd = INT32_MAX;
    INVALID_KEEPING(out, tenon_open_fd(&handle, &copy, &out, ERR));
  }
}

static void ranges(void) {
  int fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW);
  tenon_storage *out = kNothing, *storage = NULL;
  tenon_fd_handle handle;
  static const struct {
    uint64_t offset, nbytes, segment_nbytes;
    tenon_status a, b;
  } bad[] = {{0, 8193, 8192, TENON_INVALID_ARGUMENT, TENON_CORRUPT},
             {8192, 1, 8192, TENON_INVALID_ARGUMENT, TENON_CORRUPT},
             {0, 8193, 0, TENON_CORRUPT, TENON_INVALID_ARGUMENT},
             {8000, 193, 0, TENON_CORRUPT, TENON_INVALID_ARGUMENT},
             {0, 64, 8193, TENON_CORRUPT, TENON_CORRUPT},
             {0, 64, UINT64_MAX, TENON_CORRUPT, TENON_CORRUPT},
             {0, 16384, 16384, TENON_CORRUPT, TENON_CORRUPT},
             {UINT64_MAX, 64, 0, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT},
             {UINT64_MAX - 63, 64, 8192, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT},
             {64, UINT64_MAX, 0, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT},
             {1ULL << 63, 1ULL << 63, 0, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT},
             {0, 1ULL << 62, 1ULL << 62, TENON_CORRUPT, TENON_CORRUPT}};
  static const struct {
    uint64_t offset, nbytes, segment_nbytes;
  } good[] = {{0, 8192, 8192}, {0, 8192, 0}, {8191, 1, 8192}, {4097, 100, 8192}};
  size_t i;
  unsigned char byte = 0;
  for (i = 0; i < COUNT_OF(bad); i++) {
    handle = handle_of(fd, TENON_ACCESS_AUTO, bad[i].offset, bad[i].nbytes, bad[i].segment_nbytes);
    FAILS_EITHER_KEEPING(bad[i].a, bad[i].b, out, tenon_open_fd(&handle, NULL, &out, ERR));
  }
  for (i = 0; i < COUNT_OF(good); i++) {
    handle =
        handle_of(fd, TENON_ACCESS_AUTO, good[i].offset, good[i].nbytes, good[i].segment_nbytes);
    byte = (unsigned char)(i + 1);
    CHECK(pwrite(fd, &byte, 1, (off_t)good[i].offset) == 1);
    OK(tenon_open_fd(&handle, NULL, &storage, ERR));
    CHECK(tenon_storage_nbytes(storage) == good[i].nbytes &&
          *(const unsigned char *)tenon_storage_data(storage) == byte);
    CHECK(tenon_storage_is_read_only(storage) == 0 && tenon_storage_is_sealed(storage) == 1 &&
          tenon_storage_is_shared(storage) == 1);
    tenon_storage_release(storage);
  }
  close(fd);
}

static void access_asked_for(void) {
  int fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW), read_only_fd;
  char path[64];
  tenon_open_options want_write = check_open_options(TENON_ACCESS_WRITABLE, 0),
                     want_read = check_open_options(TENON_ACCESS_READ_ONLY, 0);
  tenon_fd_handle handle = handle_of(fd, TENON_ACCESS_AUTO, 0, 64, 8192);
  tenon_storage *out = kNothing, *storage = NULL;
  void *data = PATTERN;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  read_only_fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(read_only_fd >= 0);

  OK(tenon_open_fd(&handle, &want_read, &storage, ERR));
  CHECK(tenon_storage_is_read_only(storage) == 1);
  FAILS_KEEPING(TENON_PERMISSION, data, tenon_storage_data_mut(storage, &data, ERR));
  FAILS(TENON_PERMISSION, tenon_storage_write(storage, 0, "x", 1, ERR));
  tenon_storage_release(storage);

  OK(tenon_open_fd(&handle, &want_write, &storage, ERR));
  OK(tenon_storage_data_mut(storage, &data, ERR));
  tenon_storage_release(storage);

  handle.fd = read_only_fd;
  FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, &want_write, &out, ERR));
  handle.access = TENON_ACCESS_WRITABLE;
  FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, NULL, &out, ERR));
  handle.access = TENON_ACCESS_READ_ONLY;
  FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, &want_write, &out, ERR));
  OK(tenon_open_fd(&handle, NULL, &storage, ERR));
  CHECK(tenon_storage_is_read_only(storage) == 1);
  tenon_storage_release(storage);
  handle.access = TENON_ACCESS_AUTO;
  OK(tenon_open_fd(&handle, NULL, &storage, ERR));
  CHECK(tenon_storage_is_read_only(storage) == 1);
  tenon_storage_release(storage);
  handle.fd = fd;
  handle.access = TENON_ACCESS_READ_ONLY; /* the handle allows less than the fd could */
  FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, &want_write, &out, ERR));
  close(read_only_fd);

  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0); /* a writable fd, but the seal says no */
  handle.access = TENON_ACCESS_AUTO;
  FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, &want_write, &out, ERR));
  OK(tenon_open_fd(&handle, NULL, &storage, ERR));
  CHECK(tenon_storage_is_read_only(storage) == 1 &&
        tenon_storage_mode(storage) == TENON_MODE_FROZEN);
  tenon_storage_release(storage);
  close(fd);
}

static void unsealed(void) {
  tenon_open_options allow = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_ALLOW_UNSEALED);
  tenon_open_options copy = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY);
  tenon_open_options cow = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COW);
  tenon_storage *out = kNothing, *storage = NULL, *copied = NULL;
  int kind;
  for (kind = 0; kind < 3; kind++) { /* never sealed, never sealable (PyTorch's), a plain file */
    int fd = kind == 2 ? make_file(100000) : make_memfd(100000, kind == 1 ? F_SEAL_SEAL : 0);
    tenon_fd_handle handle = handle_of(fd, TENON_ACCESS_AUTO, 0, 100000, 0);
    static unsigned char bytes[100000];
    check_fill(bytes, sizeof(bytes), 3);
    CHECK(pwrite(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    FAILS_SAYING(TENON_PERMISSION, "option", "ALLOW_UNSEALED",
                 tenon_open_fd(&handle, NULL, &out, ERR));
    FAILS_SAYING(TENON_PERMISSION, "option", "ALLOW_UNSEALED",
                 tenon_open_fd(&handle, &cow, &out, ERR));
    CHECK(out == kNothing);
    OK(tenon_open_fd(&handle, &copy, &copied, ERR)); /* a copy has nothing to fear */
    OK(tenon_open_fd(&handle, &allow, &storage, ERR));
    CHECK(tenon_storage_is_sealed(storage) == 0 && tenon_storage_is_sealed(copied) == 1);
    CHECK(check_filled(tenon_storage_data(storage), sizeof(bytes), 3));
    OK(tenon_storage_write(storage, 7, "seen", 4, ERR));
    CHECK(pread(fd, bytes, 4, 7) == 4 && memcmp(bytes, "seen", 4) == 0);

    CHECK(ftruncate(fd, 4096) == 0); /* the file is cut short: errors, and no SIGBUS */
    memset(bytes, 0, sizeof(bytes));
    OK(tenon_storage_read(storage, 0, bytes, 4096, ERR));
    FAILS(TENON_CORRUPT, tenon_storage_read(storage, 0, bytes, sizeof(bytes), ERR));
    FAILS(TENON_CORRUPT, tenon_storage_read(storage, 50000, bytes, 1, ERR));
    (void)tenon_storage_write(storage, 50000, bytes, 1,
                              NULL); /* may lengthen the file; it must only return */
    FAILS_KEEPING(TENON_CORRUPT, out, tenon_open_fd(&handle, &allow, &out, ERR));
    FAILS_KEEPING(TENON_CORRUPT, out, tenon_open_fd(&handle, &copy, &out, ERR));
    CHECK(check_filled(tenon_storage_data(copied), sizeof(bytes), 3));
    tenon_storage_release(storage);
    tenon_storage_release(copied);
    close(fd);
  }
}

static void adopting(void) {
  tenon_open_options adopt = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_ADOPT_FD);
  tenon_storage *storage = NULL, *second = NULL, *out = kNothing;
  long fds = check_count_fds();
  int fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW), other;
  tenon_fd_handle handle = handle_of(fd, TENON_ACCESS_AUTO, 0, 64, 8192);

  OK(tenon_open_fd(&handle, NULL, &storage, ERR)); /* a borrowed fd stays the caller's */
  CHECK(fcntl(fd, F_GETFD) >= 0);
  other = dup(fd);
  tenon_fd_handle_close(&handle);
  OK(tenon_storage_write(storage, 0, "still mapped", 12, ERR));
  handle.fd = other;
  OK(tenon_open_fd(&handle, &adopt, &second,
                   ERR)); /* known already: the fd is taken all the same */
  CHECK(second == storage);
  tenon_storage_release(second);
  tenon_storage_release(storage);
  (void)tenon_storage_trim();
  CHECK_EQ(check_count_fds(), fds);

  handle.fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW);
  OK(tenon_open_fd(&handle, &adopt, &storage, ERR));
  tenon_storage_release(storage);
  CHECK_EQ(check_count_fds(), fds);

  adopt.flags |= TENON_OPEN_PRIVATE_COPY;
  handle.fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW);
  OK(tenon_open_fd(&handle, &adopt, &storage, ERR));
  tenon_storage_release(storage);
  CHECK_EQ(check_count_fds(), fds);

  adopt.flags = TENON_OPEN_ADOPT_FD;
  handle.fd = make_memfd(8192, 0); /* a failed call does not take the fd */
  FAILS_KEEPING(TENON_PERMISSION, out, tenon_open_fd(&handle, &adopt, &out, ERR));
  CHECK(fcntl(handle.fd, F_GETFD) >= 0);
  tenon_fd_handle_close(&handle);
  CHECK_EQ(check_count_fds(), fds);
}

static void private_opens(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  enum { kBytes = 3 * 4096 };
  size_t i;
  for (i = 0; i < COUNT_OF(modes); i++) {
    tenon_open_options cow_options =
        check_open_options(TENON_ACCESS_WRITABLE, TENON_OPEN_PRIVATE_COW);
    tenon_open_options copy_options =
        check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY);
    tenon_storage_options options = check_storage_options(modes[i], 0);
    tenon_storage *storage = NULL, *cow = NULL, *cow2 = NULL, *copy = NULL, *copy2 = NULL;
    tenon_fd_handle handle = check_handle(), refused = check_handle();
    unsigned char bytes[kBytes];
    void *data = NULL;
    options.alignment = 4096;
    check_fill(bytes, kBytes, 1);
    OK(tenon_storage_new_from(&options, bytes, kBytes, &storage, ERR));
    OK(tenon_share_fd(storage, NULL, &handle, ERR));
    OK(tenon_open_fd(&handle, &cow_options, &cow, ERR));
    OK(tenon_open_fd(&handle, &cow_options, &cow2, ERR));
    OK(tenon_open_fd(&handle, &copy_options, &copy, ERR));
    OK(tenon_open_fd(&handle, &copy_options, &copy2, ERR));
    CHECK(cow != cow2 && copy != copy2 && cow != storage && copy != storage);
    CHECK(tenon_storage_same_memory(copy, copy2) == 0 &&
          tenon_storage_same_memory(copy, storage) == 0);
    CHECK(tenon_storage_is_shared(cow) == 0 && tenon_storage_is_shared(copy) == 0);
    CHECK(tenon_storage_is_read_only(cow) == 0 && tenon_storage_is_read_only(copy) == 0);
    CHECK(tenon_storage_is_sealed(cow) == 1 && tenon_storage_is_sealed(copy) == 1);
    FAILS_KEEPING(TENON_UNSUPPORTED, refused, tenon_share_fd(cow, NULL, &refused, ERR));
    FAILS_KEEPING(TENON_UNSUPPORTED, refused, tenon_share_fd(copy, NULL, &refused, ERR));

    OK(tenon_storage_data_mut(cow, &data, ERR)); /* private writes stay here */
    memcpy(data, "mine", 4);
    CHECK(check_filled(tenon_storage_data(storage), kBytes, 1));
    CHECK(check_filled(tenon_storage_data(cow2), kBytes, 1));
    OK(tenon_storage_data_mut(copy, &data, ERR));
    memcpy(data, "copy", 4);
    CHECK(check_filled(tenon_storage_data(copy2), kBytes, 1));
    CHECK(check_filled(tenon_storage_data(storage), kBytes, 1));

    if (modes[i] != TENON_MODE_FROZEN) { /* the lender's later writes: seen on untouched pages of a
                                            cow, never in a copy */
      OK(tenon_storage_write(storage, 2 * 4096, "later", 5, ERR));
      CHECK(memcmp((const char *)tenon_storage_data(cow2) + 2 * 4096, "later", 5) == 0);
      OK(tenon_storage_write(storage, 0, "later", 5, ERR));
      CHECK(memcmp(tenon_storage_data(cow), "mine", 4) == 0);
      CHECK(check_filled(tenon_storage_data(copy2), kBytes, 1));
    }
    tenon_storage_release(cow);
    tenon_storage_release(cow2);
    tenon_storage_release(copy);
    tenon_storage_release(copy2);
    tenon_storage_release(storage);
    tenon_fd_handle_close(&handle);
  }
}

int main(void) {
  check_begin(60);
  RUN(handles);
  RUN(refused_lends);
  RUN(empty_storages);
  RUN(bad_share);
  RUN(bad_structs_on_open);
  RUN(wrong_fds);
  RUN(ranges);
  RUN(access_asked_for);
  RUN(unsealed);
  RUN(adopting);
  RUN(private_opens);
  return 0;
}
