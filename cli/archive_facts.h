// Gathers the facts that `tenon inspect` and `tenon verify` print about a module archive, a
// flatbuffer or a file of torch.save, before anything is printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive_input.h"
#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/module.h"
#include "modules/value/tensor_value.h"

namespace tenon::cli {

struct ModuleFact {
  std::string path;  // "" is the root
  std::string class_name;
  // the first path of the same module, if this is another path to it; else empty
  std::string same_as;
  bool is_shared = false;
};

struct MemberFact {
  std::string path;
  std::string kind;  // "attribute", "constant"
  std::string type;
  std::string value;
};

struct TensorFact {
  std::string path;
  std::string kind;   // "parameter", "buffer" or "attribute"; "tensor" in a file of torch.save
  std::string dtype;  // empty: the value is None
  std::vector<int64_t> sizes;
  // The bytes of all elements, as PyTorch's Tensor.nbytes counts them: an expanded tensor has more
  // than its storage. A sparse tensor counts its indices and values. UINT64_MAX if the number is
  // larger.
  uint64_t nbytes = 0;
  std::vector<int64_t> strides;  // empty for a sparse tensor
  int64_t offset = 0;
  std::string details;  // "requires_grad, sparse_coo, quantised per_tensor_affine"
  // An index of ArchiveFacts::storages or WeightsFacts::storages. SIZE_MAX: no storage is named, as
  // for None and for a sparse tensor, which has several.
  size_t storage = SIZE_MAX;
};

struct StorageFact {
  std::string dtype;
  uint64_t numel = 0;
  uint64_t nbytes = 0;
  uint64_t tensors = 0;        // how many tensors, or parts of tensors, lie in it
  value::StorageKey key = {};  // for a module's storage: tells whether two modules share it
};

struct MethodFact {
  std::string path;
  std::string head;  // as in the class, on one line
};

struct CodeFact {
  std::string name;
  std::string text;
};

struct ArchiveFacts {
  Ref<archive::ZipReader> container;  // for a flatbuffer: its storages
  std::string module_name;            // for a module of a package; else empty
  bool is_flatbuffer = false;
  // Whether this is a file of torch.save. Then only tensors, storages, others, n_others,
  // why_not_taken and warnings of the members below are filled in.
  bool is_checkpoint = false;
  Status why_no_module;  // ok for a module: all members below are filled in
  Ref<module::Module> root;
  std::vector<ModuleFact> modules;
  std::vector<TensorFact> tensors;
  std::vector<StorageFact> storages;
  std::vector<MemberFact> members;
  std::vector<MethodFact> methods;
  std::vector<CodeFact> code;
  // The names of values that are not tensors, and what was skipped.
  static constexpr size_t kMostOthers = 64;
  std::vector<std::string> others;
  uint64_t n_others = 0;
  // For a module, the reason why PyTorch refuses the code. ok: PyTorch accepts it, as far as it can
  // be checked. For a file of torch.save, the reason why it cannot be read.
  Status why_not_taken;
  Status why_no_bytecode;      // ok: the archive has no bytecode, or the verifier accepts it
  std::string oldest_pytorch;  // empty: unknown
  // calls that some versions of PyTorch refuse (module::CodeNeeds)
  std::vector<std::string> partly_refused;
  std::vector<std::string> warnings;
};

// Gives "12 records", or "3 storages" for a flatbuffer.
std::string part_count_text(const ArchiveFacts& facts);

// Adds a warning for each oddity of the container that is not an error.
void add_oddities(const archive::ZipReader& container, std::vector<std::string>* warnings);

// Adds a word to TensorFact::details.
void add_detail(const std::string& word, std::string* details);
// Fills in all but the path, the kind and the storage.
void describe_tensor(const value::TensorValue& tensor, TensorFact* fact);

// Fills in everything but the container and the kind of the file. An error means that the module
// cannot be looked at, and the callers keep it in why_no_module. Code that PyTorch refuses is no
// error (why_not_taken).
Status gather_module(const Ref<module::Module>& root, ArchiveFacts* facts);

// Fails only if the file has no container that can be read. Every message names the file.
Result<ArchiveFacts> gather_archive(const ArchiveInput& input, archive::Check check);

}  // namespace tenon::cli
