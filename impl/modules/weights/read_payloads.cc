// Reads the weights of a .pt2 archive whose records are the bytes of storages, with a list in JSON
// beside them (contents_builder.h).
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "modules/module/archive_kind.h"
#include "modules/weights/contents_builder.h"
#include "modules/weights/payload_config.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using archive::ZipReader;
using archive::ZipRecord;
using tensor::ScalarType;
using value::StorageValue;
using value::TensorValue;
using value::TensorValueRef;

namespace {

constexpr std::string_view kWeightsFolder = "data/weights/";
constexpr std::string_view kConstantsFolder = "data/constants/";
constexpr std::string_view kWeightsList = "_weights_config.json";
constexpr std::string_view kConstantsList = "_constants_config.json";
constexpr std::string_view kSavedTensors = ".pt";
// The number of a strided tensor in torch._export.serde.schema.Layout.
constexpr int64_t kStrided = 7;

// A record that lists the weights of one model.
struct List {
  const ZipRecord* record = nullptr;
  std::string_view folder;
  std::string_view model;
  bool is_saved = false;  // true: the record is an archive of torch.save, and not a list in JSON
};

std::optional<List> list_of(const ZipRecord& record) {
  constexpr std::array kKinds = {
      std::pair{kWeightsFolder, kWeightsList}, std::pair{kConstantsFolder, kConstantsList},
      std::pair{kWeightsFolder, kSavedTensors}, std::pair{kConstantsFolder, kSavedTensors}};
  for (const auto& [folder, end] : kKinds) {
    if (record.name.size() <= folder.size() + end.size() || !record.name.starts_with(folder) ||
        !record.name.ends_with(end))
      continue;
    const std::string_view model =
        record.name.substr(folder.size(), record.name.size() - folder.size() - end.size());
    return List{&record, folder, model, end == kSavedTensors};
  }
  return std::nullopt;
}

// The numbers of torch._export.serde.schema.ScalarType: up to bool, c10's number plus one, and
// numbers of its own from there on.
std::optional<ScalarType> type_of(int64_t number) {
  struct TypeNumber {
    int64_t number;
    ScalarType type;
  };
  static constexpr TypeNumber kKnown[] = {
      {13, ScalarType::kBFloat16},       {28, ScalarType::kUInt16},
      {29, ScalarType::kFloat8E4m3fn},   {30, ScalarType::kFloat8E5m2},
      {31, ScalarType::kFloat8E4m3fnuz}, {32, ScalarType::kFloat8E5m2fnuz},
      {33, ScalarType::kFloat8E8m0fnu},  {34, ScalarType::kUInt32},
      {35, ScalarType::kUInt64},
  };
  if (number >= 1 && number <= 12) return tensor::scalar_type_from_number(number - 1);
  for (const TypeNumber& known : kKnown) {
    if (known.number == number) return known.type;
  }
  return std::nullopt;
}

Status refuse(const char* why) { return {Code::kUnsupported, why}; }

class PayloadReader {
 public:
  PayloadReader(const module::ImportOptions& options, Contents* contents)
      : archive_(*contents->archive),
        contents_(contents),
        part_(contents, options, module::is_foreign_endian(archive_)),
        max_nbytes_(options.pickle_limits.max_nbytes) {}

  Status read(const List& list, const std::string& prefix) {
    if (list.record->nbytes > max_nbytes_) {
      return Status(Code::kResourceExhausted,
                    format("the record %.300s has more bytes than the limit max_nbytes allows",
                           std::string(list.record->name).c_str()))
          .with("limit", "max_nbytes")
          .with("limit_value", max_nbytes_);
    }
    TENON_ASSIGN(const std::string text, archive_.read_text(*list.record));
    TENON_ASSIGN(std::vector<Payload> payloads,
                 read_payload_config(text, std::string(list.record->name)));
    for (const Payload& payload : payloads) {
      Weight weight;
      weight.name = prefix + payload.name;
      Result<TensorValueRef> tensor = read_tensor(payload, list.folder, &weight);
      if (tensor.status().code() == Code::kCorrupt)
        return corrupt_weight(weight.name, tensor.status());
      TENON_TRY(add_weight(std::move(weight), std::move(tensor), contents_));
    }
    return Status::ok();
  }

