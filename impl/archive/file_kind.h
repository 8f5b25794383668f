// What a file is that is no archive, told by its first bytes: what a download, a repository or
// another program leaves under the name of a module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tenon::archive {

// So many bytes tell every kind; a shorter file has fewer.
inline constexpr size_t kFileKindNbytes = 512;

// "a Git LFS pointer, which ...: run `git lfs pull`": the end of a sentence that begins with the
// file's name. Empty for what is not known. `nbytes` is the size of the file.
std::string file_kind(std::span<const std::byte> head, uint64_t nbytes);

// Whether a file begins as PyTorch's flatbuffer form does. Eight bytes are enough.
bool is_flatbuffer_module(std::span<const std::byte> head) noexcept;
// The same of ExecuTorch's file of weights, which has the extension .ptd.
bool is_flat_tensor(std::span<const std::byte> head) noexcept;

}  // namespace tenon::archive
