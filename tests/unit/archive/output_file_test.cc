// An output file appears completely or not at all. These tests check what a reader finds before,
// between and after the steps, whatever goes wrong.
#include "os/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "modules/archive/file_output.h"
#include "unit/archive/zip_kit.h"

namespace tenon::archive {
namespace {

using namespace test;
using os::OutputFile;

using Create = Result<OutputFile> (*)(const std::string&);
constexpr Create kPlain = &OutputFile::create;

void put_file(const std::string& path, const std::string& text, mode_t mode = 0644) {
  std::ofstream(path) << text;
  ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

mode_t mode_of(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

// Each test runs for both ways to write the file: without a name, and with a temporary name, as on
// a file system that cannot make a file without a name.
class Output : public ::testing::TestWithParam<bool> {
 protected:
  Result<OutputFile> create(const std::string& path) const {
    return GetParam() ? OutputFile::create_named(path) : kPlain(path);
  }
  std::vector<std::string> names_while_written() const {
    return GetParam() ? std::vector<std::string>{"temporary"} : std::vector<std::string>{};
  }
  // Returns the names in the directory. Each temporary name is replaced by "temporary".
  std::vector<std::string> names() const {
    std::vector<std::string> all = folder_.names();
    for (std::string& each : all) {
      if (each.starts_with(".tenon-export-") && each.size() == 14 + 32) each = "temporary";
    }
    return all;
  }
  Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Output, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "Named" : "Nameless"; });

TEST_P(Output, AppearsWithCommit) {
  const std::string path = folder_ / "a.pt";
  for (const os::Durability durability :
       {os::Durability::kNone, os::Durability::kFile, os::Durability::kFileAndDirectory}) {
    std::filesystem::remove(path);
    Result<OutputFile> output = create(path);
    ASSERT_OK(output.status());
    ASSERT_OK(output.value().write(view_of("hello ")));
    ASSERT_OK(output.value().write(view_of("world")));
    EXPECT_EQ(names(), names_while_written());
    ASSERT_OK(output.value().commit(durability));
    EXPECT_EQ(names(), std::vector<std::string>{"a.pt"});
    EXPECT_EQ(content_of(path), "hello world");
  }
}

TEST_P(Output, ReplacesWithCommitOnly) {
  const std::string path = folder_ / "a.pt";
  put_file(path, "old");
  {
    Result<OutputFile> output = create(path);
    ASSERT_OK(output.value().write(view_of("new")));
    EXPECT_EQ(content_of(path), "old");
  }
  EXPECT_EQ(names(), std::vector<std::string>{"a.pt"});
  EXPECT_EQ(content_of(path), "old");
  Result<OutputFile> output = create(path);
  ASSERT_OK(output.value().write(view_of("new")));
  ASSERT_OK(output.value().commit(os::Durability::kNone));
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(names(), std::vector<std::string>{"a.pt"});
}

TEST_P(Output, PermissionBits) {
  const mode_t before = umask(027);
  const std::string fresh = folder_ / "fresh";
  Result<OutputFile> output = create(fresh);
  ASSERT_OK(output.value().commit(os::Durability::kNone));
  EXPECT_EQ(mode_of(fresh), 0640U);
  for (const mode_t mode : {mode_t{0600}, mode_t{0664}, mode_t{0444}, mode_t{0755}}) {
    const std::string path = folder_ / "old";
    std::filesystem::remove(path);
    put_file(path, "old", mode);
    Result<OutputFile> replaced = create(path);
    if (GetParam()) {
      for (const std::string& name : folder_.names()) {
        // No other user may read the file before it is complete.
        if (name.starts_with(".tenon")) EXPECT_EQ(mode_of(folder_ / name), 0600U);
      }
    }
    ASSERT_OK(replaced.value().commit(os::Durability::kNone));
    EXPECT_EQ(mode_of(path), mode);
  }
  umask(before);
}

TEST_P(Output, OwnerIsKept) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root: only root gives files away";
  const std::string path = folder_ / "old";
  put_file(path, "old", 0640);
  ASSERT_EQ(chown(path.c_str(), 1234, 2345), 0);
  Result<OutputFile> output = create(path);
  ASSERT_OK(output.value().commit(os::Durability::kNone));
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 1234U);
  EXPECT_EQ(info.st_gid, 2345U);
  EXPECT_EQ(mode_of(path), 0640U);
}

TEST_P(Output, ALinkStaysALink) {
  ASSERT_TRUE(std::filesystem::create_directory(folder_ / "real"));
  put_file(folder_ / "real/a.pt", "old");
  ASSERT_EQ(symlink("real/a.pt", (folder_ / "first").c_str()), 0);
  ASSERT_EQ(symlink((folder_ / "first").c_str(), (folder_ / "second").c_str()), 0);
  ASSERT_EQ(symlink("real/new.pt", (folder_ / "dangling").c_str()), 0);
  for (const auto& [link, target] :
       {std::pair{"second", "real/a.pt"}, {"dangling", "real/new.pt"}}) {
    Result<OutputFile> output = create(folder_ / link);
    ASSERT_OK(output.status());
    ASSERT_OK(output.value().write(view_of("new")));
    ASSERT_OK(output.value().commit(os::Durability::kNone));
    EXPECT_TRUE(std::filesystem::is_symlink(folder_ / link));
    EXPECT_EQ(content_of(folder_ / target), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(folder_ / target));
  }
  ASSERT_EQ(symlink("loop", (folder_ / "loop").c_str()), 0);
  EXPECT_EQ(create(folder_ / "loop").status().code(), Code::kIo);
}

TEST_P(Output, PlacesThatAreNone) {
  ASSERT_TRUE(std::filesystem::create_directory(folder_ / "folder"));
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const struct {
    std::string path;
    Code code;
  } all[] = {{folder_ / "none/a.pt", Code::kNotFound},
             {folder_ / "fifo/a.pt", Code::kIo},
             {folder_ / "folder", Code::kInvalidArgument},
             {folder_ / "folder/", Code::kInvalidArgument},
             {folder_ / "folder/..", Code::kInvalidArgument},
             {folder_ / "fifo", Code::kInvalidArgument},
             {"/dev/null", Code::kInvalidArgument},
             {"", Code::kInvalidArgument},
             {folder_ / std::string(300, 'x'), Code::kIo}};
  for (const auto& each : all) {
    const Status status = create(each.path).status();
    EXPECT_EQ(status.code(), each.code) << text_of(status);
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"fifo", "folder"}));
  // A directory that is made in the meantime is not replaced.
  Result<OutputFile> output = create(folder_ / "late");
  ASSERT_TRUE(std::filesystem::create_directory(folder_ / "late"));
  EXPECT_FALSE(output.value().commit(os::Durability::kNone).is_ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"fifo", "folder", "late"}));
}

