/* Tests tenon/storage.h. */
#include "check.h"

static tenon_storage *const kNothing = PATTERN;

static void every_kind(void) {
  static const uint64_t sizes[] = {0, 1, 63, 64, 4096, 5000, 1 << 20, 70 << 20};
  static const struct {
    tenon_mode mode;
    uint32_t flags;
    int read_only, shared;
  } kinds[] = {{TENON_MODE_SHARED, 0, 0, 1},
               {TENON_MODE_LENDER_WRITES, 0, 0, 1},
               {TENON_MODE_FROZEN, 0, 1, 1},
               {TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 0, 1},
               {TENON_MODE_LENDER_WRITES, TENON_STORAGE_ISOLATED, 0, 1},
               {TENON_MODE_FROZEN, TENON_STORAGE_ISOLATED, 1, 1},
               {TENON_MODE_SHARED, TENON_STORAGE_PRIVATE, 0, 0},
               {TENON_MODE_FROZEN, TENON_STORAGE_PRIVATE, 0, 0}};
  size_t k, n;
  for (k = 0; k < COUNT_OF(kinds); k++) {
    for (n = 0; n < COUNT_OF(sizes); n++) {
      tenon_storage_options options =
          check_storage_options(kinds[k].mode, kinds[k].flags | TENON_STORAGE_ZEROED);
      tenon_storage *storage = NULL;
      const unsigned char *data;
      void *writable = PATTERN;
      unsigned char byte = 0x11, back = 0;
      OK(tenon_storage_new(&options, sizes[n], &storage, ERR));
      data = tenon_storage_data(storage);
      CHECK((data == NULL) == (sizes[n] == 0));
      CHECK((uintptr_t)data % 64 == 0);
      CHECK(tenon_storage_nbytes(storage) == sizes[n]);
      CHECK(tenon_storage_device(storage).type == 1 && tenon_storage_device(storage).id == 0);
      CHECK(tenon_device_check_host(tenon_storage_device(storage), NULL) == TENON_OK);
      CHECK(tenon_storage_mode(storage) == (kinds[k].shared ? kinds[k].mode : TENON_MODE_SHARED));
      CHECK(tenon_storage_is_shared(storage) == kinds[k].shared);
      CHECK(tenon_storage_is_read_only(storage) == kinds[k].read_only);
      CHECK(tenon_storage_is_sealed(storage) == 1);
      CHECK(tenon_storage_use_count(storage) == 1);
      CHECK(tenon_storage_id(storage) > 0);
      if (sizes[n] > 0) CHECK(data[0] == 0 && data[sizes[n] / 2] == 0 && data[sizes[n] - 1] == 0);
      if (kinds[k].read_only) {
        FAILS_KEEPING(TENON_PERMISSION, writable, tenon_storage_data_mut(storage, &writable, ERR));
      } else {
        OK(tenon_storage_data_mut(storage, &writable, ERR));
        CHECK(writable == (const void *)data);
        if (sizes[n] > 0) memset(writable, 0x77, sizes[n]);
      }
      if (sizes[n] > 0) {
        OK(tenon_storage_write(storage, sizes[n] - 1, &byte, 1, ERR));
        CHECK(data[sizes[n] - 1] == 0x11);
        OK(tenon_storage_read(storage, sizes[n] - 1, &back, 1, ERR));
        CHECK(back == 0x11);
      }
      tenon_storage_release(storage);
    }
  }
}

