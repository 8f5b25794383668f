// In these tests memfd_create is denied, as seccomp filters and policies of containers deny it.
// They check what works without seals, and what is refused and why.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "process/fault/kit.h"
#include "support/packet.h"
#include "support/sized.h"

namespace fault {
namespace {

// Denies the call for the rest of this process, as a container's filter does.
void deny_memfd_create(int error) {
  const sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(code)),
                           const_cast<sock_filter*>(code)};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    skip(std::string("no seccomp filter here: ") + std::strerror(errno));
  REQUIRE(syscall(SYS_memfd_create, "x", 0) == -1 && errno == error);
}

void check_says(const Outcome& outcome, const std::vector<const char*>& parts) {
  for (const char* part : parts)
    CHECK_SAYING(outcome.message.find(part) != std::string::npos,
                 std::string(part) + " is not in " + outcome.text());
}

void send_fd(int socket, int fd) {
  const char byte = 'f';
  REQUIRE(packets::put_packet(socket, &byte, sizeof byte, fd));
}

int receive_fd(int socket) {
  char byte = 0;
  int fd = -1;
  REQUIRE(packets::take_packet(socket, &byte, sizeof byte, &fd) && fd >= 0);
  return fd;
}

struct Denial {
  int error;
  tenon_status status;
  const char* why;
};
constexpr Denial kDenials[] = {{EPERM, TENON_PERMISSION, "seccomp filter"},
                               {EACCES, TENON_PERMISSION, "vm.memfd_noexec"},
                               {ENOSYS, TENON_UNSUPPORTED, "has no memfd_create"}};

TEST(MemfdDenied, ModesThatNeedSealsAreRefusedAndSayWhatWorks) {
  for (const Denial& denial : kDenials) {
    IN_CHILD([&denial] {
      deny_memfd_create(denial.error);
      tenon_storage* storage = nullptr;
      for (const tenon_mode mode : {TENON_MODE_LENDER_WRITES, TENON_MODE_FROZEN}) {
        const tenon_storage_options options = storage_options(mode, 0);
        for (const bool from : {false, true}) {
          const Outcome refused =
              from ? CALL(tenon_storage_new_from(&options, "abc", 3, &storage, err))
                   : CALL(tenon_storage_new(&options, 100, &storage, err));
          CHECK_SAYING(refused.status == denial.status &&
                           refused.detail("errno") == std::to_string(denial.error),
                       refused.text());
          check_says(refused, {denial.why, "memfd_create", "named files", "private memory",
                               "SHARED", "allow_unsealed"});
        }
      }
      auto lender_writes = tenon::test::sized<tenon_arena_options>();
      lender_writes.mode = TENON_MODE_LENDER_WRITES;
      lender_writes.capacity_nbytes = kMiB;
      tenon_arena* arena = nullptr;
      CHECK_STATUS(denial.status, tenon_arena_new(&lender_writes, &arena, err));
      CHECK(storage == nullptr && arena == nullptr);
      for (const uint32_t flags :
           {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}, uint32_t{TENON_STORAGE_PRIVATE}}) {
        storage = new_storage(5000, 3, TENON_MODE_SHARED, flags);
        CHECK_EQ(tenon_storage_is_sealed(storage), flags == TENON_STORAGE_PRIVATE ? 1 : 0);
        CHECK(has_pattern(tenon_storage_data(storage), 5000, 3));
        tenon_storage_release(std::exchange(storage, nullptr));
      }
      auto named = tenon::test::sized<tenon_filename_options>();
      CHECK_OK(tenon_storage_new_filename(&named, 5000, &storage, err));
      tenon_storage_release(storage);
      tenon_arena_options shared = lender_writes;
      shared.mode = TENON_MODE_SHARED;
      REQUIRE_OK(tenon_arena_new(&shared, &arena, err));
      tenon_storage_options born = storage_options(TENON_MODE_SHARED, 0);
      born.arena = arena;
      CHECK_OK(tenon_storage_new(&born, kMiB, &storage, err));
      tenon_storage_release(storage);
      tenon_arena_release(arena);
    });
  }
}

