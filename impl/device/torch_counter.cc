#include "device/torch_counter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>

#include "base/immortal.h"
#include "base/keyed_hash.h"
#include "base/process_state.h"
#include "names/by_filename.h"
#include "names/filename.h"
#include "names/held_files.h"
#include "names/named_segment.h"
#include "os/mapping.h"
#include "os/named_file.h"
#include "share/named_file_head.h"

namespace tenon::device {

// A mapped counter file, usually of another process. While the whole file is mapped, no other file
// has its inode.
struct CudaCounterFile {
  std::string path;
  uint64_t device;
  uint64_t inode;
  os::Mapping mapping;
};

namespace {

using memory::Segment;
using SharedFile = std::shared_ptr<const CudaCounterFile>;

using Counter = std::atomic<int64_t>;
static_assert(sizeof(Counter) == 8 && Counter::is_always_lock_free);

constexpr uint64_t kFileNbytes =
    share::kFilenameHeaderNbytes + uint64_t{kCudaCounters} * sizeof(Counter);
// The most tries, a millisecond apart, to open a file while another process checks whether it is
// dead.
constexpr int kLookTries = 1000;
// The prefix of Tenon's counter files. Without it a named storage of the same size would pass for a
// counter file.
constexpr std::string_view kPrefix = "tenon-cuda-";

struct CudaCounterState : ProcessState<LockRank::kCudaCounter> {
  Ref<Segment> current;
  uint32_t next = 0;

  // The parent goes on handing out the counters of the current file.
  void in_child_unlocked() noexcept { end_cuda_counter_file(); }
};
CudaCounterState& cuda_counter_state() noexcept { return process_state<CudaCounterState>(); }

Counter& counter_at(std::byte* file, uint32_t slot) noexcept {
  return std::launder(reinterpret_cast<Counter*>(file + share::kFilenameHeaderNbytes))[slot];
}

// Takes the next counter of the current file. False: there is no current file, or it has no counter
// left.
bool take_next(Ref<Segment>* file, uint32_t* slot) noexcept {
  CudaCounterState& all = cuda_counter_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.current) return false;
  *file = all.current;
  *slot = all.next++;
  // No other process knows of the counter yet, and no other thread sets it.
  counter_at((*file)->base(), *slot).store(1, std::memory_order_relaxed);
  if (all.next == kCudaCounters) all.current = nullptr;  // the counters that are held keep the file
  return true;
}

Status refuse_counter(const names::Filename& name, Code code, const std::string& why) {
  return names::refuse_name(name.path(), code, why);
}

Result<names::Filename> check_counter(std::string_view name, uint64_t slot) {
  TENON_ASSIGN(names::Filename file, names::parse_filename(name));
  if (file.directory != names::kSharedMemory)
    return refuse_counter(file, Code::kInvalidArgument,
                          "is not in /dev/shm, where counter files are");
  if (slot < kCudaCounters) return file;
  return refuse_counter(file, Code::kInvalidArgument,
                        format("has %u counters, and none at %llu", kCudaCounters,
                               static_cast<unsigned long long>(slot)));
}

// Whether a file is a counter file. The head of a PyTorch file says only that PyTorch may have made
// it.
bool is_counter_file(const names::Filename& name, const share::FilenameHead& head) noexcept {
  if (head.magic == share::kFilenameMagic) return name.leaf.starts_with(kPrefix);
  return head.rest_is_zero && names::maker_of_torch_name(name.leaf) != 0;
}

// Opens the file. The result is not open if there is no such file.
Result<os::Fd> open_counter_file(const names::Filename& name) {
  TENON_ASSIGN(const os::Fd directory, os::open_directory(name.directory));
  for (int tries = 0;; ++tries) {
    Result<os::Fd> opened = os::open_name(directory.get(), name.leaf, true);
    if (opened.is_ok()) return opened;
    if (opened.status().code() == Code::kNotFound) return os::Fd();
    if (opened.status().code() != Code::kWouldBlock || tries == kLookTries)
      return names::name_error(name.path(), opened.status());
    // Another process checks whether the file is dead.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Opens, checks and maps a counter file. Null: there is no such file.
Result<SharedFile> map_file(const names::Filename& name) {
  TENON_ASSIGN(const os::Fd fd, open_counter_file(name));
  if (!fd.is_open()) return SharedFile();
  TENON_ASSIGN(const os::NameInfo info, os::look_at_file(fd.get()));
  if (info.kind != os::NameInfo::Kind::kFile || info.nbytes != kFileNbytes)
    return refuse_counter(name, Code::kCorrupt, "is no counter file: it has another size");
  TENON_ASSIGN(const share::FilenameHead head, share::read_head(fd.get()));
  if (!is_counter_file(name, head))
    return refuse_counter(name, Code::kCorrupt,
                          "is no counter file: neither Tenon nor PyTorch made it as one");
  TENON_ASSIGN(os::Mapping mapping,
               os::Mapping::create(os::Mapping::Kind::kSharedWritable, fd.get(), 0, kFileNbytes));
  return std::make_shared<const CudaCounterFile>(
      CudaCounterFile{name.path(), info.device, info.inode, std::move(mapping)});
}

// The mapped files of which a counter is held, by the text of their names. A forked child holds
// none, and never takes this lock.
struct Held {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<const CudaCounterFile>, KeyedHash, std::equal_to<>>
      files;
};
Held& held() noexcept { return immortal<Held>(); }

// Whether no two files ever get this name, because a part of it is random: 128 bits in Tenon's
// names, and the number in the middle of PyTorch's names, which a few older versions lack. A
// process that puts another file in its place could change the counters of the held file as well.
bool is_given_once(std::string_view name) noexcept {
  const std::string_view leaf = name.substr(name.rfind('/') + 1);
  return leaf.starts_with(kPrefix) || std::count(leaf.begin(), leaf.end(), '_') >= 3;
}

// Finds the mapped file with this name. Null: no counter of such a file is held, or the name leads
// to another file by now.
SharedFile find_held(std::string_view name) {
  SharedFile file;
  {
    Held& all = held();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const auto found = all.files.find(name); found != all.files.end())
      file = found->second.lock();
  }
  if (!file || is_given_once(name)) return file;
  Result<os::NameInfo> there = os::look_at_path(file->path);
  return there.is_ok() && there.value().inode == file->inode && there.value().device == file->device
             ? file
             : nullptr;
}

void add_held(std::string_view name, const SharedFile& file) {
  Held& all = held();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.files, [](const auto& entry) { return entry.second.expired(); });
  all.files.insert_or_assign(std::string(name), file);
}

// Decrements a counter that is above 0.
Status take_down(const CudaCounterFile& file, uint64_t slot) {
  Counter& counter = counter_at(file.mapping.base(), static_cast<uint32_t>(slot));
  // The file may have been cut short since it was checked, and the decrement would raise SIGBUS. A
  // process that cuts it between this check and the decrement attacks on purpose.
  int64_t now = 0;
  if (os::copy_from_mapping(&counter, &now, sizeof now).code() == Code::kCorrupt) {
    return names::refuse_name(file.path, Code::kCorrupt, "was cut short");
  }
  now = counter.load(std::memory_order_relaxed);
  do {
    if (now <= 0) {
      return names::refuse_name(file.path, Code::kCorrupt,
                                format("has a counter at %llu that was released before",
                                       static_cast<unsigned long long>(slot)));
    }
    // Release: this process's reads of the memory happened before.
  } while (!counter.compare_exchange_weak(now, now - 1, std::memory_order_release,
                                          std::memory_order_relaxed));
  return Status::ok();
}

}  // namespace