static void copies(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  enum { kBytes = 300001 };
  static unsigned char bytes[kBytes], back[kBytes];
  size_t i;
  check_fill(bytes, kBytes, 5);
  for (i = 0; i < COUNT_OF(modes); i++) {
    tenon_storage_options options = check_storage_options(modes[i], 0);
    tenon_storage *storage = NULL;
    OK(tenon_storage_new_from(&options, bytes, kBytes, &storage, ERR));
    CHECK(memcmp(tenon_storage_data(storage), bytes, kBytes) == 0);
    memset(back, 0, kBytes);
    OK(tenon_storage_read(storage, 0, back, kBytes, ERR));
    CHECK(memcmp(back, bytes, kBytes) == 0);
    OK(tenon_storage_read(storage, 1000, back, 7, ERR));
    CHECK(memcmp(back, bytes + 1000, 7) == 0);
    if (modes[i] == TENON_MODE_FROZEN) {
      FAILS(TENON_PERMISSION, tenon_storage_write(storage, 0, bytes, 1, ERR));
      OK(tenon_storage_freeze(storage, ERR));
    } else {
      OK(tenon_storage_write(storage, 1, bytes, kBytes - 1, ERR));
      CHECK(memcmp((const char *)tenon_storage_data(storage) + 1, bytes, kBytes - 1) == 0);
    }
    tenon_storage_release(storage);
    OK(tenon_storage_new_from(&options, NULL, 0, &storage, ERR));
    OK(tenon_storage_write(storage, 0, NULL, 0, NULL));
    tenon_storage_release(storage);
  }
}

static void freezing(void) {
  tenon_storage_options options = check_storage_options(TENON_MODE_FROZEN, 0);
  tenon_storage *storage = NULL, *neighbour = NULL, *shared = NULL;
  OK(tenon_storage_new(&options, 10000, &storage, ERR));
  OK(tenon_storage_new(&options, 10000, &neighbour, ERR));
  OK(tenon_storage_write(storage, 0, "first", 5, ERR));
  OK(tenon_storage_freeze(storage, ERR));
  OK(tenon_storage_freeze(storage, ERR));
  FAILS(TENON_PERMISSION, tenon_storage_write(storage, 0, "later", 5, ERR));
  CHECK(memcmp(tenon_storage_data(storage), "first", 5) == 0);
  OK(tenon_storage_write(neighbour, 0, "still open", 10,
                         ERR)); /* freezing one does not freeze another */
  OK(tenon_storage_freeze(neighbour, ERR));
  CHECK(memcmp(tenon_storage_data(neighbour), "still open", 10) == 0);
  tenon_storage_release(neighbour);
  tenon_storage_release(storage);
  shared = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  INVALID(tenon_storage_freeze(shared, ERR));
  tenon_storage_release(shared);
  shared = check_storage(TENON_MODE_LENDER_WRITES, 0, 64, 1);
  INVALID(tenon_storage_freeze(shared, ERR));
  tenon_storage_release(shared);
  INVALID(tenon_storage_freeze(NULL, ERR));
}

static void alignment(void) {
  static const uint64_t good[] = {1, 2, 64, 128, 1024, 4096};
  static const uint64_t bad[] = {3, 65, 4095, 8192, 1ULL << 63, UINT64_MAX};
  static const uint32_t flags[] = {0, TENON_STORAGE_ISOLATED, TENON_STORAGE_PRIVATE};
  size_t i, f;
  for (f = 0; f < COUNT_OF(flags); f++) {
    for (i = 0; i < COUNT_OF(good); i++) {
      tenon_storage_options options = check_storage_options(TENON_MODE_SHARED, flags[f]);
      tenon_storage *first = NULL, *second = NULL;
      options.alignment = good[i];
      OK(tenon_storage_new(&options, 10, &first, ERR));
      OK(tenon_storage_new(&options, 10, &second, ERR));
      CHECK((uintptr_t)tenon_storage_data(first) % good[i] == 0);
      CHECK((uintptr_t)tenon_storage_data(second) % good[i] == 0);
      tenon_storage_release(first);
      tenon_storage_release(second);
    }
    for (i = 0; i < COUNT_OF(bad); i++) {
      tenon_storage_options options = check_storage_options(TENON_MODE_SHARED, flags[f]);
      tenon_storage *out = kNothing;
      options.alignment = bad[i];
      INVALID_KEEPING(out, tenon_storage_new(&options, 10, &out, ERR));
    }
  }
}

