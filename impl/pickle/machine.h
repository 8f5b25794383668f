// The stack machine behind read_pickle() (reader.h). It executes one step per opcode and
// builds nodes (nodes.h), not values.
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

#include "base/status.h"
#include "pickle/nodes.h"
#include "pickle/opcodes.h"
#include "pickle/reader.h"

namespace tenon::pickle {

class PickleMachine {
 public:
  // `bytes` and `options` must outlive the machine, and `bytes` the tree too.
  PickleMachine(std::span<const std::byte> bytes, const PickleReadOptions& options);
  // Reads the whole pickle. Called once. The errors are those of read_pickle().
  Result<PickleTree> run();

 private:
  using Node = PickleTree::Node;
  using Content = PickleTree::Content;

  // Errors at the opcode that is being read.
  Status error(Code code, const std::string& message) const;
  Status cut_short(const std::string& message) const;  // the bytes end too early
  Status over_limit(const char* limit, uint64_t value) const;

  Status read_opcodes();  // up to STOP, inclusive
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
  Status name_callable(NodeId* callable);
  Status read_build();
  Status read_sparse_get(uint64_t index);
  Status finish();

  // The small steps of which an opcode needs several. Each returns false if the bytes, values or
  // mark that it needs are missing. The caller then returns the matching missing_…() error below.
  // Numbers are little-endian, as the sizes in a pickle are.
  template <typename Number>
  bool take_number(uint64_t* out) noexcept;
  bool take(uint64_t nbytes, std::span<const std::byte>* out) noexcept;
  // Whether at least `count` values lie above the last mark.
  bool has(size_t count) const noexcept { return stack_.size() - floor_ >= count; }
  bool pop(NodeId* out) noexcept;
  void push_mark();
  // Removes the last mark. `begin` is the index in the stack of the first value above that mark.
  bool pop_mark(size_t* begin) noexcept;
  Status missing_bytes(uint64_t nbytes) const;
  Status missing_values() const;
  Status missing_mark() const;

  Status push_node(NodeKind kind, Content content);
  Status push_number(NodeKind kind, int64_t number) { return push_node(kind, {.integer = number}); }
  // These take the values from index `begin` of the stack, and remove them there.
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
  std::vector<size_t> marks_;  // the size of the stack when each mark was set
  // The last entry of marks_, or 0. pop() takes no value below a mark: those values belong to the
  // opcode that will end the mark.
  size_t floor_ = 0;
  // The memo. Every pickler numbers its entries upwards from 0, so they are in a vector. An entry
  // with a number out of that order goes into the map, so that a large number alone costs no
  // memory.
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

}  // namespace tenon::pickle
