#include "share/cuda_route.h"

#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"
#include "os/open_file.h"

namespace tenon::share {
namespace {

constexpr uint8_t kMagic = 'T';
constexpr uint8_t kVersion = 1;
constexpr uint8_t kReadOnly = 1;

struct Header {
  uint8_t magic;
  uint8_t version;
  uint8_t transport;
  uint8_t flags;
  uint32_t runs;  // the number of runs that follow for kFd; otherwise 0
  os::Nonce nonce;
};
// A number of neighbouring pieces of one size.
struct Run {
  uint64_t nbytes;
  uint32_t count;
  uint32_t reserved;
};
// The part behind the header for kFabric and kPool.
struct Whole {
  uint64_t nbytes;
  std::array<std::byte, 64> data;
};
static_assert(sizeof(Header) == 24 && sizeof(Run) == 16 && sizeof(Whole) == 72);
constexpr size_t kMostRuns = (kMostCudaRouteNbytes - sizeof(Header)) / sizeof(Run);

Status corrupt_route(const std::string& why) {
  return Status(Code::kCorrupt, "a CUDA memory handle of Tenon's " + why)
      .with("field", std::string("handle"));
}

template <typename Value>
Value take(std::span<const std::byte>* bytes) {
  Value value{};
  std::memcpy(&value, bytes->data(), sizeof value);
  *bytes = bytes->subspan(sizeof value);
  return value;
}

template <typename Value>
void put(std::vector<std::byte>* bytes, const Value& value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), raw, raw + sizeof value);
}

Status read_runs(std::span<const std::byte> bytes, uint32_t runs, CudaRoute* route) {
  if (runs == 0 || runs > kMostRuns || bytes.size() != runs * sizeof(Run))
    return corrupt_route("with another number of pieces than it says");
  uint64_t total = 0;
  for (uint32_t i = 0; i < runs; ++i) {
    const Run run = take<Run>(&bytes);
    if (run.nbytes == 0 || run.count == 0 || run.count > kMostCudaFds - route->sizes.size() ||
        run.reserved != 0)
      return corrupt_route("with empty pieces, or with too many");
    uint64_t nbytes = 0;
    if (!checked_mul<uint64_t>(run.nbytes, run.count, &nbytes) ||
        !checked_add(total, nbytes, &total))
      return corrupt_route("of 2^64 bytes");
    route->sizes.insert(route->sizes.end(), run.count, run.nbytes);
  }
  return Status::ok();
}

}  // namespace

uint64_t CudaRoute::nbytes() const noexcept {
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
}

void CudaRoute::add_fd(std::shared_ptr<const os::Fd> fd) {
  fd_numbers.push_back(fd->get());
  fds.push_back(std::move(fd));
}

bool CudaRoute::has_same_files(const CudaRoute& other) const noexcept {
  if (fds.size() != other.fds.size()) return false;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (!os::is_same_open_file(fds[i]->get(), other.fds[i]->get())) return false;
  }
  return true;
}

bool is_cuda_route(std::span<const std::byte> bytes) noexcept {
  return !bytes.empty() && bytes[0] == std::byte{kMagic} && bytes.size() != sizeof(cuda::IpcHandle);
}

Result<CudaRoute> decode_cuda_route(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) return corrupt_route("that is cut short");
  const auto header = take<Header>(&bytes);
  if (header.version != kVersion) {
    return Status(
               Code::kIncompatible,
               format("a CUDA memory handle of Tenon's of version %u: 1 is known", header.version))
        .with("version", uint64_t{header.version});
  }
  if ((header.flags & ~kReadOnly) != 0) return corrupt_route("with unknown flags");
  CudaRoute route;
  route.transport = static_cast<CudaTransport>(header.transport);
  route.nonce = header.nonce;
  route.read_only = (header.flags & kReadOnly) != 0;
  switch (route.transport) {
    case CudaTransport::kFd: TENON_TRY(read_runs(bytes, header.runs, &route)); return route;
    case CudaTransport::kFabric:
    case CudaTransport::kPool: {
      if (header.runs != 0 || bytes.size() != sizeof(Whole))
        return corrupt_route("of another length than its transport has");
      const Whole whole = take<Whole>(&bytes);
      if (whole.nbytes == 0) return corrupt_route("of no bytes");
      route.sizes.push_back(whole.nbytes);
      route.data = whole.data;
      return route;
    }
    default: return corrupt_route(format("with a transport that is none: %u", header.transport));
  }
}

Result<std::vector<std::byte>> encode_cuda_route(const CudaRoute& route, bool read_only) {
  std::vector<Run> runs;
  if (route.transport == CudaTransport::kFd) {
    for (const uint64_t nbytes : route.sizes) {
      if (runs.empty() || runs.back().nbytes != nbytes) runs.push_back({nbytes, 0, 0});
      ++runs.back().count;
    }
    if (runs.size() > kMostRuns) {
      return Status(Code::kUnsupported,
                    format("the storage lies in pieces of device memory whose sizes change %zu "
                           "times; %zu times has room in a handle",
                           runs.size() - 1, kMostRuns - 1));
    }
  }
  std::vector<std::byte> bytes;
  bytes.reserve(kMostCudaRouteNbytes);
  put(&bytes,
      Header{kMagic, kVersion, static_cast<uint8_t>(route.transport),
             read_only ? kReadOnly : uint8_t{0}, static_cast<uint32_t>(runs.size()), route.nonce});
  for (const Run& run : runs) put(&bytes, run);
  if (route.transport != CudaTransport::kFd) put(&bytes, Whole{route.nbytes(), route.data});
  return bytes;
}

Result<std::vector<std::byte>> encode_cuda_handle(const CudaRoute& route, bool read_only,
                                                  CudaForm form) {
  if (route.transport == CudaTransport::kIpc) return encode_cuda_memory_handle(route.data, form);
  TENON_ASSIGN(std::vector<std::byte> bytes,
               encode_cuda_route(route, read_only && route.transport != CudaTransport::kPool));
  if (bytes.size() > kMostCudaRouteNbytes)
    return Status(Code::kUnsupported,
                  "the storage lies in pieces of device memory of too many sizes");
  return bytes;
}

}  // namespace tenon::share
