#include "modules/shared_weights/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "memory/spare.h"
#include "modules/archive/crc32.h"
#include "modules/archive/zip_source.h"
#include "modules/module/import.h"
#include "modules/shared_weights/shards.h"
#include "modules/weights/saved_elements.h"
#include "os/file_kind.h"
#include "os/file_stream.h"
#include "os/limits.h"
#include "os/poller.h"
#include "share/by_fd.h"
#include "share/cache.h"
#include "storage/storage.h"

namespace tenon::shared_weights {

using memory::Segment;

namespace {

constexpr uint64_t kFileHeadNbytes = uint64_t{1} << 20;
constexpr uint64_t kPieceNbytes = uint64_t{8} << 20;
constexpr unsigned kMostThreads = 4;
constexpr uint64_t kAlignment = 64;

int64_t mtime_ns_of(const struct stat& info) noexcept {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// The parts of a file in the memory, so small that several threads read a file together.
class Pieces {
 public:
  void add(FilePiece whole) {
    while (whole.nbytes > kPieceNbytes) {
      all_.push_back({whole.file, whole.from, whole.to, kPieceNbytes});
      whole.from += kPieceNbytes;
      whole.to += kPieceNbytes;
      whole.nbytes -= kPieceNbytes;
    }
    all_.push_back(whole);
  }
  std::vector<FilePiece> take() noexcept { return std::move(all_); }

 private:
  std::vector<FilePiece> all_;
};

// The work of the threads that read files. Each thread keeps a reference, so a thread that has just
// found nothing more to do may outlive the call.
class Reading {
 public:
  Reading(std::span<const FilePiece> pieces, std::byte* to, std::atomic<uint64_t>* done)
      : pieces_(pieces), to_(to), done_(done) {}

  // Reads one piece. False: none is left, or the reading has failed.
  bool read_piece() noexcept {
    const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= pieces_.size() || is_over_.load(std::memory_order_relaxed)) return false;
    const FilePiece& piece = pieces_[index];
    try {
      Status status = os::ask_headroom(piece.nbytes);
      if (status.is_ok())
        status = os::read_at(piece.file->fd.get(), piece.from, to_ + piece.to, piece.nbytes,
                             piece.file->path);
      if (status.is_ok()) {
        done_->fetch_add(piece.nbytes, std::memory_order_relaxed);
        return true;
      }
      fail(std::move(status));
    } catch (...) {
      fail_without_memory();
    }
    return false;
  }
  void fail(Status status) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.is_ok()) failure_ = std::move(status);
    is_over_.store(true, std::memory_order_relaxed);
  }
  void begin_helper() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++helpers_;
  }
  void end_helper() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    --helpers_;
    ended_.notify_all();
  }
  // Ends the reading, and waits until no helper reads any more.
  void stop() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    is_over_.store(true, std::memory_order_relaxed);
    ended_.wait(lock, [&] { return helpers_ == 0; });
  }
  // Waits until all is read, or until the reading has failed.
  Status finish() {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [&] { return helpers_ == 0; });
    if (has_no_memory_)
      return Status(Code::kResourceExhausted, "no memory while reading a file")
          .with("limit", "memory");
    return failure_;
  }

 private:
  void fail_without_memory() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_no_memory_ = true;
    is_over_.store(true, std::memory_order_relaxed);
  }
  const std::span<const FilePiece> pieces_;
  std::byte* const to_;
  std::atomic<uint64_t>* const done_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  unsigned helpers_ = 0;
  bool has_no_memory_ = false;
  Status failure_;
};

void help(void* argument) noexcept {
  const std::unique_ptr<std::shared_ptr<Reading>> reading(
      static_cast<std::shared_ptr<Reading>*>(argument));
  while ((*reading)->read_piece()) {
  }
  (*reading)->end_helper();
}

bool start_helper(std::shared_ptr<Reading>* argument) noexcept {
  try {
    return os::start_thread("tenon-load", os::Stack::kSmall, &help, argument).is_ok();
  } catch (...) {
    return false;
  }
}

Status read_all(std::span<const FilePiece> pieces, std::byte* to, std::atomic<uint64_t>* done,
                const std::function<Status()>& report, const os::Waiter& waiter) {
  const auto reading = std::make_shared<Reading>(pieces, to, done);
  // The helpers use `pieces` and `to`, so an exception waits for them too.
  struct Stop {
    Reading* reading;
    ~Stop() { reading->stop(); }
  } const stop{reading.get()};
  const unsigned cpus = std::max(std::thread::hardware_concurrency(), 1U);
  const uint64_t threads = std::min<uint64_t>({pieces.size(), cpus, kMostThreads});
  for (uint64_t i = 1; i < threads; ++i) {
    auto argument = std::make_unique<std::shared_ptr<Reading>>(reading);
    reading->begin_helper();
    if (!start_helper(argument.get())) {
      reading->end_helper();  // the other threads read all
      break;
    }
    (void)argument.release();
  }
  uint64_t told = 0;
  while (reading->read_piece()) {
    told = done->load(std::memory_order_relaxed);
    Status status = waiter.check_cancel();
    if (status.is_ok()) status = report();
    if (!status.is_ok()) reading->fail(std::move(status));
  }
  TENON_TRY(reading->finish());
  const bool is_told = done->load(std::memory_order_relaxed) == told;
  return is_told ? Status::ok() : report();  // a helper has read the last piece
}