TEST_P(Output, TheCurrentDirectory) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  Result<OutputFile> output = create("a.pt");
  ASSERT_OK(output.status());
  ASSERT_OK(output.value().commit(os::Durability::kNone));
  std::filesystem::current_path(before);
  EXPECT_EQ(names(), std::vector<std::string>{"a.pt"});
}

// The signal of this limit would end the process, so the library must not let it come.
TEST_P(Output, FileSizeLimit) {
  const std::string path = folder_ / "a.pt";
  put_file(path, "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100'000, before.rlim_max};
  const Bytes bytes = noise(60'000);
  Result<OutputFile> output = create(path);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status first = output.value().write(bytes);
  const Status second = output.value().write(bytes);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_OK(first);
  EXPECT_EQ(second.code(), Code::kResourceExhausted) << text_of(second);
  EXPECT_EQ(second.detail("limit"), "RLIMIT_FSIZE");
  EXPECT_EQ(second.detail("limit_value"), "100000");
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGXFSZ), 0);
  EXPECT_EQ(content_of(path), "old");
}

// A locked temporary file is still being written. One without a lock belongs to a dead process, and
// the next export removes it.
TEST_P(Output, TheDeadAreSwept) {
  const std::string dead = ".tenon-export-0123456789abcdef0123456789abcdef";
  const std::string alive = ".tenon-export-00000000000000000000000000000000";
  const std::vector<std::string> others = {
      ".tenon-export-", ".tenon-export-0123456789ABCDEF0123456789ABCDEF",
      ".tenon-export-0123456789abcdef0123456789abcdef0", "tenon-export-x"};
  put_file(folder_ / dead, "dead");
  put_file(folder_ / alive, "alive");
  for (const std::string& other : others) put_file(folder_ / other, "other");
  ASSERT_TRUE(std::filesystem::create_directory(folder_ /
                                                ".tenon-export-11111111111111111111111111111111"));
  const int fd = open((folder_ / alive).c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  ASSERT_OK(create(folder_ / "a.pt").status());
  std::vector<std::string> left = folder_.names();
  EXPECT_EQ(std::ranges::count(left, dead), 0);
  EXPECT_EQ(std::ranges::count(left, alive), 1);
  EXPECT_EQ(left.size(), others.size() + 2);
  close(fd);
  ASSERT_OK(create(folder_ / "a.pt").status());
  left = folder_.names();
  EXPECT_EQ(std::ranges::count(left, alive), 0);
  EXPECT_EQ(left.size(), others.size() + 1);
}

TEST_P(Output, AnotherExportIsNotSwept) {
  Result<OutputFile> first = create(folder_ / "a.pt");
  ASSERT_OK(first.value().write(view_of("first")));
  Result<OutputFile> second = create(folder_ / "b.pt");
  ASSERT_OK(second.value().commit(os::Durability::kNone));
  ASSERT_OK(first.value().commit(os::Durability::kNone));
  EXPECT_EQ(content_of(folder_ / "a.pt"), "first");
  EXPECT_EQ(names(), (std::vector<std::string>{"a.pt", "b.pt"}));
}

// Many processes write the same name at the same time, and each removes the files of dead
// processes. No process loses its file, and the last file is complete.
TEST_P(Output, ManyWritersOfOneName) {
  constexpr int kWriters = 8;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::string text(200'000, static_cast<char>('a' + writer));
      bool good = true;
      for (int round = 0; round < 20 && good; ++round) {
        Result<OutputFile> output = create(folder_ / "a.pt");
        good = output.is_ok() && output.value().write(view_of(text)).is_ok() &&
               output.value().commit(os::Durability::kNone).is_ok();
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const std::string text = content_of(folder_ / "a.pt");
  ASSERT_EQ(text.size(), 200'000U);
  EXPECT_EQ(text.find_first_not_of(text[0]), std::string::npos);
  EXPECT_EQ(names(), std::vector<std::string>{"a.pt"});
}

TEST_P(Output, NoFdIsLeft) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = count();
  for (int i = 0; i < 3; ++i) {
    Result<OutputFile> output = create(folder_ / "a.pt");
    if (i < 2) EXPECT_OK(output.value().commit(os::Durability::kFile));
    (void)create(folder_ / "none/a.pt");
  }
  EXPECT_EQ(count(), before);
}

TEST(FileOutputTest, AnArchiveAtAPath) {
  const Folder folder;
  const std::string path = folder / "model.pt";
  Result<FileOutput> output = FileOutput::create(path);
  ASSERT_OK(output.status());
  FileOutput sink = std::move(output.value());
  Result<ZipWriter> writer =
      ZipWriter::create(&sink, {.prefix = archive_name_of(path), .alignment = 64});
  ASSERT_OK(writer.value().add("data/0", noise(1'000'000)));
  ASSERT_OK(writer.value().finish());
  ASSERT_OK(sink.commit(Durability::kFileAndDirectory));
  Result<Ref<ZipReader>> opened = open_bytes(read_file(path), Check::kAll);
  ASSERT_OK(opened.status());
  EXPECT_EQ(opened.value()->prefix(), "model");
}

}  // namespace
}  // namespace tenon::archive
