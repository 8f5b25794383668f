// Tests of packages with several modules: written, read, changed, and written again over a base.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "kit.h"

namespace {

using Packages = kit::Leaves;
using tenon::Module;
using tenon::Package;
using tenon::PackageEntry;
using Strings = std::vector<std::string>;

static_assert(std::is_nothrow_copy_constructible_v<Package> &&
              std::is_nothrow_move_constructible_v<Package>);

constexpr char kEncoder[] = "models/encoder.pkl";
constexpr char kDecoder[] = "models/decoder.pkl";
constexpr char kNotes[] = "notes/readme.txt";
constexpr std::size_t kElements = 1000;

tenon::Tensor counting_from(float first) {
  tenon::Tensor tensor = tenon::zeros<float>({10, 100});
  const std::span<float> elements = tensor.view_mut<float>();
  std::iota(elements.begin(), elements.end(), first);
  return tensor;
}

Module weighted_net(const std::string& class_name, const tenon::Tensor& weight,
                    const std::string& operation) {
  Module module = Module::make(class_name);
  module.add_parameter("weight", weight);
  module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch." + operation +
                "(x, self.weight)\n");
  return module;
}

std::span<const std::byte> file_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

float first_weight(const Module& module) {
  const auto weight = module.value("weight").as<tenon::Tensor>();
  return weight.view<float>()[0];
}

bool has(const Strings& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Strings storages_of(const Package& package) {
  Strings names = package.records();
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".storage"); });
  return names;
}

Strings entries_of(const Package& package) {
  Strings names = package.records();
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with(".data/") || name == "byteorder";
  });
  return names;
}

// A file in the folder of the tests. The destructor removes it.
struct PackagePath : std::string {
  explicit PackagePath(const std::string& leaf) : std::string(kit::Folder::at(leaf)) {}
  PackagePath(const PackagePath&) = delete;
  PackagePath& operator=(const PackagePath&) = delete;
  ~PackagePath() { unlink(c_str()); }
};

// Writes two modules that share their weight, and a text file.
tenon::ExportReport write_pair(const std::string& path, const tenon::PackageOptions& options = {}) {
  const tenon::Tensor weight = counting_from(0);
  const Module encoder = weighted_net("nets.encoder.Encoder", weight, "mul");
  const Module decoder = weighted_net("nets.decoder.Decoder", weight, "add");
  const std::string text = "two nets\n";
  return tenon::export_package(
      path,
      {{kEncoder, &encoder}, {kDecoder, &decoder}, {.name = kNotes, .bytes = file_bytes(text)}},
      options);
}

TEST_F(Packages, WrittenAndRead) {
  const PackagePath path("pair.pt");
  const tenon::ExportReport report =
      write_pair(path, {.externs = {"numpy", "a.b"},
                        .archive_name = "other",
                        .durability = tenon::Durability::kFileAndDirectory});
  EXPECT_EQ(report.nbytes, std::filesystem::file_size(std::string(path)));
  EXPECT_GT(report.version, 0);
  EXPECT_STRNE(report.oldest_pytorch, "");

  const Package package = Package::open(path, {.check = tenon::ImportCheck::kAll});
  EXPECT_EQ(package.modules(), (Strings{kEncoder, kDecoder}));
  EXPECT_EQ(entries_of(package), (Strings{kEncoder, kDecoder, kNotes}));
  EXPECT_EQ(package.records().size(), report.records);
  EXPECT_EQ(package.read(kNotes), "two nets\n");
  EXPECT_EQ(package.read("byteorder"), "little");
  EXPECT_EQ(package.read(".data/extern_modules"), "torch.jit._script\nnumpy\na.b\n");
  EXPECT_EQ(storages_of(package), (Strings{".data/0.storage"}));
  EXPECT_EQ(package.read(".data/0.storage").size(), kElements * sizeof(float));

  const Module encoder = package.module(kEncoder);
  const Module decoder = package.module(kDecoder);
  EXPECT_EQ(encoder.class_name(), "__torch__.nets.encoder.Encoder");
  EXPECT_EQ(decoder.class_name(), "__torch__.nets.decoder.Decoder");
  EXPECT_EQ(encoder.import_report().version, report.version);
  EXPECT_EQ(package.module("0"), encoder);  // the id names the same module
  EXPECT_EQ(package.module(kEncoder), encoder);
  EXPECT_FALSE(encoder == decoder);
  const auto shared = encoder.value("weight").as<tenon::Tensor>();
  const auto also_shared = decoder.value("weight").as<tenon::Tensor>();
  EXPECT_EQ(shared.view<float>()[kElements - 1], 999.0F);
  EXPECT_EQ(shared.view<float>().data(), also_shared.view<float>().data());
}