static void reuse_and_zeroing(void) {
  tenon_storage_options options = check_storage_options(TENON_MODE_SHARED, TENON_STORAGE_ZEROED);
  tenon_storage *storages[64];
  size_t round, i, k;
  for (round = 0; round < 20; round++) {
    for (i = 0; i < COUNT_OF(storages); i++) {
      uint64_t nbytes = 100 + 997 * i;
      void *data = NULL;
      OK(tenon_storage_new(&options, nbytes, &storages[i], ERR));
      OK(tenon_storage_data_mut(storages[i], &data, ERR));
      for (k = 0; k < nbytes; k++) CHECK(((unsigned char *)data)[k] == 0);
      check_fill(data, nbytes, i);
    }
    for (i = 0; i < COUNT_OF(storages); i++)
      CHECK(check_filled(tenon_storage_data(storages[i]), 100 + 997 * i, i));
    for (i = 0; i < COUNT_OF(storages); i++)
      tenon_storage_release(storages[(i * 7) % COUNT_OF(storages)]);
  }
}

/* tests/api/arena/access_test.cc tests that a block that was lent is not cleared. */
static void will_fill(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  static const uint32_t flags[] = {0, TENON_STORAGE_ISOLATED, TENON_STORAGE_PRIVATE};
  static unsigned char bytes[5000];
  tenon_storage *storage = NULL, *out = kNothing;
  tenon_storage_options options;
  size_t m, f;
  check_fill(bytes, sizeof(bytes), 3);
  for (m = 0; m < COUNT_OF(modes); m++) {
    for (f = 0; f < COUNT_OF(flags); f++) {
      options = check_storage_options(modes[m], flags[f] | TENON_STORAGE_WILL_FILL);
      OK(tenon_storage_new(&options, sizeof(bytes), &storage, ERR));
      OK(tenon_storage_write(storage, 0, bytes, sizeof(bytes), ERR));
      CHECK(check_filled(tenon_storage_data(storage), sizeof(bytes), 3));
      tenon_storage_release(storage);
      OK(tenon_storage_new_from(&options, bytes, sizeof(bytes), &storage, ERR));
      CHECK(check_filled(tenon_storage_data(storage), sizeof(bytes), 3));
      tenon_storage_release(storage);
      OK(tenon_storage_new(&options, 0, &storage, ERR));
      tenon_storage_release(storage);
    }
  }
  options =
      check_storage_options(TENON_MODE_SHARED, TENON_STORAGE_WILL_FILL | TENON_STORAGE_ZEROED);
  INVALID_KEEPING(out, tenon_storage_new(&options, 64, &out, ERR));
  INVALID_KEEPING(out, tenon_storage_new_from(&options, bytes, 64, &out, ERR));
  options = check_storage_options(0, TENON_STORAGE_WILL_FILL);
  FAILS_KEEPING(TENON_UNSUPPORTED, out,
                tenon_storage_wrap(bytes, sizeof(bytes), NULL, NULL, &options, &out, ERR));
}

static void trimming(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 1 << 20, 3);
  tenon_stats stats;
  SIZED(stats);
  tenon_storage_release(storage);
  CHECK(tenon_storage_trim() >= 1 << 20);
  CHECK(tenon_storage_trim() == 0);
  OK(tenon_stats_get(&stats, ERR));
  CHECK_EQ(stats.bytes_reserved, 0);
  storage = check_storage(TENON_MODE_SHARED, 0, 1000, 4);
  (void)tenon_storage_trim();
  CHECK(check_filled(tenon_storage_data(storage), 1000, 4));
  tenon_storage_release(storage);
}

static int released;
static void *released_context;
static void count_release(void *context) {
  released++;
  released_context = context;
}

