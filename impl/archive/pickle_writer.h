// Opcodes into bytes, with the memo that PyTorch's C++ pickler keeps: numbers from 0 in the order
// of use, texts by their text and globals by theirs. What a value looks like is
// pickle_from_values.cc's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/pickle_opcodes.h"

namespace tenon::archive {

class PickleWriter {
 public:
  // Writes PROTO 2.
  PickleWriter();

  void opcode(Opcode opcode) { bytes_.push_back(static_cast<std::byte>(opcode)); }
  void boolean(bool value) { opcode(value ? Opcode::kNewTrue : Opcode::kNewFalse); }
  // In the shortest of BININT1, BININT2, BININT; LONG1 of 8 bytes for the rest.
  void integer(int64_t value);
  void real(double value);
  // Returns the number that the text has in the memo.
  uint32_t text(std::string_view text);
  // `module` and `name` have no line ends.
  void global(std::string_view module, std::string_view name);
  // MARK, the integers, TUPLE: how PyTorch writes sizes and strides, however many.
  void integers(std::span<const int64_t> values);
  // Ends a tuple of at most kShortTuple values, which has no mark; a longer one is MARK, values,
  // TUPLE.
  static constexpr size_t kShortTuple = 3;
  void short_tuple(size_t count);
  // An empty call: what backward hooks are.
  void empty_ordered_dict();

  // Puts what was written last into the memo, under the next number.
  uint32_t put();
  void get(uint32_t number);

  // Writes STOP; nothing may follow.
  std::vector<std::byte> finish();

 private:
  void number(uint64_t value, size_t nbytes);  // little-endian
  void raw(std::string_view text);

  std::vector<std::byte> bytes_;
  uint32_t next_ = 0;
  // Ordered, because hash tables can be made slow by who chooses the texts.
  std::map<std::string, uint32_t, std::less<>> texts_;
  std::map<std::string, uint32_t, std::less<>> globals_;
};

}  // namespace tenon::archive
