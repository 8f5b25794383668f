// The parts of `tenon inspect`, one for each kind of input. inspect.cc chooses among them, and
// inspect_archive() hands packages and files of weights on to their own functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "archive_input.h"
#include "commands.h"
#include "names/filename.h"

namespace tenon::cli {

struct ArchiveFacts;

// Each of these prints, and returns the exit code. `source` says where the bytes are from, for
// errors.
int inspect_descriptor(std::span<const std::byte> bytes, const std::string& source, bool json);
int inspect_name(const names::Filename& filename, bool json);
int inspect_archive(const ArchiveInput& input, const InspectOptions& options);
int inspect_package(const ArchiveInput& input, const InspectOptions& options);
int inspect_weights(const ArchiveInput& input, const InspectOptions& options);
// Shows the facts of an archive, or of one module of a package.
int show_archive(const std::string& path, const ArchiveFacts& facts, const InspectOptions& options);
// Compiles the code of modules, and prints the operators that its bytecode calls.
int inspect_operators(const InspectOptions& options);

}  // namespace tenon::cli
