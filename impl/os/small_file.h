// Reading what the kernel tells in small text files: /proc, /sys, cgroups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::os {

// A whole small file; empty if it cannot be read. *no_fd is set if that was for want of an fd.
std::string read_small_file(const std::string& path, bool* no_fd = nullptr);

// The number that a text begins with, after blanks.
uint64_t parse_number(std::string_view text, uint64_t otherwise);

// The number after `key` at the start of a line.
uint64_t find_field(std::string_view text, std::string_view key, uint64_t otherwise);

}  // namespace tenon::os
