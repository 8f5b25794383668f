// Options and reports that tenon/archive.h and tenon/package.h share.
#pragma once

#include <tenon/archive.h>

#include "base/status.h"
#include "module/export.h"
#include "module/import.h"

namespace tenon::capi {

Status read_import_options(const tenon_import_options* options, module::ImportOptions* out);
// Of a report whose struct_size was checked, or of NULL.
void write_export_report(const module::ExportReport& found, tenon_export_report* out) noexcept;

}  // namespace tenon::capi
