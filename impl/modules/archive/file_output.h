// A sink (sink.h) that writes an archive to a file under a name. The name leads to the old file
// until commit(), and to the whole new file after it.
#pragma once

#include <string>

#include "modules/archive/sink.h"
#include "os/output_file.h"

namespace tenon::archive {

using os::Durability;

// The errors are those of os::OutputFile (os/output_file.h). Without commit() no part of the new
// file is left.
class FileOutput : public Sink {
 public:
  // Also removes the unfinished files that killed processes left in that directory.
  static Result<FileOutput> create(const std::string& path);
  Status write(std::span<const std::byte> bytes) override;
  Status write_both(std::span<const std::byte> head, std::span<const std::byte> body) override;
  // Renames the new file over the old one. Called once. If it is not called or fails, the old file
  // stays as it was. One failure is an exception: if only the directory could not be made durable,
  // the new file is in place, and the message says so.
  Status commit(Durability durability);

  FileOutput(FileOutput&& other) noexcept : file_(std::move(other.file_)) {}

 private:
  explicit FileOutput(os::OutputFile file) noexcept : file_(std::move(file)) {}
  os::OutputFile file_;
};

}  // namespace tenon::archive
