// Memory nodes of NUMA machines, through raw system calls, so that libnuma is not needed.
// memory/backing.cc and huge_pages.cc are the callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::os {

// The nodes whose memory this process may use, in ascending order. Empty if neither /sys nor /proc
// tells.
std::vector<int32_t> numa_nodes();

// INVALID_ARGUMENT with detail "nodes" if the machine has no such node, or this process may not use
// it. If the list of nodes is unknown, every number from 0 to 1023 is accepted here, and the kernel
// refuses a wrong one in bind_to_node().
Status check_numa_node(int32_t node);

// Binds a range of shared memory to a node: its pages come from that node, whichever thread touches
// them first. `base` is the start of a page. Pages that exist are moved there if no other process
// maps them. The others stay, which is no error. The policy belongs to the file and outlives the
// mapping. INVALID_ARGUMENT with detail "nodes": the kernel refuses the node. PERMISSION where a
// container's filter denies mbind, and UNSUPPORTED where the kernel has none.
Status bind_to_node(std::byte* base, uint64_t nbytes, int32_t node);

// The only node to which the page at `at` is bound, whether the page exists already or not. -1: the
// page is bound to no node or to several nodes, or the kernel does not tell. `known` is not null,
// and *known becomes false only in the last case.
int32_t bound_node(const std::byte* at, bool* known) noexcept;

// Checks that a node has `nbytes` bytes of memory left, and 2 MiB more. RESOURCE_EXHAUSTED if not.
// OK where nothing is known. Memory that is bound to a node gets no pages from another node, and on
// a full node the kernel's OOM killer ends the process. Call ask_headroom() (limits.h) too, which
// checks the whole machine and the memory cgroups.
Status ask_node_headroom(int32_t node, uint64_t nbytes);

}  // namespace tenon::os
