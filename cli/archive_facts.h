// What `tenon inspect` and `tenon verify` tell of a module archive, gathered before anything is printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/zip_reader.h"
#include "base/status.h"
#include "module/module.h"

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
  std::string kind;   // "parameter", "buffer", "attribute"
  std::string dtype;  // empty: None
  std::vector<int64_t> sizes;
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
  Ref<archive::ZipReader> container;
  Status why_no_module;  // ok: all below is there
  Ref<module::Module> root;
  std::vector<ModuleFact> modules;
  std::vector<TensorFact> tensors;
  std::vector<StorageFact> storages;
  std::vector<MemberFact> members;
  std::vector<MethodFact> methods;
  std::vector<CodeFact> code;
  std::string oldest_pytorch;  // empty: not known
  std::vector<std::string> warnings;
};

// Whether the file begins as a zip file does.
bool is_zip_file(const std::string& path) noexcept;

// An error only if there is no container that can be read.
Result<ArchiveFacts> gather_archive(const std::string& path, archive::Check check);

}  // namespace tenon::cli
