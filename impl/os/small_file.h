// Reads the small text files in which the kernel tells facts: /proc, /sys, cgroups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::os {

// Returns the whole file, or an empty string if it cannot be opened. *no_fd becomes true if the
// process or the system has no free fd, and is not changed otherwise.
std::string read_small_file(const std::string& path, bool* no_fd = nullptr);

// The number at the start of the text, after blanks. `otherwise` if there is none.
uint64_t parse_number(std::string_view text, uint64_t otherwise);

// The number after `key` at the start of a line. `otherwise` if there is none.
uint64_t find_field(std::string_view text, std::string_view key, uint64_t otherwise);

}  // namespace tenon::os
