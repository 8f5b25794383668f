// The lock order of the library. Each lock that lives as long as the process and that a forked
// child may need has a rank in this one list. fork takes these locks from the first rank to the
// last (base/fork.h), so the code takes them in this order too.
#pragma once

namespace tenon {

// A thread that holds a lock takes only locks that come after it in this list. A lock that comes
// earlier has a lower rank. Locks that are never held together come in any order. A lock of this
// list is a ranked lock. A thread that holds one must not call fork(), because the fork hooks would
// wait for it. The locks of single objects, such as a connection's, have no rank: fork does not
// take them. In a forked child such a lock stays locked for ever if a thread of the parent held it
// at the fork.
enum class LockRank : int {
  kTrees,             // modules/value/tree_lock.cc: which threads read or change modules
  kCudaMemory,        // device/memory.cc: device memory that waits for its borrowers
  kCudaCounter,       // device/torch_counter.cc: the file of counters that this process hands out
  kNameServer,        // names/name_server.cc: the names that this process serves, and their clients
  kDirectories,       // names/directories.cc: the directories of named files
  kNames,             // names/held_files.cc: the named files that this process holds
  kNamesThread,       // names/names_thread.cc: the files that the library's thread checks again
  kQueues,            // queue/process_watch.cc: the members of queues that are watched
  kPublishers,        // publish/door.cc: the publishers of this process and their sockets
  kSharedWeights,     // modules/shared_weights/member.cc: the weights that this process holds
  kWeightBuffers,     // modules/shared_weights/buffers.cc: the memory of versions, to write again
  kDeposits,          // channel/deposit_server.h: the depot and the processes that fetch from it
  kFetch,             // channel/lender_link.cc: the links to the depots of other processes
  kNameCheck,         // names/liveness.cc: one check of a named file at a time
  kPrefault,          // memory/user_arena.cc: the arenas whose pages are made in the background
  kTokenFds,          // memory/ledger.cc: the fds of tokens that are still being sent
  kLedgers,           // memory/ledgers.cc: the ledgers of all leases
  kArenas,            // memory/arena_segment.h: all arenas and their blocks
  kArenaWait,         // memory/arena_wait.cc: the threads that wait for a free block
  kUnreadGuards,      // memory/unread_guard.cc: the messages that may still be unread
  kLendFd,            // memory/segment.cc: a segment's fd for lending while it is published
  kIdentityCache,     // share/cache.cc: the segments and storages that this process knows
  kStorageAddresses,  // share/storage_at.cc: the storages by address
  kLenderWatch,       // channel/lender_watch.cc: the lenders that are watched
  kInheritedTokens,   // memory/holding.cc: the tokens of lenders further up that holdings keep
  kForkClosedFds,     // modules/shared_weights/fork_closed.h: fds that a forked child closes
  kService,           // os/service.cc: the library's thread
  kMemoryLimits,      // os/limits.cc: the memory that the machine and the cgroups still allow
  kFileComparison,    // os/open_file.cc: one comparison of two open files at a time
  kManagerLines,      // names/manager_line.cc: the connections to PyTorch's managers
  kForeignFds,        // os/foreign.cc: the fds of foreign files that wait for their close
  kLentNames,         // modules/value/lent_names.cc: the names that callers of the C API borrow
};

}  // namespace tenon
