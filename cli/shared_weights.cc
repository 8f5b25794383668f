// `tenon weights`: the weights that processes share by a name.
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "modules/shared_weights/place.h"
#include "modules/shared_weights/status.h"
#include "output.h"

namespace tenon::cli {
namespace {

using shared_weights::NameStatus;
using State = shared_weights::NameState;

const char* shared_state_name(State state) {
  switch (state) {
    case State::kLive: return "live";
    case State::kLoading: return "loading";
    case State::kSilent: return "silent";
    case State::kChanging: return "changing";
    case State::kDead: return "dead";
    case State::kRefused: return "refused";
  }
  return "?";
}

Colour shared_state_colour(State state) {
  switch (state) {
    case State::kLive: return Colour::kGreen;
    case State::kLoading:
    case State::kChanging: return Colour::kYellow;
    default: return Colour::kRed;
  }
}

// Names the version of those holders that have another one than the server.
std::string shared_holders(const NameStatus& one) {
  std::string text;
  for (const shared_weights::VersionStatus& version : one.versions) {
    const bool is_served = version.version == one.facts.version;
    if (!is_served)
      text += format("%sversion %llu:", text.empty() ? "" : " ", as_llu(version.version));
    for (const pid_t pid : version.holders) text += (text.empty() ? "" : " ") + std::to_string(pid);
  }
  return text.empty() ? "-" : text;
}

void print_shared(const std::vector<NameStatus>& all) {
  Table table({{"NAME"},
               {"DEVICE"},
               {"STATE"},
               {"VERSION", true},
               {"MEMORY", true},
               {"FILE"},
               {"SERVER", true},
               {"HELD BY"}});
  for (const NameStatus& one : all) {
    const bool is_known = one.state == State::kLive || one.state == State::kLoading;
    const shared_weights::NameAndDevice of = shared_weights::split_device_ending(one.name);
    table.add({{safe_text(of.name)},
               {of.device.empty() ? "cpu" : "GPU-" + of.device},
               {shared_state_name(one.state), shared_state_colour(one.state)},
               {is_known ? std::to_string(one.facts.version) : "-"},
               {is_known ? size_text(one.facts.segment_nbytes) : "-"},
               {is_known ? safe_text(one.facts.label) : "-"},
               {one.server_pid != 0 ? std::to_string(one.server_pid) : "-"},
               {shared_holders(one)}});
  }
  if (!table.is_empty()) table.print();
}

Json shared_json(const NameStatus& one) {
  const bool is_known = one.state == State::kLive || one.state == State::kLoading;
  const shared_weights::NameAndDevice of = shared_weights::split_device_ending(one.name);
  Json json = {{"name", of.name},
               {"device", of.device.empty() ? "cpu" : "cuda"},
               {"state", shared_state_name(one.state)},
               {"server_pid", one.server_pid},
               {"holders", one.holders},
               {"versions", Json::array()}};
  for (const shared_weights::VersionStatus& each : one.versions)
    json["versions"].push_back({{"version", each.version}, {"holders", each.holders}});
  if (!of.device.empty()) json["device_uuid"] = of.device;
  if (!is_known) return json;
  json["nbytes"] = one.facts.segment_nbytes;
  json["file"] = one.facts.label;
  json["file_nbytes"] = one.facts.file.nbytes;
  json["file_mtime_ns"] = one.facts.file.mtime_ns;
  json["version"] = one.facts.version;
  json["loader_pid"] = one.facts.loader_pid;
  return json;
}

}  // namespace

int run_weights(const WeightsOptions& options) {
  if (options.action == "keep") return keep_weights(options);
  if (options.action == "drop") return drop_weights(options);
  if (options.action == "switch") return switch_weights(options);
  Result<std::vector<NameStatus>> listed = shared_weights::list_names(options.directory);
  if (!listed.is_ok()) {
    if (options.json) {
      print_json({{"ok", false}, {"error", status_json(listed.status())}});
    } else {
      print_error(listed.status());
    }
    return kExitProblem;
  }
  const std::vector<NameStatus>& all = listed.value();
  const std::string directory =
      options.directory.empty() ? shared_weights::default_directory() : options.directory;
  if (options.json) {
    Json list = Json::array();
    for (const NameStatus& one : all) list.push_back(shared_json(one));
    print_json({{"directory", directory}, {"weights", std::move(list)}});
    return kExitOk;
  }
  print_shared(all);
  print_text(plural_text(all.size(), "name", "names") + " in " + safe_text(directory) + "\n");
  return kExitOk;
}

}  // namespace tenon::cli
