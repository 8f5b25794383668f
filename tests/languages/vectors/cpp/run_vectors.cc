// usage: run_vectors FOLDER. It executes the cases of FOLDER/cases.txt with the C++ wrapper
// (tests/languages/vectors/README.md).
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <tenon/tenon.hpp>

#include "case.h"
#include "kinds.h"

namespace {

std::string last_part(const std::string& key, const std::string& prefix) {
  return key.substr(prefix.size());
}

}  // namespace

bool outcome(const Case& test, const std::function<void()>& call, const std::string& expect) {
  const std::string wanted = test.text(expect + "status");
  try {
    call();
  } catch (const tenon::Error& error) {
    const std::string message = error.what();
    if (wanted != tenon::name_of(error.code())) {
      throw Wrong(std::string("status is ") + tenon::name_of(error.code()) + ", not " + wanted +
                  ": " + message);
    }
    if (message.empty() || message.find('\n') != std::string::npos)
      throw Wrong("no message of one line: '" + message + "'");
    const std::string prefix = expect + "details.";
    for (const auto& [key, value] : test.lines()) {
      if (key.starts_with(prefix)) {
        same(key, std::string(error.detail(last_part(key, prefix)).value_or("absent")), value);
      }
    }
    return false;
  }
  if (wanted != "OK") throw Wrong("status is OK, not " + wanted);
  return true;
}

namespace {

template <class Class>
bool is_its_class(const tenon::Error& error) {
  if (error.code() != Class::kCode) return false;
  try {
    tenon::raise(error);
  } catch (const Class& caught) {
    return caught.code() == error.code();
  } catch (...) {
    return false;
  }
}

void run_status(const Case& test) {
  const auto code = static_cast<tenon::Code>(test.number("status"));
  const std::string name = test.text("name");
  same<std::string>("name", tenon::name_of(code), name);
  if (name == "OK" || name == "UNKNOWN") return;
  const tenon::Error error(code, "text");
  const int classes =
      is_its_class<tenon::InvalidArgument>(error) + is_its_class<tenon::PermissionDenied>(error) +
      is_its_class<tenon::NotFound>(error) + is_its_class<tenon::Corrupt>(error) +
      is_its_class<tenon::Incompatible>(error) + is_its_class<tenon::ResourceExhausted>(error) +
      is_its_class<tenon::Unsupported>(error) + is_its_class<tenon::PeerGone>(error) +
      is_its_class<tenon::WouldBlock>(error) + is_its_class<tenon::Timeout>(error) +
      is_its_class<tenon::Interrupted>(error) + is_its_class<tenon::Cancelled>(error) +
      is_its_class<tenon::Io>(error) + is_its_class<tenon::Internal>(error);
  same<std::int64_t>("classes of its own", classes, 1);
}

}  // namespace

tenon::Dtype dtype_of(const Case& test, const std::string& key) {
  const std::vector<std::int64_t> numbers = test.numbers(key).value();
  return {static_cast<unsigned>(numbers.at(0)), static_cast<unsigned>(numbers.at(1)),
          static_cast<unsigned>(numbers.at(2))};
}

std::vector<std::int64_t> numbers_of(tenon::Dtype dtype) {
  return {dtype.code, dtype.bits, dtype.lanes};
}

