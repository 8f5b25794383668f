// These tests read and write Tenon's own handles of device memory.
#include "device/route.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "support/must.h"

namespace tenon::device {
namespace {

using Bytes = std::vector<std::byte>;

CudaRoute pieces(std::vector<uint64_t> sizes) {
  CudaRoute route;
  route.transport = CudaTransport::kFd;
  route.sizes = std::move(sizes);
  route.nonce.fill(7);
  return route;
}

CudaRoute whole(CudaTransport transport) {
  CudaRoute route = pieces({4096});
  route.transport = transport;
  route.data.fill(std::byte{9});
  return route;
}

Code route_refusal(const Bytes& bytes) {
  const Result<CudaRoute> read = decode_cuda_route(bytes);
  EXPECT_FALSE(read.is_ok());
  return read.status().code();
}

Bytes changed(Bytes bytes, size_t at, int value) {
  bytes.at(at) = static_cast<std::byte>(value);
  return bytes;
}

// A handle of PyTorch has 64 bytes. Only the length tells it from other handles.
TEST(CudaRoute, IsToldFromWhatPyTorchWrites) {
  for (size_t sizes = 1; sizes <= 6; ++sizes) {
    std::vector<uint64_t> different;
    for (size_t i = 1; i <= sizes; ++i) different.push_back(i * 4096);
    const Bytes bytes = encode_cuda_route(pieces(different), false).value();
    EXPECT_TRUE(is_cuda_route(bytes));
    EXPECT_LE(bytes.size(), kMostCudaRouteNbytes);
  }
  EXPECT_TRUE(is_cuda_route(encode_cuda_route(whole(CudaTransport::kPool), false).value()));
  EXPECT_FALSE(is_cuda_route(Bytes(64, std::byte{'T'})));
  EXPECT_FALSE(is_cuda_route({}));
  EXPECT_FALSE(is_cuda_route(encode_cuda_memory_handle({}, CudaForm::kD)));
}

TEST(CudaRoute, ComesBackAsItWas) {
  for (const bool read_only : {false, true}) {
    for (const CudaRoute& route : {pieces({4096}), pieces({4096, 4096, 8192, 4096}),
                                   pieces(std::vector<uint64_t>(253, 2 << 20)),
                                   whole(CudaTransport::kPool), whole(CudaTransport::kFabric)}) {
      CudaRoute read = must(decode_cuda_route(encode_cuda_route(route, read_only).value()));
      EXPECT_EQ(read.transport, route.transport);
      EXPECT_EQ(read.sizes, route.sizes);
      EXPECT_EQ(read.nonce, route.nonce);
      EXPECT_EQ(read.data, route.data);
      EXPECT_EQ(read.read_only, read_only);
      EXPECT_EQ(read.nbytes(), route.nbytes());
    }
  }
}

TEST(CudaRoute, PiecesOfTooManySizesHaveNoRoom) {
  EXPECT_TRUE(encode_cuda_route(pieces({1, 2, 3, 4, 5, 6}), false).is_ok());
  EXPECT_EQ(encode_cuda_route(pieces({1, 2, 3, 4, 5, 6, 7}), false).status().code(),
            Code::kUnsupported);
}

TEST(CudaRoute, BytesThatAreNoneAreRefused) {
  const Bytes fds = encode_cuda_route(pieces({4096, 8192}), false).value();
  const Bytes pool = encode_cuda_route(whole(CudaTransport::kPool), false).value();
  for (size_t nbytes = 0; nbytes < fds.size(); ++nbytes) {
    EXPECT_EQ(route_refusal(Bytes(fds.begin(), fds.begin() + static_cast<long>(nbytes))),
              Code::kCorrupt)
        << nbytes;
  }
  EXPECT_EQ(route_refusal(Bytes(pool.begin(), pool.end() - 1)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(fds, 1, 0)), Code::kIncompatible);
  EXPECT_EQ(route_refusal(changed(fds, 1, 2)), Code::kIncompatible);
  for (const int transport : {0, 1, 5, 255})
    EXPECT_EQ(route_refusal(changed(fds, 2, transport)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(fds, 3, 2)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(fds, 4, 3)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(pool, 4, 1)), Code::kCorrupt);
  // These bytes have no piece, a piece of no bytes, 254 pieces, a byte in the gap, and 2^64 bytes
  // in all.
  EXPECT_EQ(route_refusal(changed(fds, 32, 0)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(fds, 25, 0)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(fds, 32, 253)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(fds, 36, 1)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(changed(fds, 31, 0xff), 47, 0xff)), Code::kCorrupt);
  EXPECT_EQ(route_refusal(changed(pool, 25, 0)), Code::kCorrupt);
}

// Two fds of one open() are the same file. Two fds of two open() calls are not, although they refer
// to the same inode.
TEST(CudaRoute, FilesAreComparedAndNotTheirNames) {
  const auto add = [](CudaRoute* route, int fd) {
    route->add_fd(std::make_shared<const os::Fd>(fd));
  };
  CudaRoute one = pieces({4096});
  CudaRoute copy = pieces({4096});
  CudaRoute other = pieces({4096});
  add(&one, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  add(&copy, fcntl(one.fd_numbers[0], F_DUPFD_CLOEXEC, 0));
  add(&other, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(one.has_same_files(copy));
  EXPECT_FALSE(one.has_same_files(other));
  EXPECT_FALSE(one.has_same_files(pieces({4096})));
}

}  // namespace
}  // namespace tenon::device
