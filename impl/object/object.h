// An Object is plain data that can travel with tensors in it, such as a dict of numbers, text,
// lists and tensors. It is what a tenon_object of the C API points to. No Python is needed to make
// or to read an Object. An Object never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "tensor/composite.h"
#include "tensor/tensor.h"

namespace tenon::object {

// The numbers are those of TENON_OBJECT_* in the C header.
enum class Kind : uint8_t {
  kNone = 0,
  kBool = 1,
  kInt = 2,
  kFloat = 3,
  kComplex = 4,
  kStr = 5,
  kBytes = 6,
  kTensor = 7,
  kComposite = 8,
  kTuple = 9,
  kList = 10,
  kSet = 11,
  kDict = 12,
};
inline constexpr size_t kKindCount = 13;

// Python's name of the kind ("None", "bool", …), for messages.
const char* kind_name(Kind kind) noexcept;
bool is_container(Kind kind) noexcept;

// The most levels of containers within containers. The Python wrapper has the same limit.
inline constexpr size_t kMaxDepth = 200;

// A pickle can use a value many times, and an object contains a copy for each use. This limits the
// copies: beside a fixed allowance, an object has at most this many nodes for each node of its
// pickle. The keys of a container have at most this many bytes for each byte of Contents::bytes, 32
// bytes for each node, and a fixed allowance.
inline constexpr uint64_t kMostCopies = 4;

// One value. The nodes of an object stand in the order in which a reader meets them: the values in
// a container stand right behind it, each followed by everything inside it.
struct Node {
  struct Complex {
    double real;
    double imaginary;
  };
  // A range of Contents::bytes.
  struct Text {
    uint64_t begin;
    uint64_t nbytes;
  };
  union Content {
    int64_t integer = 0;  // kBool, kInt
    double real;          // kFloat
    Complex complex;
    Text text;       // kStr, kBytes
    uint64_t index;  // kTensor: of Contents::tensors. kComposite: of Contents::composites.
  };

  Kind kind = Kind::kNone;
  // The number of items of a tuple, list or set, or of entries of a dict. An entry is two values:
  // the key and the value.
  uint32_t count = 0;
  // The index of the first node behind this value and everything inside it.
  uint32_t next = 0;
  Content content;

  // The number of values directly inside this one.
  uint64_t child_count() const noexcept {
    return kind == Kind::kDict ? uint64_t{2} * count : count;
  }
};
static_assert(sizeof(Node) == 32);

struct Contents {
  std::vector<Node> nodes;
  std::vector<std::byte> bytes;
  std::vector<Ref<tensor::Tensor>> tensors;
  std::vector<Ref<tensor::Composite>> composites;
};

class Object : public Counted {
 public:
  // INVALID_ARGUMENT, with the detail `index` (of the node): the nodes are not one value, a value
  // is nested deeper than kMaxDepth, a text is not UTF-8, or a key cannot be a key or stands in its
  // dict or set twice. RESOURCE_EXHAUSTED: keys beyond kMostCopies. Node::next is filled in here.
  // The other indices and ranges must be right.
  static Result<Ref<Object>> create(Contents contents);

  std::span<const Node> nodes() const noexcept { return contents_.nodes; }
  std::string_view text(const Node& node) const noexcept {
    return {reinterpret_cast<const char*>(contents_.bytes.data()) + node.content.text.begin,
            node.content.text.nbytes};
  }
  tensor::Tensor* tensor(const Node& node) const noexcept {
    return contents_.tensors[node.content.index].get();
  }
  tensor::Composite* composite(const Node& node) const noexcept {
    return contents_.composites[node.content.index].get();
  }

  // The index of the value whose key is the str `key`, in the dict at index `dict`.
  std::optional<size_t> find(size_t dict, std::string_view key) const noexcept;

 private:
  explicit Object(Contents contents) : contents_(std::move(contents)) {}
  ~Object() override = default;
  void dispose() noexcept override {
    contents_.tensors.clear();
    contents_.composites.clear();
  }

  Contents contents_;
};

}  // namespace tenon::object
