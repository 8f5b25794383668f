// Makes a named file, for by_filename.cc and device/torch_counter.cc. The file appears under its
// name only when it is whole: its pages exist, its count is 1 and its lock is taken.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "names/by_filename.h"

namespace tenon::names {

// INVALID_ARGUMENT if the mode in `options` is not allowed for a name.
Status check_mode(const FilenameOptions& options);
// The mode in `options`, with reading and writing for the group if `options` has one.
mode_t mode_of(const FilenameOptions& options) noexcept;

// Makes a new file with `nbytes` of payload. The segment has a FileTail (held_files.h).
// INVALID_ARGUMENT: the mode or the name. PERMISSION: something that is not dead has the name.
// RESOURCE_EXHAUSTED: no room, also after all dead names of the directory were removed.
// UNSUPPORTED: the file system has no locks. On failure no file stays. The caller holds no lock
// that has a rank (memory/spare.h).
Result<Ref<Segment>> create_named_segment(const FilenameOptions& options, uint64_t nbytes);

}  // namespace tenon::names
