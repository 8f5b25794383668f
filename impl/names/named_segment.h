// Makes a named file, for by_filename.cc and device/torch_counter.cc. The file appears under its
// name only when it is whole: its pages exist, its count is 1 and this process has its shared lock
// (flock).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "names/by_filename.h"

namespace tenon::names {

// INVALID_ARGUMENT unless the permission bits in `options` lie within 0666 and let the owner read
// and write.
Status check_mode(const FilenameOptions& options);
// The permission bits in `options`. If `options` names a group, the group may read and write.
mode_t mode_of(const FilenameOptions& options) noexcept;

// Makes a new file with `nbytes` of payload. The segment has a FileTail (held_files.h), which lets
// go of the file when the segment ends. INVALID_ARGUMENT: the permission bits or the name.
// PERMISSION: something that is not dead has the name. RESOURCE_EXHAUSTED: no room, also after the
// dead names of the directory were removed (not PyTorch's own files). UNSUPPORTED: the file could
// not be locked for 1 s, because its file system has no locks. Other errors are those of opening
// the directory, of making a file in it (PERMISSION too), of os::set_access() and of mapping. On
// failure no file stays. The caller holds no lock that has a rank, because kept memory may be given
// back (memory/spare.h).
Result<Ref<Segment>> create_named_segment(const FilenameOptions& options, uint64_t nbytes);

}  // namespace tenon::names
