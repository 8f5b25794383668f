// Recognises, by its first bytes, a file that is no archive: what a download, a repository or
// another program may leave under the name of a module. Error messages and `tenon inspect` use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tenon::os {

// This many bytes from the start of a file are enough to tell every kind. A shorter file has fewer.
inline constexpr size_t kFileKindNbytes = 512;

// The kind of the file as the end of a sentence that begins with "<the file's name> is": "a Git LFS
// pointer, which …: run git lfs pull to get the file". Empty for an unknown kind. `head` has the
// first bytes of the file, and `nbytes` is its size. Call this for a file that could not be read as
// an archive, because a file that begins like a zip archive is called cut short here.
std::string file_kind(std::span<const std::byte> head, uint64_t nbytes);

// Whether the file begins like a module in PyTorch's flatbuffer form. Eight bytes are enough.
bool is_flatbuffer_module(std::span<const std::byte> head) noexcept;
// Whether the file begins like ExecuTorch's file of weights, which has the extension .ptd. Eight
// bytes are enough.
bool is_flat_tensor(std::span<const std::byte> head) noexcept;
// Whether the file begins like an array of NumPy, which has the extension .npy. Six bytes are
// enough.
bool is_numpy_array(std::span<const std::byte> head) noexcept;
// Whether the file begins like a pickle of protocol 2 to 5. Two bytes are enough.
bool is_pickle(std::span<const std::byte> head) noexcept;
// The most bytes that the format allows in the header of a safetensors file.
inline constexpr uint64_t kMostSafetensorsHeader = 100'000'000;
// Whether the file begins like a safetensors file, which may be cut short. Nine bytes are enough.
bool is_safetensors(std::span<const std::byte> head) noexcept;
// Whether the file begins like an object of JSON, as an index of shards is. The first bytes of a
// safetensors file and of a flatbuffer are numbers, which may look so too, and these are no JSON.
bool is_json_object(std::span<const std::byte> head) noexcept;

}  // namespace tenon::os
