#include "os/open_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/process_state.h"
#include "os/memfd.h"

namespace tenon::os {
namespace {

#ifndef SYS_pidfd_getfd
constexpr long SYS_pidfd_getfd = 438;
#endif
constexpr int kDupfdQuery = 1024 + 3;  // F_DUPFD_QUERY, Linux 6.10
constexpr int kKcmpFile = 0;           // KCMP_FILE, where a seccomp filter does not forbid it
constexpr int kMostAttempts = 8;       // a comparison is repeated so often

Status open_refused(int error, int number) {
  const auto fail = [&](Code code, const char* why) {
    return Status(code, format("fetching fd %d of another process: %s%s", number,
                               std::strerror(error), why))
        .with("errno", error);
  };
  switch (error) {
    case EPERM:
      return fail(Code::kPermission,
                  " (the kernel asks for the right to trace that process, which containers often "
                  "take away)");
    case EBADF: return fail(Code::kNotFound, "");
    case ESRCH: return fail(Code::kPeerGone, "");
    case ENOSYS: return fail(Code::kUnsupported, " (it takes Linux 5.6)");
    case EMFILE:
    case ENFILE:
      return fail(Code::kResourceExhausted, "").with("limit", std::string("file descriptors"));
    default: return fail(Code::kIo, "");
  }
}

// Only one thread at a time compares files by their signals, because two threads would read each
// other's numbers.
struct FileComparisonLock : ProcessState<LockRank::kFileComparison> {};

enum class Told : uint8_t { kSame, kOther, kDisturbed };

// Writes numbers through `one` and reads them through `other`. A peer that does not have the file
// would have to guess 16 numbers from 1 to 64.
Told compare_signals(int one, int other, const Nonce& numbers) noexcept {
  for (const uint8_t byte : numbers) {
    const int number = 1 + byte % 64;
    if (::fcntl(one, F_SETSIG, number) != 0) return Told::kOther;
    if (::fcntl(other, F_GETSIG) == number) continue;
    return ::fcntl(one, F_GETSIG) == number ? Told::kOther : Told::kDisturbed;
  }
  return Told::kSame;
}

// Compares two files by their signals. This is for kernels before 6.10 under a filter without kcmp,
// as in containers. The number of the signal that reports input (F_SETSIG) is stored with the open
// file and not with the fd, and any file but an O_PATH one has it. It has no effect while O_ASYNC
// is not set, so a change does no harm then. A file with O_ASYNC is left alone.
//
// A peer that holds both files could copy the numbers from one to the other. But a peer that holds
// the real file could have sent it anyway. Another process may compare the same file at the same
// time and disturb this comparison. Then it is repeated. In the worst case the answer is that the
// files differ, which costs one import and nothing else.
bool has_same_signal(int one, int other) noexcept {
  const std::lock_guard<std::mutex> lock(process_state<FileComparisonLock>().mutex);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const int flags = ::fcntl(one, F_GETFL);
    const int before = ::fcntl(one, F_GETSIG);
    if (flags < 0 || (flags & (O_ASYNC | O_PATH)) != 0 || before < 0 ||
        ::fcntl(other, F_GETSIG) < 0)
      return false;
    Result<Nonce> numbers = random_nonce();
    if (!numbers.is_ok()) return false;
    const Told told = compare_signals(one, other, numbers.value());
    (void)::fcntl(one, F_SETSIG, before);
    if (told != Told::kDisturbed) return told == Told::kSame;
  }
  return false;
}

}  // namespace

Result<Fd> fetch_fd(const Fd& pidfd, int number) {
  Fd fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number, 0)));
  if (!fetched.is_open()) return open_refused(errno, number);
  fetched.mark_foreign();
  return fetched;
}

bool is_same_open_file(int one, int other) noexcept {
  const int told = ::fcntl(one, kDupfdQuery, other);
  if (told >= 0) return told == 1;
  const pid_t self = ::getpid();
  const long order = ::syscall(SYS_kcmp, self, self, kKcmpFile, one, other);
  if (order >= 0) return order == 0;
  return has_same_signal(one, other);
}

}  // namespace tenon::os
