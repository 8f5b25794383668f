#include "modules/shared_weights/on_device.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

#include "cuda/device.h"
#include "cuda/host_copy.h"
#include "memory/spare.h"
#include "modules/archive/zip_source.h"
#include "modules/module/import.h"
#include "modules/value/tensor_value.h"
#include "os/file_stream.h"
#include "os/memfd.h"
#include "share/cache.h"
#include "storage/storage.h"

namespace tenon::shared_weights {

using device::CudaSharedBlock;
using memory::Segment;

namespace {

struct FileRange {
  uint64_t offset = 0;
  uint64_t nbytes = 0;
};

// Reads the bytes that belong to no tensor from the CPU, and shows the tensors on the device.
class DeviceSource final : public archive::ZipSource {
 public:
  DeviceSource(std::string name, Ref<Segment> segment, Ref<CudaSharedBlock> block, uint64_t offset,
               uint64_t nbytes)
      : ZipSource(std::move(name), segment->base() + offset, nbytes),
        segment_(std::move(segment)),
        block_(std::move(block)),
        offset_(offset) {}
  // For the process that loads: reads from the file, because the segment is still empty, and notes
  // the places of the tensors.
  void read_from(const OpenedFile* file, std::vector<FileRange>* tensors) noexcept {
    file_ = file;
    tensors_ = tensors;
  }
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override {
    if (file_ != nullptr) return os::read_at(file_->fd.get(), offset, to, nbytes, file_->path);
    return segment_->read_through_fd(offset_ + offset, to, nbytes);
  }
  Result<Ref<storage::Storage>> shared_view(uint64_t offset, uint64_t nbytes) const override {
    if (tensors_ != nullptr && nbytes > 0) tensors_->push_back({offset, nbytes});
    return block_->view(offset_ + offset, nbytes);
  }
  // Reading a hole through the mapping would make a page. So the readers use read() alone.
  bool is_file() const noexcept override { return true; }

