// tenon/object.h: plain data with tensors in it (impl/object/object.h), and objects in messages.
#include <tenon/object.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "boundary.h"
#include "by_fd.h"
#include "handles.h"
#include "object/object_message.h"
#include "text.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Ref;
using tenon::Result;
using tenon::Status;
using tenon::object::Contents;
using tenon::object::Kind;
using tenon::object::Node;
using tenon::object::Object;
using tenon::tensor::Composite;
using tenon::tensor::Message;
using tenon::tensor::Tensor;

static_assert(static_cast<int>(Kind::kBytes) == TENON_OBJECT_BYTES &&
              static_cast<int>(Kind::kComposite) == TENON_OBJECT_COMPOSITE &&
              static_cast<int>(Kind::kTuple) == TENON_OBJECT_TUPLE &&
              static_cast<int>(Kind::kDict) == TENON_OBJECT_DICT &&
              TENON_OBJECT_DICT + 1 == tenon::object::kKindCount &&
              tenon::object::kMaxDepth == TENON_OBJECT_MAX_DEPTH);

namespace {

Status wrong_node(size_t index, const char* what) {
  return tenon::invalid(tenon::format("node %zu of the object: %s", index, what))
      .with("index", uint64_t{index});
}

Status add_node(const tenon_object_node& from, size_t index, Contents* to) {
  if (from.kind < 0 || from.kind > TENON_OBJECT_DICT)
    return wrong_node(index, "there is no such kind");
  Node node;
  node.kind = static_cast<Kind>(from.kind);
  switch (node.kind) {
    case Kind::kNone: break;
    case Kind::kBool: node.content.integer = from.integer != 0 ? 1 : 0; break;
    case Kind::kInt: node.content.integer = from.integer; break;
    case Kind::kFloat: node.content.real = from.real; break;
    case Kind::kComplex: node.content.complex = {from.real, from.imaginary}; break;
    case Kind::kStr:
    case Kind::kBytes: {
      if (from.data == nullptr && from.nbytes > 0) return wrong_node(index, "data is NULL");
      node.content.text = {to->bytes.size(), from.nbytes};
      const auto* bytes = reinterpret_cast<const std::byte*>(from.data);
      if (from.nbytes > 0) to->bytes.insert(to->bytes.end(), bytes, bytes + from.nbytes);
      break;
    }
    case Kind::kTensor:
      if (from.tensor == nullptr) return wrong_node(index, "tensor is NULL");
      node.content.index = to->tensors.size();
      to->tensors.push_back(Ref<Tensor>::share(object(from.tensor)));
      break;
    case Kind::kComposite:
      if (from.composite == nullptr) return wrong_node(index, "composite is NULL");
      node.content.index = to->composites.size();
      to->composites.push_back(Ref<Composite>::share(object(from.composite)));
      break;
    default: node.count = from.count; break;
  }
  to->nodes.push_back(node);
  return Status::ok();
}

tenon_object_node public_node(const Object& object, const Node& from) noexcept {
  tenon_object_node to{};
  to.kind = static_cast<int32_t>(from.kind);
  to.count = from.count;
  to.next = from.next;
  switch (from.kind) {
    case Kind::kBool:
    case Kind::kInt: to.integer = from.content.integer; break;
    case Kind::kFloat: to.real = from.content.real; break;
    case Kind::kComplex:
      to.real = from.content.complex.real;
      to.imaginary = from.content.complex.imaginary;
      break;
    case Kind::kStr:
    case Kind::kBytes:
      to.data = object.text(from).data();
      to.nbytes = object.text(from).size();
      break;
    case Kind::kTensor: to.tensor = handle<tenon_tensor>(object.tensor(from)); break;
    case Kind::kComposite: to.composite = handle<tenon_composite>(object.composite(from)); break;
    default: break;
  }
  return to;
}

}  // namespace

extern "C" {

tenon_status tenon_object_new(const tenon_object_node* nodes, size_t n, tenon_object** out,
                              tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(nodes != nullptr, "nodes is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(check_argument(n > 0, "n is 0, and an object has at least one node"));
    // A caller of a newer header has a larger struct.
    const size_t size = nodes->struct_size;
    TENON_TRY(check_argument(n <= SIZE_MAX / 65536, "n is larger than memory"));
    Contents contents;
    contents.nodes.reserve(n);
    const auto* at = reinterpret_cast<const std::byte*>(nodes);
    for (size_t i = 0; i < n; ++i, at += size) {
      size_t given = 0;
      std::memcpy(&given, at, sizeof given);
      if (given != size) return wrong_node(i, "its struct_size differs from that of node 0");
      tenon_object_node node{};
      TENON_TRY(
          read_struct(reinterpret_cast<const tenon_object_node*>(at), "tenon_object_node", &node));
      TENON_TRY(add_node(node, i, &contents));
    }
    TENON_ASSIGN(Ref<Object> made, Object::create(std::move(contents)));
    *out = handle<tenon_object>(made.detach());
    return Status::ok();
  });
}

tenon_object* tenon_object_retain(tenon_object* own) noexcept {
  if (own != nullptr) object(own)->retain();
  return own;
}

void tenon_object_release(tenon_object* own) noexcept {
  if (own != nullptr) object(own)->release();
}

size_t tenon_object_count(const tenon_object* own) noexcept {
  return own == nullptr ? 0 : object(own)->nodes().size();
}

tenon_status tenon_object_get_nodes(const tenon_object* own, size_t begin, tenon_object_node* out,
                                    size_t n, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(own != nullptr, "object is NULL"));
    const size_t count = object(own)->nodes().size();
    TENON_TRY(check_argument(begin <= count && n <= count - begin, "the object has fewer nodes"));
    if (n == 0) return Status::ok();
    TENON_TRY(check_output(out, "tenon_object_node"));
    // A caller of a newer header has a larger struct.
    const size_t size = out->struct_size;
    auto* at = reinterpret_cast<std::byte*>(out);
    for (const Node& from : object(own)->nodes().subspan(begin, n)) {
      tenon_object_node node = public_node(*object(own), from);
      node.struct_size = size;
      std::memcpy(at, &node, sizeof node);
      at += size;
    }
    return Status::ok();
  });
}

tenon_status tenon_object_find(const tenon_object* own, size_t dict, const char* key, size_t* out,
                               tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(own != nullptr, "object is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(key, "key"));
    TENON_TRY(check_argument(dict < object(own)->nodes().size(), "the object has no such node"));
    const Kind kind = object(own)->nodes()[dict].kind;
    if (kind != Kind::kDict) {
      return wrong_node(dict, tenon::format("it is a %s, and only a dict has keys",
                                            tenon::object::kind_name(kind))
                                  .c_str());
    }
    const std::optional<size_t> found = object(own)->find(dict, text);
    if (!found) return Status(Code::kNotFound, tenon::format("the dict has no key '%s'", key));
    *out = *found;
    return Status::ok();
  });
}

tenon_status tenon_message_new_from_object(const tenon_object* own,
                                           const tenon_share_options* options, tenon_message** out,
                                           tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(own != nullptr, "object is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon::memory::Access access, read_share_options(options));
    TENON_ASSIGN(std::unique_ptr<Message> message, tenon::object::message_of(*object(own), access));
    *out = handle<tenon_message>(message.release());
    return Status::ok();
  });
}

tenon_status tenon_object_new_from_message(const tenon_message* message, tenon_object** out,
                                           tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(Ref<Object> made, tenon::object::object_of(*object(message)));
    *out = handle<tenon_object>(made.detach());
    return Status::ok();
  });
}
}
