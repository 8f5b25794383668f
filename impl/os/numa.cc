#include "os/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

#include "os/small_file.h"

#ifndef MPOL_F_STATIC_NODES
#define MPOL_F_STATIC_NODES (1 << 15)
#endif

namespace tenon::os {
namespace {

// The most nodes that any kernel is built for (CONFIG_NODES_SHIFT is at most 10). A kernel with
// fewer nodes objects only to bits that are set.
constexpr int32_t kMostNodes = 1024;
constexpr size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
constexpr unsigned long kMaskBits = kMostNodes + 1;  // the kernel subtracts one
constexpr char kNodes[] = "/sys/devices/system/node/";
constexpr uint64_t kNodeMargin = uint64_t{2} << 20;  // the same margin as in ask_headroom()

using NodeMask = std::array<unsigned long, kMostNodes / kWordBits + 1>;

// "0-1,3" → 0, 1, 3
std::vector<int32_t> parse_list(std::string_view text) {
  std::vector<int32_t> nodes;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const uint64_t first = parse_number(range, kMostNodes);
    const size_t dash = range.find('-');
    const uint64_t last =
        dash == std::string_view::npos ? first : parse_number(range.substr(dash + 1), first);
    for (uint64_t node = first; node <= last && node < kMostNodes; ++node)
      nodes.push_back(static_cast<int32_t>(node));
  }
  return nodes;
}

std::string list_text(const std::vector<int32_t>& nodes) {
  std::string text;
  for (const int32_t node : nodes) text += format(text.empty() ? "%d" : ",%d", node);
  return text;
}

Status no_such_node(int32_t node, const std::vector<int32_t>& nodes) {
  const std::string text = nodes.empty() ? "unknown" : list_text(nodes);
  return Status(Code::kInvalidArgument,
                format("no memory node %d for this process (nodes: %s)", node, text.c_str()))
      .with("numa_node", node)
      .with("nodes", text);
}

}  // namespace

std::vector<int32_t> numa_nodes() {
  std::string text = read_small_file(std::string(kNodes) + "has_memory");
  if (text.empty()) text = read_small_file(std::string(kNodes) + "online");
  std::vector<int32_t> nodes = parse_list(text);
  constexpr std::string_view key = "\nMems_allowed_list:";
  const std::string status = read_small_file("/proc/self/status");
  const size_t at = status.find(key);
  if (at == std::string::npos) return nodes;
  const size_t begin = std::min(status.find_first_not_of(" \t", at + key.size()), status.size());
  std::vector<int32_t> allowed = parse_list(std::string_view(status).substr(
      begin, std::min(status.find('\n', begin), status.size()) - begin));
  if (nodes.empty()) return allowed;
  std::erase_if(nodes, [&](int32_t node) {
    return std::find(allowed.begin(), allowed.end(), node) == allowed.end();
  });
  return nodes;
}

Status check_numa_node(int32_t node) {
  const std::vector<int32_t> nodes = numa_nodes();
  if (node < 0 || node >= kMostNodes) return no_such_node(node, nodes);
  if (nodes.empty() || std::find(nodes.begin(), nodes.end(), node) != nodes.end())
    return Status::ok();
  return no_such_node(node, nodes);
}

Status bind_to_node(std::byte* base, uint64_t nbytes, int32_t node) {
  if (node < 0 || node >= kMostNodes) return no_such_node(node, numa_nodes());
  NodeMask mask{};
  mask[static_cast<size_t>(node) / kWordBits] = 1UL << (static_cast<size_t>(node) % kWordBits);
  // STATIC_NODES: the number means this very node, and not the n-th node of a cpuset that may
  // change.
  if (syscall(SYS_mbind, base, nbytes, MPOL_BIND | MPOL_F_STATIC_NODES, mask.data(), kMaskBits,
              MPOL_MF_MOVE) == 0)
    return Status::ok();
  const int error = errno;
  if (error == EINVAL) return no_such_node(node, numa_nodes());
  if (error == ENOSYS)
    return Status(Code::kUnsupported, "this kernel has no memory nodes (mbind)")
        .with("errno", error);
  return errno_status(error, format("binding memory to node %d (mbind)", node))
      .with("numa_node", node);
}

int32_t bound_node(const std::byte* at, bool* known) noexcept {
  int mode = 0;
  NodeMask mask{};
  *known = syscall(SYS_get_mempolicy, &mode, mask.data(), kMaskBits, at, MPOL_F_ADDR) == 0;
  if (!*known || (mode & ~MPOL_MODE_FLAGS) != MPOL_BIND) return -1;
  int32_t found = -1;
  for (int32_t node = 0; node < kMostNodes; ++node) {
    const auto bit = static_cast<size_t>(node);
    if ((mask[bit / kWordBits] >> (bit % kWordBits) & 1UL) == 0) continue;
    if (found >= 0) return -1;
    found = node;
  }
  return found;
}

Status ask_node_headroom(int32_t node, uint64_t nbytes) {
  const std::string prefix = format("Node %d ", node);
  const std::string info = read_small_file(format("%snode%d/meminfo", kNodes, node));
  if (info.empty()) return Status::ok();
  const auto kib = [&](const char* key) { return find_field(info, prefix + key, 0); };
  // The kernel can drop page cache at any time. Shared memory is not in these counts.
  const uint64_t free_nbytes =
      (kib("MemFree:") + kib("Active(file):") + kib("Inactive(file):")) * 1024;
  if (free_nbytes >= kNodeMargin && free_nbytes - kNodeMargin >= nbytes) return Status::ok();
  return Status(Code::kResourceExhausted,
                format("%llu bytes wanted, %llu left of memory node %d",
                       static_cast<unsigned long long>(nbytes),
                       static_cast<unsigned long long>(free_nbytes), node))
      .with("limit", format("memory node %d", node))
      .with("limit_value", free_nbytes)
      .with("wanted", nbytes);
}

}  // namespace tenon::os
