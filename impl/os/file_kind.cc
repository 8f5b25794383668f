#include "os/file_kind.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

namespace tenon::os {
namespace {

struct KnownStart {
  size_t at;
  std::string_view bytes;
  const char* what;
};

using namespace std::string_view_literals;

constexpr size_t kFlatbufferAt = 4;
constexpr std::string_view kFlatbuffer = "PTMF";
constexpr std::string_view kFlatTensor = "FT01";
constexpr std::string_view kNumpyArray = "\x93NUMPY"sv;

constexpr KnownStart kStarts[] = {
    {0, "PYTORCH1"sv, "an archive of a preview of PyTorch 1.0, which no PyTorch since reads"},
    {kFlatbufferAt, kFlatbuffer,
     "a module in PyTorch's flatbuffer form, and no zip archive: import it as a module"},
    {kFlatbufferAt, kFlatTensor,
     "an ExecuTorch file of weights (.ptd): tensors without a module. Open it as weights "
     "(tenon_open_weights)"},
    {0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"sv,
     "a torch.save file of PyTorch before 1.6: tensors without a module. Open it as weights "
     "(tenon_open_weights), or save the module by torch.jit.save"},
    {0, "\x1f\x8b"sv, "compressed by gzip: decompress it with gunzip"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "compressed by xz: decompress it with unxz"},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed by zstd: decompress it with unzstd"},
    {0, "BZh"sv, "compressed by bzip2: decompress it with bunzip2"},
    {257, "ustar"sv, "a tar archive: unpack it with tar -xf, and take the module that is in it"},
    {0, "version https://git-lfs.github.com/spec/"sv,
     "a Git LFS pointer, which stands for the file in a repository: run git lfs pull to get the "
     "file"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, and no module of PyTorch"},
    {0, "GGUF"sv,
     "a GGUF file: tensors without a module. Build or import the module, and load these tensors "
     "into it"},
    {0, kNumpyArray,
     "an array of NumPy: a tensor without a module. Open it as weights (tenon_open_weights)"},
};

bool is_web_page(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  std::string start(head.substr(0, 16));
  std::transform(start.begin(), start.end(), start.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return start.starts_with("<!doctype html") || start.starts_with("<html") ||
         start.starts_with("<head") || start.starts_with("<?xml");
}

}  // namespace

bool is_flatbuffer_module(std::span<const std::byte> head) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  return text.size() >= kFlatbufferAt && text.substr(kFlatbufferAt).starts_with(kFlatbuffer);
}

bool is_flat_tensor(std::span<const std::byte> head) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  return text.size() >= kFlatbufferAt && text.substr(kFlatbufferAt).starts_with(kFlatTensor);
}

bool is_numpy_array(std::span<const std::byte> head) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  return text.starts_with(kNumpyArray);
}

bool is_pickle(std::span<const std::byte> head) noexcept {
  return head.size() >= 2 && head[0] == std::byte{0x80} && head[1] >= std::byte{2} &&
         head[1] <= std::byte{5};
}

// A safetensors file has the length of its header in eight bytes, and then the header in JSON.
bool is_safetensors(std::span<const std::byte> head) noexcept {
  uint64_t header = 0;
  if (head.size() <= sizeof header || head[sizeof header] != std::byte{'{'}) return false;
  std::memcpy(&header, head.data(), sizeof header);
  return header >= 2 && header <= kMostSafetensorsHeader;
}

bool is_json_object(std::span<const std::byte> head) noexcept {
  if (is_safetensors(head) || is_flat_tensor(head) || is_flatbuffer_module(head)) return false;
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

std::string file_kind(std::span<const std::byte> head, uint64_t nbytes) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (nbytes == 0) return "empty: the file has no bytes. Copy or download it again";
  for (const KnownStart& start : kStarts) {
    if (text.size() > start.at && text.substr(start.at).starts_with(start.bytes)) return start.what;
  }
  if (is_web_page(text))
    return "a web page, as a server sends it in place of a file: look at the address, and download "
           "the file itself";
  if (is_pickle(head))
    return "a pickle, as torch.save wrote before PyTorch 1.6, and no archive. Save the module by "
           "torch.jit.save";
  if (is_safetensors(head)) {
    return "a safetensors file: tensors without a module. Open it as weights (tenon_open_weights)";
  }
  if (text.starts_with("PK\3\4"))
    return "cut short: it begins as an archive does, and its end is missing. Copy or download it "
           "again";
  return {};
}

}  // namespace tenon::os