Status changed(const std::string& path) {
  return Status(Code::kCorrupt,
                format("%s changed while it was loaded: write a new file and rename it over the "
                       "old one, then open the weights again",
                       path.c_str()))
      .with("path", path);
}

// The bytes of a file in a segment. The readers of weights copy what they parse, because the
// publisher of a LENDER_WRITES segment could write it.
class SegmentSource final : public archive::ZipSource {
 public:
  SegmentSource(std::string name, Ref<Segment> segment, uint64_t offset, uint64_t nbytes)
      : ZipSource(std::move(name), segment->base() + offset, nbytes),
        segment_(std::move(segment)),
        offset_(offset) {}
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override {
    if (nbytes > 0) std::memcpy(to, base() + offset, nbytes);
    return Status::ok();
  }
  Result<Ref<storage::Storage>> shared_view(uint64_t offset, uint64_t nbytes) const override {
    if (nbytes == 0) return Ref<storage::Storage>();
    return share::open_range(segment_, offset_ + offset, nbytes, nullptr);
  }

 private:
  ~SegmentSource() override = default;
  void dispose() noexcept override { segment_ = nullptr; }
  Ref<Segment> segment_;
  const uint64_t offset_;
};

void copy_head(const std::string& head, std::byte* to) {
  if (!head.empty()) std::memcpy(to, head.data(), head.size());
}

// Makes a frozen segment that `fill` writes.
Result<Ref<Segment>> frozen_segment(uint64_t nbytes, const OpenedFile& file,
                                    const std::function<Status(std::byte* base)>& fill) {
  TENON_ASSIGN(Ref<Segment> made, memory::with_spare([&]() -> Result<Ref<Segment>> {
                 TENON_ASSIGN(Ref<Segment> segment, Segment::create(memory::Mode::kFrozen, nbytes));
                 TENON_TRY(segment->fill(fill));
                 return segment;
               }));
  TENON_TRY(check_unchanged(file));
  TENON_TRY(made->freeze());
  return share::intern_segment(std::move(made));
}

// Copies the weights of shards that are no safetensors files, one by one.
Result<Loaded> load_shard_values(const OpenedFile& index, uint64_t max_nbytes,
                                 std::atomic<uint64_t>* done, const std::function<Status()>& report,
                                 const os::Waiter& waiter) {
  TENON_ASSIGN(const ShardValues values, read_shard_values(index));
  TENON_TRY(check_size(index.path, values.file.nbytes, max_nbytes));
  const uint64_t total = index.identity.nbytes;
  const auto fill = [&](std::byte* to) -> Status {
    const std::string& head = values.file.layout.head;
    TENON_TRY(os::ask_headroom(head.size()));
    copy_head(head, to);
    uint64_t copied = head.size();
    const auto copy = [&](std::span<const std::byte> piece) -> Status {
      TENON_TRY(os::ask_headroom(piece.size()));
      std::memcpy(to + copied, piece.data(), piece.size());
      copied += piece.size();
      done->store(std::min(copied, total), std::memory_order_relaxed);
      TENON_TRY(waiter.check_cancel());
      return report();
    };
    done->store(0, std::memory_order_relaxed);
    for (const weights::SavedTensor* const each : values.file.layout.tensors)
      TENON_TRY(weights::for_each_piece(*each->tensor, copy));
    done->store(total, std::memory_order_relaxed);
    return Status::ok();
  };
  Loaded loaded;
  loaded.file_nbytes = values.file.nbytes;
  TENON_ASSIGN(loaded.segment, frozen_segment(loaded.file_nbytes, index, fill));
  return loaded;
}

}  // namespace

Result<OpenedFile> open_file(const std::string& path) {
  TENON_ASSIGN(OpenedFile file, open_one_file(path));
  TENON_ASSIGN(const bool is_index, is_shard_index(file));
  if (is_index) TENON_TRY(open_shards(&file));
  return file;
}

