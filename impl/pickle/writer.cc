#include "pickle/writer.h"

#include <bit>
#include <limits>

namespace tenon::pickle {
namespace {

constexpr uint64_t kProtocol = 2;

}  // namespace

PickleWriter::PickleWriter() {
  opcode(Opcode::kProto);
  number(kProtocol, 1);
}

void PickleWriter::number(uint64_t value, size_t nbytes) {
  for (size_t i = 0; i < nbytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void PickleWriter::raw(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  bytes_.insert(bytes_.end(), begin, begin + text.size());
}

void PickleWriter::integer(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0 && value <= std::numeric_limits<uint8_t>::max()) {
    opcode(Opcode::kBinInt1);
    number(bits, 1);
  } else if (value >= 0 && value <= std::numeric_limits<uint16_t>::max()) {
    opcode(Opcode::kBinInt2);
    number(bits, 2);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    opcode(Opcode::kBinInt);
    number(bits, 4);
  } else {
    opcode(Opcode::kLong1);
    number(sizeof value, 1);
    number(bits, sizeof value);
  }
}

void PickleWriter::real(double value) {
  opcode(Opcode::kBinFloat);
  number(__builtin_bswap64(std::bit_cast<uint64_t>(value)), sizeof value);
}

uint32_t PickleWriter::text(std::string_view text) {
  const auto known = texts_.find(text);
  if (known != texts_.end()) {
    get(known->second);
    return known->second;
  }
  const bool is_long = text.size() > std::numeric_limits<uint32_t>::max();
  opcode(is_long ? Opcode::kBinUnicode8 : Opcode::kBinUnicode);
  number(text.size(), is_long ? 8 : 4);
  raw(text);
  const uint32_t number = put();
  texts_.emplace(text, number);
  return number;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  std::string lines(module);
  lines += '\n';
  lines += name;
  lines += '\n';
  const auto known = globals_.find(lines);
  if (known != globals_.end()) return get(known->second);
  opcode(Opcode::kGlobal);
  raw(lines);
  globals_.emplace(std::move(lines), put());
}

void PickleWriter::integers(std::span<const int64_t> values) {
  opcode(Opcode::kMark);
  for (const int64_t value : values) integer(value);
  opcode(Opcode::kTuple);
}

void PickleWriter::short_tuple(size_t count) {
  static constexpr Opcode kBySize[] = {Opcode::kEmptyTuple, Opcode::kTuple1, Opcode::kTuple2,
                                       Opcode::kTuple3};
  opcode(kBySize[count]);
}

void PickleWriter::empty_ordered_dict() {
  global("collections", "OrderedDict");
  opcode(Opcode::kEmptyTuple);
  opcode(Opcode::kReduce);
}

uint32_t PickleWriter::put() {
  const bool is_long = next_ > std::numeric_limits<uint8_t>::max();
  opcode(is_long ? Opcode::kLongBinPut : Opcode::kBinPut);
  number(next_, is_long ? 4 : 1);
  return next_++;
}

void PickleWriter::get(uint32_t number_of) {
  const bool is_long = number_of > std::numeric_limits<uint8_t>::max();
  opcode(is_long ? Opcode::kLongBinGet : Opcode::kBinGet);
  number(number_of, is_long ? 4 : 1);
}

std::vector<std::byte> PickleWriter::finish() {
  opcode(Opcode::kStop);
  return std::move(bytes_);
}

}  // namespace tenon::pickle
