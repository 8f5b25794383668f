// These tests import archives. They check which archives are good, which do not fit their code, and
// which are hostile.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "module_kit.h"

namespace tenon::module {
namespace {

const std::string kCode =
    "class M(Module):\n"
    "  __parameters__ = [\"w\", ]\n"
    "  w : Tensor\n"
    "  n : int\n";
const std::string kFloats(8, '\1');

std::string two(const std::string& w, const std::string& n) {
  return pickled_object("M", pickled_text("w") + w + pickled_text("n") + n);
}

TEST(Import, ValuesAreThoseOfTheirTypes) {
  const std::vector<std::byte> good =
      made_archive(kCode, two(pickled_tensor("0", 2, 2), "K\x05"), {{"data/0", kFloats}});
  const Ref<Module> module = must(imported(good));
  EXPECT_EQ(must(module->find("n")).value->as_int(), 5);
  EXPECT_EQ(must(module->find("w")).kind, MemberKind::kParameter);
  EXPECT_EQ(module->package().report.mapped_tensors, 1U);

  const Status status = imported(made_archive(kCode, two("K\x05", "K\x05"))).status();
  refused(status, {"data.pkl", "w: Tensor wanted, int found"}, Code::kCorrupt);
  EXPECT_EQ(status.detail("record"), "data.pkl");
  refused(imported(made_archive(kCode, pickled_object("M", pickled_text("n") + "K\x05"))), {"w"},
          Code::kCorrupt);
  refused(imported(made_archive(kCode, two(pickled_tensor("0", 2, 2), "K\x05"), {})), {"data/0"},
          Code::kCorrupt);
  refused(imported(made_archive(kCode, pickled_object("M", pickled_text("n") + "K\x05" +
                                                               pickled_text("n") + "K\x05"))),
          {"n"}, Code::kCorrupt);
  const std::string extra = pickled_text("more") + "K\x05";
  refused(imported(made_archive("class M(Module):\n  n : int\n",
                                pickled_object("M", pickled_text("n") + "K\x05" + extra))),
          {"more"}, Code::kCorrupt);
}

TEST(Import, TheNumberOfElementsIsThatOfTheRecord) {
  const Status status =
      imported(made_archive(kCode, two(pickled_tensor("0", 3, 2), "K\x05"), {{"data/0", kFloats}}))
          .status();
  refused(status, {"data.pkl", "data/0", "3 elements", "8 bytes"}, Code::kCorrupt);
  EXPECT_EQ(status.detail("record"), "data.pkl");
  EXPECT_FALSE(status.detail("offset").empty());
  refused(
      imported(made_archive(kCode, two(pickled_tensor("0", 2, 3), "K\x05"), {{"data/0", kFloats}})),
      {"data.pkl"}, Code::kCorrupt);
}

TEST(Import, ClassesHaveCode) {
  refused(imported(made_archive(kCode, pickled_object("N", ""))), {"__torch__.N"}, Code::kCorrupt);
  refused(imported(made_archive("class M:\n  n : int\n", pickled_object("M", ""))), {"no module"},
          Code::kCorrupt);
  refused(imported(made_archive("class M(Module)\n", pickled_object("M", ""))),
          {"code/__torch__.py:1"}, Code::kCorrupt);
  refused(imported(made_archive("class M(Module):\n  x : Lisst[int]\n", pickled_object("M", ""))),
          {}, Code::kCorrupt);
  refused(imported(made_archive(kCode, "K\x01")), {"no module"}, Code::kCorrupt);
}

TEST(Import, ListsHaveTheTypesOfTheirAnnotations) {
  const std::string code =
      "class P(NamedTuple):\n  a : int\n  b : List[str]\nclass M(Module):\n  x : List[int]\n  p : "
      "Optional[__torch__.P]\n";
  const std::string list =
      "](K\x01K\x02"
      "e";
  const std::string tuple = "(K\x07](" + pickled_text("s") + "et";
  const std::vector<std::byte> bytes = made_archive(
      code, pickled_object("M", pickled_text("x") + list + pickled_text("p") + tuple), {}, "2");
  const Ref<Module> module = must(imported(bytes));
  EXPECT_EQ(must(module->find("x")).value->declared_type()->print(), "List[int]");
  const ValueRef point = must(module->find("p")).value;
  EXPECT_EQ(point->class_name(), "__torch__.P");
  EXPECT_EQ(point->items()[1]->declared_type()->print(), "List[str]");
  EXPECT_EQ(module->package().report.version, 2);
}

TEST(Import, WhatIsNoModuleArchiveIsNamed) {
  const std::string data = pickle("}");
  refused(imported(archive_of({{"data.pkl", data}, {"version", "3"}})), {"torch.save"},
          Code::kUnsupported);
  refused(imported(archive_of({{"data.pkl", data}, {"bytecode.pkl", data}, {"version", "3"}})),
          {"lite interpreter"}, Code::kUnsupported);
  refused(imported(archive_of({{"model.json", "{}"}, {"version", "1"}})),
          {"model.json", "1.0 to 1.3"}, Code::kUnsupported);
  refused(imported(archive_of({{".data/extern_modules", ""}, {".data/version", "6"}})),
          {"torch.package"}, Code::kUnsupported);
  refused(imported(archive_of({{"archive_format", "pt2"}})), {"torch.export"}, Code::kUnsupported);
  refused(imported(archive_of({{"x", "y"}})), {"no record data.pkl"}, Code::kUnsupported);
  const auto bytes_of = [](std::string text) {
    text.resize(64);
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    return std::vector<std::byte>(begin, begin + text.size());
  };
  refused(imported(bytes_of("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20")),
          {"torch.save", "before 1.6"}, Code::kUnsupported);
  refused(imported(bytes_of("PYTORCH1")), {"preview"}, Code::kUnsupported);
  refused(imported(bytes_of("hello")), {}, Code::kCorrupt);
}

TEST(Import, VersionsAreKnownOnes) {
  const std::string root = pickled_object("M", "");
  const std::string code = "class M(Module):\n  __parameters__ = []\n";
  for (const char* version : {"1", "3\n", "10\r\n"})
    ok(imported(made_archive(code, root, {}, version)).status());
  for (const char* version : {"0", "11", "999"})
    refused(imported(made_archive(code, root, {}, version)), {"version is"}, Code::kUnsupported);
  for (const char* version : {"", "x", "3x", "99999999999"})
    refused(imported(made_archive(code, root, {}, version)), {"no number"}, Code::kCorrupt);
  const std::vector<std::byte> both = made_archive(code, root, {{".data/version", "4"}}, "3");
  EXPECT_EQ(must(imported(both))->package().report.version, 4);
}

TEST(Import, MisalignedAndForeignTensorsAreFilled) {
  const std::vector<std::byte> big =
      made_archive(kCode, two(pickled_tensor("0", 2, 2), "K\x05"),
                   {{"data/0", std::string("\x3f\x80\0\0\x40\0\0\0", 8)}, {"byteorder", "big"}});
  const Ref<Module> foreign = must(imported(big));
  EXPECT_EQ(elements_of(*must(foreign->find("w")).value), std::vector<float>({1, 2}));
  EXPECT_EQ(foreign->package().report.foreign_endian, 1U);
  EXPECT_EQ(foreign->package().report.filled_tensors, 1U);

  const std::vector<std::pair<std::string, std::string>> records{
      {"data/0", kFloats},
      {"data.pkl", pickle(two(pickled_tensor("0", 2, 2), "K\x05"))},
      {"code/__torch__.py", kCode},
      {"constants.pkl", pickle(")")},
      {"version", "3"}};
  const std::vector<std::byte> packed = archive_of(records, 1);
  // One of these starts is no multiple of 4.
  uint64_t misaligned = 0;
  for (size_t shift = 0; shift < 4; ++shift) {
    std::vector<std::byte> moved(packed.size() + 4);
    std::memcpy(moved.data() + shift, packed.data(), packed.size());
    const Ref<Module> module =
        must(import_module(std::span(moved).subspan(shift, packed.size()), nullptr, nullptr, {}));
    misaligned += module->package().report.misaligned;
    EXPECT_EQ(module->package().report.filled_tensors, module->package().report.misaligned);
    EXPECT_EQ(must(module->find("w")).value->as_tensor()->storage()->nbytes(), 8U);
  }
  EXPECT_EQ(misaligned, 3U);
}

// torch.load reads archives in this way too. A record is copied once, however often a pickle
// mentions it.
TEST(Import, OneKeyIsOneStorage) {
  const std::string code = "class M(Module):\n  a : Tensor\n  b : Tensor\n";
  const std::string root = pickled_object("M", pickled_text("a") + pickled_tensor("0", 2, 2) +
                                                   pickled_text("b") + pickled_tensor("0", 1, 1));
  const std::vector<std::byte> bytes = made_archive(code, root, {{"data/0", kFloats}});
  for (const Tensors tensors : {Tensors::kMap, Tensors::kFill}) {
    const Ref<Module> module = must(imported(bytes, with_tensors(tensors)));
    EXPECT_EQ(must(module->find("a")).value->as_tensor()->storage()->bytes().get(),
              must(module->find("b")).value->as_tensor()->storage()->bytes().get());
    EXPECT_EQ(module->package().report.mapped_tensors + module->package().report.filled_tensors,
              1U);
  }
}

TEST(Import, MemoryIsReleasedWithTheLastView) {
  const std::vector<std::byte> bytes =
      made_archive(kCode, two(pickled_tensor("0", 2, 2), "K\x05"), {{"data/0", kFloats}});
  int released = 0;
  const auto release = [](void* context) { ++*static_cast<int*>(context); };
  Ref<Module> module = must(import_module(bytes, release, &released, {}));
  ValueRef w = must(module->find("w")).value;
  EXPECT_EQ(static_cast<const void*>(w->as_tensor()->storage()->data()),
            std::search(bytes.data(), bytes.data() + bytes.size(),
                        reinterpret_cast<const std::byte*>(kFloats.data()),
                        reinterpret_cast<const std::byte*>(kFloats.data()) + kFloats.size()));
  module = nullptr;
  EXPECT_EQ(released, 0);
  w = nullptr;
  EXPECT_EQ(released, 1);
  const std::vector<std::byte> bad = made_archive(kCode, "K\x01");
  EXPECT_FALSE(import_module(bad, release, &released, {}).is_ok());
  EXPECT_EQ(released, 1);
}

class ImportFile : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::byte> bytes =
        made_archive(kCode, two(pickled_tensor("0", 2, 2), "K\x05"), {{"data/0", kFloats}});
    path_ = (std::filesystem::temp_directory_path() /
             ("tenon-import-" + std::to_string(::getpid()) + ".pt"))
                .string();
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(ImportFile, AccessIsWhatWasAskedFor) {
  const auto storage_of = [](const Ref<Module>& module) {
    return must(module->find("w")).value->as_tensor()->storage()->bytes();
  };
  const Ref<Module> mapped = must(import_module(path_, {}));
  EXPECT_TRUE(storage_of(mapped)->is_read_only());
  EXPECT_FALSE(storage_of(mapped)->is_sealed());
  refused(storage_of(mapped)->data_mut(), {}, Code::kPermission);

  const Ref<Module> own = must(import_module(path_, with_tensors(Tensors::kMapPrivate)));
  *must(storage_of(own)->data_mut()) = std::byte{9};
  EXPECT_EQ(*storage_of(mapped)->data(), std::byte{1});
  EXPECT_FALSE(storage_of(own)->is_sealed());

  ImportOptions fill = with_tensors(Tensors::kFill);
  for (const memory::Mode mode :
       {memory::Mode::kShared, memory::Mode::kLenderWrites, memory::Mode::kFrozen}) {
    fill.storage.mode = mode;
    const Ref<Module> filled = must(import_module(path_, fill));
    EXPECT_TRUE(storage_of(filled)->is_shared());
    EXPECT_TRUE(storage_of(filled)->is_sealed());
    EXPECT_EQ(storage_of(filled)->mode(), mode);
    EXPECT_EQ(std::memcmp(storage_of(filled)->data(), kFloats.data(), 8), 0);
    EXPECT_EQ(filled->package().report.filled_tensors, 1U);
  }
  refused(import_module(path_ + ".missing", {}), {".missing"}, Code::kNotFound);
}

TEST_F(ImportFile, AnExportOverTheFileItselfKeepsItsTensors) {
  const Ref<Module> module = must(import_module(path_, {}));
  ok(export_module(*module, path_, archive::Durability::kNone, {}, nullptr));
  const Ref<Module> again = must(import_module(path_, with_check_all()));
  EXPECT_EQ(elements_of(*must(again->find("w")).value),
            elements_of(*must(module->find("w")).value));
}

// Each byte of the archive is changed in turn. The import returns an error or a module, and never
// crashes.
TEST(Import, AFlippedByteIsAnErrorOrNone) {
  const std::vector<std::byte> good = made_archive(
      kCode + "  def f(self, x: int=CONSTANTS.c0) -> int:\n    return x\n",
      two(pickled_tensor("0", 2, 2), "K\x05"), {{"data/0", kFloats}, {"extra/a", "b"}});
  ok(imported(good).status());
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x41};
    const Status status = imported(bad, with_check_all()).status();
    if (!status.is_ok()) EXPECT_FALSE(status.message().empty());
  }
  for (size_t nbytes = 0; nbytes < good.size(); nbytes += 7) {
    EXPECT_FALSE(imported(std::vector<std::byte>(good.begin(),
                                                 good.begin() + static_cast<ptrdiff_t>(nbytes)))
                     .is_ok())
        << nbytes;
  }
}

}  // namespace
}  // namespace tenon::module
