// Gathers what `tenon inspect` and `tenon verify` tell of a module archive, a flatbuffer or a file
// of torch.save, before anything is printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/zip_reader.h"
#include "archive_input.h"
#include "base/status.h"
#include "module/module.h"
#include "value/tensor_value.h"

namespace tenon::cli {

struct ModuleFact {
  std::string path;  // "" is the root
  std::string class_name;
  std::string same_as;  // the path under which it was met before; else empty
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
  std::string kind;   // "parameter", "buffer", "attribute"; "tensor" of a file of torch.save
  std::string dtype;  // empty: None
  std::vector<int64_t> sizes;
  // The bytes of all elements, as PyTorch's Tensor.nbytes counts them: an expanded tensor has more
  // than its storage. A sparse tensor counts its indices and values. UINT64_MAX if the number is
  // larger.
  uint64_t nbytes = 0;
  std::vector<int64_t> strides;  // none of a sparse one
  int64_t offset = 0;
  std::string details;  // "requires_grad, sparse_coo, quantised per_tensor_affine"
  size_t storage = SIZE_MAX;
};

struct StorageFact {
  std::string dtype;
  uint64_t numel = 0;
  uint64_t nbytes = 0;
  uint64_t tensors = 0;
  value::StorageKey key = {};  // of a module's storage: what tells whether two modules share it
};

struct MethodFact {
  std::string path;
  std::string head;  // as it stands in the class, on one line
};

struct CodeFact {
  std::string name;
  std::string text;
};

struct ArchiveFacts {
  Ref<archive::ZipReader> container;  // of a flatbuffer: its storages
  std::string module_name;            // of a module of a package; else empty
  bool is_flatbuffer = false;
  // A file of torch.save, of which only tensors, storages, others and n_others are there.
  bool is_checkpoint = false;
  Status why_no_module;  // ok: all below is there
  Ref<module::Module> root;
  std::vector<ModuleFact> modules;
  std::vector<TensorFact> tensors;
  std::vector<StorageFact> storages;
  std::vector<MemberFact> members;
  std::vector<MethodFact> methods;
  std::vector<CodeFact> code;
  // Names of values that are no tensors, as many as StateDict::kMaxOthers.
  std::vector<std::string> others;
  uint64_t n_others = 0;
  // ok: PyTorch takes the code, as far as it can be checked. Why a file of torch.save cannot be
  // read.
  Status why_not_taken;
  Status why_no_bytecode;      // ok: the archive has no bytecode, or the verifier takes it
  std::string oldest_pytorch;  // empty: not known
  std::vector<std::string> partly_refused;  // calls that some PyTorch refuses (module::CodeNeeds)
  std::vector<std::string> warnings;
};

// "12 records", or "3 storages" of a flatbuffer.
std::string part_count_text(const ArchiveFacts& facts);

// Adds what is odd about the container and no error.
void add_oddities(const archive::ZipReader& container, std::vector<std::string>* warnings);

// Adds a word to TensorFact::details.
void add_detail(const std::string& word, std::string* details);
// Fills in all but the path, the kind and the storage.
void describe_tensor(const value::TensorValue& tensor, TensorFact* fact);

// Fills in everything but the container and the kind of the file.
Status gather_module(const Ref<module::Module>& root, ArchiveFacts* facts);

// An error only if there is no container that can be read. Every message names the file.
Result<ArchiveFacts> gather_archive(const ArchiveInput& input, archive::Check check);

}  // namespace tenon::cli