static void wrapping(void) {
  unsigned char bytes[100] = {7};
  tenon_storage_options options = check_storage_options(0, TENON_STORAGE_READ_ONLY);
  tenon_storage *storage = NULL, *out = kNothing;
  tenon_fd_handle handle = check_handle();
  void *writable = NULL;
  released = 0;
  OK(tenon_storage_wrap(bytes, sizeof(bytes), count_release, &storage, NULL, &storage, ERR));
  CHECK(tenon_storage_data(storage) == bytes && tenon_storage_nbytes(storage) == 100);
  CHECK(tenon_storage_is_shared(storage) == 0 && tenon_storage_is_read_only(storage) == 0 &&
        tenon_storage_is_sealed(storage) == 1);
  OK(tenon_storage_data_mut(storage, &writable, ERR));
  CHECK(writable == bytes);
  OK(tenon_storage_write(storage, 99, "x", 1, ERR));
  CHECK(bytes[99] == 'x');
  FAILS_KEEPING(TENON_UNSUPPORTED, handle, tenon_share_fd(storage, NULL, &handle, ERR));
  CHECK(tenon_storage_retain(storage) == storage);
  tenon_storage_release(storage);
  CHECK(released == 0);
  tenon_storage_release(storage);
  CHECK(released == 1 && released_context == &storage);

  OK(tenon_storage_wrap(bytes, sizeof(bytes), count_release, NULL, &options, &storage, ERR));
  CHECK(tenon_storage_is_read_only(storage) == 1);
  writable = PATTERN;
  FAILS_KEEPING(TENON_PERMISSION, writable, tenon_storage_data_mut(storage, &writable, ERR));
  FAILS(TENON_PERMISSION, tenon_storage_write(storage, 0, "x", 1, ERR));
  tenon_storage_release(storage);
  CHECK(released == 2);

  OK(tenon_storage_wrap(NULL, 0, count_release, NULL, NULL, &storage, ERR));
  CHECK(tenon_storage_data(storage) == NULL);
  tenon_storage_release(storage);
  CHECK(released == 3);
  OK(tenon_storage_wrap(bytes, 1, NULL, NULL, NULL, &storage, ERR));
  tenon_storage_release(storage);

  INVALID_KEEPING(out, tenon_storage_wrap(NULL, 1, count_release, NULL, NULL, &out, ERR));
  INVALID(tenon_storage_wrap(bytes, 1, count_release, NULL, NULL, NULL, ERR));
  INVALID_KEEPING(out, tenon_storage_wrap(bytes, UINT64_MAX, count_release, NULL, NULL, &out, ERR));
  options.struct_size = 3;
  INVALID_KEEPING(out, tenon_storage_wrap(bytes, 1, count_release, NULL, &options, &out, ERR));
  options = check_storage_options(0, 1U << 30);
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT, out,
                       tenon_storage_wrap(bytes, 1, count_release, NULL, &options, &out, ERR));
  CHECK(released == 3);
}

static void identities(void) {
  tenon_storage *storages[100], *empty = NULL;
  size_t i, k;
  uint64_t last;
  for (i = 0; i < COUNT_OF(storages); i++) {
    storages[i] = check_storage(TENON_MODE_SHARED, i % 2 ? TENON_STORAGE_PRIVATE : 0, 64, i);
    for (k = 0; k < i; k++) {
      CHECK(tenon_storage_id(storages[k]) != tenon_storage_id(storages[i]));
      CHECK(tenon_storage_same_memory(storages[k], storages[i]) == 0);
    }
    CHECK(tenon_storage_same_memory(storages[i], storages[i]) == 1);
  }
  last = tenon_storage_id(storages[99]);
  for (i = 0; i < COUNT_OF(storages); i++) tenon_storage_release(storages[i]);
  storages[0] = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  CHECK(tenon_storage_id(storages[0]) > last); /* ids are never reused */
  OK(tenon_storage_new(NULL, 0, &empty, ERR));
  CHECK(tenon_storage_id(empty) > 0);
  CHECK(tenon_storage_same_memory(empty, empty) == 0);
  CHECK(tenon_storage_same_memory(empty, storages[0]) == 0);
  tenon_storage_release(empty);
  tenon_storage_release(storages[0]);
}

static void counting(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  CHECK(tenon_storage_retain(storage) == storage);
  CHECK(tenon_storage_use_count(storage) == 2);
  tenon_storage_release(storage);
  CHECK(tenon_storage_use_count(storage) == 1);
  CHECK(check_filled(tenon_storage_data(storage), 64, 1));
  tenon_storage_release(storage);
}

