// Memory nodes, through the raw system calls: no libnuma.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::os {

// The nodes with memory that this process may use, ascending; empty where neither /sys nor /proc
// tells.
std::vector<int32_t> numa_nodes();

// INVALID_ARGUMENT with detail "nodes" if the machine has no such node, or this process may not use
// it. An unknown list refuses nothing: the kernel will.
Status check_numa_node(int32_t node);

// Pages of this range of shared memory come from that node, whoever touches them first, and are
// moved there if they exist. The policy is the file's and outlives the mapping. PERMISSION or
// UNSUPPORTED where a container's filter or the kernel has no mbind.
Status bind_to_node(std::byte* base, uint64_t nbytes, int32_t node);

// The one node that the page at `at` is bound to; -1: none, several, or the kernel does not say
// (*known is false then).
int32_t bound_node(const std::byte* at, bool* known) noexcept;

// Like ask_headroom, for one node: what is bound to it gets no memory from another, and a full node
// is a kill. OK where nothing is known.
Status ask_node_headroom(int32_t node, uint64_t nbytes);

}  // namespace tenon::os
