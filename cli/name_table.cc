#include "name_table.h"

#include <algorithm>
#include <utility>

#include "names/filename.h"
#include "os/local_socket.h"
#include "os/named_file.h"
#include "os/peer.h"
#include "os/wait.h"

namespace tenon::cli {
namespace {

using names::NameKind;
using names::NameReport;
using names::NameState;

// Finds the process that listens on a socket. In /proc the socket has another number than the
// name's inode, so this connects and asks the other end.
pid_t lender_of(const std::string& path) {
  os::Waiter waiter({.timeout_ns = 0});
  Result<os::Fd> connected = os::connect_local(os::SocketKind::kPackets, path, &waiter);
  if (!connected.is_ok()) return 0;
  Result<os::Peer> peer = os::peer_of(connected.value().get());
  return peer.is_ok() ? peer.value().pid : 0;
}

Status add_others(const std::string& directory, std::vector<NameReport>* reports) {
  TENON_ASSIGN(const os::Fd fd, os::open_directory(directory));
  std::vector<std::string> known;
  for (const NameReport& report : *reports) known.push_back(report.leaf);
  std::sort(known.begin(), known.end());
  return os::list_names(fd.get(), [&](const char* leaf) {
    if (std::binary_search(known.begin(), known.end(), leaf)) return true;
    // The file is not opened, because it is neither Tenon's nor PyTorch's.
    Result<os::NameInfo> info = os::look_at_name(fd.get(), leaf);
    if (info.is_ok()) reports->push_back(names::report_unopened(leaf, info.value()));
    return true;
  });
}

}  // namespace

const char* kind_name(NameKind kind) noexcept {
  switch (kind) {
    case NameKind::kFile: return "file";
    case NameKind::kTorchFile: return "torch";
    case NameKind::kSocket: return "socket";
    case NameKind::kOther: return "other";
  }
  return "other";
}

const char* state_name(NameState state) noexcept {
  switch (state) {
    case NameState::kLive: return "live";
    case NameState::kInFlight: return "in flight";
    case NameState::kDead: return "dead";
    case NameState::kUnsure: return "unsure";
  }
  return "unsure";
}

Colour state_colour(NameState state) noexcept {
  switch (state) {
    case NameState::kLive: return Colour::kGreen;
    case NameState::kInFlight: return Colour::kBlue;
    case NameState::kDead: return Colour::kRed;
    case NameState::kUnsure: return Colour::kYellow;
  }
  return Colour::kNone;
}

std::string name_text(const std::string& directory, const std::string& leaf) {
  return names::Filename{directory, leaf}.text();
}

Json name_json(const std::string& directory, const NameReport& report) {
  const bool has_head = report.kind == NameKind::kFile || report.kind == NameKind::kTorchFile;
  return {{"name", name_text(directory, report.leaf)},
          {"kind", kind_name(report.kind)},
          {"state", state_name(report.state)},
          {"why", report.why},
          {"nbytes", report.nbytes},
          {"allocated_nbytes", report.allocated_nbytes},
          {"age_seconds", static_cast<double>(report.age_ns) / 1e9},
          {"count", has_head ? Json(report.count) : Json(nullptr)},
          {"maker_pid", report.maker_pid != 0 ? Json(report.maker_pid) : Json(nullptr)},
          {"uid", report.uid},
          {"mode", format("%04o", report.mode)}};
}

Json holders_json(const Listed& listed) {
  Json list = Json::array();
  for (const os::ProcessFacts& holder : listed.holders)
    list.push_back({{"pid", holder.pid}, {"uid", holder.uid}, {"command", holder.command}});
  return list;
}

Result<std::vector<NameReport>> collect_names(const std::string& directory,
                                              const names::LookOptions& options, bool others) {
  std::vector<NameReport> reports;
  TENON_TRY(names::look_at_all(directory, options, [&reports](const NameReport& report) {
    reports.push_back(report);
    return true;
  }));
  if (others) TENON_TRY(add_others(directory, &reports));
  std::sort(reports.begin(), reports.end(),
            [](const NameReport& a, const NameReport& b) { return a.leaf < b.leaf; });
  return reports;
}

std::vector<Listed> add_holders(const std::string& directory, std::vector<NameReport> reports) {
  std::vector<os::FileId> files;
  files.reserve(reports.size());
  for (const NameReport& report : reports) files.push_back({report.device, report.inode});
  const std::vector<os::Holders> holders = os::find_holders(files);
  std::vector<Listed> listed;
  for (size_t i = 0; i < reports.size(); ++i) {
    Listed one{std::move(reports[i]), {}, holders[i].unreadable};
    std::vector<pid_t> pids = holders[i].pids;
    if (one.report.kind == NameKind::kSocket && one.report.state == NameState::kLive) {
      if (const pid_t lender = lender_of(directory + "/" + one.report.leaf); lender > 0)
        pids.push_back(lender);
    }
    for (const pid_t pid : pids) {
      // A process that has ended since holds nothing.
      if (auto facts = os::process_facts(pid)) one.holders.push_back(std::move(*facts));
    }
    listed.push_back(std::move(one));
  }
  return listed;
}

}  // namespace tenon::cli
