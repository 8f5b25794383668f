// The stack machine of read_pickle: one step per opcode, nodes and no values.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/pickle_nodes.h"
#include "archive/pickle_opcodes.h"
#include "archive/pickle_reader.h"
#include "base/status.h"

namespace tenon::archive {

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, const PickleReadOptions& options);
  Result<PickleTree> run();

 private:
  using Node = PickleTree::Node;
  using Content = PickleTree::Content;

  // Of the opcode that is being read.
  Status error(Code code, const std::string& message) const;
  Status over_limit(const char* limit, uint64_t value) const;

  Status read_opcodes();  // up to and with STOP
  Status unknown_opcode(uint8_t byte) const;
  Status read_protocol();
  Status read_frame();
  Status read_scalar(Opcode opcode);
  template <typename Number>
  Status read_integer();
  template <typename Number>
  Status read_text(NodeKind kind);
  Status read_global();
  Status read_line(std::string_view* out);
  Status read_pop(Opcode opcode);
  Status read_tuple();
  Status read_container(Opcode opcode);
  Status read_addition(Opcode opcode);
  Status read_persistent();
  Status read_call(Opcode opcode);
  Status read_build();
  Status read_sparse_get(uint64_t index);
  Status finish();

  // Each opcode does several of these small steps, so they say no more than whether there is what
  // they want; error messages follow below. Little-endian, as pickle's sizes are.
  template <typename Number>
  bool take_number(uint64_t* out) noexcept;
  bool take(uint64_t nbytes, std::span<const std::byte>* out) noexcept;
  // So many values above the wall.
  bool has(size_t count) const noexcept { return stack_.size() - floor_ >= count; }
  bool pop(NodeId* out) noexcept;
  void push_mark();
  // Where the values above the last mark begin in the stack; the mark is gone afterwards.
  bool pop_mark(size_t* begin) noexcept;
  Status missing_bytes(uint64_t nbytes) const;
  Status missing_values() const;
  Status missing_mark() const;

  Status push_node(NodeKind kind, Content content);
  Status push_number(NodeKind kind, int64_t number) { return push_node(kind, {.integer = number}); }
  // Of the values in the stack from `begin` on, which leave it.
  Status push_tuple(size_t begin);
  Status push_list(NodeKind kind, size_t begin);
  Status extend_list(PickleTree::List* list, std::span<const NodeId> added);
  Status push_global(std::string_view module, std::string_view name);
  PickleTree::LongCall& make_long_call(NodeId id);
  Status put(uint64_t index);

  std::span<const std::byte> bytes_;
  const PickleReadOptions& options_;
  PickleTree tree_;
  size_t cursor_ = 0;
  size_t opcode_at_ = 0;
  std::vector<NodeId> stack_;
  std::vector<size_t> marks_;  // sizes of the stack when they were set
  // The last of them. A mark is a wall: what lies under it belongs to what the mark begins.
  size_t floor_ = 0;
  // Numbers count up from 0 in every pickler's output. One that does not goes into the map, so that
  // a number alone costs no memory.
  std::vector<NodeId> memo_;
  std::map<uint64_t, NodeId> sparse_memo_;
};

static_assert(std::endian::native == std::endian::little, "pickle's numbers are read as they lie");

template <typename Number>
bool PickleMachine::take_number(uint64_t* out) noexcept {
  Number number;
  if (sizeof number > bytes_.size() - cursor_) return false;
  std::memcpy(&number, bytes_.data() + cursor_, sizeof number);
  cursor_ += sizeof number;
  *out = number;
  return true;
}

}  // namespace tenon::archive
