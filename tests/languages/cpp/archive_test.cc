// Tests of modules that are exported to archives and imported again, and of callables that fail or
// throw half-way.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>

#include "kit.h"

namespace {

using Archives = kit::Leaves;
using tenon::File;
using tenon::Module;
using Bytes = std::span<const std::byte>;

static_assert(tenon::IsWriter<void (*)(Bytes)> && tenon::IsWriter<long (*)(Bytes)> &&
              tenon::IsWriter<tenon::Result<void> (*)(Bytes)>);
// A bool would be taken for a number of bytes, and an unsigned number cannot hold a negative errno.
static_assert(!tenon::IsWriter<bool (*)(Bytes)> && !tenon::IsWriter<std::size_t (*)(Bytes)> &&
              !tenon::IsWriter<void (*)()>);

Module net() {
  Module module = Module::make("Net");
  tenon::Tensor weight = tenon::zeros<float>({10, 100});
  const std::span<float> elements = weight.view_mut<float>();
  std::iota(elements.begin(), elements.end(), 0.0F);
  module.add_parameter("weight", weight);
  module.add_attribute("name", std::nullopt, "net");
  module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n");
  module.set_extra_file("own", "of the module");
  return module;
}

std::string bytes_of(const Module& module, const tenon::ExportOptions& options = {}) {
  std::string all;
  const tenon::ExportReport report = tenon::export_module_to(
      module,
      [&](Bytes bytes) { all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); },
      options);
  EXPECT_EQ(report.nbytes, all.size());
  return all;
}

// Imports the module from these bytes. The module keeps the bytes alive.
Module read_module(std::string bytes, const tenon::ImportOptions& options = {}) {
  const auto kept = std::make_shared<const std::string>(std::move(bytes));
  return tenon::import_module_memory(std::as_bytes(std::span(*kept)), kept, options);
}

float last(const Module& module) {
  const auto weight = module.value("weight").as<tenon::Tensor>();
  return weight.view<float>()[999];
}

// A file in the folder of the tests. The destructor removes it.
struct Path : std::string {
  explicit Path(const std::string& leaf) : std::string(kit::Folder::at(leaf)) {}
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  ~Path() { unlink(c_str()); }
};

TEST_F(Archives, ToAPathAndBack) {
  const Path path("net.v1.pt");
  const Module module = net();
  const tenon::ExportReport report =
      tenon::export_module(module, path, {.durability = tenon::Durability::kFileAndDirectory});
  EXPECT_EQ(report.nbytes, std::filesystem::file_size(std::string(path)));
  EXPECT_GT(report.records, 4U);
  EXPECT_GT(report.version, 0);
  EXPECT_EQ(report.skipped_files, 0U);
  EXPECT_STRNE(report.oldest_pytorch, "");

  const Module back = tenon::import_module(path);
  EXPECT_EQ(last(back), 999);
  EXPECT_EQ(back.class_name(), module.class_name());
  EXPECT_EQ(back.code_files(), module.code_files());
  EXPECT_EQ(back.extra_files(), module.extra_files());
  const tenon::ImportReport found = back.import_report();
  EXPECT_EQ(found.records, report.records);
  EXPECT_EQ(found.version, report.version);
  EXPECT_EQ(found.mapped_storages, 1U);
  EXPECT_EQ(found.mapped_nbytes, 4000U);
  EXPECT_TRUE(back.warnings().empty());
  kit::thrown_by<tenon::NotFound>(
      [&] { (void)tenon::export_module(module, kit::Folder::at("no/file.pt")); });
  kit::thrown_by<tenon::NotFound>([&] { (void)tenon::import_module(kit::Folder::at("no")); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::import_module(std::string("a\0", 2)); });
  (void)tenon::import_module(path, {.device_map = "cuda:0=cpu,mps=cpu"});
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::import_module(path, {.device_map = "cuda=mps"}); });
}

TEST_F(Archives, ByFd) {
  const Path path("net.pt");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  const tenon::ExportReport report = tenon::export_module_fd(net(), fd);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), static_cast<off_t>(report.nbytes));
  const Module back = tenon::import_module_fd(
      fd, {.tensors = tenon::ImportTensors::kMapPrivate, .check = tenon::ImportCheck::kAll});
  close(fd);
  tenon::Tensor weight = back.value("weight").as<tenon::Tensor>();
  weight.view_mut<float>()[999] = -1;
  EXPECT_EQ(last(back), -1);
  EXPECT_EQ(last(tenon::import_module(path)), 999);
  EXPECT_CODE(kInvalidArgument, tenon::try_import_module_fd(-1));
}