TEST_F(Packages, ModulesOutliveTheirPackage) {
  const PackagePath path("pair.pt");
  (void)write_pair(path);
  Package package = Package::open(path);
  Package copy = package;
  package.close();
  EXPECT_FALSE(package);
  EXPECT_EQ(copy.modules().size(), 2U);
  Module module = copy.module(kDecoder);
  copy.close();
  EXPECT_EQ(first_weight(module), 0);
  Package moved_from = Package::open(path);
  const Package moved = std::move(moved_from);
  EXPECT_EQ(moved.read(kNotes), "two nets\n");
}

TEST_F(Packages, AChangeIsWrittenWithTheBase) {
  const PackagePath path("pair.pt");
  (void)write_pair(path, {.externs = {"numpy"}});
  {
    const Package package = Package::open(path);
    Module encoder = package.module(kEncoder);
    encoder.set("weight", counting_from(500));
    EXPECT_EQ(first_weight(package.module(kEncoder)), 500);  // the package has the changed module
    const std::string more = "more\n";
    (void)tenon::export_package(path, {{.name = "notes/more.txt", .bytes = file_bytes(more)}},
                                {.base = &package, .externs = {"a"}});
    EXPECT_EQ(first_weight(package.module(kDecoder)), 0);  // the old file is still mapped
  }
  const Package again = Package::open(path);
  Strings modules = again.modules();
  std::sort(modules.begin(), modules.end());
  EXPECT_EQ(modules, (Strings{kDecoder, kEncoder}));
  EXPECT_EQ(first_weight(again.module(kEncoder)), 500);
  EXPECT_EQ(first_weight(again.module(kDecoder)), 0);
  EXPECT_EQ(storages_of(again).size(), 2U);
  EXPECT_EQ(again.read(kNotes), "two nets\n");
  EXPECT_EQ(again.read("notes/more.txt"), "more\n");
  EXPECT_EQ(again.read(".data/extern_modules"), "torch.jit._script\nnumpy\na\n");

  // An entry replaces the record of the base with its name: here a module becomes a file.
  const PackagePath other("other.pt");
  (void)tenon::export_package(other, {{.name = kEncoder}}, {.base = &again});
  const Package less = Package::open(other);
  EXPECT_EQ(less.modules(), (Strings{kDecoder}));
  EXPECT_EQ(less.read(kEncoder), "");
  EXPECT_EQ(storages_of(less).size(), 1U);
  EXPECT_TRUE(has(again.records(), ".data/ts_code/code/__torch__/nets/encoder.py"));
  EXPECT_TRUE(has(less.records(), ".data/ts_code/code/__torch__/nets/decoder.py"));
  EXPECT_FALSE(has(less.records(), ".data/ts_code/code/__torch__/nets/encoder.py"));
}

TEST_F(Packages, AChangeInPlaceIsWrittenWithTheBase) {
  const PackagePath path("pair.pt");
  for (const tenon::ImportTensors tensors :
       {tenon::ImportTensors::kMapPrivate, tenon::ImportTensors::kFill}) {
    (void)write_pair(path);
    const Package package = Package::open(path, {.tensors = tensors});
    auto weight = package.module(kEncoder).value("weight").as<tenon::Tensor>();
    weight.view_mut<float>()[0] = -7;
    (void)tenon::export_package(path, {}, {.base = &package});
    const Package again = Package::open(path);
    EXPECT_EQ(first_weight(again.module(kDecoder)), -7);  // the weight is shared
    EXPECT_EQ(storages_of(again), (Strings{".data/0.storage"}));
  }
}

TEST_F(Packages, ClassesOfOneName) {
  const PackagePath path("names.pt");
  const Module product = weighted_net("nets.Net", counting_from(1), "mul");
  const Module sum = weighted_net("nets.Net", counting_from(2), "add");
  (void)tenon::export_package(path, {{"a/product.pkl", &product}, {"a/sum.pkl", &sum}});
  const Package package = Package::open(path);
  const Module first_read = package.module("a/product.pkl");
  const Module second_read = package.module("a/sum.pkl");
  EXPECT_NE(first_read.class_name(), second_read.class_name());
  EXPECT_NE(first_read.find("forward").source.find("torch.mul"), std::string::npos);
  EXPECT_NE(second_read.find("forward").source.find("torch.add"), std::string::npos);
}

