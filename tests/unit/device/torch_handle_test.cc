// These tests read and write the bytes of CUDA memory handles, in all forms of PyTorch.
#include "device/torch_handle.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "support/must.h"

namespace tenon::device {
namespace {

using Bytes = std::vector<std::byte>;

cuda::IpcHandle some_ipc() {
  cuda::IpcHandle ipc{};
  for (size_t i = 0; i < ipc.size(); ++i) ipc[i] = static_cast<std::byte>(200 - i);
  return ipc;
}

void put(Bytes* to, const void* from, size_t nbytes) {
  const auto* const at = static_cast<const std::byte*>(from);
  to->insert(to->end(), at, at + nbytes);
}

// Returns the bytes that PyTorch writes for a segment: the header with its gap, and then the
// entries.
Bytes segment(const std::string& prefix, int32_t pid, uint64_t count, const Bytes& entries,
              uint64_t page_nbytes = uint64_t{2} << 20) {
  Bytes bytes;
  const uint32_t gap = 0xdeadbeef;
  put(&bytes, prefix.data(), prefix.size());
  put(&bytes, &pid, sizeof pid);
  put(&bytes, &gap, sizeof gap);
  put(&bytes, &page_nbytes, sizeof page_nbytes);
  put(&bytes, &count, sizeof count);
  bytes.insert(bytes.end(), entries.begin(), entries.end());
  return bytes;
}

Bytes entries_of(const std::vector<int32_t>& fds) {
  Bytes bytes;
  put(&bytes, fds.data(), fds.size() * sizeof fds[0]);
  return bytes;
}

Code handle_refusal(const Bytes& bytes) {
  Result<CudaMemoryHandle> handle = decode_cuda_memory_handle(bytes);
  EXPECT_FALSE(handle.is_ok());
  EXPECT_FALSE(handle.status().message().empty());
  return handle.status().code();
}

TEST(CudaMemoryHandle, EachFormHasItsPrefixAndIsReadBack) {
  const std::string prefixes[] = {"", "c", std::string("\1c"), std::string("\2c"),
                                  std::string("\3c")};
  for (size_t i = 0; i < std::size(prefixes); ++i) {
    const auto form = static_cast<CudaForm>(i);
    Bytes expected;
    put(&expected, prefixes[i].data(), prefixes[i].size());
    const cuda::IpcHandle ipc = some_ipc();
    put(&expected, ipc.data(), ipc.size());
    EXPECT_EQ(encode_cuda_memory_handle(ipc, form), expected);
    CudaMemoryHandle read = must(decode_cuda_memory_handle(expected));
    EXPECT_EQ(read.form, form);
    EXPECT_EQ(read.type, CudaMemoryHandle::Type::kIpc);
    EXPECT_EQ(read.ipc, ipc);
  }
  EXPECT_EQ(encode_cuda_memory_handle(some_ipc()).size(), 64U);
}

// Any 64 bytes are a handle of form A, because a handle of the driver can begin with any byte.
TEST(CudaMemoryHandle, SixtyFourBytesAreFormA) {
  for (const char first : {'c', 'e', '\0', '\1', '\3', '\x7f'}) {
    Bytes bytes(64, static_cast<std::byte>(first));
    CudaMemoryHandle read = must(decode_cuda_memory_handle(bytes));
    EXPECT_EQ(read.form, CudaForm::kA);
  }
  // A segment of form B with 64 bytes would have 39 bytes behind its header, which is no whole
  // number of fds. With 10 fds it has 65 bytes.
  EXPECT_EQ(segment("e", 5, 10, entries_of(std::vector<int32_t>(10, 3))).size(), 65U);
}

TEST(CudaMemoryHandle, SegmentsAreReadWhereTheirLayoutIsKnown) {
  const std::vector<int32_t> fds = {7, 0, 1023};
  for (const std::string& prefix : {std::string("e"), std::string("\1e"), std::string("\2e")}) {
    CudaMemoryHandle read =
        must(decode_cuda_memory_handle(segment(prefix, 4711, fds.size(), entries_of(fds))));
    EXPECT_EQ(read.type, CudaMemoryHandle::Type::kSegment);
    EXPECT_EQ(read.pid, 4711);
    EXPECT_EQ(read.page_nbytes, uint64_t{2} << 20);
    EXPECT_EQ(read.fds, fds);
  }
}

TEST(CudaMemoryHandle, WhatIsNotKnownNamesItsVersion) {
  const Bytes fabric(size_t{2} * 64);
  const Bytes refused[] = {segment("\3e", 1, 1, entries_of({3})), segment("\2e", 1, 2, fabric),
                           Bytes(66, std::byte{4}), Bytes(66, std::byte{0xff})};
  const Code codes[] = {Code::kUnsupported, Code::kUnsupported, Code::kIncompatible,
                        Code::kIncompatible};
  const uint64_t versions[] = {3, 2, 4, 255};
  for (size_t i = 0; i < std::size(refused); ++i) {
    Result<CudaMemoryHandle> read = decode_cuda_memory_handle(refused[i]);
    ASSERT_FALSE(read.is_ok());
    EXPECT_EQ(read.status().code(), codes[i]);
    EXPECT_NE(read.status().message().find("version " + std::to_string(versions[i])),
              std::string::npos)
        << read.status().message();
  }
  // Form C has no fabric handles, so these bytes are a segment of a wrong length.
  EXPECT_EQ(handle_refusal(segment("\1e", 1, 2, fabric)), Code::kCorrupt);
}

TEST(CudaMemoryHandle, BytesThatAreNoneAreRefused) {
  EXPECT_EQ(handle_refusal({}), Code::kCorrupt);
  for (const char* const prefix : {"c", "e", "x", "\1", "\1c", "\1e", "\1x", "\2c", "\3c"}) {
    for (const size_t nbytes : {0U, 1U, 23U, 62U, 66U, 67U, 80U}) {
      Bytes bytes;
      put(&bytes, prefix, std::strlen(prefix));
      bytes.resize(bytes.size() + nbytes);
      if (bytes.size() == 64) continue;
      Result<CudaMemoryHandle> read = decode_cuda_memory_handle(bytes);
      EXPECT_FALSE(read.is_ok()) << prefix << " " << nbytes;
    }
  }
  Bytes cut = encode_cuda_memory_handle(some_ipc(), CudaForm::kC);
  cut.pop_back();
  EXPECT_EQ(handle_refusal(cut), Code::kCorrupt);
  EXPECT_EQ(handle_refusal(Bytes(66)), Code::kCorrupt);
}

TEST(CudaMemoryHandle, SegmentsThatCannotBeAreRefused) {
  const Bytes one = entries_of({3});
  EXPECT_EQ(handle_refusal(segment("\1e", 0, 1, one)), Code::kCorrupt);
  EXPECT_EQ(handle_refusal(segment("\1e", -5, 1, one)), Code::kCorrupt);
  EXPECT_EQ(handle_refusal(segment("\1e", 5, 0, {})), Code::kCorrupt);
  EXPECT_EQ(handle_refusal(segment("\1e", 5, 2, one)), Code::kCorrupt);
  EXPECT_EQ(handle_refusal(segment("\1e", 5, 1, entries_of({3, 4}))), Code::kCorrupt);
  EXPECT_EQ(handle_refusal(segment("\1e", 5, 1, entries_of({-1}))), Code::kCorrupt);
  EXPECT_EQ(handle_refusal(segment("\1e", 5, 3, entries_of({1, 2, 3}), uint64_t{1} << 63)),
            Code::kCorrupt);
  // The products of count and size overflow: 2^62 * 4 and 2^58 * 64.
  for (const uint64_t count :
       {uint64_t{1} << 62, (uint64_t{1} << 62) + 1, uint64_t{1} << 58, UINT64_MAX}) {
    EXPECT_EQ(handle_refusal(segment("\2e", 5, count, one, UINT64_MAX)), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace tenon::device