TEST_F(Archives, WhereTensorsAre) {
  const std::string bytes = bytes_of(net());
  {
    tenon::Tensor mapped = read_module(bytes).value("weight").as<tenon::Tensor>();
    kit::thrown_by<tenon::PermissionDenied>([&] { (void)mapped.view_mut<float>(); });
    EXPECT_EQ(mapped.view<float>()[999], 999.0F);
  }
  const Module filled =
      read_module(bytes, {.tensors = tenon::ImportTensors::kFill, .mode = tenon::Mode::kFrozen});
  EXPECT_EQ(filled.value("weight").as<tenon::Tensor>().storage().mode(), tenon::Mode::kFrozen);
  EXPECT_EQ(filled.import_report().filled_storages, 1U);
  const tenon::Arena arena =
      tenon::Arena::make({.mode = tenon::Mode::kShared, .capacity_nbytes = 1 << 20});
  const Module born = read_module(bytes, {.tensors = tenon::ImportTensors::kFill,
                                          .check = tenon::ImportCheck::kFill,
                                          .arena = &arena});
  EXPECT_EQ(arena.stats().blocks_live, 1U);
  EXPECT_EQ(last(born), 999);
}

TEST_F(Archives, WhoKeepsMemoryIsCalledLast) {
  const std::string bytes = bytes_of(net());
  int called = 0;
  const auto keeper = [&called] { ++called; };
  Module back = tenon::import_module_memory(std::as_bytes(std::span(bytes)), keeper);
  auto weight = back.value("weight").as<tenon::Tensor>();
  back.close();
  EXPECT_EQ(called, 0);
  EXPECT_EQ(weight.view<float>()[999], 999.0F);
  weight.close();
  EXPECT_EQ(called, 1);
  // A failed import destroys the callable and does not call it.
  const auto alive = std::make_shared<int>();
  const auto holds = [&called, alive] { ++called; };
  EXPECT_CODE(kCorrupt, tenon::try_import_module_memory(
                            std::as_bytes(std::span(bytes)).first(bytes.size() / 2), holds));
  EXPECT_CODE(kResourceExhausted, tenon::try_import_module_memory(std::as_bytes(std::span(bytes)),
                                                                  holds, {.max_records = 2}));
  EXPECT_EQ(called, 1);
  EXPECT_EQ(alive.use_count(), 2);
}

TEST_F(Archives, ErrorsOfTheWriter) {
  Module module = net();
  module.add_buffer("large", tenon::zeros<std::uint8_t>({3 << 20}));
  for (const int pieces : {0, 2}) {
    int taken = 0;
    const auto writer = [&](Bytes) -> tenon::Result<void> {
      if (taken == pieces)
        return tenon::Error(tenon::Code::kCancelled, "the writer's own words", {{"key", "value"}});
      ++taken;
      return {};
    };
    const tenon::Result<tenon::ExportReport> failed = tenon::try_export_module_to(module, writer);
    ASSERT_EQ(failed.code(), tenon::Code::kCancelled);
    EXPECT_STREQ(failed.error().what(), "the writer's own words");
    EXPECT_EQ(failed.error().detail("key"), "value");
    EXPECT_EQ(taken, pieces);
  }
  // The writer may return a negative errno, as in the C header.
  EXPECT_CODE(kResourceExhausted,
              tenon::try_export_module_to(module, [](Bytes) { return -ENOSPC; }));
  EXPECT_CODE(kIo, tenon::try_export_module_to(module, [](Bytes bytes) {
                return static_cast<std::int64_t>(bytes.size()) - 1;
              }));
  EXPECT_CODE(kOk, tenon::try_export_module_to(module, [](Bytes bytes) {
                return static_cast<std::int64_t>(bytes.size());
              }));
}

struct Odd {};