static void null_is_allowed(void) {
  CHECK(tenon_storage_retain(NULL) == NULL);
  tenon_storage_release(NULL);
  CHECK(tenon_storage_data(NULL) == NULL);
  CHECK(tenon_storage_nbytes(NULL) == 0);
  CHECK(tenon_storage_device(NULL).type == 0 && tenon_storage_device(NULL).id == 0);
  CHECK(tenon_device_check_host(tenon_storage_device(NULL), NULL) == TENON_OK);
  CHECK(tenon_storage_mode(NULL) == TENON_MODE_SHARED);
  CHECK(tenon_storage_is_read_only(NULL) == 0);
  CHECK(tenon_storage_is_shared(NULL) == 0);
  CHECK(tenon_storage_is_sealed(NULL) == 0);
  CHECK(tenon_storage_same_memory(NULL, NULL) == 0);
  CHECK(tenon_storage_id(NULL) == 0);
  CHECK(tenon_storage_use_count(NULL) == 0);
}

static void of_a_device(void) {
  const tenon_device cuda = {2, 3};
  FAILS_RAW(TENON_UNSUPPORTED, TENON_UNSUPPORTED, tenon_device_check_host(cuda, ERR));
  CHECK(strstr(tenon_error_message(check_error), "(2, 3)") != NULL);
  tenon_error_release(check_error);
  check_error = NULL;
}