Result<OpenedFile> open_one_file(const std::string& path) {
  OpenedFile file;
  file.path = path;
  TENON_ASSIGN(file.fd, os::open_to_read(path));
  struct stat info{};
  if (::fstat(file.fd.get(), &info) != 0)
    return errno_status(errno, format("looking at %s", path.c_str())).with("path", path);
  file.identity.nbytes = file.nbytes = static_cast<uint64_t>(info.st_size);
  file.identity.mtime_ns = file.mtime_ns = mtime_ns_of(info);
  if (file.nbytes == 0)
    return invalid(format("%s is empty, and has no weights", path.c_str())).with("path", path);
  std::vector<std::byte> head(std::min(kFileHeadNbytes, file.nbytes));
  TENON_TRY(os::read_at(file.fd.get(), 0, head.data(), head.size(), path));
  file.identity.head_crc = archive::crc32(0, head.data(), head.size());
  return file;
}

Status check_unchanged(const OpenedFile& file) {
  struct stat opened{};
  struct stat named{};
  const bool is_known =
      ::fstat(file.fd.get(), &opened) == 0 && ::stat(file.path.c_str(), &named) == 0;
  const bool is_same = is_known && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino &&
                       static_cast<uint64_t>(opened.st_size) == file.nbytes &&
                       mtime_ns_of(opened) == file.mtime_ns;
  if (!is_same) return changed(file.path);
  for (const OpenedFile& shard : file.shards) TENON_TRY(check_unchanged(shard));
  return Status::ok();
}

Status check_size(const std::string& path, uint64_t nbytes, uint64_t max_nbytes) {
  if (max_nbytes == 0 || nbytes <= max_nbytes) return Status::ok();
  return Status(Code::kResourceExhausted,
                format("%s has %llu bytes, and max_nbytes allows %llu: raise max_nbytes",
                       path.c_str(), as_llu(nbytes), as_llu(max_nbytes)))
      .with("limit", "max_nbytes")
      .with("limit_value", max_nbytes)
      .with("wanted", nbytes)
      .with("path", path);
}

std::string label_of(const OpenedFile& file) { return file.path.substr(file.path.rfind('/') + 1); }

Result<uint64_t> choose_file_offset(const OpenedFile& file) {
  std::array<std::byte, 16> head{};
  const uint64_t nbytes = std::min<uint64_t>(head.size(), file.identity.nbytes);
  TENON_TRY(os::read_at(file.fd.get(), 0, head.data(), nbytes, file.path));
  if (!os::is_safetensors(head)) return uint64_t{0};
  uint64_t header_nbytes = 0;
  for (size_t i = 0; i < 8; ++i) header_nbytes |= std::to_integer<uint64_t>(head[i]) << (8 * i);
  const uint64_t tensors_at = 8 + header_nbytes;
  return (kAlignment - tensors_at % kAlignment) % kAlignment;
}

Result<Loaded> load_file(const OpenedFile& file, uint64_t max_nbytes, std::atomic<uint64_t>* done,
                         const std::function<Status()>& report, const os::Waiter& waiter) {
  Loaded loaded;
  std::optional<MergedFile> merged;
  if (file.is_index) {
    TENON_ASSIGN(merged, merge_shards(file));
    if (!merged) return load_shard_values(file, max_nbytes, done, report, waiter);
    TENON_TRY(check_size(file.path, merged->nbytes, max_nbytes));
  } else {
    TENON_ASSIGN(loaded.file_offset, choose_file_offset(file));
    merged.emplace();
    merged->pieces.push_back({&file, 0, 0, file.identity.nbytes});
    merged->nbytes = file.identity.nbytes;
  }
  Pieces split;
  uint64_t pieces_nbytes = 0;
  for (const FilePiece& piece : merged->pieces) {
    pieces_nbytes += piece.nbytes;
    split.add(piece);
  }
  const std::vector<FilePiece> pieces = split.take();
  // The headers of shards have been read, and so has what the index does not name.
  const uint64_t before = file.identity.nbytes - pieces_nbytes;
  const auto fill = [&](std::byte* base) -> Status {
    std::byte* const begin = base + loaded.file_offset;
    TENON_TRY(os::ask_headroom(merged->head.size()));
    copy_head(merged->head, begin);
    done->store(before, std::memory_order_relaxed);
    return read_all(pieces, begin, done, report, waiter);
  };
  loaded.file_nbytes = merged->nbytes;
  TENON_ASSIGN(loaded.segment, frozen_segment(loaded.file_offset + merged->nbytes, file, fill));
  return loaded;
}

Result<Ref<weights::Weights>> weights_of(const Ref<Segment>& segment, uint64_t file_offset,
                                         uint64_t file_nbytes, const std::string& label) {
  auto source =
      Ref<archive::ZipSource>::adopt(new SegmentSource(label, segment, file_offset, file_nbytes));
  return weights::Weights::read(std::move(source), label, module::ImportOptions{});
}

}  // namespace tenon::shared_weights