TEST_F(Archives, WhatTheWriterThrowsComesOut) {
  Module module = net();
  int called = 0;
  const auto throws = [&called](Bytes) {
    ++called;
    throw Odd();
  };
  EXPECT_THROW((void)tenon::export_module_to(module, throws), Odd);
  EXPECT_THROW((void)tenon::try_export_module_to(module, throws), Odd);
  EXPECT_EQ(called, 2);
  EXPECT_THROW((void)tenon::export_module_to(module, [](Bytes) { throw std::bad_alloc(); }),
               std::bad_alloc);
  EXPECT_EQ(kit::thrown_by<tenon::Timeout>([&] {
              (void)tenon::export_module_to(
                  module, [](Bytes) { tenon::raise(tenon::Error(tenon::Code::kTimeout, "late")); });
            }),
            "late");
  // The module has not changed, and can be changed again.
  module.set("name", "changed");
  EXPECT_EQ(read_module(bytes_of(module)).value("name").as<std::string>(), "changed");
}

TEST_F(Archives, ExtraFilesAndTheirHook) {
  const Module module = net();
  int asked = 0;
  const auto hook = [&](const Module& looked_at) {
    ++asked;
    EXPECT_EQ(looked_at, module);
    EXPECT_EQ(looked_at.find("weight").kind, tenon::MemberKind::kParameter);
    EXPECT_CODE(kPermission, Module(looked_at).try_set("name", "x"));
    return std::vector<File>{{"hooked", std::string("from\0it", 7)}, {"own", "left out"}};
  };
  std::string bytes;
  const tenon::ExportReport report = tenon::export_module_to(
      module,
      [&](Bytes piece) { bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size()); },
      {.extra_files = {{"given", "of this export"}, {"none", ""}},
       .hook = hook,
       .archive_name = "folder"});
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(report.skipped_files, 1U);
  EXPECT_NE(bytes.find("folder/data.pkl"), std::string::npos);
  std::vector<File> files = read_module(bytes).extra_files();
  std::ranges::sort(files, {}, &File::name);
  EXPECT_EQ(files, (std::vector<File>{{"given", "of this export"},
                                      {"hooked", std::string("from\0it", 7)},
                                      {"none", ""},
                                      {"own", "of the module"}}));
}