TEST(MemfdDenied, ABareFdIsLentAndSaysThatItIsUnsealed) {
  IN_CHILD([] {
    const auto ends = fault::socket_ends();
    const pid_t borrower = spawn([&] {
      tenon_fd_handle handle = handle_over(receive_fd(ends[1]), 5000);
      tenon_storage* storage = nullptr;
      const Outcome refused = CALL(tenon_open_fd(&handle, nullptr, &storage, err));
      CHECK_SAYING(
          refused.status == TENON_PERMISSION && refused.detail("option") == "ALLOW_UNSEALED",
          refused.text());
      check_says(refused, {"not sealed", "allow_unsealed"});
      const tenon_open_options read_only =
          open_options(TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_READ_ONLY);
      CHECK_OK(tenon_open_fd(&handle, &read_only, &storage, err));
      CHECK(tenon_storage_is_sealed(storage) == 0 &&
            has_pattern(tenon_storage_data(storage), 5000, 6));
      tenon_storage_release(std::exchange(storage, nullptr));
      const tenon_open_options options = open_options(TENON_OPEN_ALLOW_UNSEALED);
      REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
      const std::vector<unsigned char> bytes = pattern(5000, 7);
      CHECK_OK(tenon_storage_write(storage, 0, bytes.data(), bytes.size(), err));
      tenon_storage_release(storage);
      tenon_fd_handle_close(&handle);
      CHECK(send(ends[1], "w", 1, 0) == 1);
    });
    deny_memfd_create(EPERM);
    tenon_storage* storage = new_storage(5000, 6, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
    auto read_only = tenon::test::sized<tenon_share_options>();
    read_only.access = TENON_ACCESS_READ_ONLY;
    tenon_fd_handle handle = handle_over(-1, 0);
    const Outcome refused = CALL(tenon_share_fd(storage, &read_only, &handle, err));
    CHECK_SAYING(refused.status == TENON_PERMISSION, refused.text());
    REQUIRE_OK(tenon_share_fd(storage, nullptr, &handle, err));
    CHECK_EQ(handle.offset, 0);
    // No process can give the file a name and open it by that name.
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", handle.fd);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "/dev/shm/tenon-fault-linked", AT_SYMLINK_FOLLOW) != 0);
    send_fd(ends[0], handle.fd);
    char byte = 0;
    CHECK(recv(ends[0], &byte, 1, 0) == 1);
    CHECK(has_pattern(tenon_storage_data(storage), 5000, 7));
    tenon_fd_handle_close(&handle);
    tenon_storage_release(storage);
    CHECK_EQ(wait_for_child(borrower), 0);
  });
}

TEST(MemfdDenied, AConnectionLendsWithoutLeases) {
  IN_CHILD([] {
    auto unsealed = tenon::test::sized<tenon_connection_options>();
    unsealed.open_flags = TENON_OPEN_ALLOW_UNSEALED;
    const auto ends = fault::socket_ends();
    const pid_t borrower = spawn([&] {
      close(ends[0]);
      tenon_connection* connection = new_connection(ends[1], &unsealed);
      for (uint64_t i = 0; i < 3; ++i) {
        tenon_message* got = nullptr;
        REQUIRE_OK(tenon_recv(connection, nullptr, &got, err));
        tenon_tensor* tensor = tenon_message_tensor(got, 0);
        CHECK(has_pattern(tenon_tensor_data(tensor), 5000, i));
        tenon_message_release(got);
      }
      tenon_connection_release(connection);
    });
    close(ends[1]);
    deny_memfd_create(EPERM);
    tenon_connection* connection = new_connection(ends[0]);
    for (uint64_t i = 0; i < 3; ++i) {
      const uint64_t retired = stats().bytes_retired;
      tenon_message* message = new_message({new_storage(5000, i)});
      CHECK_OK(tenon_send(connection, message, nullptr, err));
      tenon_message_release(message);
      CHECK_EQ(stats().bytes_retired, retired + 5056);
    }
    CHECK_EQ(wait_for_child(borrower), 0);
    tenon_connection_release(connection);
  });
}

}  // namespace
}  // namespace fault
