// OutputFile writes a file that appears under its name whole, or not at all. Exports of module
// archives use it. Where the file system can do so, the file is written without a name (O_TMPFILE),
// and commit() gives it a random name in the same directory. Elsewhere the file has such a name
// from the beginning. commit() then renames the file, which replaces the old one.
//
// The random name is `.tenon-export-` and 32 hexadecimal digits. The process that makes it holds an
// exclusive flock of the file for as long as the file has that name. So a file that nobody has
// locked belongs to a killed process, and the next OutputFile in that directory removes it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

enum class Durability {
  kNone,              // the bytes reach the disk when the system likes
  kFile,              // the bytes are on the disk before the file gets its name
  kFileAndDirectory,  // the name is on the disk too when commit() returns
};

// The destructor removes the temporary file if commit() has not put it in its place. In a forked
// child it would remove the file of the parent, so a child must neither destroy nor commit an
// inherited OutputFile.
class OutputFile {
 public:
  // The new file keeps the old file's permission bits, and its owner and group if the kernel
  // allows. A file that replaces none has 0666 less the umask. Other names of the old file still
  // lead to the old file. If `path` is a symbolic link, its target is replaced. INVALID_ARGUMENT if
  // `path` leads to anything but a file.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&&) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Appends the bytes. RESOURCE_EXHAUSTED names the limit: file system space, disk quota, or
  // RLIMIT_FSIZE (which raises no signal).
  Status write(std::span<const std::byte> bytes);
  // Appends `head` and then `body`, with one system call if the kernel takes all.
  Status write_both(std::span<const std::byte> head, std::span<const std::byte> body);
  // Puts the file in its place. Call it once, and only if every write succeeded. If it fails, the
  // old file is unchanged, unless only the directory could not be made durable. The message then
  // says so.
  Status commit(Durability durability);

  // For tests: behaves as on a file system without O_TMPFILE.
  static Result<OutputFile> create_named(const std::string& path);

 private:
  struct Old {
    bool exists = false;
    uid_t uid = 0;
    gid_t gid = 0;
    mode_t mode = 0;
  };

  OutputFile() noexcept = default;
  static Result<OutputFile> create(const std::string& path, bool may_be_nameless);
  Status create_temporary(bool may_be_nameless);
  std::string link_path() const;
  Status link_temporary();
  Status keep_access_of_old();
  Status put_in_place(Durability durability);
  void remove_temporary() noexcept;

  std::string path_;  // as the user wrote it
  std::string leaf_;
  std::string temporary_;  // empty: the file has no temporary name
  Fd directory_;
  Fd file_;
  Old old_;
  bool in_memory_ = false;
};

}  // namespace tenon::os
