// Reads a file of weights into one FROZEN segment, and makes weights of such a segment.
// shared_weights.cc calls these functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "modules/shared_weights/device_block.h"
#include "modules/shared_weights/packets.h"
#include "modules/weights/shard_index.h"
#include "modules/weights/weights.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::shared_weights {

struct OpenedFile {
  os::Fd fd;
  std::string path;
  uint64_t nbytes = 0;
  int64_t mtime_ns = 0;
  FileIdentity identity;  // of the file, or of an index and all its shards together
  bool is_index = false;
  weights::ShardIndex index;
  std::vector<OpenedFile> shards;  // in the order of index.shards
};

// Opens a file of weights, or an index of shards with its shards. The errors are those of
// os::open_to_read() and of open_shards() (shards.h). INVALID_ARGUMENT: the file is empty.
Result<OpenedFile> open_file(const std::string& path);
// Does the same with a file that is no index, or whose shards are not opened.
Result<OpenedFile> open_one_file(const std::string& path);
// CORRUPT: the file or a shard, or what the path leads to, has changed since open_file().
Status check_unchanged(const OpenedFile& file);

// RESOURCE_EXHAUSTED: a file of this size is larger than `max_nbytes`, unless that is 0.
Status check_size(const std::string& path, uint64_t nbytes, uint64_t max_nbytes);
// The file's name without its directories.
std::string label_of(const OpenedFile& file);

struct Loaded {
  Ref<memory::Segment> segment;  // frozen, and in the identity cache
  uint64_t file_offset = 0;      // where byte 0 of the file lies in it
  uint64_t file_nbytes = 0;      // from there; of the merged file for an index
  DeviceBlock device;            // for weights on a device (on_device.h)
};

// Where byte 0 of the file goes, so that the tensors of a safetensors file begin at a multiple of
// 64 bytes.
Result<uint64_t> choose_file_offset(const OpenedFile& file);

// Bytes of a file, and their place in the memory.
struct FilePiece {
  const OpenedFile* file = nullptr;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t nbytes = 0;
};

// Reads the file with several threads. The shards of an index become one safetensors file, which
// ends with the segment (shards.h). `done` counts the bytes, for other threads. `report` is called
// by this thread now and then. The call ends early with the error of `waiter` if its cancel is
// triggered. RESOURCE_EXHAUSTED names the limit: the tensors of shards may need more bytes than the
// shards have, if they share memory. CORRUPT: the file changed meanwhile.
Result<Loaded> load_file(const OpenedFile& file, uint64_t max_nbytes, std::atomic<uint64_t>* done,
                         const std::function<Status()>& report, const os::Waiter& waiter);

// Makes the weights of a frozen segment. Their tensors are views of it, and keep it. The file's
// bytes are checked as tenon_open_weights checks a file.
Result<Ref<weights::Weights>> weights_of(const Ref<memory::Segment>& segment, uint64_t file_offset,
                                         uint64_t file_nbytes, const std::string& label);

}  // namespace tenon::shared_weights
