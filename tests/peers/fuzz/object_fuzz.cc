// libFuzzer target: it reads any bytes as the pickle of an object. This must end in a typed error,
// or in an object that stays the same when it is written and read again.
#include <cstdint>
#include <string>

#include "object/object_from_pickle.h"
#include "peers/fuzz/require.h"
#include "unit/object/object_kit.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::object;

// The storages that come with every pickle.
const test::Tensors& given_storages() {
  static const auto* const kStorages = [] {
    std::vector<Ref<storage::Storage>> storages;
    for (const uint64_t nbytes : {64, 0, 4096})
      storages.push_back(storage::Storage::create({.zeroed = true}, nbytes).value());
    return new test::Tensors(test::whole(storages));
  }();
  return *kStorages;
}

// A tensor ends where its storage does, so a reader of its elements stays inside.
void check_tensor(const tensor::Tensor& tensor) {
  require(tensor::check_layout(tensor.layout(), tensor.storage()->nbytes()).is_ok(),
          "a tensor leaves its storage");
}

void check_object(const Object& object) {
  require(!object.nodes().empty() && object.nodes()[0].next == object.nodes().size(),
          "the first node is not the whole object");
  for (const Node& node : object.nodes()) {
    if (node.kind == Kind::kTensor) check_tensor(*object.tensor(node));
    if (node.kind != Kind::kComposite) continue;
    for (const Ref<tensor::Tensor>& part : object.composite(node)->parts()) check_tensor(*part);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  Result<Ref<Object>> first = object_from_pickle({begin, begin + size}, given_storages());
  if (!first.is_ok()) {
    fuzz::require_refusal(
        first.status(), {Code::kCorrupt, Code::kUnsupported, Code::kResourceExhausted}, {"offset"});
    return 0;
  }
  check_object(*first.value());
  const SplitPickle written = object_to_pickle(*first.value());
  Result<Ref<Object>> second = object_from_pickle(written.bytes, test::whole(written.storages));
  require(second.is_ok(), "what was written is refused", second.status().message());
  const auto difference = test::difference(*first.value(), *second.value());
  require(!difference, "a round changes the object", difference.value_or(""));
  require(object_to_pickle(*second.value()).bytes == written.bytes,
          "a second round gives other bytes");
  return 0;
}
