// Opens a file that `tenon inspect`, `verify` or `export` reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::cli {

// An open file. The bytes of a pipe, which can be read only once, have been copied into memory. The
// errors of open() name the file. RESOURCE_EXHAUSTED if there is no memory for the copy.
struct ArchiveInput {
  std::string shown;  // the path, or "standard input"
  bool is_stdin = false;
  os::Fd fd;
  uint64_t nbytes = 0;
  std::string head;  // the first bytes of the file

  // `path`: "-" is standard input.
  static Result<ArchiveInput> open(const std::string& path);
  bool is_zip() const noexcept { return head.starts_with("PK\3\4"); }
  bool is_flatbuffer() const noexcept;
  // Whether the file begins as a file of ExecuTorch's weights (.ptd) does.
  bool is_flat_tensors() const noexcept;
  bool is_safetensors() const noexcept;
  bool is_numpy_array() const noexcept;
  // Whether the file is a pickle, as torch.save wrote before PyTorch 1.6.
  bool is_legacy_save() const noexcept;
  // Whether the file is an object of JSON, as an index of shards is.
  bool is_index() const noexcept;
  // Whether the file is one of weights that is no zip archive.
  bool is_plain_weights() const noexcept {
    return is_flat_tensors() || is_safetensors() || is_numpy_array() || is_legacy_save() ||
           is_index();
  }
  // Gives a path to the open file, for functions that open paths alone. It is valid in this process
  // as long as the object.
  std::string fd_path() const;
};

// Puts the file's name into an error's message, in place of the fd's number.
Status with_shown_name(const ArchiveInput& input, const Status& status);
// Does the same. A message that does not begin with the file's name gets the name in front.
Status of_file(const ArchiveInput& input, const Status& status);

}  // namespace tenon::cli
