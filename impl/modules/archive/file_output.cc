#include "modules/archive/file_output.h"

namespace tenon::archive {

Result<FileOutput> FileOutput::create(const std::string& path) {
  TENON_ASSIGN(os::OutputFile file, os::OutputFile::create(path));
  return FileOutput(std::move(file));
}

Status FileOutput::write(std::span<const std::byte> bytes) { return file_.write(bytes); }

Status FileOutput::write_both(std::span<const std::byte> head, std::span<const std::byte> body) {
  return file_.write_both(head, body);
}

Status FileOutput::commit(Durability durability) { return file_.commit(durability); }

}  // namespace tenon::archive
