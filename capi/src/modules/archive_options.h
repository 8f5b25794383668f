// Reads the options and writes the reports that tenon/archive.h and tenon/package.h share.
#pragma once

#include <tenon/archive.h>

#include "base/status.h"
#include "modules/archive/file_output.h"
#include "modules/module/export.h"
#include "modules/module/import.h"

namespace tenon::capi {

// INVALID_ARGUMENT for a value that is none, and UNSUPPORTED for an unknown flag. `out->storage`
// borrows the caller's arena.
Status read_durability(int32_t given, archive::Durability* out);
Status read_import_options(const tenon_import_options* options, module::ImportOptions* out);
// `out` is a report whose struct_size was checked, or NULL.
void write_export_report(const module::ExportReport& found, tenon_export_report* out) noexcept;

}  // namespace tenon::capi
