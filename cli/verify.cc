// `tenon verify`: checks module archives, flatbuffers, packages, files of torch.save and files of
// weights.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "archive_facts.h"
#include "archive_input.h"
#include "archive_print.h"
#include "commands.h"
#include "module_input.h"
#include "output.h"
#include "package_facts.h"
#include "weights_facts.h"

namespace tenon::cli {
namespace {

std::string good_text(const std::string& what) {
  return safe_text(what) + ": " + paint(Colour::kGreen, "good") + ": ";
}

std::string size_of(const archive::ZipReader& container) {
  return size_text(container.source()->nbytes());
}

Json verdict_json(const std::string& path, const Status& status,
                  const std::vector<std::string>& warnings) {
  return {{"path", path},
          {"ok", status.is_ok()},
          {"error", error_json(status)},
          {"warnings", warnings}};
}

// The warnings that `tenon inspect` prints too, and the calls that some versions of PyTorch refuse.
// In place of these calls `inspect` prints the oldest PyTorch that runs the code.
template <typename Facts>
std::vector<std::string> all_warnings(const Facts& facts) {
  std::vector<std::string> all = facts.warnings;
  all.insert(all.end(), facts.partly_refused.begin(), facts.partly_refused.end());
  return all;
}

// Each of the following functions returns the exit code. `all`, if it is not null, gets the report,
// and then nothing is printed.

int report_failure(const std::string& path, const Status& status, Json* all) {
  if (all != nullptr)
    *all = verdict_json(path, status, {});
  else
    print_error(status);
  return kExitProblem;
}

int verify_archive(const std::string& path, const ArchiveInput& input, Json* all) {
  Result<ArchiveFacts> gathered = gather_archive(input, archive::Check::kAll);
  if (!gathered.is_ok()) return report_failure(path, gathered.status(), all);
  const ArchiveFacts& facts = gathered.value();
  Status status = facts.why_no_module;
  if (status.is_ok()) status = facts.why_not_taken;
  if (status.is_ok()) status = facts.why_no_bytecode;
  const int code = status.is_ok() ? kExitOk : kExitProblem;
  if (all != nullptr) {
    *all = verdict_json(path, status, all_warnings(facts));
    return code;
  }
  print_warnings(all_warnings(facts));
  if (status.is_ok()) {
    print_text(good_text(input.shown) + part_count_text(facts) + ", " +
               plural_text(facts.tensors.size(), "tensor", "tensors") + ", " +
               size_of(*facts.container) + "\n");
  } else {
    print_error(status);
  }
  return code;
}

Json package_verdict_json(const std::string& path, const PackageFacts& facts) {
  Json json = verdict_json(path, facts.wrong(), all_warnings(facts));
  json["modules"] = Json::array();
  for (const PackagedModule& each : facts.modules) {
    json["modules"].push_back(
        {{"name", each.name()}, {"ok", each.wrong.is_ok()}, {"error", error_json(each.wrong)}});
  }
  json["records"] = Json::array();
  for (const Status& each : facts.wrong_records) json["records"].push_back(status_json(each));
  return json;
}

// A damaged module does not affect others, so each has a line of its own.
int verify_package(const std::string& path, const ArchiveInput& input, Json* all) {
  Result<PackageFacts> gathered = gather_package(input, archive::Check::kAll);
  if (!gathered.is_ok()) return report_failure(path, gathered.status(), all);
  const PackageFacts& facts = gathered.value();
  const bool is_good = facts.wrong().is_ok();
  if (all != nullptr) {
    *all = package_verdict_json(path, facts);
    return is_good ? kExitOk : kExitProblem;
  }
  print_warnings(all_warnings(facts));
  for (const PackagedModule& each : facts.modules) {
    if (each.wrong.is_ok())
      print_text(good_text(input.shown + ": " + each.name()) +
                 plural_text(each.tensors, "tensor", "tensors") + "\n");
    else
      print_error(each.wrong);
  }
  for (const Status& each : facts.wrong_records) print_error(each);
  if (is_good) {
    print_text(good_text(input.shown) +
               plural_text(facts.container->records().size(), "record", "records") + ", " +
               plural_text(facts.modules.size(), "script module", "script modules") + ", " +
               size_of(*facts.container) + "\n");
  }
  return is_good ? kExitOk : kExitProblem;
}

Json weights_verdict_json(const std::string& path, const WeightsFacts& facts) {
  Json json = verdict_json(path, facts.wrong(), facts.warnings);
  json["weights"] = Json::array();
  for (const WeightFact& each : facts.weights) {
    json["weights"].push_back({{"name", each.tensor.path},
                               {"ok", each.wrong.is_ok()},
                               {"error", error_json(each.wrong)}});
  }
  json["records"] = Json::array();
  for (const Status& each : facts.wrong_records) json["records"].push_back(status_json(each));
  return json;
}

bool has_checksums(const WeightsFacts& facts) {
  if (facts.form != WeightsForm::kShards) return words_of(facts.form).has_checksums;
  return std::ranges::all_of(facts.nested, [](const NestedArchive& shard) {
    return std::ranges::all_of(shard.reader->records(),
                               [](const archive::ZipRecord& record) { return record.has_crc(); });
  });
}

void print_weights_verdict(const std::string& shown, const WeightsFacts& facts) {
  print_warnings(facts.warnings);
  if (!facts.why_no_weights.is_ok()) print_error(facts.why_no_weights);
  uint64_t good = 0;
  for (const WeightFact& each : facts.weights) {
    good += each.wrong.is_ok() ? 1 : 0;
    if (!each.wrong.is_ok()) print_error(each.wrong);
  }
  for (const Status& each : facts.wrong_records) print_error(each);
  if (!facts.wrong().is_ok()) {
    if (good > 0)
      print_text(good_text(shown) + plural_text(good, "weight", "weights") +
                 format(" of %zu", facts.weights.size()) + "\n");
    return;
  }
  const std::string unchecked = has_checksums(facts) ? "" : " without checksums";
  print_text(good_text(shown) + weights_part_text(facts) + unchecked + ", " +
             plural_text(good, "weight", "weights") + ", " + size_text(facts.nbytes) + "\n");
}

// The good weights of a damaged file are counted and not listed, because there may be many.
int verify_weights(const std::string& path, const ArchiveInput& input, Json* all) {
  Result<WeightsFacts> gathered = gather_weights(input, archive::Check::kAll);
  if (!gathered.is_ok()) return report_failure(path, gathered.status(), all);
  const WeightsFacts& facts = gathered.value();
  if (all != nullptr)
    *all = weights_verdict_json(path, facts);
  else
    print_weights_verdict(input.shown, facts);
  return facts.wrong().is_ok() ? kExitOk : kExitProblem;
}

int verify(const std::string& path, Json* all) {
  Result<ArchiveInput> opened = ArchiveInput::open(path);
  if (!opened.is_ok()) return report_failure(path, opened.status(), all);
  const ArchiveInput& input = opened.value();
  const ContainerKind kind = container_kind(input);
  if (kind == ContainerKind::kPackage) return verify_package(path, input, all);
  return kind == ContainerKind::kWeights ? verify_weights(path, input, all)
                                         : verify_archive(path, input, all);
}

}  // namespace

// With --json, prints one object for one file, and a list for several.
int run_verify(const VerifyOptions& options) {
  int code = kExitOk;
  Json list = Json::array();
  for (const std::string& path : options.paths) {
    Json one;
    code = std::max(code, verify(path, options.json ? &one : nullptr));
    list.push_back(std::move(one));
  }
  if (options.json) print_json(list.size() == 1 ? list[0] : list);
  return code;
}

}  // namespace tenon::cli