static void bad_new(void) {
  struct {
    tenon_storage_options options;
    unsigned char tail[40];
  } larger;
  tenon_storage_options options;
  tenon_storage *out = kNothing, *storage = NULL;
  static const uint64_t huge[] = {1ULL << 40, 1ULL << 62,      (1ULL << 63) - 1,
                                  1ULL << 63, UINT64_MAX - 63, UINT64_MAX};
  static const uint32_t kinds[] = {0, TENON_STORAGE_ISOLATED, TENON_STORAGE_PRIVATE};
  size_t i, k;

  INVALID(tenon_storage_new(NULL, 64, NULL, ERR));
  INVALID(tenon_storage_new_from(NULL, "x", 1, NULL, ERR));
  INVALID_KEEPING(out, tenon_storage_new_from(NULL, NULL, 1, &out, ERR));

  options = check_storage_options(3, 0);
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT, out,
                       tenon_storage_new(&options, 64, &out, ERR));
  options = check_storage_options(UINT32_MAX, 0);
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT, out,
                       tenon_storage_new(&options, 64, &out, ERR));
  options = check_storage_options(0, 1U << 31);
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT, out,
                       tenon_storage_new(&options, 64, &out, ERR));
  options = check_storage_options(0, TENON_STORAGE_READ_ONLY);
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT, out,
                       tenon_storage_new(&options, 64, &out, ERR));

  options = check_storage_options(0, 0);
  options.struct_size = 0;
  INVALID_KEEPING(out, tenon_storage_new(&options, 64, &out, ERR));
  INVALID_KEEPING(out, tenon_storage_new_from(&options, "x", 1, &out, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID_KEEPING(out, tenon_storage_new(&options, 64, &out, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.options.struct_size = sizeof(larger);
  OK(tenon_storage_new(&larger.options, 64, &storage, ERR));
  tenon_storage_release(storage);
  for (i = 0; i < sizeof(larger.tail); i++) {
    memset(&larger, 0, sizeof(larger));
    larger.options.struct_size = sizeof(larger);
    larger.tail[i] = 1;
    FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_storage_new(&larger.options, 64, &out, ERR));
  }

  for (i = 0; i < COUNT_OF(huge); i++) {
    for (k = 0; k < COUNT_OF(kinds); k++) {
      options = check_storage_options(TENON_MODE_SHARED, kinds[k]);
      FAILS_RAW(TENON_RESOURCE_EXHAUSTED, TENON_RESOURCE_EXHAUSTED,
                tenon_storage_new(&options, huge[i], &out, ERR));
      CHECK(tenon_error_detail(check_error, "limit") != NULL);
      tenon_error_release(check_error);
      CHECK(out == kNothing);
    }
  }
}

static void by_address(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 5000, 9), *out = PATTERN;
  tenon_tensor *tensor = NULL;
  const unsigned char *data;
  void *writable = NULL;
  uint64_t offset = 77;
  FAILS_KEEPING(TENON_NOT_FOUND, out, tenon_storage_at(&offset, 1, &out, &offset, ERR));
  CHECK(offset == 77);
  data = tenon_storage_data(storage);
  OK(tenon_storage_at(data + 4999, 1, &out, &offset, ERR));
  CHECK(out == storage && offset == 4999 && tenon_storage_use_count(storage) == 2);
  tenon_storage_release(out);
  OK(tenon_storage_at(data, 5000, &out, NULL, ERR));
  CHECK(out == storage);
  tenon_storage_release(out);
  out = PATTERN;
  FAILS_KEEPING(TENON_NOT_FOUND, out, tenon_storage_at(data + 4999, 2, &out, NULL, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, out, tenon_storage_at(data + 5000, 0, &out, NULL, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, out, tenon_storage_at(NULL, 1, &out, NULL, ERR));
  INVALID(tenon_storage_at(data, 1, NULL, NULL, ERR));
  CHECK(tenon_storage_use_count(storage) == 1);
  tenon_storage_release(storage);
  FAILS_KEEPING(TENON_NOT_FOUND, out, tenon_storage_at(data, 1, &out, NULL, ERR));

  storage = check_storage(TENON_MODE_SHARED, 0, 100, 0);
  OK(tenon_storage_data_mut(storage, &writable, ERR));
  OK(tenon_storage_at(writable, 100, &out, NULL, ERR));
  CHECK(out == storage);
  tenon_storage_release(out);
  tenon_storage_release(storage);

  storage = check_storage(TENON_MODE_SHARED, 0, 100, 0);
  tensor = check_bytes_tensor(storage);
  OK(tenon_storage_at((const char *)tenon_tensor_data(tensor) + 30, 70, &out, &offset, ERR));
  CHECK(out == storage && offset == 30);
  tenon_storage_release(out);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

static void bad_access(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 100, 9);
  void *out = PATTERN;
  unsigned char bytes[128];
  static const struct {
    uint64_t offset, nbytes;
  } ranges[] = {{0, 101},
                {100, 1},
                {101, 0},
                {1, 100},
                {UINT64_MAX, 1},
                {1, UINT64_MAX},
                {UINT64_MAX, UINT64_MAX},
                {1ULL << 63, 1ULL << 63}};
  size_t i;
  memset(bytes, 0x5a, sizeof(bytes));
  for (i = 0; i < COUNT_OF(ranges); i++) {
    INVALID(tenon_storage_write(storage, ranges[i].offset, bytes, ranges[i].nbytes, ERR));
    INVALID_KEEPING(bytes,
                    tenon_storage_read(storage, ranges[i].offset, bytes, ranges[i].nbytes, ERR));
  }
  CHECK(check_filled(tenon_storage_data(storage), 100, 9));
  OK(tenon_storage_write(storage, 100, NULL, 0, ERR));
  OK(tenon_storage_read(storage, 100, NULL, 0, ERR));
  INVALID(tenon_storage_write(storage, 0, NULL, 1, ERR));
  INVALID(tenon_storage_read(storage, 0, NULL, 1, ERR));
  INVALID(tenon_storage_write(NULL, 0, bytes, 1, ERR));
  INVALID_KEEPING(bytes, tenon_storage_read(NULL, 0, bytes, 1, ERR));
  INVALID_KEEPING(out, tenon_storage_data_mut(NULL, &out, ERR));
  INVALID(tenon_storage_data_mut(storage, NULL, ERR));
  tenon_storage_release(storage);
}

int main(void) {
  check_begin(60);
  RUN(every_kind);
  RUN(copies);
  RUN(freezing);
  RUN(alignment);
  RUN(reuse_and_zeroing);
  RUN(will_fill);
  RUN(trimming);
  RUN(wrapping);
  RUN(identities);
  RUN(counting);
  RUN(null_is_allowed);
  RUN(of_a_device);
  RUN(bad_new);
  RUN(by_address);
  RUN(bad_access);
  return 0;
}
