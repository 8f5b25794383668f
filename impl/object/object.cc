#include "object/object.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "tensor/name.h"

namespace tenon::object {
namespace {

constexpr std::array<const char*, kKindCount> kKindNames = {
    "None",   "bool",      "int",   "float", "complex", "str",  "bytes",
    "tensor", "composite", "tuple", "list",  "set",     "dict",
};

Status wrong(size_t index, const std::string& message) {
  return invalid(format("node %zu of the object: %s", index, message.c_str()))
      .with("index", uint64_t{index});
}

Status over_limit(size_t index, uint64_t most) {
  return Status(Code::kResourceExhausted, format("node %zu of the object: its keys use values "
                                                 "again and again, and have more than %llu bytes",
                                                 index, as_llu(most)))
      .with("index", uint64_t{index})
      .with("limit", "keys")
      .with("limit_value", most);
}

// Fills in Node::next, and checks everything that can be checked without looking at keys.
Status check_order(Contents* contents) {
  struct Frame {
    size_t node;
    uint64_t left;
  };
  std::vector<Node>& nodes = contents->nodes;
  if (nodes.empty()) return invalid("an object of no nodes: None is an object of one node");
  if (nodes.size() > UINT32_MAX)
    return invalid(format("%zu nodes are more than an object has: 2^32 - 1", nodes.size()));
  std::vector<Frame> open;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    if (i > 0) {
      if (open.empty()) return wrong(i, "it stands behind the end of the object's one value");
      --open.back().left;
    }
    if (node.kind == Kind::kStr) {
      const std::string_view text{
          reinterpret_cast<const char*>(contents->bytes.data()) + node.content.text.begin,
          node.content.text.nbytes};
      if (!tensor::is_utf8(text)) return wrong(i, "the text is not UTF-8: use bytes for it");
    }
    if (is_container(node.kind)) {
      if (open.size() >= kMaxDepth)
        return wrong(i, format("values are nested deeper than %zu", kMaxDepth));
      open.push_back({i, node.child_count()});
    } else {
      node.count = 0;
      node.next = static_cast<uint32_t>(i + 1);
    }
    while (!open.empty() && open.back().left == 0) {
      nodes[open.back().node].next = static_cast<uint32_t>(i + 1);
      open.pop_back();
    }
  }
  if (open.empty()) return Status::ok();
  const Node& last = nodes[open.back().node];
  return wrong(open.back().node,
               format("its %s has %u items, and %llu of their values are missing",
                      kind_name(last.kind), last.count, as_llu(open.back().left)));
}

// Writes a key as bytes, so that two keys have equal bytes if Python takes them for equal. Numbers
// are equal across their types.
class KeyText {
 public:
  explicit KeyText(const Contents& contents) : contents_(contents) {}

  // INVALID_ARGUMENT for a value that Python cannot hash, and for a tensor, which cannot be a key
  // of an object.
  Result<std::string> of(size_t index) {
    std::string text;
    // A tuple's values stand right behind it, so the walk needs no stack.
    for (size_t i = index; i < contents_.nodes[index].next; ++i) TENON_TRY(append(i, &text));
    return text;
  }

 private:
  Status append(size_t index, std::string* text) {
    const Node& node = contents_.nodes[index];
    switch (node.kind) {
      case Kind::kNone: text->push_back('N'); return Status::ok();
      case Kind::kBool:
      case Kind::kInt: add_integer(node.content.integer, text); return Status::ok();
      case Kind::kFloat: add_real(index, node.content.real, text); return Status::ok();
      case Kind::kComplex:
        if (node.content.complex.imaginary != 0) {
          text->push_back('C');
          add_real(index, node.content.complex.imaginary, text);
        }
        add_real(index, node.content.complex.real, text);
        return Status::ok();
      case Kind::kStr:
      case Kind::kBytes:
        text->push_back(node.kind == Kind::kStr ? 'S' : 'B');
        add_number(node.content.text.nbytes, text);
        text->append(
            reinterpret_cast<const char*>(contents_.bytes.data()) + node.content.text.begin,
            node.content.text.nbytes);
        return Status::ok();
      case Kind::kTuple:
        text->push_back('T');
        add_number(node.count, text);
        return Status::ok();
      default:
        return wrong(index,
                     format("a %s cannot be a key, nor an item of a set", kind_name(node.kind)));
    }
  }

  template <typename Number>
  static void add_number(Number number, std::string* text) {
    std::array<char, sizeof number> bytes{};
    std::memcpy(bytes.data(), &number, sizeof number);
    text->append(bytes.data(), bytes.size());
  }
  static void add_integer(int64_t number, std::string* text) {
    text->push_back('I');
    add_number(number, text);
  }
  static void add_real(size_t index, double number, std::string* text) {
    constexpr double kTwoTo63 = 9223372036854775808.0;
    if (number == std::floor(number) && number >= -kTwoTo63 && number < kTwoTo63)
      return add_integer(static_cast<int64_t>(number), text);
    text->push_back('F');
    add_number(number, text);
    // Python compares NaNs by identity, and two nodes are two objects.
    if (std::isnan(number)) add_number(uint64_t{index}, text);
  }

  const Contents& contents_;
};

// The most bytes that the keys of one container may have. A pickle can use one long text in many
// keys.
uint64_t most_key_nbytes(const Contents& contents) noexcept {
  return kMostCopies * contents.bytes.size() + uint64_t{32} * contents.nodes.size() + 65536;
}

Status check_keys(const Contents& contents) {
  KeyText key_text(contents);
  const uint64_t most = most_key_nbytes(contents);
  std::set<std::string> seen;
  for (size_t i = 0; i < contents.nodes.size(); ++i) {
    const Node& container = contents.nodes[i];
    if (container.kind != Kind::kDict && container.kind != Kind::kSet) continue;
    seen.clear();
    uint64_t nbytes = 0;
    size_t at = i + 1;
    for (uint32_t item = 0; item < container.count; ++item) {
      TENON_ASSIGN(std::string key, key_text.of(at));
      nbytes += key.size();
      if (nbytes > most) return over_limit(i, most);
      if (!seen.insert(std::move(key)).second) {
        return wrong(at, format("the %s at node %zu has this %s twice", kind_name(container.kind),
                                i, container.kind == Kind::kDict ? "key" : "item"));
      }
      at = contents.nodes[at].next;
      if (container.kind == Kind::kDict) at = contents.nodes[at].next;
    }
  }
  return Status::ok();
}

}  // namespace

const char* kind_name(Kind kind) noexcept {
  return static_cast<size_t>(kind) < kKindNames.size() ? kKindNames[static_cast<size_t>(kind)]
                                                       : "value";
}

bool is_container(Kind kind) noexcept {
  return kind == Kind::kTuple || kind == Kind::kList || kind == Kind::kSet || kind == Kind::kDict;
}

Result<Ref<Object>> Object::create(Contents contents) {
  TENON_TRY(check_order(&contents));
  TENON_TRY(check_keys(contents));
  return Ref<Object>::adopt(new Object(std::move(contents)));
}

std::optional<size_t> Object::find(size_t dict, std::string_view key) const noexcept {
  const std::vector<Node>& nodes = contents_.nodes;
  size_t at = dict + 1;
  for (uint32_t entry = 0; entry < nodes[dict].count; ++entry) {
    const size_t value = nodes[at].next;
    if (nodes[at].kind == Kind::kStr && text(nodes[at]) == key) return value;
    at = nodes[value].next;
  }
  return std::nullopt;
}

}  // namespace tenon::object
