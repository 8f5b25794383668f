// What an export refuses of objects.
#include <gtest/gtest.h>

#include "unit/module/module_kit.h"

namespace tenon::module {
namespace {

TEST(Export, RefusesAttributesOfAClassThatReadsAState) {
  const Ref<Module> module = must(Module::create("St"));
  ok(module->add_attribute("k", Type::integer(), Value::of_int(3)));
  ok(module->define("def __getstate__(self) -> int:\n  return self.k\n"));
  // Without the other one PyTorch writes the attributes.
  ok(module->check());
  ok(module->define("def __setstate__(self, s: int) -> NoneType:\n  self.k = s\n"));
  refused(module->check(), Code::kUnsupported, {"__torch__.St", "__setstate__", "Remove __getstate__ and __setstate__"});
  archive::MemorySink sink;
  refused(export_module(*module, &sink, unchecked(), nullptr), Code::kUnsupported, {"__setstate__"});
  ok(module->remove_method("__setstate__"));
  ok(module->remove_method("__getstate__"));
  const auto bytes = exported(*module);
  ok(imported(bytes).status());
}

}  // namespace
}  // namespace tenon::module