TEST_F(Packages, AModuleAndItsSubmodule) {
  const PackagePath path("tree.pt");
  const Module leaf = weighted_net("nets.Leaf", counting_from(4), "mul");
  Module tree = Module::make("nets.Tree");
  tree.add_submodule("leaf", leaf);
  (void)tenon::export_package(path, {{"a/tree.pkl", &tree}, {"a/leaf.pkl", &leaf}});
  const Package package = Package::open(path);
  EXPECT_EQ(first_weight(package.module("a/tree.pkl").submodule("leaf")), 4);
  EXPECT_EQ(first_weight(package.module("a/leaf.pkl")), 4);
  EXPECT_EQ(storages_of(package), (Strings{".data/0.storage"}));
}

TEST_F(Packages, AModuleInTwoEntriesIsWrittenOnce) {
  const PackagePath path("same.pt");
  const Module module = weighted_net("Net", counting_from(3), "mul");
  const std::vector<PackageEntry> entries{{"a/x.pkl", &module}, {"b/y.pkl", &module}};
  (void)tenon::export_package(path, entries);
  const Package package = Package::open(path);
  EXPECT_EQ(package.modules(), (Strings{"a/x.pkl"}));
  EXPECT_TRUE(has(package.records(), "b/y.pkl"));
  EXPECT_EQ(first_weight(package.module("a/x.pkl")), 3);
}

TEST_F(Packages, Refused) {
  const PackagePath path("pair.pt");
  const PackagePath net_path("net.pt");
  (void)write_pair(path);
  const Package package = Package::open(path);
  const std::string said =
      kit::thrown_by<tenon::NotFound>([&] { (void)package.module("models/none.pkl"); });
  EXPECT_NE(said.find(kEncoder), std::string::npos) << said;
  EXPECT_NE(said.find(kDecoder), std::string::npos) << said;
  kit::thrown_by<tenon::NotFound>([&] { (void)package.read("models/none.pkl"); });
  kit::thrown_by<tenon::NotFound>([&] { (void)Package::open(kit::Folder::at("no")); });

  Module module = weighted_net("Net", counting_from(0), "mul");
  (void)tenon::export_module(module, net_path);
  kit::thrown_by<tenon::Unsupported>([&] { (void)Package::open(net_path); });

  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::export_package(net_path, {{"no_folder", &module}}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::export_package(net_path, {{"a/b", &module}, {.name = "a/b"}}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::export_package(net_path, {{"a/b", &module, file_bytes(said)}}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::export_package(net_path, {{"a/b", &module}}, {.externs = {"a b"}}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::export_package(net_path, {{"a/b", &module}}, {.archive_name = ""}); });
  kit::thrown_by<tenon::NotFound>(
      [&] { (void)tenon::export_package(kit::Folder::at("no/file.pt"), {{"a/b", &module}}); });
  EXPECT_EQ(first_weight(tenon::import_module(net_path)), 0);  // the old file stays

  // A text with a NUL would be cut off, and an empty object would be taken for none.
  const std::string nul("a\0b", 3);
  EXPECT_CODE(kInvalidArgument, Package::try_open(nul));
  EXPECT_CODE(kInvalidArgument, package.try_module(nul));
  EXPECT_CODE(kInvalidArgument, package.try_read(nul));
  EXPECT_CODE(kInvalidArgument, tenon::try_export_package(nul, {}));
  EXPECT_CODE(kInvalidArgument, tenon::try_export_package(net_path, {{nul, &module}}));
  EXPECT_CODE(kInvalidArgument, tenon::try_export_package(net_path, {}, {.externs = {nul}}));
  EXPECT_CODE(kInvalidArgument, tenon::try_export_package(net_path, {}, {.archive_name = nul}));
  const Module no_module;
  const Package no_package;
  EXPECT_CODE(kInvalidArgument, tenon::try_export_package(net_path, {{"a/b", &no_module}}));
  EXPECT_CODE(kInvalidArgument,
              tenon::try_export_package(net_path, {{"a/b", &module}}, {.base = &no_package}));
  EXPECT_CODE(kInvalidArgument, no_package.try_modules());
  EXPECT_CODE(kInvalidArgument, no_package.try_module("0"));
  EXPECT_CODE(kInvalidArgument, no_package.try_records());
  EXPECT_CODE(kInvalidArgument, no_package.try_read("byteorder"));

  // Code that PyTorch would refuse is refused, unless the options say otherwise.
  module.define("def bad(self) -> int:\n  return nothing\n");
  const tenon::Result<tenon::ExportReport> bad =
      tenon::try_export_package(net_path, {{"a/b", &module}});
  ASSERT_EQ(bad.code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(bad.error().detail("excerpt").value_or("").empty(), false);
  (void)tenon::export_package(net_path, {{"a/b", &module}},
                              {.unchecked = true, .keep_device = true});
  EXPECT_EQ(Package::open(net_path).modules(), (Strings{"a/b"}));
}

}  // namespace
