/* Messages that say who they are, for the tests of queues and publishers. */
#ifndef TENON_TESTS_MESSAGE_KIT_H
#define TENON_TESTS_MESSAGE_KIT_H

#include "check.h"

/* An output that still holds it was not touched. */
static tenon_message *const kNothing = PATTERN;

/* A message of `count` tensors of nbytes bytes each, whose seeds are seed, seed + 1 and so on. The
 * user's bytes are the seed. */
CHECK_UNUSED static tenon_message *message_of(uint32_t flags, size_t count, uint64_t nbytes,
                                              uint64_t seed) {
  tenon_message *message = NULL;
  size_t i;
  OK(tenon_message_new(&message, ERR));
  for (i = 0; i < count; i++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, flags, nbytes, seed + i);
    tenon_tensor *tensor = check_bytes_tensor(storage);
    OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  }
  OK(tenon_message_set_user_bytes(message, &seed, sizeof(seed), ERR));
  return message;
}

CHECK_UNUSED static uint64_t seed_of(const tenon_message *message) {
  size_t n = 0;
  uint64_t seed = 0;
  const void *bytes = tenon_message_user_bytes(message, &n);
  CHECK(n == sizeof(seed));
  memcpy(&seed, bytes, sizeof(seed));
  return seed;
}

/* Checks the bytes of a message of message_of(), and releases it. Returns its seed. */
CHECK_UNUSED static uint64_t check_message(tenon_message *message, size_t count, uint64_t nbytes) {
  const uint64_t seed = seed_of(message);
  size_t i;
  CHECK_EQ(tenon_message_count(message), count);
  for (i = 0; i < count; i++) {
    const tenon_tensor *tensor = tenon_message_tensor(message, i);
    CHECK(check_filled(tenon_tensor_data(tensor), nbytes, seed + i));
  }
  tenon_message_release(message);
  return seed;
}

#endif
