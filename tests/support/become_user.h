/* Changes the user of a test's child process. C and C++ tests use it to see what another user may
 * do, and to leave the exemptions of root. The caller of become_user() must be root. */
#ifndef TENON_TESTS_SUPPORT_BECOME_USER_H
#define TENON_TESTS_SUPPORT_BECOME_USER_H

#include <grp.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* Returns whether the process now has this uid and, as its only group, this gid. */
static inline int become_user(uid_t uid, gid_t gid) {
  return setgroups(0, NULL) == 0 && setgid(gid) == 0 && setuid(uid) == 0;
}

/* Becomes a user without other processes, so that a count per user counts this process alone. A
 * process that is not root stays what it is, because no exemption holds for it. Returns 0 on
 * failure. */
static inline int become_unprivileged(void) {
  const uid_t uid = 200000 + (uid_t)getpid();
  return geteuid() != 0 || become_user(uid, uid);
}

#endif
