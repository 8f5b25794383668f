// These tests export modules. They check options, hooks and failures, and that the export does not
// change the module.
#include <sys/mman.h>
#include <unistd.h>

#include "module_kit.h"
#include "os/fd.h"

namespace tenon::module {
namespace {

Ref<Module> net() {
  const Ref<Module> module = must(Module::create("Net"));
  ok(module->add_parameter("w", floats({1, 2})));
  ok(module->define("def forward(self, x: Tensor) -> Tensor:\n  return x + self.w\n"));
  return module;
}

TEST(Export, RecordsStandInTheirOrder) {
  const Ref<Module> module = net();
  ok(module->set_extra_file("own.txt", "own"));
  ExportReport report;
  ExportOptions options;
  options.extra_files = {{"b.txt", "b"}, {"a.txt", ""}};
  options.archive_name = "name";
  const std::vector<std::byte> bytes = exported(*module, options, &report);
  const auto reader =
      must(archive::ZipReader::open(archive::MemorySource::create(bytes), archive::Check::kAll));
  std::vector<std::string> names;
  for (const archive::ZipRecord& record : reader->records()) {
    names.emplace_back(record.name);
    if (record.name == "data/0") EXPECT_EQ(record.data_offset % 64, 0U);
  }
  EXPECT_EQ(reader->prefix(), "name");
  EXPECT_EQ(names, std::vector<std::string>({"extra/b.txt", "extra/a.txt", "extra/own.txt",
                                             "data/0", "data.pkl", "code/__torch__.py",
                                             "constants.pkl", ".data/version", "byteorder"}));
  EXPECT_EQ(report.version, 10);
  EXPECT_EQ(report.nbytes, bytes.size());
  EXPECT_EQ(report.records, names.size());
  EXPECT_FALSE(report.oldest_pytorch.empty());
}

TEST(Export, TheUsersFilesWinOverTheHooks) {
  const Ref<Module> module = net();
  ok(module->set_extra_file("m", "module"));
  ok(module->set_extra_file("u", "module"));
  int calls = 0;
  ExportOptions options;
  options.extra_files = {{"u", "user"}};
  options.hook = [&](const Module& given, std::vector<ExtraFile>* files) {
    EXPECT_EQ(&given, module.get());
    ++calls;
    *files = {{"u", "hook"}, {"m", "hook"}, {"h", "hook"}};
    return Status::ok();
  };
  ExportReport report;
  const auto records = records_of(exported(*module, options, &report));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(records.at("extra/u"), "user");
  EXPECT_EQ(records.at("extra/m"), "module");
  EXPECT_EQ(records.at("extra/h"), "hook");
  EXPECT_EQ(report.skipped_files, std::vector<std::string>({"u", "m"}));
  options.extra_files = {{"u", "1"}, {"u", "2"}};
  archive::MemorySink sink;
  refused(export_module(*module, &sink, options, nullptr), {"given twice"});
  options.extra_files = {{"../u", "1"}};
  refused(export_module(*module, &sink, options, nullptr), {".."});
}

TEST(Export, NothingChangesMeanwhile) {
  const Ref<Module> module = net();
  const Ref<Module> child = must(Module::create("Child"));
  ok(module->add_submodule("child", child));
  ExportOptions options;
  options.hook = [&](const Module&, std::vector<ExtraFile>*) {
    const std::vector<std::string> words{"being exported"};
    refused(module->set("w", floats({5})), words, Code::kPermission);
    refused(module->add_parameter("v", floats({5})), words, Code::kPermission);
    refused(module->define("def g(self):\n  return 1\n"), words, Code::kPermission);
    refused(module->define_types("__torch__", "class A:\n  n : int\n"), words, Code::kPermission);
    refused(module->remove("w"), words, Code::kPermission);
    refused(module->load(std::vector<NamedTensor>{{"w", floats({1})}}, {}, nullptr), words,
            Code::kPermission);
    refused(module->set_submodule("child", must(Module::create("Other"))), words,
            Code::kPermission);
    refused(module->set_extra_file("x", ""), words, Code::kPermission);
    refused(child->add_parameter("v", floats({5})), words, Code::kPermission);
    refused(must(Module::create("Owner"))->add_submodule("child", child), words, Code::kPermission);
    return Status::ok();
  };
  const std::vector<std::byte> bytes = exported(*module, options);
  EXPECT_EQ(bytes, exported(*module));
  ok(child->add_parameter("v", floats({5})));
}

TEST(Export, ItMayChangeAgainAfterAFailure) {
  const Ref<Module> module = net();
  ExportOptions options;
  options.hook = [](const Module&, std::vector<ExtraFile>*) {
    return Status(Code::kCancelled, "the hook does not want to");
  };
  archive::MemorySink sink;
  refused(export_module(*module, &sink, options, nullptr), {"does not want"}, Code::kCancelled);
  EXPECT_TRUE(sink.bytes().empty());
  ok(module->set("w", floats({5})));
}

TEST(Export, AFailingWriterIsAnError) {
  struct Half : archive::Sink {
    Status write(std::span<const std::byte> bytes) override {
      if (bytes.size() > left) return Status(Code::kIo, "the disk is full");
      left -= bytes.size();
      return Status::ok();
    }
    size_t left = 0;
  };
  const Ref<Module> module = net();
  const size_t nbytes = exported(*module).size();
  for (size_t left = 0; left < nbytes; left += 97) {
    Half sink;
    sink.left = left;
    refused(export_module(*module, &sink, {}, nullptr), {"the disk is full"}, Code::kIo);
  }
  ok(module->set("w", floats({5})));
}

// Reading such a tensor directly would raise SIGBUS.
TEST(Export, AFileThatIsCutShortIsAnError) {
  const Ref<Module> made = must(Module::create("Net"));
  ok(made->add_parameter("w", floats(std::vector<float>(1 << 14))));
  ok(made->define("def forward(self, x: Tensor) -> Tensor:\n  return x + self.w\n"));
  const std::vector<std::byte> bytes = exported(*made);
  const os::Fd file(::memfd_create("cut", MFD_CLOEXEC));
  ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  const Ref<Module> module = must(import_module(file.get(), ImportOptions()));
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  for (const Form form : {Form::kArchive, Form::kFlatbuffer}) {
    ExportOptions options;
    options.form = form;
    archive::MemorySink sink;
    const Status status = export_module(*module, &sink, options, nullptr);
    // A build without FlatBuffers refuses the form before it reads the file.
    if (status.code() != Code::kUnsupported) refused(status, {"was cut short"}, Code::kCorrupt);
  }
}

TEST(Export, SharedStoragesAreWrittenOnce) {
  const Ref<Module> module = must(Module::create("Net"));
  const ValueRef whole = floats({1, 2, 3, 4});
  value::StridedSpec spec;
  spec.storage = whole->as_tensor()->storage();
  spec.sizes = {2};
  spec.strides = {2};
  spec.offset = 1;
  ok(module->add_parameter("whole", whole));
  ok(module->add_buffer("part", Value::of_tensor(must(value::TensorValue::create(spec)))));
  const std::vector<std::byte> bytes = exported(*module, unchecked());
  EXPECT_EQ(records_of(bytes).count("data/1"), 0U);
  const Ref<Module> again = must(imported(bytes));
  EXPECT_EQ(must(again->find("whole")).value->as_tensor()->storage()->key(),
            must(again->find("part")).value->as_tensor()->storage()->key());
  EXPECT_EQ(exported(*again, unchecked()), bytes);
}

// PyTorch 1.x reads such a tensor, but drops its negative bit.
TEST(Export, ANegatedTensorNeedsANewerPyTorch) {
  const Ref<Module> module = net();
  ExportReport report;
  exported(*module, {}, &report);
  EXPECT_EQ(report.oldest_pytorch.substr(0, 2), "1.");
  value::StridedSpec spec;
  spec.storage = floats({1, 2})->as_tensor()->storage();
  spec.sizes = {2};
  spec.strides = {1};
  spec.is_neg = true;
  ok(module->add_buffer("negated", Value::of_tensor(must(value::TensorValue::create(spec)))));
  exported(*module, {}, &report);
  EXPECT_EQ(report.oldest_pytorch, "2.0");
}

TEST(Export, ASubmoduleOfAnArchiveIsAModule) {
  const Ref<Module> module = net();
  const Ref<Module> child = must(Module::create("Child"));
  ok(child->add_parameter("v", floats({3})));
  ok(child->define("def forward(self, x: Tensor) -> Tensor:\n  return __torch__.helper(x)\n"));
  ok(child->define_types("__torch__", "def helper(x: Tensor) -> Tensor:\n  return x\n"));
  ok(module->add_submodule("child", child));
  const std::vector<std::byte> bytes = exported(*module);
  const Ref<Module> again = must(imported(bytes));
  const auto records = records_of(exported(*must(again->find("child")).module));
  EXPECT_EQ(records.at("code/__torch__.py").find("class Net"), std::string::npos);
  EXPECT_NE(records.at("code/__torch__.py").find("def helper"), std::string::npos);
}

TEST(Export, TwoClassesOfOneNameAreTwo) {
  const auto part = [](const char* body) {
    const Ref<Module> made = must(Module::create("Part"));
    ok(made->define(
        "def forward(self: __torch__.Part, x: Tensor) -> Tensor:\n  return __torch__.f(x)\n"));
    ok(made->define_types("__torch__",
                          std::string("def f(x: Tensor) -> Tensor:\n  return ") + body + "\n"));
    return made;
  };
  const Ref<Module> module = must(Module::create("Net"));
  ok(module->add_submodule("a", part("x")));
  ok(module->add_submodule("b", part("x + 1")));
  ok(module->add_submodule("c", part("x")));
  ok(
      module->define("def forward(self, x: Tensor) -> Tensor:\n  return "
                     "self.a.forward(self.b.forward(self.c.forward(x)))\n"));
  const auto records = records_of(exported(*module));
  const std::string& first = records.at("code/__torch__.py");
  const std::string& second = records.at("code/__torch__/___torch_mangle_0.py");
  // The classes are equal, except for the function that they call.
  EXPECT_NE(
      first.find(
          "  a : __torch__.Part\n  b : __torch__.___torch_mangle_0.Part\n  c : __torch__.Part\n"),
      std::string::npos)
      << first;
  EXPECT_NE(first.find("return __torch__.f(x"), std::string::npos) << first;
  EXPECT_NE(second.find("self: __torch__.___torch_mangle_0.Part"), std::string::npos) << second;
  size_t calls = 0;
  for (const auto& [name, text] : records)
    calls += text.find("return __torch__.___torch_mangle_0.f(x") != std::string::npos ? 1U : 0U;
  EXPECT_EQ(calls, 1U);
}

TEST(Export, ValuesFollowTheNamesOfTheirClasses) {
  const auto part = [](const char* field, const char* member) {
    const Ref<Module> made = must(Module::create("Part"));
    ok(made->define_types("__torch__", std::string("class P(NamedTuple):\n  ") + field +
                                           " : int\nclass E(Enum):\n  " + member +
                                           " = 1\nclass C:\n  " + field + " : int\n"));
    const ValueRef point = Value::tuple({Value::of_int(3)});
    ok(made->add_attribute("points", type("List[__torch__.P]"),
                           Value::list(nullptr, {point, point})));
    ok(made->add_attribute("color", type("__torch__.E"),
                           Value::enumeration("__torch__.E", Value::of_int(1))));
    const ValueRef object = Value::object("__torch__.C");
    ok(object->attributes().add(field, Value::of_int(7)));
    ok(made->add_attribute("objects", type("Dict[str, __torch__.C]"),
                           must(Value::dict(nullptr, {{Value::of_str("k"), object}}))));
    return made;
  };
  const Ref<Module> module = must(Module::create("Net"));
  ok(module->add_submodule("a", part("x", "RED")));
  ok(module->add_submodule("b", part("y", "BLUE")));
  const std::vector<std::byte> bytes = exported(*module);
  // An import checks every value against the class that its type names.
  const Ref<Module> again = must(imported(bytes));
  EXPECT_EQ(must(again->find("a.points")).value->declared_type()->print(), "List[__torch__.P]");
  EXPECT_EQ(must(again->find("b.points")).value->declared_type()->print(),
            "List[__torch__.___torch_mangle_0.P]");
  EXPECT_EQ(must(again->find("b.points")).value->items()[0]->class_name(),
            "__torch__.___torch_mangle_0.P");
  EXPECT_EQ(must(again->find("b.color")).value->class_name(), "__torch__.___torch_mangle_0.E");
  EXPECT_EQ((*must(again->find("b.objects")).value->find("k"))->class_name(),
            "__torch__.___torch_mangle_0.C");
  EXPECT_EQ(exported(*again), bytes);
}

TEST(Export, OtherCodesConstantsAreNumberedAnew) {
  const auto part = [](float c) {
    const Ref<Module> made = must(Module::create("Part"));
    ok(made->add_constant("c", Type::tensor(), floats({c})));
    ok(made->define("def forward(self, x: Tensor) -> Tensor:\n  return x + self.c\n"));
    return made;
  };
  const Ref<Module> module = must(Module::create("Net"));
  ok(module->add_constant("own", Type::tensor(), floats({1})));
  ok(module->add_submodule("a", part(1)));
  ok(module->add_submodule("b", part(2)));
  ok(module->add_submodule("c", part(2)));
  ok(
      module->define("def forward(self, x: Tensor) -> Tensor:\n  return "
                     "self.a.forward(self.b.forward(self.c.forward(x) + self.own))\n"));
  const std::vector<std::byte> bytes = exported(*module);
  const Ref<Module> again = must(imported(bytes));
  EXPECT_EQ(elements_of(*must(again->find("own")).value), std::vector<float>({1}));
  EXPECT_EQ(elements_of(*must(again->find("a.c")).value), std::vector<float>({1}));
  EXPECT_EQ(elements_of(*must(again->find("b.c")).value), std::vector<float>({2}));
  EXPECT_EQ(must(again->find("b")).module->class_name(),
            must(again->find("c")).module->class_name());
  EXPECT_NE(must(again->find("b")).module->class_name(),
            must(again->find("a")).module->class_name());
  EXPECT_EQ(records_of(bytes).count("constants/2"), 0U);
}

}  // namespace
}  // namespace tenon::module
