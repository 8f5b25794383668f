// Making a named file: whole and at once, counted and locked.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "share/by_filename.h"

namespace tenon::share {

Status check_mode(const FilenameOptions& options);
mode_t mode_of(const FilenameOptions& options) noexcept;

// A new file for `nbytes` of payload; the segment has a FileTail.
Result<Ref<Segment>> create_named_segment(const FilenameOptions& options, uint64_t nbytes);

}  // namespace tenon::share
