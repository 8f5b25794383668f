// A deferred import reads the code and the bytecode of a flatbuffer when the module is first used.
// These tests use files of Tenon's own, some of them with one part made bad.
#include "modules/module/deferred.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "module_kit.h"
#include "modules/bytecode/program.h"
#include "modules/flatbuffer/module_writer.h"
#include "modules/module/import_flatbuffer.h"
#include "modules/module/kept_bytecode.h"
#include "modules/module/resolve.h"
#include "support/child_status.h"

namespace tenon::module {
namespace {

using bytecode::Function;
using bytecode::Opcode;

ExportOptions as_flatbuffer() {
  ExportOptions options;
  options.form = Form::kFlatbuffer;
  return options;
}

ImportOptions deferring() {
  ImportOptions options;
  options.defers = true;
  return options;
}

class Deferring : public testing::Test {
 protected:
  void SetUp() override {
    const Ref<Module> net = must(Module::create("Net"));
    ok(net->add_parameter("weight", floats({1, 2, 3})));
    ok(net->define(
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.add(x, self.weight)\n"));
    archive::MemorySink sink;
    const Status written = export_module(*net, &sink, as_flatbuffer(), nullptr);
    if (written.code() == Code::kUnsupported) GTEST_SKIP() << written.message();
    ok(written);
    bytes_ = sink.take();
  }

  // Replaces a text of the file by another of the same size.
  void replace(std::string_view from, std::string_view to) {
    ASSERT_EQ(from.size(), to.size());
    const auto place = std::search(bytes_.begin(), bytes_.end(), from.begin(), from.end(),
                                   [](std::byte a, char b) { return a == std::byte(b); });
    ASSERT_NE(place, bytes_.end()) << from;
    std::transform(to.begin(), to.end(), place, [](char c) { return std::byte(c); });
  }

  Ref<Module> open() const { return must(imported(bytes_, deferring())); }
  std::unique_ptr<const DeferredImport> opened() const {
    return must(open_flatbuffer(archive::MemorySource::create(bytes_), "archive", {}));
  }

  // The file opens, and the first use fails as an import at once does.
  void expect_refused_at_first_use(const std::vector<std::string>& words) const {
    const Ref<Module> module = open();
    const Result<Module*> used = module->complete();
    refused(used, words, Code::kCorrupt);
    const Result<Ref<Module>> at_once = imported(bytes_);
    refused(at_once, {used.status().message()}, Code::kCorrupt);
    refused(module->complete(), {used.status().message()}, Code::kCorrupt);
    ImportOptions all = deferring();
    all.check = archive::Check::kAll;
    refused(imported(bytes_, all), {used.status().message()}, Code::kCorrupt);
  }

  std::vector<std::byte> bytes_;
};

TEST_F(Deferring, the_module_is_that_of_an_import_at_once) {
  const Ref<Module> module = open();
  Module* const used = must(module->complete());
  EXPECT_EQ(used, must(module->complete()));
  EXPECT_EQ(used, must(used->complete()));
  EXPECT_EQ(used->class_name(), "__torch__.Net");
  EXPECT_EQ(elements_of(*must(used->find("weight")).value), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(exported(*used, as_flatbuffer()), exported(*must(imported(bytes_)), as_flatbuffer()));
  EXPECT_EQ(used->package().report.mapped_tensors, 1U);
}

TEST_F(Deferring, code_that_cannot_be_parsed_is_refused_at_first_use) {
  replace("def forward", "dxf forward");
  expect_refused_at_first_use({"__torch__.py"});
}

TEST_F(Deferring, a_class_without_code_is_refused_at_first_use) {
  replace("class Net(", "class Not(");
  expect_refused_at_first_use({"__torch__.Net"});
}

TEST_F(Deferring, a_value_of_another_type_is_refused_at_first_use) {
  replace("training : bool", "training : None");
  expect_refused_at_first_use({"state_obj", "training"});
}

TEST_F(Deferring, a_broken_structure_is_refused_at_once) {
  bytes_[2] = std::byte{1};  // the root is behind the end
  refused(imported(bytes_, deferring()), {"the flatbuffer is broken"}, Code::kCorrupt);
}

// Two threads that use the module first at the same time each call finish().
TEST_F(Deferring, each_run_makes_a_module_of_its_own) {
  const std::unique_ptr<const DeferredImport> file = opened();
  const Ref<Module> first = must(file->finish());
  const Ref<Module> second = must(file->finish());
  EXPECT_NE(first->object().get(), second->object().get());
  EXPECT_EQ(exported(*first, as_flatbuffer()), exported(*second, as_flatbuffer()));
  const ValueRef weights[] = {must(first->find("weight")).value,
                              must(second->find("weight")).value};
  EXPECT_EQ(weights[0]->as_tensor()->storage()->data(), weights[1]->as_tensor()->storage()->data());
  ok(first->set("weight", floats({4, 5, 6})));
  EXPECT_EQ(elements_of(*must(second->find("weight")).value), (std::vector<float>{1, 2, 3}));
}

TEST_F(Deferring, each_run_refuses_bad_code) {
  replace("training : bool", "training : None");
  const std::unique_ptr<const DeferredImport> file = opened();
  const Status first = file->finish().status();
  refused(first, {"training"}, Code::kCorrupt);
  refused(file->finish(), {first.message()}, Code::kCorrupt);
}

TEST_F(Deferring, a_child_of_fork_can_make_the_first_use) {
  const Ref<Module> module = open();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::vector<float> found =
        elements_of(*must(must(module->complete())->find("weight")).value);
    ::_exit(found == std::vector<float>{1, 2, 3} ? 0 : 1);
  }
  EXPECT_EQ(test::wait_for_child(child), 0);
  EXPECT_EQ(must(module->complete())->class_name(), "__torch__.Net");
}

void count_release(void* context) { ++*static_cast<int*>(context); }

TEST_F(Deferring, the_file_stays_until_it_is_read) {
  int releases = 0;
  Ref<Module> module = must(import_module(bytes_, count_release, &releases, deferring()));
  EXPECT_EQ(releases, 0);
  Module* const used = must(module->complete());
  EXPECT_EQ(releases, 0);  // the weight is a view
  ok(used->set("weight", floats({4, 5, 6})));
  EXPECT_EQ(releases, 1);
  module = nullptr;
  EXPECT_EQ(releases, 1);

  module = must(import_module(bytes_, count_release, &releases, deferring()));
  module = nullptr;
  EXPECT_EQ(releases, 2);

  replace("def forward", "dxf forward");
  module = must(import_module(bytes_, count_release, &releases, deferring()));
  EXPECT_FALSE(module->complete().is_ok());
  EXPECT_EQ(releases, 3);
  module = nullptr;
  EXPECT_EQ(releases, 3);
}

// An import whose first tries fail for want of memory.
class Starved final : public DeferredImport {
 public:
  explicit Starved(int* tries) noexcept : tries_(tries) {}
  Result<Ref<Module>> finish() const override {
    if (++*tries_ < 3) return Status(Code::kResourceExhausted, "there is no memory");
    return Module::create("Net");
  }

 private:
  int* tries_;
};

TEST(Deferred, want_of_memory_is_not_kept) {
  int tries = 0;
  const Ref<Module> module = Module::defer(std::make_unique<Starved>(&tries));
  refused(module->complete(), {"no memory"}, Code::kResourceExhausted);
  refused(module->complete(), {"no memory"}, Code::kResourceExhausted);
  EXPECT_EQ(must(module->complete())->class_name(), "__torch__.Net");
  EXPECT_EQ(must(module->complete())->class_name(), "__torch__.Net");
  EXPECT_EQ(tries, 3);
}

class DeferredBytecode : public Deferring {
 protected:
  // Writes the file again with one function, which has these instructions.
  void write_function(std::vector<bytecode::Instruction> instructions) {
    const Ref<Module> net = must(imported(bytes_));
    bytecode::Program program = must(net->package().bytecode()->program());
    program.functions[0].instructions = std::move(instructions);
    flatbuffer::ModuleContents contents;
    contents.program = &program;
    contents.root = net->object();
    const Resolved resolved = must(resolve(*net, 0));
    for (const ResolvedFile& file : resolved.files)
      contents.sources.push_back({file.qualifier, file.text});
    contents.version = resolved.version;
    const auto read = [](const value::StorageValue& storage, std::span<std::byte> into) {
      std::copy_n(storage.data(), into.size(), into.begin());
      return Status::ok();
    };
    archive::MemorySink sink;
    uint64_t nbytes = 0;
    ok(flatbuffer::write_module(contents, read, &sink, &nbytes));
    bytes_ = sink.take();
  }
};

TEST_F(DeferredBytecode, good_bytecode_is_kept) {
  const Ref<Module> module = open();
  const Package& package = must(module->complete())->package();
  ASSERT_NE(package.bytecode(), nullptr);
  EXPECT_EQ(package.bytecode()->facts().functions,
            std::vector<std::string>{"__torch__.Net.forward"});
  EXPECT_TRUE(package.import_warnings().empty());
}

TEST_F(DeferredBytecode, bad_bytecode_leaves_the_module_good) {
  write_function({{Opcode::kLoad, 1'000'000, 0}, {Opcode::kRet, 0, 0}});
  const Ref<Module> module = open();
  Module* const used = must(module->complete());
  EXPECT_EQ(elements_of(*must(used->find("weight")).value), (std::vector<float>{1, 2, 3}));
  const Package& package = used->package();
  EXPECT_EQ(package.bytecode(), nullptr);
  refused(package.why_no_bytecode(), {"__torch__.Net.forward"}, Code::kCorrupt);
  const std::vector<std::string> warnings = package.import_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0], "bytecode is not kept: " + package.why_no_bytecode().message());
  EXPECT_EQ(must(imported(bytes_))->package().why_no_bytecode().message(),
            package.why_no_bytecode().message());
  ExportReport report;
  exported(*used, {}, &report);
  EXPECT_FALSE(report.has_bytecode);
  EXPECT_EQ(report.why_no_bytecode, package.why_no_bytecode().message());
}

// Bytecode is verified for the objects that the file has, whatever became of them before somebody
// asked for the bytecode.
TEST_F(DeferredBytecode, a_change_does_not_make_bad_bytecode_good) {
  write_function({{Opcode::kStoreN, 1, 2},
                  {Opcode::kMove, 1, 0},
                  {Opcode::kGetAttr, 2, 0},  // the module has two attributes
                  {Opcode::kRet, 0, 0}});
  const Ref<Module> module = open();
  Module* const used = must(module->complete());
  ok(used->add_attribute("third", type("int"), Value::of_int(3)));
  refused(used->package().why_no_bytecode(), {"attribute 2"}, Code::kCorrupt);
}

}  // namespace
}  // namespace tenon::module
