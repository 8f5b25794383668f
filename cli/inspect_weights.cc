// `tenon inspect` of a file of weights, of any form in WeightsForm (weights_facts.h).
#include <string>
#include <utility>

#include "archive_print.h"
#include "commands.h"
#include "inspect.h"
#include "output.h"
#include "weights_facts.h"

namespace tenon::cli {
namespace {

std::string form_text(const WeightsFacts& facts) {
  const std::string version =
      facts.version.empty() ? "an unknown version" : "version " + safe_text(facts.version);
  std::string text = words_of(facts.form).description;
  switch (facts.form) {
    case WeightsForm::kPt2Archive: return text + " of " + version;
    case WeightsForm::kFirstArchive: return text + ", whose schema has " + version;
    default: return text;
  }
}

void print_weights_head(const std::string& path, const WeightsFacts& facts) {
  const archive::ZipReader& container = *facts.container;
  const std::string name =
      container.prefix().empty() ? "" : " \"" + safe_text(container.prefix()) + "\"";
  print_text(safe_text(path) + ": " + words_of(facts.form).kind + name + ", " +
             weights_part_text(facts) + ", " + size_text(facts.nbytes) + "\n");
  print_text(form_text(facts) + "\n");
  if (facts.programs.size() < 2) return;
  std::string programs;
  for (const std::string& each : facts.programs)
    programs += (programs.empty() ? "" : ", ") + safe_text(each);
  print_text("programs: ");
  print_wrapped(programs, 4);
}

void print_weights(const WeightsFacts& facts) {
  if (facts.weights.empty()) return;
  print_title("weights");
  Table table({{"NAME"},
               {"TYPE"},
               {"SIZES"},
               {"BYTES", true},
               {"STRIDES"},
               {"OFFSET", true},
               {"STORAGE", true},
               {"DETAILS"}});
  for (const WeightFact& each : facts.weights) {
    const TensorFact& tensor = each.tensor;
    const bool is_read = !tensor.dtype.empty();
    const bool has_strides = is_read && !tensor.strides.empty();
    table.add({{safe_text(tensor.path)},
               is_read ? Table::Cell{tensor.dtype} : Table::Cell{"cannot be read", Colour::kRed},
               {is_read ? numbers_text(tensor.sizes) : ""},
               {is_read ? std::to_string(tensor.nbytes) : ""},
               {has_strides ? numbers_text(tensor.strides) : ""},
               {has_strides ? std::to_string(tensor.offset) : ""},
               {tensor.storage == SIZE_MAX ? "" : std::to_string(tensor.storage)},
               {safe_text(tensor.details)}});
  }
  table.print();
  print_text(storages_text(facts.storages, "weights") + "\n");
}

void print_parts(const WeightsFacts& facts) {
  const bool is_index = facts.form == WeightsForm::kShards;
  if (!is_index) print_records(*facts.container, words_of(facts.form).records_title);
  const std::string what = is_index ? "the shard " : "records of the archive in ";
  for (const NestedArchive& nested : facts.nested)
    print_records(*nested.reader, (what + safe_text(nested.record)).c_str());
}

Json weights_json(const WeightsFacts& facts) {
  Json list = Json::array();
  for (const WeightFact& each : facts.weights) {
    const TensorFact& tensor = each.tensor;
    const bool is_read = !tensor.dtype.empty();
    list.push_back({{"name", tensor.path},
                    {"dtype", text_json(tensor.dtype)},
                    {"sizes", is_read ? Json(tensor.sizes) : Json(nullptr)},
                    {"nbytes", is_read ? Json(tensor.nbytes) : Json(nullptr)},
                    {"strides", is_read ? Json(tensor.strides) : Json(nullptr)},
                    {"offset", is_read ? Json(tensor.offset) : Json(nullptr)},
                    {"storage", tensor.storage == SIZE_MAX ? Json(nullptr) : Json(tensor.storage)},
                    {"details", tensor.details},
                    {"error", error_json(each.wrong)}});
  }
  return list;
}

Json weights_file_json(const std::string& path, const WeightsFacts& facts) {
  Json json = {{"kind", words_of(facts.form).kind},
               {"path", path},
               {"name", std::string(facts.container->prefix())},
               {"nbytes", facts.nbytes},
               {"records", records_json(*facts.container)},
               {"warnings", facts.warnings},
               {"error", error_json(facts.wrong())},
               {"form", words_of(facts.form).name},
               {"form_version", text_json(facts.version)},
               {"programs", facts.programs},
               {"weights", weights_json(facts)},
               {"storages", storages_json(facts.storages)}};
  json["archives"] = Json::array();
  for (const NestedArchive& nested : facts.nested) {
    json["archives"].push_back(
        {{"record", nested.record}, {"records", records_json(*nested.reader)}});
  }
  return json;
}

int show_weights(const std::string& path, const WeightsFacts& facts,
                 const InspectOptions& options) {
  const int code = facts.wrong().is_ok() ? kExitOk : kExitProblem;
  if (options.json) {
    print_json(weights_file_json(path, facts));
    return code;
  }
  print_weights_head(path, facts);
  print_warnings(facts.warnings);
  print_weights(facts);
  print_parts(facts);
  if (!facts.why_no_weights.is_ok()) print_error(facts.why_no_weights);
  for (const WeightFact& each : facts.weights) {
    if (!each.wrong.is_ok()) print_error(each.wrong);
  }
  return code;
}

}  // namespace

int inspect_weights(const ArchiveInput& input, const InspectOptions& options) {
  const char* const refused = !options.module.empty() ? "--module"
                              : options.code          ? "--code"
                                                      : nullptr;
  Result<WeightsFacts> facts = refused == nullptr
                                   ? gather_weights(input, archive::Check::kStructure)
                                   : Result<WeightsFacts>(refuse_weights_option(input, refused));
  if (facts.is_ok()) return show_weights(input.shown, facts.value(), options);
  print_error(facts.status());
  return kExitProblem;
}

}  // namespace tenon::cli
