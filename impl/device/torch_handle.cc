#include "device/torch_handle.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked.h"

namespace tenon::device {
namespace {

constexpr std::byte kIpcLetter{'c'};
constexpr std::byte kSegmentLetter{'e'};
constexpr uint8_t kNewestVersion = 3;
constexpr size_t kFabricNbytes = 64;

// The header of a segment, as the producer's compiler lays it out. `gap` has the bytes that
// happened to lie there.
struct SegmentHeader {
  int32_t pid;
  uint32_t gap;
  uint64_t page_nbytes;
  uint64_t count;
};
static_assert(sizeof(SegmentHeader) == 24);

Status refuse_handle(Code code, const std::string& why) {
  return Status(code, "a CUDA memory handle " + why).with("field", std::string("handle"));
}
Status corrupt_handle(const std::string& why) { return refuse_handle(Code::kCorrupt, why); }

uint8_t version_of(CudaForm form) noexcept {
  return static_cast<uint8_t>(static_cast<int>(form) - static_cast<int>(CudaForm::kB));
}

Status read_segment(std::span<const std::byte> bytes, CudaMemoryHandle* out) {
  if (out->form == CudaForm::kE) {
    return refuse_handle(Code::kUnsupported,
                         "of version 3 with an expandable segment, whose layout is not known")
        .with("version", uint64_t{3});
  }
  SegmentHeader header{};
  if (bytes.size() < sizeof header)
    return corrupt_handle("of an expandable segment that is cut short");
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  if (header.pid <= 0)
    return corrupt_handle(format("of an expandable segment of process %d", header.pid));
  uint64_t nbytes = 0;
  if (header.count == 0 || header.page_nbytes == 0 ||
      !checked_mul<uint64_t>(header.count, header.page_nbytes, &nbytes))
    return corrupt_handle("of an expandable segment without pieces, or of 2^64 bytes");
  // The count is at most the number of bytes that follow, so neither product overflows.
  if (header.count <= bytes.size() && bytes.size() == header.count * kFabricNbytes &&
      out->form == CudaForm::kD) {
    return refuse_handle(Code::kUnsupported,
                         "of version 2 with an expandable segment of fabric handles")
        .with("version", uint64_t{2});
  }
  if (header.count > bytes.size() || bytes.size() != header.count * sizeof(int32_t)) {
    return corrupt_handle(
        format("of an expandable segment of another length than its number of pieces, %llu",
               static_cast<unsigned long long>(header.count)));
  }
  out->pid = header.pid;
  out->page_nbytes = header.page_nbytes;
  out->fds.resize(static_cast<size_t>(header.count));
  std::memcpy(out->fds.data(), bytes.data(), bytes.size());
  if (std::any_of(out->fds.begin(), out->fds.end(), [](int32_t fd) { return fd < 0; }))
    return corrupt_handle("with a number that is no fd");
  return Status::ok();
}

}  // namespace

Result<CudaMemoryHandle> decode_cuda_memory_handle(std::span<const std::byte> bytes) {
  CudaMemoryHandle handle;
  if (bytes.size() == handle.ipc.size()) {
    std::copy(bytes.begin(), bytes.end(), handle.ipc.begin());
    return handle;
  }
  if (bytes.empty()) return corrupt_handle("without a byte");
  if (bytes[0] == kIpcLetter || bytes[0] == kSegmentLetter) {
    handle.form = CudaForm::kB;
  } else {
    const auto version = std::to_integer<uint8_t>(bytes[0]);
    if (version == 0) return corrupt_handle("of version 0");
    if (version > kNewestVersion) {
      return refuse_handle(Code::kIncompatible,
                           format("of version %u: 1 to %u are known", version, kNewestVersion))
          .with("version", uint64_t{version});
    }
    handle.form = static_cast<CudaForm>(static_cast<int>(CudaForm::kB) + version);
    bytes = bytes.subspan(1);
    if (bytes.empty()) return corrupt_handle("without a type");
  }
  const std::byte letter = bytes[0];
  bytes = bytes.subspan(1);
  if (letter == kSegmentLetter) {
    handle.type = CudaMemoryHandle::Type::kSegment;
    TENON_TRY(read_segment(bytes, &handle));
    return handle;
  }
  if (letter != kIpcLetter)
    return corrupt_handle(
        format("of type 0x%02x: neither an allocation's nor an expandable segment's",
               std::to_integer<unsigned>(letter)));
  if (bytes.size() != handle.ipc.size())
    return corrupt_handle(format("of an allocation, of %zu bytes and not 64", bytes.size()));
  std::copy(bytes.begin(), bytes.end(), handle.ipc.begin());
  return handle;
}

std::vector<std::byte> encode_cuda_memory_handle(const cuda::IpcHandle& ipc, CudaForm form) {
  std::vector<std::byte> bytes;
  bytes.reserve(2 + ipc.size());
  if (form > CudaForm::kB) bytes.push_back(std::byte{version_of(form)});
  if (form > CudaForm::kA) bytes.push_back(kIpcLetter);
  bytes.insert(bytes.end(), ipc.begin(), ipc.end());
  return bytes;
}

}  // namespace tenon::device