TEST_F(Archives, AHookThatFails) {
  const Module module = net();
  const Path path("old.pt");
  (void)tenon::export_module(module, path, {.extra_files = {{"which", "old"}}});
  const auto with = [](tenon::ExtraFilesHook hook) {
    return tenon::ExportOptions{.hook = std::move(hook)};
  };
  EXPECT_THROW((void)tenon::export_module(
                   module, path, with([](const Module&) -> std::vector<File> { throw Odd(); })),
               Odd);
  EXPECT_THROW((void)tenon::try_export_module_fd(
                   module, 1, with([](const Module&) -> std::vector<File> { throw Odd(); })),
               Odd);
  const tenon::Result<tenon::ExportReport> failed = tenon::try_export_module(
      module, path,
      with([](const Module&) { return tenon::Error(tenon::Code::kOk, "no files today"); }));
  ASSERT_FALSE(failed);
  EXPECT_STREQ(failed.error().what(), "no files today");
  const auto with_nul = [](const Module&) {
    return std::vector<File>{{std::string("a\0b", 3), ""}};
  };
  EXPECT_CODE(kInvalidArgument, tenon::try_export_module(module, path, with(with_nul)));
  EXPECT_CODE(kInvalidArgument, tenon::try_export_module(
                                    module, path, {.extra_files = {{std::string("a\0b", 3), ""}}}));
  // The old file is still there.
  EXPECT_EQ(tenon::import_module(path).extra_files().front().data, "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(kit::Folder::path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(Archives, CodeThatPytorchWouldRefuse) {
  Module module = net();
  module.define("def f(self, x: Tensor) -> Tensor:\n  return torch.no_such_operator(x)\n");
  const auto nowhere = [](Bytes) {};
  const tenon::Result<tenon::ExportReport> refused = tenon::try_export_module_to(module, nowhere);
  ASSERT_EQ(refused.code(), tenon::Code::kInvalidArgument);
  EXPECT_TRUE(refused.error().detail("excerpt") && refused.error().detail("line"));
  EXPECT_GT(tenon::export_module_to(module, nowhere, {.unchecked = true}).nbytes, 0U);
  EXPECT_CODE(kInvalidArgument, tenon::try_export_module_to(module, nowhere, {.file_version = 99}));
  EXPECT_CODE(kInvalidArgument,
              tenon::try_export_module_to(net(), nowhere, {.archive_name = std::string("a\0", 2)}));
}

TEST_F(Archives, SharingStays) {
  Module module = Module::make("Net");
  const auto shared = tenon::Value::list("List[int]", {1});
  module.add_attribute("a", "List[int]", shared);
  module.add_attribute("b", "List[int]", shared);
  const tenon::Tensor tensor = tenon::zeros<float>({4});
  module.add_buffer("x", tensor);
  module.add_buffer("y", tensor);
  const Module back = read_module(bytes_of(module));
  EXPECT_TRUE(back.value("a").is_same(back.value("b")));
  EXPECT_EQ(back.value("x").as<tenon::Tensor>().storage(),
            back.value("y").as<tenon::Tensor>().storage());
}

TEST_F(Archives, Bytecode) {
  Module module = net();
  module.define("def both(self, x: Tensor) -> Tensor:\n  return torch.add(self.forward(x), x)\n");
  const auto nowhere = [](Bytes) {};
  EXPECT_EQ(tenon::export_module_to(module, nowhere).bytecode_functions, 0U);
  EXPECT_EQ(tenon::export_module_to(module, nowhere, {.bytecode = tenon::Bytecode::kCompile})
                .bytecode_functions,
            2U);
  const std::string bytes =
      bytes_of(module, {.bytecode = tenon::Bytecode::kCompile, .methods = {"forward"}});
  const Module back = read_module(bytes);
  EXPECT_EQ(tenon::export_module_to(back, nowhere).bytecode_functions, 1U);
  EXPECT_EQ(tenon::export_module_to(back, nowhere, {.bytecode = tenon::Bytecode::kDrop})
                .bytecode_functions,
            0U);
  const tenon::ExportOptions both{.bytecode = tenon::Bytecode::kCompile,
                                  .methods = {"forward", "both"}};
  EXPECT_EQ(tenon::export_module_to(back, nowhere, both).bytecode_functions, 2U);

  using Operators = std::vector<std::string>;
  EXPECT_EQ(module.opnames(), (Operators{"aten::add.Tensor", "aten::mul.Tensor"}));
  EXPECT_EQ(module.opnames({"forward", "both"}), module.opnames());
  EXPECT_EQ(module.opnames({"forward"}), Operators{"aten::mul.Tensor"});

  EXPECT_CODE(kNotFound, module.try_opnames({"no"}));
  EXPECT_CODE(kInvalidArgument, module.try_opnames({""}));
  EXPECT_CODE(kInvalidArgument, module.try_opnames({std::string("a\0", 2)}));
  const auto code_for = [&](tenon::Bytecode bytecode, const Operators& methods) {
    return tenon::try_export_module_to(module, nowhere, {.bytecode = bytecode, .methods = methods})
        .code();
  };
  EXPECT_EQ(code_for(tenon::Bytecode::kCompile, {"no"}), tenon::Code::kNotFound);
  EXPECT_EQ(code_for(tenon::Bytecode::kKeep, {"forward"}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(code_for(tenon::Bytecode::kCompile, {""}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(code_for(tenon::Bytecode::kCompile, {std::string("a\0", 2)}),
            tenon::Code::kInvalidArgument);
}

TEST_F(Archives, AForkedFunctionRunsAtOnceIfAsked) {
  Module module = Module::make("Forks");
  module.define(
      "def forward(self, x: Tensor) -> Tensor:\n  return torch.wait(fork(torch.neg, x))\n");
  const auto nowhere = [](Bytes) {};
  tenon::ExportOptions options{.bytecode = tenon::Bytecode::kCompile};
  EXPECT_CODE(kUnsupported, tenon::try_export_module_to(module, nowhere, options));
  options.emit_flags = TENON_EMIT_FORKS_AT_ONCE;
  EXPECT_CODE(kOk, tenon::try_export_module_to(module, nowhere, options));
}

TEST_F(Archives, WhatTheBytecodeLooksLike) {
  Module module = Module::make("Dims");
  module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.add(x, torch.dim(x))\n");
  const std::string plain = bytes_of(module, {.bytecode = tenon::Bytecode::kCompile});
  const auto with = [&](std::uint32_t emit_flags) {
    return bytes_of(
        module,
        {.bytecode = tenon::Bytecode::kCompile, .bytecode_version = 8, .emit_flags = emit_flags});
  };
  EXPECT_EQ(with(TENON_EMIT_DEFAULTS_BEFORE_OUT | TENON_EMIT_NO_INTERFACE_METHODS), plain);
  EXPECT_NE(with(TENON_EMIT_DEFAULT_INPUTS), plain);
  EXPECT_NE(with(TENON_EMIT_PLAIN_OPERATORS), plain);
  const auto nowhere = [](Bytes) {};
  const tenon::ExportOptions old{.bytecode = tenon::Bytecode::kCompile, .bytecode_version = 3};
  EXPECT_CODE(kInvalidArgument, tenon::try_export_module_to(module, nowhere, old));
}

TEST_F(Archives, Flatbuffers) {
  std::string written;
  const auto collect = [&](Bytes bytes) {
    written.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const Module module =
      tenon::import_module(std::string(CPP_TEST_GOLDEN) + "/../lite/mlp-2.15.ptl");
  const tenon::ExportReport report = tenon::export_module_to(module, collect, {.flatbuffer = true});
  EXPECT_EQ(written.substr(4, 4), "PTMF");
  EXPECT_EQ(report.nbytes, written.size());
  EXPECT_EQ(report.bytecode_functions, 1U);
  const Module back =
      tenon::import_module_memory(std::as_bytes(std::span(written)), std::make_shared<int>(0));
  EXPECT_EQ(back.tensors().size(), module.tensors().size());

  // Bad code is refused at the first use.
  std::string broken = written;
  broken[broken.find("def forward") + 1] = 'x';
  const auto read = [&](tenon::ImportCheck check) {
    return tenon::try_import_module_memory(std::as_bytes(std::span(broken)),
                                           std::make_shared<int>(0), {.check = check});
  };
  const Module bad = read(tenon::ImportCheck::kStructure).value();
  EXPECT_CODE(kCorrupt, bad.try_class_name());
  EXPECT_CODE(kCorrupt, bad.try_tensors());
  EXPECT_EQ(bad.object().get(), nullptr);
  const Module same = bad;
  EXPECT_TRUE(bad == same);
  EXPECT_FALSE(bad == Module());
  EXPECT_CODE(kCorrupt, read(tenon::ImportCheck::kAll));
}

TEST_F(Archives, DebugTablesOfPytorch) {
  const std::string path = std::string(CPP_TEST_GOLDEN) + "/../lite/mlp-2.15.ptl";
  const auto nowhere = [](Bytes) {};
  const Module module = tenon::import_module(path, {.debug_tables = true});
  const tenon::ExportReport with = tenon::export_module_to(module, nowhere, {.debug_tables = true});
  EXPECT_EQ(with.debug_tables, 6U);
  EXPECT_EQ(with.bytecode_functions, 1U);
  EXPECT_EQ(tenon::export_module_to(module, nowhere).debug_tables, 0U);
  EXPECT_EQ(tenon::export_module_to(tenon::import_module(path), nowhere, {.debug_tables = true})
                .debug_tables,
            0U);
}

TEST_F(Archives, OfPytorch) {
  const std::string folder = CPP_TEST_GOLDEN;
  for (const char* version : {"1.4.0", "1.5.1", "1.7.1", "1.9.1", "1.12.1", "2.2.0"}) {
    const Module module = tenon::import_module(folder + "/" + version + "/net.pt",
                                               {.check = tenon::ImportCheck::kAll});
    EXPECT_EQ(module.class_name(), "__torch__.Net");
    const Module again = read_module(bytes_of(module));
    EXPECT_EQ(again.code_files(), module.code_files()) << version;
    EXPECT_EQ(again.tensors().size(), module.tensors().size()) << version;
    EXPECT_TRUE(again.warnings().size() <= module.warnings().size()) << version;
  }
  kit::thrown_by<tenon::Unsupported>([&] { (void)tenon::import_module(folder + "/1.2.0/net.pt"); });
}

}  // namespace
