// These tests import archives that old versions of PyTorch wrote
// (tests/peers/golden/module/README.md). They compare the contents with what PyTorch printed, and
// export them again.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "module_kit.h"
#include "modules/value/compare.h"

namespace tenon::module {
namespace {

std::filesystem::path golden() {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "tests/peers/golden/module";
}

double half_of(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

template <typename T>
T read_as(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Prints a value as expected.txt has it.
class Printer {
 public:
  std::string of(const ValueRef& value) {
    switch (value->kind()) {
      case ValueKind::kNone: return "None";
      case ValueKind::kBool: return value->as_bool() ? "True" : "False";
      case ValueKind::kInt: return std::to_string(value->as_int());
      case ValueKind::kFloat: return of_float(value->as_float());
      case ValueKind::kStr: return of_str(value->as_str());
      case ValueKind::kTensor: return of_tensor(*value->as_tensor());
      case ValueKind::kTuple: return "(" + of_items(*value) + ")";
      case ValueKind::kList: return "[" + of_items(*value) + "]";
      case ValueKind::kDict: {
        // PyTorch writes and prints entries in the order in which they were inserted.
        std::string text = "{";
        for (const value::DictEntry& entry : value->entries())
          text += of(entry.key) + ": " + of(entry.value) + ", ";
        return text + "}";
      }
      case ValueKind::kObject: {
        const size_t number = objects_.emplace(value.get(), objects_.size()).first->second;
        return "object " + std::to_string(number) + " " + value->class_name();
      }
      default: return "?";
    }
  }

 private:
  std::string of_items(const Value& value) {
    std::string text;
    for (const ValueRef& item : value.items()) text += of(item) + ", ";
    return text;
  }

  static std::string of_float(double number) {
    const std::string text = format("%.17g", number);
    return std::isfinite(number) && text.find_first_of(".e") == std::string::npos ? text + ".0"
                                                                                  : text;
  }

  static std::string of_str(const std::string& value) {
    std::string text = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') text += '\\';
      text += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return text + "\"";
  }

  static double element(const value::TensorValue& tensor, uint64_t index) {
    const std::byte* const at =
        tensor.storage()->data() + index * tensor::scalar_type_info(tensor.type()).nbytes;
    switch (tensor.type()) {
      case tensor::ScalarType::kFloat: return read_as<float>(at);
      case tensor::ScalarType::kDouble: return read_as<double>(at);
      case tensor::ScalarType::kHalf: return half_of(read_as<uint16_t>(at));
      case tensor::ScalarType::kLong: return static_cast<double>(read_as<int64_t>(at));
      default: return read_as<uint8_t>(at);
    }
  }

  std::string of_tensor(const value::TensorValue& tensor) {
    const void* const storage = tensor.storage()->bytes()
                                    ? static_cast<const void*>(tensor.storage()->bytes().get())
                                    : tensor.storage().get();
    const size_t number = storages_.emplace(storage, storages_.size()).first->second;
    std::string text =
        "tensor " + std::string(tensor::scalar_type_info(tensor.type()).name) + " sizes [";
    for (const int64_t size : tensor.sizes()) text += std::to_string(size) + ", ";
    text += "] strides [";
    for (const int64_t stride : tensor.strides()) text += std::to_string(stride) + ", ";
    text += "] offset " + std::to_string(tensor.offset()) + " storage " + std::to_string(number) +
            " values [";
    for (uint64_t i = 0; i < tensor.numel(); ++i) {
      int64_t at = tensor.offset();
      uint64_t rest = i;
      for (size_t d = tensor.sizes().size(); d-- > 0;) {
        const auto size = static_cast<uint64_t>(tensor.sizes()[d]);
        at += static_cast<int64_t>(rest % size) * tensor.strides()[d];
        rest /= size;
      }
      text += of_float(element(tensor, static_cast<uint64_t>(at))) + ", ";
    }
    return text + "]" + (tensor.requires_grad() ? " requires_grad" : "");
  }

  std::map<const void*, size_t> storages_;
  std::map<const void*, size_t> objects_;
};

void print_members(const Module& module, const std::string& path, Printer* printer,
                   std::vector<std::string>* lines) {
  for (const Member& member : must(module.members())) {
    if (member.kind == MemberKind::kMethod || member.kind == MemberKind::kConstant) continue;
    const ValueRef value =
        member.kind == MemberKind::kSubmodule ? member.module->object() : member.value;
    lines->push_back(path + member.name + " : " + member.type->print() + " = " +
                     printer->of(value));
    if (member.kind == MemberKind::kSubmodule)
      print_members(*member.module, path + member.name + ".", printer, lines);
  }
}

// Replaces the type in "path : TYPE = VALUE" by the type as it is written today.
std::string with_todays_type(const std::string& line) {
  const size_t colon = line.find(" : ");
  const size_t equals = line.find(" = ");
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) return line;
  const size_t begin = colon + 3;
  return line.substr(0, begin) + type(line.substr(begin, equals - begin).c_str())->print() +
         line.substr(equals);
}

std::vector<std::string> expected_lines(const std::filesystem::path& folder) {
  std::vector<std::string> lines;
  std::ifstream stream(folder / "expected.txt");
  for (std::string line; std::getline(stream, line);) {
    // Versions of PyTorch before 1.9 wrote the type of None as None.
    constexpr std::string_view kOldNone = " : None = ";
    if (const size_t at = line.find(kOldNone); at != std::string::npos)
      line.replace(at, kOldNone.size(), " : NoneType = ");
    if (!line.starts_with("call ")) lines.push_back(with_todays_type(line));
  }
  return lines;
}

class Fixtures : public testing::TestWithParam<std::string> {};

TEST_P(Fixtures, AreWhatTheirPyTorchSays) {
  const std::filesystem::path folder = golden() / GetParam();
  const std::vector<std::string> expected = expected_lines(folder);
  ASSERT_FALSE(expected.empty()) << folder;
  const auto imported = import_module((folder / "net.pt").string(), {});
  if (expected[0].starts_with("refused: ")) {
    refused(imported, {expected[0].substr(9)}, Code::kUnsupported);
    return;
  }
  const Ref<Module> module = must(imported);
  std::vector<std::string> lines{"root : " + module->class_name()};
  Printer printer;
  print_members(*module, "", &printer, &lines);
  EXPECT_EQ(lines, expected);

  ExportReport report;
  const std::vector<std::byte> bytes = exported(*module, {}, &report);
  EXPECT_EQ(report.version, module->package().report.version);
  const Ref<Module> again = must(import_module(bytes, nullptr, nullptr, {}));
  EXPECT_EQ(value::difference(*module->object(), *again->object()).value_or(""), "");
}

INSTANTIATE_TEST_SUITE_P(All, Fixtures,
                         testing::Values("1.2.0", "1.4.0", "1.5.1", "1.7.1", "1.9.1", "1.12.1",
                                         "2.2.0"),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tenon::module
