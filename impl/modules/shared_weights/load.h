// Reads a file of weights into one FROZEN segment, and makes weights of such a segment.
// shared_weights.cc calls these functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "modules/shared_weights/packets.h"
#include "modules/weights/weights.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::shared_weights {

struct OpenedFile {
  os::Fd fd;
  std::string path;
  FileIdentity identity;
};

// The errors are those of os::open_to_read(). INVALID_ARGUMENT: the file is empty.
Result<OpenedFile> open_file(const std::string& path);
// CORRUPT: the file, or what the path leads to, has changed since open_file().
Status check_unchanged(const OpenedFile& file);

// RESOURCE_EXHAUSTED: a file of this size is larger than `max_nbytes`, unless that is 0.
Status check_size(const std::string& path, uint64_t nbytes, uint64_t max_nbytes);
// The file's name without its directories.
std::string label_of(const OpenedFile& file);

struct Loaded {
  Ref<memory::Segment> segment;  // frozen, and in the identity cache
  uint64_t file_offset = 0;      // where byte 0 of the file lies in it
};

// Where byte 0 of the file goes, so that the tensors of a safetensors file begin at a multiple of
// 64 bytes.
Result<uint64_t> choose_file_offset(const OpenedFile& file);

// Reads the file with several threads. `done` counts the bytes, for other threads. `report` is
// called by this thread now and then. The call ends early with the error of `waiter` if its cancel
// is triggered. RESOURCE_EXHAUSTED names the limit. CORRUPT: the file changed meanwhile.
Result<Loaded> load_file(const OpenedFile& file, std::atomic<uint64_t>* done,
                         const std::function<Status()>& report, const os::Waiter& waiter);

// Makes the weights of a frozen segment. Their tensors are views of it, and keep it. The file's
// bytes are checked as tenon_open_weights checks a file.
Result<Ref<weights::Weights>> weights_of(const Ref<memory::Segment>& segment, uint64_t file_offset,
                                         uint64_t file_nbytes, const std::string& label);

}  // namespace tenon::shared_weights
