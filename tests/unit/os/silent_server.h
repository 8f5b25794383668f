// A file system in user space (FUSE) with one file. Its server stops answering when a test asks for
// that. The tests use it as a file server that hangs: they show that Tenon is not blocked by a file
// of a peer.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "os/fd.h"

namespace tenon::os {

// The constructor mounts the file system in a new folder under /tmp, and starts the thread that
// serves it. That needs /dev/fuse and the right to mount. A test skips itself if is_mounted() is
// false. The file can be looked up and opened. It says that it has 4096 bytes, but a read gets
// none. A thread that the test starts to use the silent file stays blocked in the kernel until the
// server answers again or ends.
class SilentServer {
 public:
  SilentServer() {
    char folder[] = "/tmp/tenon-silent-XXXXXX";
    if (::mkdtemp(folder) == nullptr) return;
    folder_ = folder;
    device_ = Fd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!device_.is_open()) return;
    char options[96];
    std::snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0",
                  device_.get());
    is_mounted_ = ::mount("tenon", folder, "fuse", MS_NOSUID | MS_NODEV, options) == 0;
    if (is_mounted_) thread_ = std::thread([this] { serve(); });
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  // A process that still waits for an answer gets an error. The folder is unmounted and removed.
  ~SilentServer() {
    if (thread_.joinable()) {
      is_over_.store(true);
      thread_.join();
    }
    device_.reset();
    if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    if (!folder_.empty()) ::rmdir(folder_.c_str());
  }
  bool is_mounted() const noexcept { return is_mounted_; }
  // The path of the file.
  std::string path() const { return folder_ + "/file"; }
  // Any thread may call this. From then on the server answers nothing more, except for one request
  // that comes within the next 10 ms. With false it answers again, also the requests that have
  // waited.
  void fall_silent(bool is_silent = true) noexcept { is_silent_.store(is_silent); }

 private:
  void serve() {
    alignas(fuse_in_header) std::array<char, size_t{1} << 16> request;
    while (!is_over_.load()) {
      pollfd polled{device_.get(), POLLIN, 0};
      if (is_silent_.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      if (::poll(&polled, 1, 10) <= 0) continue;
      if (::read(device_.get(), request.data(), request.size()) <= 0) continue;
      answer(request.data());
    }
  }

  void answer(const char* request) {
    fuse_in_header in{};
    std::memcpy(&in, request, sizeof in);
    fuse_attr file{};
    file.ino = in.opcode == FUSE_LOOKUP ? 2 : in.nodeid;
    file.mode = file.ino == 1 ? S_IFDIR | 0755U : S_IFREG | 0666U;
    file.size = 4096;
    file.nlink = 1;
    switch (in.opcode) {
      case FUSE_INIT: {
        fuse_init_out out{};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = 31;
        out.max_write = 4096;
        return reply(in, &out, sizeof out);
      }
      case FUSE_LOOKUP: {
        fuse_entry_out out{};
        out.nodeid = 2;
        out.entry_valid = 0;
        out.attr = file;
        return reply(in, &out, sizeof out);
      }
      case FUSE_GETATTR: {
        fuse_attr_out out{};
        out.attr = file;
        return reply(in, &out, sizeof out);
      }
      case FUSE_OPEN: {
        fuse_open_out out{};
        return reply(in, &out, sizeof out);
      }
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET: return;
      default: return reply(in, nullptr, 0);
    }
  }

  void reply(const fuse_in_header& in, const void* body, size_t nbytes) {
    std::array<char, 256> bytes{};
    fuse_out_header out{};
    out.len = static_cast<uint32_t>(sizeof out + nbytes);
    out.unique = in.unique;
    std::memcpy(bytes.data(), &out, sizeof out);
    if (nbytes > 0) std::memcpy(bytes.data() + sizeof out, body, nbytes);
    if (::write(device_.get(), bytes.data(), out.len) < 0) is_over_.store(true);
  }

  std::string folder_;
  Fd device_;
  bool is_mounted_ = false;
  std::atomic<bool> is_silent_{false};
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace tenon::os
