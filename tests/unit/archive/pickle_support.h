// The tests of pickles use these functions to write pickles by hand, and to make storages for the
// tensors in the pickles.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/pickle_to_values.h"
#include "pickle/reader.h"
#include "storage/storage.h"
#include "unit/os/guards.h"

namespace tenon::archive::test {

using Bytes = std::vector<std::byte>;

// Returns all characters of a literal, NULs included: bytes("\x80\x02N.").
template <size_t n>
Bytes bytes(const char (&literal)[n]) {
  Bytes out(n - 1);
  if (n > 1) std::memcpy(out.data(), literal, n - 1);
  return out;
}

inline Bytes bytes_of(std::string_view text) {
  Bytes out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

inline std::string text_of(const Bytes& of) {
  return {reinterpret_cast<const char*>(of.data()), of.size()};
}

inline std::string u32(uint32_t value) {
  std::string out(4, '\0');
  for (size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (8 * i));
  return out;
}

inline std::string u64(uint64_t value) {
  return u32(static_cast<uint32_t>(value)) + u32(static_cast<uint32_t>(value >> 32));
}

// Writes the opcode BINUNICODE, without a memo.
inline std::string str(std::string_view text) {
  return "X" + u32(static_cast<uint32_t>(text.size())) + std::string(text);
}

inline const std::string kNul(1, '\0');

// memo_put writes the opcode BINPUT, memo_get writes BINGET.
inline std::string memo_put(uint8_t number) {
  return "q" + std::string(1, static_cast<char>(number));
}
inline std::string memo_get(uint8_t number) {
  return "h" + std::string(1, static_cast<char>(number));
}

inline std::string proto2(const std::string& body) { return "\x80\x02" + body + "."; }

// Writes a storage in the way in which PyTorch spells it out, without its memo.
inline std::string storage(std::string_view key, uint8_t numel,
                           std::string_view type = "FloatStorage",
                           std::string_view device = "cpu") {
  return "(" + str("storage") + "ctorch\n" + std::string(type) + "\n" + str(key) + str(device) +
         "K" + static_cast<char>(numel) + "tQ";
}

inline const std::string kHooks = "ccollections\nOrderedDict\n)R";

// Writes a contiguous tensor of one dimension over `storage`.
inline std::string tensor(const std::string& storage, uint8_t numel) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + "K" + std::string(1, '\0') + "(K" +
         static_cast<char>(numel) + "t(K\x01t\x89" + kHooks + "tR";
}

inline pickle::PickleReadOptions general() {
  pickle::PickleReadOptions options;
  options.dialect = pickle::PickleDialect::kGeneral;
  return options;
}

inline void expect_error(const Status& status, Code code, std::string_view part) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_EQ(status.detail("record"), "data.pkl") << status.message();
  EXPECT_FALSE(status.detail("offset").empty()) << status.message();
}

// Makes a new storage for each call. Each byte of the storage is the first character of its key.
class Storages {
 public:
  FindStorage finder() {
    return [this](const PickledStorage& wanted) -> Result<value::StorageValueRef> {
      calls.emplace_back(wanted.key);
      const bool is_meta = wanted.device == "meta";
      if (is_meta)
        return value::StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
      const std::vector<char> content(
          static_cast<size_t>(wanted.numel) * tensor::scalar_type_info(wanted.type).nbytes,
          wanted.key.front());
      storage::StorageOptions options;
      options.is_private = true;
      TENON_ASSIGN(Ref<storage::Storage> made,
                   storage::Storage::create_from(options, content.data(), content.size()));
      return value::StorageValue::create(wanted.type, wanted.numel, std::move(made));
    };
  }
  std::vector<std::string> calls;
};

// Reads a pickle and makes its values. Returns the error of whichever step fails first.
inline Result<UnpickledValue> unpickle(const std::string& pickle, Storages* storages = nullptr,
                                       ToValuesOptions options = {}) {
  const Bytes content = bytes_of(pickle);
  TENON_ASSIGN(const pickle::PickleTree tree, pickle::read_pickle(content, {}));
  Storages own;
  if (!options.find_storage)
    options.find_storage = (storages != nullptr ? storages : &own)->finder();
  return pickle_to_values(tree, options);
}

}  // namespace tenon::archive::test
