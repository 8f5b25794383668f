// The agent's side of agent.h: a process that takes requests over a socket, calls the library, and
// replies with the outcome.
#pragma once

#include <grp.h>

#include "process/filename/agent_process.h"

namespace names {

enum class Op : uint32_t {
  kNew,
  kCreate,
  kShare,
  kOpen,
  kShareFd,
  kOpenFd,
  kRelease,
  kRead,
  kWrite,
  kFill,
  kShows,
  kReadOnly,
  kIncref,
  kDecref,
  kUnlink,
  kSweep,
  kBecome,
  kFork,
  kExit
};

struct Request {
  Op op = Op::kNew;
  int32_t slot = 0;
  uint32_t flags = 0;
  uint32_t access = 0;
  uint64_t nbytes = 0;
  uint64_t offset = 0;
  uint64_t seed = 0;
  int64_t time_ns = -1;
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t group = 0;
  char directory[300] = {};
  char name[300] = {};
  char prefix[300] = {};
  tenon_filename_handle handle = blank_handle();
};

struct Reply {
  int32_t status = 0;
  int32_t slot = -1;
  uint64_t value = 0;
  tenon_filename_handle handle = blank_handle();
  tenon_fd_handle fd_handle{};
  tenon_sweep_result swept{};
  char message[600] = {};
  char details[1400] = {};  // key, NUL, value, NUL, ...
};

class Served {
 public:
  explicit Served(int socket) : socket_(socket) {}

  [[noreturn]] void run() {
    serve<Request, Reply>(socket_, [this](const Request& request, int fd, Reply* reply, int* out) {
      const Outcome outcome = answer(request, fd, reply, out);
      if (fd >= 0) close(fd);
      return outcome;
    });
  }

 private:
  int keep(tenon_storage* storage) {
    if (storage == nullptr) return -1;
    storages_.push_back(storage);
    return static_cast<int>(storages_.size()) - 1;
  }

  Outcome answer(const Request& request, int fd, Reply* reply, int* out) {
    const tenon_wait wait = fault::wait_ns(request.time_ns);
    const tenon_wait* given = request.time_ns < 0 ? nullptr : &wait;
    const Naming naming{request.directory, request.name,  request.prefix, request.flags,
                        request.mode,      request.group, request.access};
    const tenon_filename_options options = naming.options();
    tenon_storage* const held =
        request.slot >= 0 && static_cast<size_t>(request.slot) < storages_.size()
            ? storages_[static_cast<size_t>(request.slot)]
            : nullptr;
    tenon_storage* made = nullptr;
    Outcome outcome;
    switch (request.op) {
      case Op::kNew:
        made = fault::new_storage(request.nbytes, request.seed, request.mode, request.flags);
        break;
      case Op::kCreate:
        outcome = CALL(tenon_storage_new_filename(&options, request.nbytes, &made, err));
        if (outcome.ok()) put_pattern(made, request.seed);
        break;
      case Op::kShare:
        outcome = CALL(tenon_share_filename(held, &options, given, &reply->handle, err));
        break;
      case Op::kOpen:
        outcome = try_open(request.handle, &made, request.flags, request.access, given);
        break;
      case Op::kShareFd:
        reply->fd_handle.struct_size = sizeof reply->fd_handle;
        outcome = CALL(tenon_share_fd(held, nullptr, &reply->fd_handle, err));
        if (outcome.ok()) *out = reply->fd_handle.fd;
        break;
      case Op::kOpenFd: {
        tenon_fd_handle handle = fault::handle_over(fd, request.nbytes, request.offset);
        const tenon_open_options how = fault::open_options(request.flags, request.access);
        outcome = CALL(tenon_open_fd(&handle, &how, &made, err));
        break;
      }
      case Op::kRelease:
        let_go(held);
        storages_[static_cast<size_t>(request.slot)] = nullptr;
        break;
      case Op::kRead: {
        std::vector<unsigned char> bytes(request.nbytes);
        outcome = CALL(tenon_storage_read(held, request.offset, bytes.data(), bytes.size(), err));
        reply->value = outcome.ok() && fault::has_pattern(bytes.data(), bytes.size(), request.seed);
        break;
      }
      case Op::kWrite: {
        const std::vector<unsigned char> bytes = fault::pattern(request.nbytes, request.seed);
        outcome = CALL(tenon_storage_write(held, request.offset, bytes.data(), bytes.size(), err));
        break;
      }
      case Op::kFill: {
        void* data = nullptr;
        outcome = CALL(tenon_storage_data_mut(held, &data, err));
        if (outcome.ok()) put_pattern(held, request.seed);
        break;
      }
      case Op::kShows: reply->value = shows_pattern(held, request.seed); break;
      case Op::kReadOnly:
        reply->value = static_cast<uint64_t>(tenon_storage_is_read_only(held));
        break;
      case Op::kIncref: outcome = CALL(tenon_filename_incref(&request.handle, err)); break;
      case Op::kDecref: outcome = CALL(tenon_filename_decref(&request.handle, err)); break;
      case Op::kUnlink: outcome = CALL(tenon_filename_unlink(request.name, err)); break;
      case Op::kSweep:
        reply->swept =
            sweep(request.directory, request.flags, request.time_ns < 0 ? 0 : request.time_ns);
        break;
      case Op::kBecome: {
        const gid_t groups[] = {request.group};
        REQUIRE(setgroups(request.group != 0 ? 1 : 0, groups) == 0 &&
                setresgid(request.gid, request.gid, request.gid) == 0 &&
                setresuid(request.uid, request.uid, request.uid) == 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        break;
      }
      case Op::kFork: reply->value = fork_agent(&socket_, out, [this] { run(); }); break;
      case Op::kExit: break;
    }
    reply->slot = keep(made);
    return outcome;
  }

  int socket_;
  std::vector<tenon_storage*> storages_;
};

}  // namespace names
