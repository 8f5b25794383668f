// The ways to name an object in other processes: 64 bytes that cannot be guessed, and fds that keep
// the object alive.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "world.h"

namespace fake_cuda {
namespace {

uint64_t mix(uint64_t value, uint64_t key) {
  value = (value ^ key) * 0xff51afd7ed558ccdU;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53U;
  return value ^ (value >> 33);
}

struct Token {
  uint64_t world_key;
  uint64_t id;
  uint32_t index;
  uint32_t reserved;
};

}  // namespace

// Bytes 8 to 63 are random. Bytes 0 to 7 are the index under a mask, which depends on those random
// bytes and on the world's key.
void World::name(uint32_t index, void* bytes64) {
  Object& object = at(index);
  if (object.secret_index == 0) {
    if (getrandom(object.secret, sizeof object.secret, 0) != sizeof object.secret) std::abort();
    uint64_t random = 0;
    std::memcpy(&random, object.secret + 8, sizeof random);
    const uint64_t masked = index ^ mix(random ^ file_->key[1], file_->key[0]);
    std::memcpy(object.secret, &masked, sizeof masked);
    object.secret_index = index;
  }
  std::memcpy(bytes64, object.secret, sizeof object.secret);
}

uint32_t World::find(const void* bytes64) {
  const auto* bytes = static_cast<const unsigned char*>(bytes64);
  uint64_t masked = 0;
  uint64_t random = 0;
  std::memcpy(&masked, bytes, sizeof masked);
  std::memcpy(&random, bytes + 8, sizeof random);
  const uint64_t index = masked ^ mix(random ^ file_->key[1], file_->key[0]);
  if (index == kNoObject || index >= file_->objects_used) return kNoObject;
  const Object& object = at(static_cast<uint32_t>(index));
  if (object.kind == FAKE_CUDA_NOTHING || object.secret_index != index) return kNoObject;
  return std::memcmp(object.secret, bytes, sizeof object.secret) == 0 ? static_cast<uint32_t>(index)
                                                                      : kNoObject;
}

bool World::make_memory(uint32_t index) {
  const std::string file = path("memory", at(index).id);
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const bool made = fd >= 0 && ftruncate(fd, static_cast<off_t>(at(index).size)) == 0;
  if (fd >= 0) close(fd);
  return made;
}

// The lock belongs to the open file. So every duplicate of the fd holds it, including one in a
// message that nobody has read.
int World::export_fd(uint32_t index) {
  Object& object = at(index);
  // This comes first, so that the file is found if the process is killed here.
  object.exported = 1;
  const int fd = ::open(path("export", object.id).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  const Token token = {file_->key[1], object.id, index, 0};
  if (flock(fd, LOCK_SH) != 0 || pwrite(fd, &token, sizeof token, 0) != sizeof token) {
    close(fd);
    return -1;
  }
  return fd;
}

bool World::fds_left(uint32_t index) {
  const Object& object = at(index);
  if (object.exported == 0) return false;
  const int fd = ::open(path("export", object.id).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool left = flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return left;
}

uint32_t World::find_fd(int fd) {
  Token token = {};
  if (pread(fd, &token, sizeof token, 0) != sizeof token || token.world_key != file_->key[1])
    return kNoObject;
  if (token.index == kNoObject || token.index >= file_->objects_used) return kNoObject;
  const Object& object = at(token.index);
  if (object.kind == FAKE_CUDA_NOTHING || object.id != token.id) return kNoObject;
  struct stat given = {};
  struct stat own = {};
  if (fstat(fd, &given) != 0 || stat(path("export", object.id).c_str(), &own) != 0)
    return kNoObject;
  return given.st_dev == own.st_dev && given.st_ino == own.st_ino ? token.index : kNoObject;
}

}  // namespace fake_cuda
