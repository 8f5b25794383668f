// Reads pickles that PyTorch wrote. pickle_test.py starts this program. A task is one line on
// stdin, with tabs between its words:
//
//   rewrite <pickle> <folder of its storages> <where to write it again>
//       prints the keys of the storages in the order of their use
//   state_dict <pickle> <folder of its storages>
//       prints one line per tensor
//
// Each task ends with a line "ok", or "error <code> <message>".
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/pickle_state_dict.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/value/compare.h"
#include "pickle/reader.h"
#include "support/run_tasks.h"

namespace {

using namespace tenon;
using namespace tenon::archive;
using namespace tenon::pickle;

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Status(Code::kIo, path + " cannot be read");
  const std::string content{std::istreambuf_iterator<char>(stream),
                            std::istreambuf_iterator<char>()};
  const auto* begin = reinterpret_cast<const std::byte*>(content.data());
  return std::vector<std::byte>(begin, begin + content.size());
}

// Makes storages of the files in `folder`, and remembers the key of each storage.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  FindStorage finder() {
    return [this](const PickledStorage& wanted) -> Result<value::StorageValueRef> {
      Ref<storage::Storage> made;
      const bool is_meta = wanted.device == "meta";
      if (!is_meta) {
        TENON_ASSIGN(std::vector<std::byte> content,
                     read_file(path_ + "/" + std::string(wanted.key)));
        // PyTorch writes traced inputs without their bytes.
        if (content.empty())
          content.resize(wanted.numel * tensor::scalar_type_info(wanted.type).nbytes);
        storage::StorageOptions options;
        options.is_private = true;
        TENON_ASSIGN(made, storage::Storage::create_from(options, content.data(), content.size()));
      }
      TENON_ASSIGN(value::StorageValueRef found,
                   value::StorageValue::create(wanted.type, wanted.numel, std::move(made), 0,
                                               wanted.device));
      keys_[found.get()] = std::string(wanted.key);
      return found;
    };
  }
  const std::string& key(const value::StorageValueRef& storage) const {
    return keys_.at(storage.get());
  }

 private:
  std::string path_;
  std::map<const value::StorageValue*, std::string> keys_;
};

Status rewrite(const std::vector<std::string>& words) {
  TENON_ASSIGN(const std::vector<std::byte> content, read_file(words.at(1)));
  TENON_ASSIGN(const PickleTree tree, read_pickle(content, {}));
  Folder folder(words.at(2));
  ToValuesOptions reading;
  reading.find_storage = folder.finder();
  TENON_ASSIGN(const UnpickledValue read, pickle_to_values(tree, reading));
  SequentialKeys keys;
  FromValuesOptions writing;
  writing.name_storage = keys.namer();
  writing.memoised = &read.memoised;
  TENON_ASSIGN(const std::vector<std::byte> again, values_to_pickle(read.root, writing));
  std::ofstream out(words.at(3), std::ios::binary);
  out.write(reinterpret_cast<const char*>(again.data()),
            static_cast<std::streamsize>(again.size()));
  if (!out.flush()) return Status(Code::kIo, words.at(3) + " cannot be written");
  for (const value::StorageValueRef& storage : keys.storages())
    std::cout << folder.key(storage) << "\n";

  // The values are also written without the memo that says how PyTorch wrote them. Reading that
  // pickle must give the same values.
  writing.memoised = nullptr;
  SequentialKeys others;
  writing.name_storage = others.namer();
  TENON_ASSIGN(const std::vector<std::byte> plain, values_to_pickle(read.root, writing));
  TENON_ASSIGN(const PickleTree plain_tree, read_pickle(plain, {}));
  ToValuesOptions rereading;
  rereading.find_storage = [&](const PickledStorage& wanted) -> Result<value::StorageValueRef> {
    return others.storages().at(std::stoul(std::string(wanted.key)));
  };
  TENON_ASSIGN(const UnpickledValue reread, pickle_to_values(plain_tree, rereading));
  if (const auto difference = value::difference(*read.root, *reread.root)) {
    return Status(Code::kInternal,
                  "read, written and read again, the values differ: " + *difference);
  }
  return Status::ok();
}

std::string numbers(std::span<const int64_t> values) {
  std::string out;
  for (const int64_t value : values) out += (out.empty() ? "" : ",") + std::to_string(value);
  return "[" + out + "]";
}

std::string strided_line(const value::TensorValue& tensor, const Folder& folder) {
  std::ostringstream line;
  line << tensor::scalar_type_info(tensor.type()).dtype_name << " " << numbers(tensor.sizes())
       << " " << numbers(tensor.strides()) << " " << tensor.offset() << " "
       << folder.key(tensor.storage()) << (tensor.is_conj() ? " conj" : "")
       << (tensor.is_neg() ? " neg" : "");
  return line.str();
}

Status state_dict(const std::vector<std::string>& words) {
  TENON_ASSIGN(const std::vector<std::byte> content, read_file(words.at(1)));
  PickleReadOptions general;
  general.dialect = PickleDialect::kGeneral;
  TENON_ASSIGN(const PickleTree tree, read_pickle(content, general));
  Folder folder(words.at(2));
  StateDictOptions options;
  options.find_storage = folder.finder();
  TENON_ASSIGN(const StateDict read, pickle_state_dict(tree, options));
  for (const NamedTensor& named : read.tensors) {
    TENON_TRY(named.why);
    const value::TensorValue& tensor = *named.tensor;
    std::cout << named.name << "\t" << (named.is_parameter ? "parameter" : "tensor") << "\t"
              << (tensor.requires_grad() ? "grad" : "no grad") << "\t"
              << value::tensor_layout_name(tensor.layout()) << "\t";
    if (tensor.layout() == value::TensorLayout::kStrided) {
      std::cout << strided_line(tensor, folder);
      if (tensor.quantizer()) std::cout << " " << value::qscheme_name(tensor.quantizer()->scheme);
    } else {
      std::cout << numbers(tensor.sizes());
      for (const auto& part : {tensor.indices(), tensor.plain_indices(), tensor.values()}) {
        if (part) std::cout << "; " << strided_line(*part, folder);
      }
    }
    std::cout << "\n";
  }
  for (const StateDictLeaf& leaf : read.leaves)
    std::cout << leaf.name << (leaf.value ? "" : ": " + leaf.what) << "\tother\n";
  return Status::ok();
}

}  // namespace

int main() {
  return tenon::test::run_tasks([](const std::vector<std::string>& words) {
    return words.at(0) == "rewrite" ? rewrite(words) : state_dict(words);
  });
}
