// Gathers the facts that `tenon inspect` and `tenon verify` print about a file of weights, before
// anything is printed. The files of torch.save that are zip archives have checkpoint_facts.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive_facts.h"
#include "archive_input.h"
#include "base/status.h"
#include "modules/archive/zip_reader.h"

namespace tenon::cli {

enum class WeightsForm {
  kPt2Archive,    // the archives that torch.export of current PyTorch writes
  kFirstArchive,  // those of PyTorch 2.6
  kFlatTensors,   // the files of ExecuTorch
  kSafetensors,
  kNumpyArray,    // .npy
  kNumpyArchive,  // .npz
  kLegacySave,    // torch.save before PyTorch 1.6
  kShards,        // an index of shards (*.index.json), and its shards
};

// The words of a form.
struct WeightsFormWords {
  const char* name;           // in JSON
  const char* kind;           // "safetensors"
  const char* what;           // "a safetensors file"
  const char* description;    // as `what`, with more facts
  const char* part;           // "tensor"
  const char* parts;          // "tensors"
  const char* records_title;  // "tensors in the file"
  bool has_checksums;         // for an index, the shards tell
};
const WeightsFormWords& words_of(WeightsForm form) noexcept;

struct WeightFact {
  // The path is the name of the weight. The dtype is empty if the weight cannot be read.
  TensorFact tensor;
  Status wrong;  // ok: the weight can be read, and no damage was found
};

// An archive of torch.save that is a record of the file and has weights, or a shard.
struct NestedArchive {
  std::string record;
  Ref<archive::ZipReader> reader;
};

struct WeightsFacts {
  WeightsForm form = WeightsForm::kPt2Archive;
  std::string version;  // the version of the form, as in the file; empty: the file has none
  Ref<archive::ZipReader> container;  // without a zip archive: segments or tensors
  uint64_t nbytes = 0;                // the size of the file, or of all shards
  Status why_no_weights;              // ok: the lists of weights can be read
  std::vector<std::string> programs;
  std::vector<WeightFact> weights;
  std::vector<StorageFact> storages;  // each storage once
  std::vector<NestedArchive> nested;
  std::vector<Status> wrong_records;  // damaged records that no other error here names
  std::vector<std::string> warnings;

  // The first of all errors.
  const Status& wrong() const noexcept;
};

// The form of a zip archive, as far as its records tell.
std::optional<WeightsForm> weights_form(const archive::ZipReader& container);

// Gives "12 records", "3 segments" for a .ptd file, or "5 tensors" for a safetensors file.
std::string weights_part_text(const WeightsFacts& facts);

// Fails only if the file has no container that can be read. `check` kAll reads every record, which
// finds those that are damaged. Every message names the file.
Result<WeightsFacts> gather_weights(const ArchiveInput& input, archive::Check check);

// Gives the error for an option of `tenon inspect` that applies only to modules.
Status refuse_weights_option(const ArchiveInput& input, const char* option);
// Gives the error of a command that can only read modules.
Status refuse_weights_as_module(const ArchiveInput& input);

}  // namespace tenon::cli
