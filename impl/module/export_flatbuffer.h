// Writes a module in PyTorch's flatbuffer form (docs/format/flatbuffer.md).
#pragma once

#include <vector>

#include "archive/sink.h"
#include "base/status.h"
#include "module/export.h"
#include "module/module.h"
#include "module/resolve.h"
#include "script/declarations.h"

namespace tenon::module {

// Writes a module that export_module() resolved and checked. `code` is the result of
// declarations_of(resolved). INVALID_ARGUMENT for options that the form has no room for. Nothing is
// written then.
Status write_flatbuffer(const Module& module, archive::Sink* sink, const Resolved& resolved,
                        Result<script::Declarations>& code,
                        const std::vector<ExtraFile>& extra_files, const ExportOptions& options,
                        ExportReport* report);

}  // namespace tenon::module
