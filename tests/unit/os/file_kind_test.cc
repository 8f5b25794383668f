// These tests check what an import says of a file that is not a module archive: the kind of the
// file, and what to do with it.
#include "os/file_kind.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::os {
namespace {

std::string kind_of(const std::string& start, size_t nbytes = 4096) {
  std::string text = start;
  text.resize(std::max(start.size(), std::min(nbytes, kFileKindNbytes)), '\0');
  const std::string head = text.substr(0, kFileKindNbytes);
  return file_kind(std::as_bytes(std::span(head.data(), head.size())), nbytes);
}

TEST(FileKind, EachIsNamedWithWhatToDo) {
  struct Row {
    std::string start;
    std::vector<const char*> words;
  };
  const std::string safetensors = std::string("\x40\0\0\0\0\0\0\0", 8) + "{\"w\":{}}";
  const std::vector<Row> rows = {
      {"\x14\x01\x02\x03PTMF", {"flatbuffer", "as a module"}},
      {"\x14\x01\x02\x03"
       "FT01",
       {"ExecuTorch", "tenon_open_weights"}},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       {"Git LFS pointer", "git lfs pull"}},
      {"<!DOCTYPE html><html></html>", {"web page", "download"}},
      {"\xef\xbb\xbf \n<HTML lang=en>", {"web page"}},
      {"\x1f\x8b\x08", {"gzip", "gunzip"}},
      {"\x28\xb5\x2f\xfd", {"zstd"}},
      {safetensors, {"safetensors", "tenon_open_weights"}},
      {"\x80\x02}q", {"a pickle", "torch.jit.save"}},
      {"\x80\x04\x95", {"a pickle"}},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", {"torch.save", "before 1.6"}},
      {"PYTORCH1", {"preview"}},
      {"\x93NUMPY", {"NumPy", "tenon_open_weights"}},
      {"PK\3\4", {"cut short", "download it again"}},
      {std::string(257, 'a') + "ustar", {"tar"}},
  };
  for (const Row& row : rows) {
    const std::string kind = kind_of(row.start);
    for (const char* word : row.words)
      EXPECT_NE(kind.find(word), std::string::npos) << word << " in: " << kind;
  }
  EXPECT_EQ(file_kind({}, 0), "empty: the file has no bytes. Copy or download it again");
  for (const char* text : {"hello", "<", "{}", "version 3", "\x80", "\x80\x09"})
    EXPECT_EQ(kind_of(text), "") << text;
  // A file that is cut short in its header is still one of safetensors.
  EXPECT_EQ(kind_of(safetensors, 60), kind_of(safetensors));
  // The format allows no header of this length.
  EXPECT_EQ(kind_of(std::string("\0\0\0\x40\0\0\0\0", 8) + "{\"w\":{}}"), "");
}

}  // namespace
}  // namespace tenon::os
