// libFuzzer target: it reads any bytes as a pickle. This must end in a typed error with its place,
// or in values that survive writing and reading.
#include <cstdint>
#include <string>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/pickle_state_dict.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/value/compare.h"
#include "peers/fuzz/require.h"
#include "pickle/reader.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::archive;
using namespace tenon::pickle;

void check_refusal(const Status& status) {
  fuzz::require_refusal(status, {Code::kCorrupt, Code::kUnsupported, Code::kResourceExhausted},
                        {"offset"});
}

// No storage that the bytes name exists. So all storages have no bytes, and a large size costs
// nothing.
Result<value::StorageValueRef> find_storage(const PickledStorage& wanted) {
  Result<value::StorageValueRef> made =
      value::StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
  if (!made.is_ok())
    return Status(Code::kCorrupt, made.status().message()).with("offset", "of the record");
  return made;
}

PickleReadOptions options_of(PickleDialect dialect) {
  PickleReadOptions options;
  options.dialect = dialect;
  options.limits.max_nodes = 100'000;
  options.limits.max_names_nbytes = 1'000'000;
  return options;
}

std::vector<std::byte> write(const value::ValueRef& root, SequentialKeys* keys) {
  FromValuesOptions options;
  options.name_storage = keys->namer();
  Result<std::vector<std::byte>> written = values_to_pickle(root, options);
  if (!written.is_ok()) {
    // Only torch.save has these layouts.
    require(written.status().code() == Code::kUnsupported, "what was read cannot be written",
            written.status().message());
    return {};
  }
  return std::move(written).value();
}

void check_values(std::span<const std::byte> bytes) {
  const PickleReadOptions options = options_of(PickleDialect::kModule);
  Result<PickleTree> tree = read_pickle(bytes, options);
  if (!tree.is_ok()) return check_refusal(tree.status());
  ToValuesOptions to_values;
  to_values.find_storage = find_storage;
  to_values.limits = options.limits;
  Result<UnpickledValue> first = pickle_to_values(tree.value(), to_values);
  if (!first.is_ok()) return check_refusal(first.status());

  SequentialKeys keys;
  const std::vector<std::byte> written = write(first.value().root, &keys);
  if (written.empty()) return;
  Result<PickleTree> second_tree = read_pickle(written, options_of(PickleDialect::kModule));
  require(second_tree.is_ok(), "what was written is refused", second_tree.status().message());
  to_values.find_storage = [&](const PickledStorage& wanted) -> Result<value::StorageValueRef> {
    return keys.storages().at(std::stoul(std::string(wanted.key)));
  };
  Result<UnpickledValue> second = pickle_to_values(second_tree.value(), to_values);
  require(second.is_ok(), "what was written is no value", second.status().message());
  const auto difference = value::difference(*first.value().root, *second.value().root);
  require(!difference, "a round changes the value", difference.value_or(""));
  SequentialKeys more_keys;
  require(write(second.value().root, &more_keys) == written, "a second round gives other bytes");
}

void check_state_dict(std::span<const std::byte> bytes, bool is_module) {
  const PickleReadOptions options =
      options_of(is_module ? PickleDialect::kModule : PickleDialect::kGeneral);
  Result<PickleTree> tree = read_pickle(bytes, options);
  if (!tree.is_ok()) return check_refusal(tree.status());
  StateDictOptions state_dict;
  state_dict.find_storage = find_storage;
  state_dict.any_device = true;
  state_dict.is_module = is_module;
  state_dict.limits = options.limits;
  const Status status = pickle_state_dict(tree.value(), state_dict).status();
  if (!status.is_ok()) check_refusal(status);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  check_values(bytes);
  check_state_dict(bytes, false);
  check_state_dict(bytes, true);
  return 0;
}
