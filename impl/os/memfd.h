// Anonymous shared memory: makes memfds, seals them, and inspects files that another process made.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

using Nonce = std::array<uint8_t, 16>;

// Draws a nonce, which nobody can guess. It is part of the memfd's name, so that a process that
// finds the fd through /proc can check that it is the right one. It is not in the memory itself,
// because PyTorch needs byte 0 for the payload.
Result<Nonce> random_nonce();
std::string hex(const Nonce& nonce);
std::string memfd_name(const Nonce& nonce);

// Makes a sealable, close-on-exec memfd of `nbytes` bytes, which has no pages yet. The caller has
// checked RLIMIT_FSIZE before, because the kernel kills a process that exceeds it.
Result<Fd> create_memfd(const Nonce& nonce, uint64_t nbytes);
// Does the same with a name of the caller's choice.
Result<Fd> create_memfd(const std::string& name, uint64_t nbytes);

// Explains why memfd_create failed. PERMISSION or UNSUPPORTED if a seccomp filter or a policy
// denies it; the message then says what still works.
Status memfd_status(int error);
bool is_memfd_denied(const Status& status) noexcept;
// Makes a nameless, close-on-exec file in /dev/shm, to which nobody can give a name. It replaces a
// memfd where memfd_create is denied. It takes no seals, and counts against the size of /dev/shm.
// The caller has checked RLIMIT_FSIZE before.
Result<Fd> create_nameless_file(uint64_t nbytes);

// Reads the nonce from the name of a memfd. Returns false if the name has none, for any other kind
// of fd, and without /proc. Any process can make a memfd of such a name, so a nonce shows only that
// its maker knew it.
bool read_nonce(int fd, Nonce* out);

inline constexpr unsigned kSealSeal = 0x1;
inline constexpr unsigned kSealShrink = 0x2;
inline constexpr unsigned kSealGrow = 0x4;
inline constexpr unsigned kSealWrite = 0x8;
inline constexpr unsigned kSealFutureWrite = 0x10;

// UNSUPPORTED: the kernel has no kSealFutureWrite. IO: for 200 ms a page of the file was in use, or
// a writable mapping exists (kSealWrite). The call can be repeated. PERMISSION: the file takes no
// more seals, or the fd is not open for writing.
Status add_seals(int fd, unsigned seals);

// What the kernel says about an fd and its file.
struct FileInfo {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;
  uint64_t allocated_nbytes = 0;  // bytes in pages that exist, without holes
  // The block size that the file system prefers. For hugetlbfs it is the size of a page.
  uint64_t block_nbytes = 0;
  bool regular = false;
  // kSeal… bits, 0 for files that cannot be sealed. Only inspect_file() sets this field and the
  // next three.
  unsigned seals = 0;
  bool in_memory = false;  // tmpfs (memfd, /dev/shm) or hugetlbfs
  bool readable = false;
  bool writable = false;  // opened O_RDWR
  const char* kind = "";  // "directory", "socket", … for messages
};

// stat_file() asks statx, which does not wait for a file server. inspect_file() adds seals, file
// system and open mode. INVALID_ARGUMENT with detail "fd" for a closed fd.
Result<FileInfo> stat_file(int fd);
Result<FileInfo> inspect_file(int fd);
// Whether the file lies on hugetlbfs. Such a file may lack a page when that page is first touched,
// and the touch then ends in SIGBUS.
bool is_of_huge_pages(int fd) noexcept;

// Opens the same file again with O_RDONLY and a file description of its own. A plain dup would
// share the write permission.
Result<Fd> reopen_read_only(int fd);

// Duplicates the fd. The copy is close-on-exec.
Result<Fd> duplicate(int fd);

// Makes the pages of [offset, offset + nbytes) exist, within the file's size. The caller has asked
// for headroom. RESOURCE_EXHAUSTED: the kernel has no memory, or the file system is full.
Status reserve_pages(int fd, uint64_t offset, uint64_t nbytes);

// write_file() and read_file() return an error where a load or a store would raise SIGBUS. After an
// error a part of the bytes may be copied. Beyond RLIMIT_FSIZE write_file() writes nothing:
// RESOURCE_EXHAUSTED, and no signal.
Status write_file(int fd, uint64_t offset, const void* data, uint64_t nbytes);
// CORRUPT if the file ends before `nbytes` bytes are read.
Status read_file(int fd, uint64_t offset, void* data, uint64_t nbytes);

}  // namespace tenon::os
