// Object: plain data that can travel with tensors in it, such as a dict of numbers, text, lists and
// tensors. A tenon_object is one of these. No Python is needed to make or to read one. An object
// never changes.
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

// TENON_OBJECT_*.
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

// "None", "bool", …: Python's names, for messages.
const char* kind_name(Kind kind) noexcept;
bool is_container(Kind kind) noexcept;

// Containers within containers. The number is also that of the Python wrapper.
inline constexpr size_t kMaxDepth = 200;

// How many nodes an object has for each node of its pickle, at most, and how many bytes the keys of
// a container have for each byte of its text. A pickle can use a value many times, and an object
// has it as often.
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
  // Items of a tuple, list or set. Entries of a dict, each of which is two values: key and value.
  uint32_t count = 0;
  // The index of the first node behind this value and everything inside it.
  uint32_t next = 0;
  Content content;

  // The values right inside it.
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

  // The index of the value whose key is this str, in the dict at an index.
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
