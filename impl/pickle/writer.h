// Writes the opcodes of a pickle, and keeps the memo as PyTorch's C++ pickler does: entries are
// numbered from 0 in the order in which they are put, and equal texts or equal globals share an
// entry. modules/archive/pickle_from_values.cc and the writers of packages decide which opcodes a
// value needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pickle/opcodes.h"

namespace tenon::pickle {

// Only text() and global() put values into the memo by themselves. For all others the caller calls
// put(). Nothing fails but memory (std::bad_alloc). One thread uses a writer.
class PickleWriter {
 public:
  // Writes PROTO 2.
  PickleWriter();

  void opcode(Opcode opcode) { bytes_.push_back(static_cast<std::byte>(opcode)); }
  void boolean(bool value) { opcode(value ? Opcode::kNewTrue : Opcode::kNewFalse); }
  // Uses the shortest of BININT1, BININT2 and BININT, and LONG1 with 8 bytes for any other number.
  void integer(int64_t value);
  void real(double value);
  // Writes a text of any length in UTF-8 and puts it into the memo, or refers to the entry if the
  // same text was written before. Returns the number of the entry. The text is not checked.
  uint32_t text(std::string_view text);
  // Writes a global and puts it into the memo, or refers to its entry if it was written before.
  // `module` and `name` contain no newline.
  void global(std::string_view module, std::string_view name);
  // Writes MARK, the integers and TUPLE. PyTorch writes sizes and strides like this, however many
  // there are.
  void integers(std::span<const int64_t> values);
  // Ends a tuple of the last `count` values, from 0 to kShortTuple, before which no MARK was
  // written. A longer tuple is MARK, the values, TUPLE.
  static constexpr size_t kShortTuple = 3;
  void short_tuple(size_t count);
  // Writes a call of collections.OrderedDict without arguments. PyTorch pickles every tensor with
  // such a dict, for its backward hooks. The dict is not put into the memo.
  void empty_ordered_dict();

  // Puts the value that was written last into the memo, under the next number, which it returns.
  uint32_t put();
  // Refers to an entry of the memo, which must exist.
  void get(uint32_t number);

  // Writes STOP and gives the bytes. Nothing may be written afterwards.
  std::vector<std::byte> finish();

 private:
  void number(uint64_t value, size_t nbytes);  // little-endian
  void raw(std::string_view text);

  std::vector<std::byte> bytes_;
  uint32_t next_ = 0;
  // Ordered maps, because the author of the texts could choose them so that a hash table is slow.
  std::map<std::string, uint32_t, std::less<>> texts_;
  std::map<std::string, uint32_t, std::less<>> globals_;
};

}  // namespace tenon::pickle
