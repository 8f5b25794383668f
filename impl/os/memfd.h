// Anonymous shared memory: making it, sealing it, and looking at what somebody else made.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

using Nonce = std::array<uint8_t, 16>;

// Unguessable, and part of the memfd's name, so that a process that finds the fd through /proc can
// tell that it is the one it was told of. It is not in the memory itself: byte 0 stays payload,
// which PyTorch needs.
Result<Nonce> random_nonce();
std::string hex(const Nonce& nonce);
std::string memfd_name(const Nonce& nonce);

// A sealable, close-on-exec memfd of `nbytes` bytes without pages. RLIMIT_FSIZE must have been
// asked before: the kernel kills who passes it.
Result<Fd> create_memfd(const Nonce& nonce, uint64_t nbytes);
// Likewise, one that is found by its name.
Result<Fd> create_memfd(const std::string& name, uint64_t nbytes);

// Why memfd_create failed. PERMISSION or UNSUPPORTED where it is denied, by a seccomp filter or a
// policy: the message says what still works.
Status memfd_status(int error);
bool is_memfd_denied(const Status& status) noexcept;
// A nameless file of /dev/shm, close-on-exec, which nobody can give a name: what serves instead
// where memfd_create is denied. It takes no seals, and counts against the size of /dev/shm.
// RLIMIT_FSIZE must have been asked before.
Result<Fd> create_nameless_file(uint64_t nbytes);

// The nonce of a memfd that Tenon made; false for any other fd, or without /proc.
bool read_nonce(int fd, Nonce* out);

inline constexpr unsigned kSealSeal = 0x1;
inline constexpr unsigned kSealShrink = 0x2;
inline constexpr unsigned kSealGrow = 0x4;
inline constexpr unsigned kSealWrite = 0x8;
inline constexpr unsigned kSealFutureWrite = 0x10;

Status add_seals(int fd, unsigned seals);
struct FileInfo {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;
  uint64_t allocated_nbytes = 0;  // pages that exist; holes are what is missing to nbytes
  // What its file system likes to be asked for: of hugetlbfs the size of a page.
  uint64_t block_nbytes = 0;
  bool regular = false;
  // kSeal…; 0 for files that cannot be sealed; filled in by inspect_file only.
  unsigned seals = 0;
  bool in_memory = false;  // tmpfs (memfd, /dev/shm) or hugetlbfs; likewise
  bool readable = false;   // likewise
  bool writable = false;   // likewise
  const char* kind = "";   // "directory", "socket", … for messages
};

// fstat, and with inspect_file seals, file system and open mode. INVALID_ARGUMENT with detail "fd"
// for a closed fd.
Result<FileInfo> stat_file(int fd);
Result<FileInfo> inspect_file(int fd);
// Of hugetlbfs: a page of it may be lacking when it is first touched, which is a SIGBUS.
bool is_of_huge_pages(int fd) noexcept;

// The same file with an open file description of its own, O_RDONLY. A plain dup would share the
// write permission.
Result<Fd> reopen_read_only(int fd);

// dup, close-on-exec.
Result<Fd> duplicate(int fd);

// Make the pages of [offset, offset + nbytes) exist, within the file's size. The caller has asked
// for headroom.
Status reserve_pages(int fd, uint64_t offset, uint64_t nbytes);

// Copies that give an errno where a load or store would give SIGBUS.
Status write_file(int fd, uint64_t offset, const void* data, uint64_t nbytes);
// CORRUPT if the file ends before.
Status read_file(int fd, uint64_t offset, void* data, uint64_t nbytes);

}  // namespace tenon::os
