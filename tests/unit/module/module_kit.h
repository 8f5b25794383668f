// The tests of modules use these helpers to make values and modules, and to put archives together
// by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "modules/archive/sink.h"
#include "modules/archive/zip_writer.h"
#include "modules/module/export.h"
#include "modules/module/import.h"
#include "modules/module/module.h"
#include "support/must.h"

namespace tenon::module {

using value::Type;
using value::Value;
using value::ValueKind;

inline void ok(const Status& status) { EXPECT_TRUE(status.is_ok()) << status.message(); }

// Checks that the status has this code, and that its message is one line with all these words.
inline void refused(const Status& status, const std::vector<std::string>& words,
                    Code code = Code::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string& word : words)
    EXPECT_NE(status.message().find(word), std::string::npos)
        << word << " in: " << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}
template <typename T>
void refused(const Result<T>& result, const std::vector<std::string>& words,
             Code code = Code::kInvalidArgument) {
  refused(result.status(), words, code);
}

inline TypeRef type(const char* text) { return must(Type::parse(text)); }

inline ValueRef floats(const std::vector<float>& elements, std::vector<int64_t> sizes = {}) {
  if (sizes.empty()) sizes = {static_cast<int64_t>(elements.size())};
  storage::StorageOptions options;
  options.is_private = true;
  value::StridedSpec spec;
  spec.storage = must(value::StorageValue::whole(
      tensor::ScalarType::kFloat, must(storage::Storage::create_from(
                                      options, elements.data(), elements.size() * sizeof(float)))));
  spec.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) spec.strides[i] = stride;
  spec.sizes = std::move(sizes);
  return Value::of_tensor(must(value::TensorValue::create(spec)));
}

// Returns the elements of a contiguous float tensor.
inline std::vector<float> elements_of(const Value& tensor) {
  std::vector<float> elements(tensor.as_tensor()->numel());
  if (!elements.empty()) {
    std::memcpy(elements.data(),
                tensor.as_tensor()->storage()->data() +
                    static_cast<size_t>(tensor.as_tensor()->offset()) * sizeof(float),
                elements.size() * sizeof(float));
  }
  return elements;
}

inline ExportOptions unchecked() {
  ExportOptions options;
  options.check = false;
  return options;
}
inline ImportOptions with_tensors(Tensors tensors) {
  ImportOptions options;
  options.tensors = tensors;
  return options;
}
inline ImportOptions with_check_all() {
  ImportOptions options;
  options.check = archive::Check::kAll;
  return options;
}

inline std::vector<std::byte> exported(const Module& module, const ExportOptions& options = {},
                                       ExportReport* report = nullptr) {
  archive::MemorySink sink;
  ok(export_module(module, &sink, options, report));
  return sink.take();
}

// Imports an archive. The caller owns the bytes, and must keep them as long as the module.
inline Result<Ref<Module>> imported(const std::vector<std::byte>& bytes,
                                    const ImportOptions& options = {}) {
  return import_module(bytes, nullptr, nullptr, options);
}

inline std::map<std::string, std::string> records_of(const std::vector<std::byte>& bytes) {
  const auto reader =
      must(archive::ZipReader::open(archive::MemorySource::create(bytes), archive::Check::kAll));
  std::map<std::string, std::string> records;
  for (const archive::ZipRecord& record : reader->records())
    records[std::string(record.name)] = must(reader->read_text(record));
  return records;
}

// Returns an archive of these records in this order.
inline std::vector<std::byte> archive_of(
    const std::vector<std::pair<std::string, std::string>>& records, uint64_t alignment = 64) {
  archive::MemorySink sink;
  auto writer = must(archive::ZipWriter::create(&sink, {.prefix = "made", .alignment = alignment}));
  for (const auto& [name, text] : records) ok(writer.add_text(name, text));
  ok(writer.finish());
  return sink.take();
}

// The next functions return pieces of pickles.
inline std::string pickled_text(const std::string& text) {
  std::string pickle = "X";
  for (int i = 0; i < 4; ++i) pickle += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  return pickle + text;
}
inline std::string pickled_object(const std::string& name, const std::string& attributes) {
  return "c__torch__\n" + name + "\n)\x81}(" + attributes + "ub";
}
inline std::string pickle(const std::string& inside) { return "\x80\x02" + inside + "."; }
// Returns the pickle of a float tensor over the record data/<key>.
inline std::string pickled_tensor(const std::string& key, unsigned char numel, unsigned char size,
                                  const std::string& storage = "FloatStorage") {
  std::string text = "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") +
                     "ctorch\n" + storage + "\n" + pickled_text(key) + pickled_text("cpu");
  text += std::string("K") + static_cast<char>(numel) + "tQK" + std::string(1, '\0') + "(K" +
          static_cast<char>(size) + "t(K\x01t\x89" + "ccollections\nOrderedDict\n)RtR";
  return text;
}

// Returns a module archive with this code and this root.
inline std::vector<std::byte> made_archive(
    const std::string& code, const std::string& root,
    std::vector<std::pair<std::string, std::string>> more = {},
    const std::string& version = "10\n") {
  std::vector<std::pair<std::string, std::string>> records = std::move(more);
  records.insert(records.end(), {{"data.pkl", pickle(root)},
                                 {"code/__torch__.py", code},
                                 {"constants.pkl", pickle(")")},
                                 {"version", version}});
  return archive_of(records);
}

}  // namespace tenon::module