Result<CudaCounter> CudaCounter::create() {
  CudaCounter counter;
  if (take_next(&counter.file_, &counter.slot_)) return counter;
  names::FilenameOptions options;
  options.prefix = kPrefix;
  TENON_ASSIGN(Ref<Segment> made,
               names::create_named_segment(options, kFileNbytes - share::kFilenameHeaderNbytes));
  {
    CudaCounterState& all = cuda_counter_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    // If another thread has made a file meanwhile, that file is the current one, and this file
    // ends.
    if (!all.current) {
      all.current = made;
      all.next = 0;
    }
  }
  if (take_next(&counter.file_, &counter.slot_)) return counter;
  return create();  // 10,000 were handed out in between
}

std::string CudaCounter::name() const {
  return file_->find_tail<names::FileTail>()->filename().text();
}

bool CudaCounter::is_released() const noexcept {
  return counter_at(file_->base(), slot_).load(std::memory_order_acquire) <= 0;
}

void end_cuda_counter_file() noexcept {
  Ref<Segment> ended;  // released after the lock
  CudaCounterState& all = cuda_counter_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  ended = std::move(all.current);
}

Status release_cuda_counter(std::string_view name, uint64_t slot) {
  TENON_ASSIGN(const names::Filename filename, check_counter(name, slot));
  TENON_ASSIGN(const SharedFile file, map_file(filename));
  return file ? take_down(*file, slot) : Status::ok();
}

CudaCounterHold::CudaCounterHold(std::string_view name, uint64_t slot) : slot_(slot) {
  if (slot < kCudaCounters) file_ = find_held(name);
  if (file_) return;
  Result<names::Filename> filename = check_counter(name, slot);
  if (!filename.is_ok()) return;
  Result<SharedFile> file = map_file(filename.value());
  if (file.is_ok()) {
    file_ = std::move(file).value();
    if (file_) add_held(name, file_);
  } else if (file.status().code() != Code::kCorrupt) {
    name_ = name;
  }
}

void CudaCounterHold::let_go() const {
  if (file_) {
    (void)take_down(*file_, slot_);
  } else if (!name_.empty()) {
    (void)release_cuda_counter(name_, slot_);
  }
}

CudaCounterHold::~CudaCounterHold() {
  if (!is_kept_) return;
  try {
    let_go();
  } catch (...) {
    // There is no memory for the text of an error, which nobody would read, or no memory to open a
    // file that could not be opened before either.
  }
}

}  // namespace tenon::device
