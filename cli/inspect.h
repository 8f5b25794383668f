// What `tenon inspect` knows.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "archive_input.h"
#include "share/filename.h"

namespace tenon::cli {

// Each prints, and returns the exit code. `source`: what the bytes are from, for errors.
int inspect_descriptor(std::span<const std::byte> bytes, const std::string& source, bool json);
int inspect_name(const share::Filename& filename, bool json);
int inspect_archive(const ArchiveInput& input, bool with_code, bool json);
// Compiles the code of an archive, and prints the operators that its bytecode calls. `methods`: their
// names with commas between them; empty: all.
int inspect_operators(const std::string& path, const std::string& methods, bool json);

}  // namespace tenon::cli
