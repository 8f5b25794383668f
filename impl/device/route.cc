#include "device/route.h"

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"
#include "device/export.h"
#include "os/open_file.h"
#include "os/process.h"

namespace tenon::device {
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

namespace {

// Makes a route from an expandable segment of PyTorch: fetches the fds from the process that the
// handle names.
Result<CudaRoute> route_of_segment(const CudaMemoryHandle& segment, bool other_user) {
  const os::Fd producer = os::open_pidfd(segment.pid);
  if (!producer.is_open()) {
    return Status(Code::kPeerGone, format("the process %d, which has the memory of a CUDA handle, "
                                          "cannot be found: it has ended, or is in "
                                          "another PID namespace, or the kernel is older than 5.3",
                                          segment.pid));
  }
  if (!other_user) TENON_TRY(os::check_user(producer, segment.pid, "TENON_CUDA_OTHER_USER"));
  CudaRoute route;
  route.transport = CudaTransport::kFd;
  for (const int32_t number : segment.fds) {
    TENON_ASSIGN(os::Fd fd, os::fetch_fd(producer, number));
    route.add_fd(std::make_shared<const os::Fd>(std::move(fd)));
    route.sizes.push_back(segment.page_nbytes);
  }
  // These three numbers name the segment in this process. Whether another segment with the same
  // name is the same one is decided by comparing the files.
  const std::array<int32_t, 3> name{segment.pid, segment.fds.front(), segment.fds.back()};
  std::memcpy(route.nonce.data(), name.data(), sizeof name);
  return route;
}

Status add_fds(std::span<const int> fds, CudaRoute* route) {
  size_t expected = 0;
  if (route->transport == CudaTransport::kFd) expected = route->sizes.size();
  if (route->transport == CudaTransport::kPool) expected = 1;
  if (fds.size() != expected) {
    return Status(
        Code::kInvalidArgument,
        format("the CUDA handle came with %zu fds, and %zu belong to it", fds.size(), expected));
  }
  for (const int number : fds) {
    TENON_ASSIGN(os::Fd fd, os::duplicate(number));
    fd.mark_foreign();
    route->add_fd(std::make_shared<const os::Fd>(std::move(fd)));
  }
  return Status::ok();
}

}  // namespace

Result<DecodedCudaHandle> decode_cuda_handle(std::span<const std::byte> bytes) {
  DecodedCudaHandle decoded;
  if (is_cuda_route(bytes)) {
    TENON_ASSIGN(decoded.route, decode_cuda_route(bytes));
    return decoded;
  }
  TENON_ASSIGN(CudaMemoryHandle memory, decode_cuda_memory_handle(bytes));
  if (memory.type == CudaMemoryHandle::Type::kSegment) {
    decoded.segment = std::move(memory);
  } else {
    decoded.route.transport = CudaTransport::kIpc;
    decoded.route.data = memory.ipc;
  }
  return decoded;
}

Result<CudaRoute> complete_route(DecodedCudaHandle decoded, std::span<const int> fds,
                                 const CudaRouteOptions& options) {
  CudaRoute route = std::move(decoded.route);
  if (decoded.segment) {
    TENON_ASSIGN(route, route_of_segment(*decoded.segment, options.other_user));
  } else if (route.transport != CudaTransport::kIpc) {
    TENON_TRY(add_fds(fds, &route));
  }
  if (!options.read_only) return route;
  if (route.transport == CudaTransport::kIpc || route.transport == CudaTransport::kPool) {
    return Status(Code::kUnsupported, format("device memory cannot be opened read-only by %s",
                                             name_of(route.transport)));
  }
  route.read_only = true;
  return route;
}

}  // namespace tenon::device
