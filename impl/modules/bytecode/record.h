// The keys and numbers of the record bytecode.pkl, which the reader and the writer share.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::bytecode {

inline constexpr int64_t kOldestVersion = 4;
inline constexpr int64_t kNewestVersion = 9;
// The last version whose functions may lack a schema.
inline constexpr int64_t kLastWithoutSchema = 4;
inline constexpr int64_t kMaxN = 65535;  // the largest N of an instruction
// The record has this number for an operator that takes any number of arguments.
inline constexpr int64_t kVariadicInRecord = -1;

// The keys of each table, in their order.
inline constexpr std::string_view kCodeKeys[] = {"instructions", "operators", "constants", "types",
                                                 "register_size"};
inline constexpr std::string_view kSchemaKeys[] = {"arguments", "returns"};
inline constexpr std::string_view kArgumentKeys[] = {"name", "type", "default_value"};

}  // namespace tenon::bytecode
