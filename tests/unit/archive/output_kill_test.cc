// This test kills an export before and after each of its system calls. The name then leads to the
// old file or to the complete new one, and the next export removes the temporary file.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "os/output_file.h"
#include "unit/archive/zip_kit.h"

namespace tenon::archive {
namespace {

using namespace test;
using os::OutputFile;

Result<OutputFile> create(const std::string& path, bool named) {
  return named ? OutputFile::create_named(path) : OutputFile::create(path);
}

std::string new_text() { return std::string(100'000, 'n'); }

bool write_new(const std::string& path, bool named) {
  Result<OutputFile> output = create(path, named);
  const std::string text = new_text();
  const std::span<const std::byte> bytes = view_of(text);
  return output.is_ok() && output.value().write(bytes.first(60'000)).is_ok() &&
         output.value().write_both(bytes.subspan(60'000, 1), bytes.subspan(60'001)).is_ok() &&
         output.value().commit(os::Durability::kFileAndDirectory).is_ok();
}

// Writes the file in a traced child, and kills the child at its stop number `last`. The child stops
// once before and once after each system call. Returns false if the child ended before that stop.
bool write_and_kill(const std::string& path, bool named, int last) {
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    _exit(write_new(path, named) ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
  for (int stop = 0; stop < last; ++stop) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      return false;
    }
    EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)) << status;
  }
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  return true;
}

class OutputKill : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, OutputKill, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "Named" : "Nameless"; });

TEST_P(OutputKill, AtEverySystemCall) {
  const Folder folder;
  const std::string path = folder / "a.pt";
  int left_behind = 0;
  int old_files = 0;
  int last = 0;
  for (bool killed = true; killed; ++last) {
    std::ofstream(path) << "old";
    killed = write_and_kill(path, GetParam(), last);
    SCOPED_TRACE("killed at stop " + std::to_string(last));
    const std::string text = content_of(path);
    ASSERT_TRUE(text == "old" || text == new_text());
    old_files += text == "old" ? 1 : 0;
    ASSERT_LE(folder.names().size(), 2U);
    left_behind += folder.names().size() == 2 ? 1 : 0;
    // The next export removes the temporary file, also if it writes another name and is never
    // committed.
    (void)OutputFile::create(folder / "b.pt");
    ASSERT_EQ(folder.names(), std::vector<std::string>{"a.pt"});
    ASSERT_EQ(content_of(path), text);
  }
  // The child was killed at many stops, and both the old file and a temporary file were found.
  // Otherwise this test would prove nothing.
  EXPECT_GT(last, 40);
  EXPECT_GT(old_files, 20);
  EXPECT_LT(old_files, last);
  EXPECT_GT(left_behind, 0);
}

}  // namespace
}  // namespace tenon::archive