std::vector<std::int64_t> numbers_of(std::span<const std::int64_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

tenon::Tensor make_tensor(const Case& test, const std::string& prefix,
                          const tenon::Storage& storage) {
  tenon::TensorOptions options;
  options.strides = test.numbers(prefix + "strides").value_or(std::vector<std::int64_t>());
  options.offset = static_cast<std::uint64_t>(test.number_or(prefix + "offset", 0));
  options.flags = static_cast<std::uint32_t>(test.number_or(prefix + "flags", 0));
  return tenon::Tensor::over(storage, test.numbers(prefix + "sizes").value(),
                             dtype_of(test, prefix + "dtype"), options);
}

namespace {

void run_dtype(const Case& test) {
  const tenon::Storage storage = tenon::Storage::make(4096);
  const tenon::Dtype dtype = dtype_of(test, "dtype");
  tenon::Tensor tensor;
  if (!outcome(test, [&] { tensor = tenon::Tensor::over(storage, {test.number("numel")}, dtype); }))
    return;
  same("dtype", numbers_of(tensor.view().dtype()), numbers_of(dtype));
  same<std::int64_t>("nbytes", static_cast<std::int64_t>(tensor.nbytes()),
                     test.number("expect.nbytes"));
  const std::string name = test.text("name");
  if (name.empty()) return;
  same("name", tenon::name_of(dtype), name);
  same("the name's dtype", numbers_of(tenon::dtype_of(name).value_or(tenon::Dtype())),
       numbers_of(dtype));
}

// Compares every key of `expect` under the prefix that a view has.
void same_view(const Case& test, const std::string& prefix, const tenon::TensorView& view) {
  for (const auto& [key, value] : test.lines()) {
    if (!key.starts_with(prefix)) continue;
    const std::string part = last_part(key, prefix);
    const auto same_number = [&, &line = key](std::uint64_t got) {
      same<std::int64_t>(part, static_cast<std::int64_t>(got), test.number(line));
    };
    if (part == "name") {
      const std::string name(view.name());
      same<std::string>(
          "name", view.name().data() == nullptr ? "-" : hex_of(std::as_bytes(std::span(name))),
          value);
    } else if (part == "dtype") {
      same("dtype", numbers_of(view.dtype()), test.numbers(key).value());
    } else if (part == "sizes") {
      same("sizes", numbers_of(view.sizes()), test.numbers(key).value());
    } else if (part == "strides") {
      same("strides", numbers_of(view.strides()), test.numbers(key).value());
    } else if (part == "offset") {
      same_number(view.offset());
    } else if (part == "flags") {
      same_number(view.flags());
    } else if (part == "numel") {
      same_number(view.numel());
    } else if (part == "nbytes") {
      same_number(view.nbytes());
    } else if (part == "contiguous") {
      same_number(view.is_contiguous() ? 1 : 0);
    } else if (part == "read_only") {
      same_number(view.is_read_only() ? 1 : 0);
    } else if (part == "data") {
      const std::size_t nbytes = view.data() == nullptr ? 0 : value.size() / 2;
      same("data", hex_of({static_cast<const std::byte*>(view.data()), nbytes}), value);
    } else if (part != "status" && !part.starts_with("details.")) {
      throw Wrong("unknown expectation " + key);
    }
  }
}

void run_layout(const Case& test) {
  const tenon::Storage storage =
      tenon::Storage::make(static_cast<std::uint64_t>(test.number("storage_nbytes")));
  tenon::Tensor tensor;
  if (!outcome(test, [&] { tensor = make_tensor(test, "", storage); })) return;
  const tenon::TensorView view = tensor.view();
  same_view(test, "expect.", view);
  same("sizes", numbers_of(view.sizes()), test.numbers("sizes").value());
  same<std::int64_t>("offset", static_cast<std::int64_t>(view.offset()),
                     test.number_or("offset", 0));
}

// An item is written as kind:start:stop:step.
tenon::Index index_item(const std::string& text) {
  std::int64_t given[4] = {};
  const char* at = text.c_str();
  for (std::int64_t& number : given) {
    char* end = nullptr;
    number = std::strtoll(at, &end, 10);
    at = *end == ':' ? end + 1 : end;
  }
  switch (given[0]) {
    case TENON_INDEX_NUMBER: return given[1];
    case TENON_INDEX_SLICE: return tenon::Index::slice(given[1], given[2], given[3]);
    case TENON_INDEX_NEW_AXIS: return tenon::Index::new_axis();
    default: return tenon::Index::ellipsis();
  }
}

void run_view(const Case& test) {
  const tenon::Storage storage =
      tenon::Storage::make(static_cast<std::uint64_t>(test.number("storage_nbytes")));
  const tenon::Tensor tensor = make_tensor(test, "", storage);
  tenon::Tensor view;
  const auto make = [&] {
    if (test.find("reshape")) {
      view = tensor.reshape(test.numbers("reshape").value());
    } else if (test.find("view_dtype")) {
      const std::vector<std::int64_t> dtype = test.numbers("view_dtype").value();
      view = tensor.view_as({static_cast<std::uint8_t>(dtype.at(0)),
                             static_cast<std::uint8_t>(dtype.at(1)),
                             static_cast<std::uint16_t>(dtype.at(2))});
    } else {
      std::vector<tenon::Index> items;
      for (const std::string& item : test.texts("index")) items.push_back(index_item(item));
      view = tensor.index(items);
    }
  };
  if (outcome(test, make)) same_view(test, "expect.", view.view());
}

std::vector<std::byte> repeated(const std::vector<std::byte>& bytes, std::int64_t times) {
  std::vector<std::byte> all;
  for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

void run_message(const Case& test) {
  const std::vector<std::string> names = test.texts("names");
  std::vector<tenon::Tensor> tensors;
  std::vector<std::string> texts(names.size());
  std::vector<std::string_view> views(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    tensors.push_back(tenon::empty<std::uint8_t>({1}));
    if (names[i] == "-") continue;
    texts[i] = text_of(repeated(bytes_of_hex(names[i]), test.number_or("name_repeat", 1)));
    views[i] = texts[i];
  }
  const std::vector<std::byte> user =
      repeated(bytes_of_hex(test.find("user").value_or("")), test.number_or("user_repeat", 1));
  tenon::Message message = tenon::Message::make();
  const bool good = outcome(test, [&] {
    message.add(tensors, views);
    if (!user.empty()) message.set_user_bytes(user);
  });
  if (!good) return;
  same<std::int64_t>("count", static_cast<std::int64_t>(message.size()),
                     test.number("expect.count"));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::optional<std::string_view> name = message.name(i);
    if (name.has_value() != (views[i].data() != nullptr) || name.value_or("") != texts[i]) {
      throw Wrong("name " + std::to_string(i) + " does not come back");
    }
  }
  same("user bytes", hex_of(message.user_bytes()), hex_of(user));
  if (!test.find("expect.find")) return;
  for (const std::string& pair : test.texts("expect.find")) {
    const std::size_t colon = pair.find(':');
    const std::int64_t index = std::stoll(pair.substr(colon + 1));
    const tenon::Tensor found = message.find(text_of(bytes_of_hex(pair.substr(0, colon))));
    const tenon_tensor* wanted =
        index < 0 ? nullptr : tensors.at(static_cast<std::size_t>(index)).get();
    if (found.get() != wanted)
      throw Wrong("find " + pair.substr(0, colon) + " does not give " + std::to_string(index));
  }
}

void run_encode(const Case& test) {
  std::vector<tenon::Storage> storages;
  const std::vector<std::int64_t> sizes = test.numbers("storages").value();
  for (const std::int64_t nbytes : sizes) {
    storages.push_back(
        tenon::Storage::make(static_cast<std::uint64_t>(nbytes), {.isolated = true}));
  }
  tenon::Message message = tenon::Message::make();
  const std::int64_t count = test.text("tensors").empty() ? 0 : test.number("tensors");
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string prefix = "tensors." + std::to_string(i) + ".";
    const tenon::Tensor tensor = make_tensor(
        test, prefix, storages.at(static_cast<std::size_t>(test.number(prefix + "storage"))));
    const std::string name = test.text(prefix + "name");
    message.add(tensor,
                name == "-" ? std::string_view() : std::string_view(text_of(bytes_of_hex(name))));
  }
  const std::vector<std::byte> user = bytes_of_hex(test.text("user"));
  if (!user.empty()) message.set_user_bytes(user);
  const tenon::Descriptor descriptor = tenon::Descriptor::make(message);
  test.same_bytes(descriptor.bytes());
}

tenon::OpenOptions open_options(const Case& test) {
  const std::string access = test.find("access").value_or("auto");
  tenon::OpenOptions options;
  if (access == "read_only") options.access = tenon::Access::kReadOnly;
  if (access == "writable") options.access = tenon::Access::kWritable;
  options.allow_unsealed = test.number_or("allow_unsealed", 0) != 0;
  return options;
}

void run_descriptor(const Case& test) {
  const std::vector<std::byte> bytes = bytes_of_hex(test.text("bytes"));
  std::vector<std::int32_t> fds;
  const std::vector<std::int64_t> numbers = test.numbers("fds").value();
  for (const std::int64_t fd : numbers) fds.push_back(static_cast<std::int32_t>(fd));
  tenon::Message message;
  if (!outcome(test, [&] { message = tenon::open_descriptor(bytes, fds, open_options(test)); }))
    return;
  const std::vector<tenon::TensorView> views = message.views();
  const std::string count = test.text("expect.tensors");
  same<std::int64_t>("count", static_cast<std::int64_t>(views.size()),
                     count.empty() ? 0 : std::stoll(count));
  same("user bytes", hex_of(message.user_bytes()), test.text("expect.user"));
  for (std::size_t i = 0; i < views.size(); ++i)
    same_view(test, "expect.tensors." + std::to_string(i) + ".", views[i]);
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Wrong(path + ": " + std::strerror(errno));
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

void same_count(const Case& test, std::int64_t wanted) {
  const std::vector<std::byte> head = read_file(test.text("path"));
  std::int32_t count = -1;
  if (head.size() >= sizeof count) std::memcpy(&count, head.data(), sizeof count);
  same<std::int64_t>("count", count, wanted);
}

void run_named_file(const Case& test) {
  tenon::FilenameHandle handle;
  handle.name = test.text("path");
  handle.offset = static_cast<std::uint64_t>(test.number("offset"));
  handle.nbytes = static_cast<std::uint64_t>(test.number("nbytes"));
  tenon::Storage storage;
  if (!outcome(test, [&] { storage = tenon::open_filename(handle, open_options(test)); })) return;
  static constexpr const char* kModes[] = {"SHARED", "LENDER_WRITES", "FROZEN"};
  const std::string data = test.text("expect.data");
  same<std::int64_t>("nbytes", static_cast<std::int64_t>(storage.nbytes()),
                     test.number("expect.nbytes"));
  same("data", hex_of(storage.bytes().first(std::min(data.size() / 2, storage.bytes().size()))),
       data);
  same<std::int64_t>("read_only", storage.is_read_only() ? 1 : 0, test.number("expect.read_only"));
  same<std::int64_t>("sealed", storage.is_sealed() ? 1 : 0, test.number("expect.sealed"));
  same<std::string>("mode", kModes[static_cast<std::size_t>(storage.mode())],
                    test.text("expect.mode"));
  same_count(test, test.number("expect.count"));
  storage.close();
  same_count(test, test.number("expect.count") - 1);
}

void run_new_named_file(const Case& test) {
  const tenon::Filename filename{.name = test.text("name"), .directory = test.text("directory")};
  const std::string path = *filename.directory + "/" + *filename.name;
  tenon::Storage storage;
  if (!outcome(test, [&] {
        storage = tenon::make_filename(static_cast<std::uint64_t>(test.number("nbytes")), filename);
      }))
    return;
  storage.write(bytes_of_hex(test.text("payload")));
  test.same_bytes(read_file(path));
  storage.close();
  if (access(path.c_str(), F_OK) == 0) throw Wrong(path + " is left");
}

struct Kind {
  void (*run)(const Case& test);
  std::vector<std::string> expect;  // the keys that it knows
};

const std::map<std::string, Kind> kKinds = {
    {"status", {run_status, {}}},
    {"dtype", {run_dtype, {"status", "details", "nbytes"}}},
    {"layout", {run_layout, {"status", "details", "numel", "nbytes", "strides", "contiguous"}}},
    {"view", {run_view, {"status", "details", "dtype", "sizes", "strides", "offset", "flags"}}},
    {"message", {run_message, {"status", "details", "count", "find"}}},
    {"object", {run_object, {"status", "details", "text", "user"}}},
    {"composite",
     {run_composite,
      {"status", "details", "bytes", "parts", "sizes", "strides", "dtype", "check"}}},
    {"encode", {run_encode, {"bytes", "mask"}}},
    {"descriptor", {run_descriptor, {"status", "details", "tensors", "user"}}},
    {"arena", {run_arena, {"status", "details", "stats"}}},
    {"lease", {run_lease, {"blocks_lent", "bytes_lent", "leases", "nbytes"}}},
    {"named_file",
     {run_named_file,
      {"status", "details", "nbytes", "data", "read_only", "sealed", "mode", "count"}}},
    {"new_named_file", {run_new_named_file, {"status", "details", "bytes", "mask"}}},
    {"cuda_counter", {run_cuda_counter, {"status", "details"}}},
    {"cuda_open", {run_cuda_open, {"status", "details"}}},
    {"cuda_share",
     {run_cuda_share,
      {"status", "details", "transport", "device", "nbytes", "offset", "memory", "memory_nbytes",
       "counter", "counter_nbytes", "fds", "event_required"}}},
    {"cuda_event", {run_cuda_event, {"status", "details", "complete"}}},
    {"cuda_module", {run_cuda_module, {"status", "details", "names_device", "data"}}},
    {"cuda_arena", {run_cuda_arena, {"status", "details", "stats"}}},
};

void run(const Case& test) {
  const auto kind = kKinds.find(test.text("kind"));
  if (kind == kKinds.end()) throw Wrong("unknown kind " + test.text("kind"));
  for (const auto& [key, value] : test.lines()) {
    const std::string prefix = "expect.";
    if (!key.starts_with(prefix)) continue;
    const std::string part = last_part(key, prefix);
    const std::string first = part.substr(0, part.find('.'));
    if (std::find(kind->second.expect.begin(), kind->second.expect.end(), first) ==
        kind->second.expect.end()) {
      throw Wrong("unknown expectation " + key);
    }
  }
  kind->second.run(test);
}

std::string one_line(std::string text) {
  for (char& each : text) each = each == '\n' ? ' ' : each;
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(std::string(argv[1]) + "/cases.txt");
  if (!file) return 2;
  bool failed = false;
  Case test;
  while (test.read(file)) {
    std::string verdict = "ok " + test.text("id");
    try {
      if (const std::optional<std::string> why = missing(test)) {
        verdict = "skip " + test.text("id") + " " + one_line(*why);
      } else {
        run(test);
      }
    } catch (const std::exception& error) {
      failed = true;
      verdict = "FAIL " + test.text("id") + " " + one_line(error.what());
    }
    std::cout << verdict << std::endl;
  }
  return failed ? 1 : 0;
}