 private:
  ~DeviceSource() override = default;
  void dispose() noexcept override {
    block_ = nullptr;
    segment_ = nullptr;
  }
  Ref<Segment> segment_;
  Ref<CudaSharedBlock> block_;
  const uint64_t offset_;
  const OpenedFile* file_ = nullptr;
  std::vector<FileRange>* tensors_ = nullptr;
};

Status check_all_on_device(const weights::Weights& weights, const std::string& label) {
  for (const weights::Weight& each : weights.list()) {
    // A tensor that is made later is a view.
    if (!each.made || each.made->device() != "cpu") continue;
    return Status(Code::kUnsupported,
                  format("the tensor \"%.200s\" of %s cannot be shown on a device, because its "
                         "bytes are compressed, misaligned or of the other byte order: write the "
                         "file again as safetensors (tenon convert), and open that file",
                         each.name.c_str(), label.c_str()))
        .with("name", each.name);
  }
  return Status::ok();
}

Result<Ref<weights::Weights>> read_on_device(Ref<DeviceSource> source, const std::string& label) {
  TENON_ASSIGN(Ref<weights::Weights> weights,
               weights::Weights::read(Ref<archive::ZipSource>::adopt(source.detach()), label,
                                      module::ImportOptions{}));
  TENON_TRY(check_all_on_device(*weights, label));
  return weights;
}

// Copies the bytes of the file that belong to no tensor.
Status copy_rest(const OpenedFile& file, std::vector<FileRange> tensors, Segment* segment,
                 uint64_t file_offset) {
  constexpr uint64_t kRestPieceNbytes = uint64_t{256} << 10;
  std::ranges::sort(tensors, {}, &FileRange::offset);
  tensors.push_back({file.identity.nbytes, 0});
  std::vector<std::byte> piece;
  uint64_t at = 0;
  for (const FileRange& tensor : tensors) {
    while (at < tensor.offset) {
      piece.resize(std::min(kRestPieceNbytes, tensor.offset - at));
      TENON_TRY(os::read_at(file.fd.get(), at, piece.data(), piece.size(), file.path));
      TENON_TRY(segment->write_through_fd(file_offset + at, piece.data(), piece.size(), true));
      at += piece.size();
    }
    at = std::max(at, tensor.offset + tensor.nbytes);
  }
  return Status::ok();
}

Status copy_to_device(const OpenedFile& file, const CudaSharedBlock& block, uint64_t file_offset,
                      std::atomic<uint64_t>* done, const std::function<Status()>& report,
                      const os::Waiter& waiter) {
  TENON_ASSIGN(cuda::HostCopy copy, cuda::HostCopy::create(block.device()));
  uint64_t at = 0;
  const auto give = [&](std::span<std::byte> piece) -> Status {
    TENON_TRY(waiter.check_cancel());
    TENON_TRY(os::read_at(file.fd.get(), at, piece.data(), piece.size(), file.path));
    at += piece.size();
    done->store(at, std::memory_order_relaxed);
    return report();
  };
  Status copied = copy.to_device(block.base() + file_offset, file.identity.nbytes, give);
  Status finished = copy.finish();
  return copied.is_ok() ? finished : copied;
}

Result<Loaded> load_to_device(int32_t device, const OpenedFile& file, uint64_t max_nbytes,
                              std::atomic<uint64_t>* done, const std::function<Status()>& report,
                              const os::Waiter& waiter) {
  if (file.is_index)
    return Status(Code::kUnsupported,
                  format("%s is an index of shards, which cannot be loaded to a device: make one "
                         "file of them (tenon convert), and open that file",
                         file.path.c_str()))
        .with("path", file.path);
  TENON_TRY(check_size(file.path, file.identity.nbytes, max_nbytes));
  done->store(0, std::memory_order_relaxed);
  Loaded loaded;
  loaded.file_nbytes = file.identity.nbytes;
  TENON_ASSIGN(loaded.file_offset, choose_file_offset(file));
  TENON_ASSIGN(const Ref<CudaSharedBlock> block,
               CudaSharedBlock::create(device, loaded.file_offset + file.identity.nbytes));
  TENON_ASSIGN(loaded.segment, memory::with_spare([&] {
                 return Segment::create(memory::Mode::kFrozen, block->nbytes());
               }));
  const std::string label = label_of(file);
  std::vector<FileRange> tensors;
  auto source = Ref<DeviceSource>::adopt(
      new DeviceSource(label, loaded.segment, block, loaded.file_offset, file.identity.nbytes));
  source->read_from(&file, &tensors);
  TENON_ASSIGN(const Ref<weights::Weights> weights, read_on_device(std::move(source), label));
  for (const weights::Weight& each : weights->list())
    if (each.is_readable()) TENON_TRY(each.read().status());  // which notes its place
  TENON_TRY(copy_rest(file, std::move(tensors), loaded.segment.get(), loaded.file_offset));
  TENON_TRY(copy_to_device(file, *block, loaded.file_offset, done, report, waiter));
  TENON_TRY(check_unchanged(file));
  TENON_TRY(loaded.segment->freeze());
  loaded.segment = share::intern_segment(std::move(loaded.segment));
  TENON_TRY(block->make_read_only());
  TENON_ASSIGN(loaded.device.fd, ForkClosed::make([&]() -> Result<os::Fd> {
                 TENON_ASSIGN(const os::Fd exported, block->export_fd());
                 return os::duplicate(exported.get());  // which a program of exec does not inherit
               }));
  block->keep(Ref<const Counted>::share(loaded.segment.get()));
  loaded.device.block = block;
  return loaded;
}

}  // namespace

Result<std::optional<int32_t>> parse_device(std::string_view text) {
  constexpr std::string_view kCuda = "cuda:";
  if (text == "cpu") return std::optional<int32_t>();
  int32_t ordinal = -1;
  if (text.starts_with(kCuda)) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + kCuda.size(), end, ordinal);
    if (error != std::errc() || stop != end) ordinal = -1;
  }
  if (ordinal >= 0) return std::optional(ordinal);
  return invalid(format("the device is \"%.100s\": write \"cpu\" or \"cuda:N\"",
                        std::string(text).c_str()))
      .with("field", "device");
}

Result<Place> choose_place_on(std::optional<int32_t> device, const std::string& name,
                              const Access& access) {
  if (!device) return choose_place(name, access);
  TENON_ASSIGN(const cuda::Device found, cuda::find_device(*device));
  return choose_place(name, access, device_ending(found.uuid));
}

Result<Loaded> load_on(std::optional<int32_t> device, const OpenedFile& file, uint64_t max_nbytes,
                       std::atomic<uint64_t>* done, const std::function<Status()>& report,
                       const os::Waiter& waiter) {
  return device ? load_to_device(*device, file, max_nbytes, done, report, waiter)
                : load_file(file, max_nbytes, done, report, waiter);
}

Result<DeviceBlock> open_block(const os::Fd& fd, int32_t device, const Ref<Segment>& segment) {
  DeviceBlock opened;
  TENON_ASSIGN(opened.block, CudaSharedBlock::open(fd.get(), device, segment->nbytes()));
  opened.block->keep(Ref<const Counted>::share(segment.get()));
  TENON_ASSIGN(opened.fd, ForkClosed::make([&] { return os::duplicate(fd.get()); }));
  return opened;
}

Result<Ref<weights::Weights>> weights_in(const Ref<Segment>& segment,
                                         const Ref<CudaSharedBlock>& block, uint64_t file_offset,
                                         uint64_t file_nbytes, const std::string& label) {
  if (!block) return weights_of(segment, file_offset, file_nbytes, label);
  return read_on_device(
      Ref<DeviceSource>::adopt(new DeviceSource(label, segment, block, file_offset, file_nbytes)),
      label);
}

}  // namespace tenon::shared_weights