  Status finish() { return part_.finish(); }

 private:
  Result<TensorValueRef> read_tensor(const Payload& payload, std::string_view folder,
                                     Weight* weight) {
    const std::string name = std::string(folder) + payload.path_name;
    const ZipRecord* const record = archive_.find(name);
    if (record == nullptr)
      return Status(Code::kCorrupt, format("there is no record %.300s", name.c_str()));
    if (!payload.has_meta) return refuse("it is an object and no tensor");
    if (payload.use_pickle)
      return refuse("it is pickled, as PyTorch saves subclasses of torch.Tensor");
    if (payload.is_symbolic) return refuse("its shape has symbols");
    if (payload.layout != kStrided) return refuse("its layout is not strided");
    const std::optional<ScalarType> type = type_of(payload.dtype);
    if (!type)
      return Status(Code::kUnsupported, format("its element type has the number %lld",
                                               static_cast<long long>(payload.dtype)));
    if (payload.sizes.size() != payload.strides.size())
      return Status(Code::kCorrupt, "it has a number of strides that is not its sizes'");
    value::StridedSpec spec;
    spec.sizes = payload.sizes;
    spec.strides = payload.strides;
    spec.offset = payload.offset;
    spec.requires_grad =
        payload.requires_grad && (tensor::is_floating_point(*type) || tensor::is_complex(*type));
    if (payload.device == "meta") return meta_tensor(*type, &spec);
    const size_t index = index_of(archive_, *record);
    TENON_ASSIGN(Ref<storage::Storage> bytes, part_.bytes_of(index, *type, payload.device));
    const uint64_t numel = record->nbytes / tensor::scalar_type_info(*type).nbytes;
    TENON_ASSIGN(spec.storage, StorageValue::create(*type, numel, std::move(bytes)));
    if (record->nbytes != 0) weight->slot = part_.slot_of(index);
    Result<TensorValueRef> tensor = TensorValue::create(spec);
    // The records of a program that was exported with fake tensors have no bytes.
    if (!tensor.is_ok() && record->nbytes == 0) return refuse("the archive has no elements of it");
    return tensor;
  }

  static Result<TensorValueRef> meta_tensor(ScalarType type, value::StridedSpec* spec) {
    TENON_ASSIGN(spec->storage, StorageValue::create(type, 0, nullptr, 0, "meta"));
    return TensorValue::create(*spec);
  }

  const ZipReader& archive_;
  Contents* contents_;
  PartStorages part_;
  const uint64_t max_nbytes_;  // for one list
};

}  // namespace

Status read_payloads(const module::ImportOptions& options, Contents* contents) {
  std::vector<List> lists;
  std::set<std::string_view> models;
  for (const ZipRecord& record : contents->archive->records()) {
    const std::optional<List> list = list_of(record);
    if (!list) continue;
    lists.push_back(*list);
    models.insert(list->model);
  }
  if (lists.empty()) return refuse("has no exported program, and so no weights that Tenon reads");
  Part own;
  own.reader = contents->archive;
  if (module::is_foreign_endian(*contents->archive))
    own.fixed_because = "the archive is big-endian";
  contents->parts.push_back(std::move(own));
  PayloadReader reader(options, contents);
  for (const List& list : lists) {
    const std::string prefix = models.size() > 1 ? std::string(list.model) + "/" : std::string();
    if (list.is_saved) {
      TENON_TRY(read_saved_tensors(*list.record, prefix, options, contents));
    } else {
      TENON_TRY(reader.read(list, prefix));
    }
  }
  return reader.finish();
}

}  // namespace tenon::weights
