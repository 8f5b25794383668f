// A file that appears under its name whole, or not at all. It is written without a name (O_TMPFILE)
// where the file system can do that, and under a random one beside its own elsewhere; at the end it
// is renamed to its own, over what was there.
//
// The random name is `.tenon-export-` and 32 hexadecimal digits. Who makes it holds an exclusive
// flock of the file for as long as it has that name, so one that nobody has locked is a killed
// process's, and the next OutputFile in that directory removes it.
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
  kNone,              // what is written reaches the disk when the system likes
  kFile,              // the bytes are on the disk before the name leads to them
  kFileAndDirectory,  // and so is the name, when commit() returns
};

class OutputFile {
 public:
  // The old file's permission bits are kept, and its owner and group where the kernel lets us; a
  // new one has 0666 less the umask. Other names of the old file go on leading to it. If `path` is
  // a symbolic link, the file that it leads to is replaced. INVALID_ARGUMENT if something else than
  // a file is there.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&&) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Adds them at the end. RESOURCE_EXHAUSTED names the limit: file system space, disk quota,
  // RLIMIT_FSIZE (which raises no signal).
  Status write(std::span<const std::byte> bytes);
  // The one and then the other, in one go where the kernel takes it.
  Status write_both(std::span<const std::byte> head, std::span<const std::byte> body);
  // Once. If it fails, the old file is as it was; but if only the directory could not be made
  // durable, which the message then says.
  Status commit(Durability durability);

  // For tests: how a file system without O_TMPFILE has it.
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

  std::string path_;  // as the user says it
  std::string leaf_;
  std::string temporary_;  // empty: it has no name
  Fd directory_;
  Fd file_;
  Old old_;
  bool in_memory_ = false;
};

}  // namespace tenon::os
