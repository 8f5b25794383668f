// This test fills a file system. The error names the limit and the path, the old file stays as it
// was, and no temporary file is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "modules/archive/file_output.h"
#include "unit/archive/zip_kit.h"

namespace tenon::archive {
namespace {

using namespace test;

constexpr int kSkip = 77;

bool put_setting(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool good =
      fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  return good;
}

// Mounts a tmpfs of 1 MiB over `where`, in a mount namespace of this process.
bool mount_small_tmpfs(const std::string& where) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
  if (uid != 0 && !(put_setting("/proc/self/setgroups", "deny") &&
                    put_setting("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
                    put_setting("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1"))) {
    return false;
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", where.c_str(), "tmpfs", 0, "size=1m") == 0;
}

Status write_noise_archive(Sink* sink, uint64_t nbytes) {
  TENON_ASSIGN(ZipWriter writer, ZipWriter::create(sink));
  TENON_TRY(writer.add("data/0", noise(nbytes)));
  return writer.finish();
}

int fail(const char* what, const Status& status = {}) {
  std::fprintf(stderr, "%s %s\n", what, text_of(status).c_str());
  return 1;
}

int run(const Folder& folder) {
  if (!mount_small_tmpfs(folder.path())) return kSkip;
  const std::string path = folder / "a.pt";
  for (const uint64_t nbytes : {uint64_t{100'000}, uint64_t{3'000'000}, uint64_t{200'000}}) {
    const bool fits = nbytes < 1'000'000;
    Result<FileOutput> output = FileOutput::create(path);
    if (!output.is_ok()) return fail("create:", output.status());
    const Status written = write_noise_archive(&output.value(), nbytes);
    if (fits != written.is_ok()) return fail("write:", written);
    if (!fits &&
        (written.code() != Code::kResourceExhausted ||
         written.detail("limit") != "file system space" ||
         written.detail("errno") != std::to_string(ENOSPC) || written.detail("path") != path)) {
      return fail("the wrong error:", written);
    }
    if (fits && !output.value().commit(Durability::kFile).is_ok()) return fail("commit");
    if (folder.names() != std::vector<std::string>{"a.pt"}) return fail("something is left behind");
    Result<Ref<ZipReader>> opened = open_bytes(read_file(path), Check::kAll);
    if (!opened.is_ok()) return fail("the file is broken:", opened.status());
    if (opened.value()->records()[0].nbytes != (fits ? nbytes : 100'000))
      return fail("another file is there");
  }
  return 0;
}

TEST(OutputFull, ASmallTmpfs) {
  const Folder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(run(folder));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkip)
    GTEST_SKIP() << "no tmpfs can be mounted here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tenon::archive
