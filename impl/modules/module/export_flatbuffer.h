// Writes a module in PyTorch's flatbuffer form (docs/format/flatbuffer.md).
#pragma once

#include <vector>

#include "base/status.h"
#include "modules/archive/sink.h"
#include "modules/module/export.h"
#include "modules/module/module.h"
#include "modules/module/resolve.h"
#include "modules/script/declarations.h"

namespace tenon::module {

// Writes a module that export_module() resolved and checked. `code` is the result of
// declarations_of(resolved). INVALID_ARGUMENT for options that the form has no room for. Nothing is
// written then.
Status write_flatbuffer(const Module& module, archive::Sink* sink, const Resolved& resolved,
                        Result<script::Declarations>& code,
                        const std::vector<ExtraFile>& extra_files, const ExportOptions& options,
                        ExportReport* report);

}  // namespace tenon::module
