// Makes the storages that the strategies on CUDA lend, and reads and writes the words of a handle
// (tests/languages/matrix/README.md).
#ifndef TENON_TESTS_MATRIX_CPP_CUDA_H
#define TENON_TESTS_MATRIX_CPP_CUDA_H

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tenon/tenon.hpp>

#include "words.h"

extern "C" {
#include "../c/device.h"
}

inline bool is_cuda(const std::string& strategy) { return strategy.starts_with("cuda"); }

inline std::uintptr_t address_of(const tenon::Storage& storage) {
  return reinterpret_cast<std::uintptr_t>(tenon_storage_data(storage.get()));
}

inline void copy_device(const tenon::Storage& storage, Bytes& host, bool to_device) {
  const int device = storage.device().id;
  if (device_copy(device, host.data(), address_of(storage), host.size(), to_device ? 1 : 0) != 0)
    throw std::runtime_error("the driver does not copy");
}

// The storage does not begin where its arena does, as in the arena of a host. The default stream
// copies the bytes from a neighbour, so a reader that does not wait for the stream finds other
// bytes.
inline tenon::Storage make_cuda_storage(const std::string& strategy, Bytes& bytes) {
  const auto transport =
      strategy == "cuda_fd" ? tenon::CudaTransport::kFd : tenon::CudaTransport::kNoMemory;
  tenon::CudaArena arena =
      tenon::CudaArena::make({.device = 1, .transport = transport, .capacity_nbytes = 1U << 20});
  const tenon::Storage neighbour = arena.allocate(bytes.size() + 100);
  tenon::Storage storage = arena.allocate(bytes.size());
  copy_device(neighbour, bytes, true);
  if (device_move(storage.device().id, address_of(storage), address_of(neighbour), bytes.size()) !=
      0)
    throw std::runtime_error("the driver does not copy");
  neighbour.record_stream(nullptr);
  return storage;
}

inline constexpr std::array<const char*, 5> kTransports = {"none", "ipc", "fd", "fabric", "pool"};

// socket: -1 if the strategy sends no fds.
inline std::string lend_cuda(const tenon::Storage& storage, int socket) {
  const tenon::CudaHandle handle = tenon::share_cuda(storage, nullptr);
  if (socket >= 0 && wire_send_fds(socket, handle.fds.data(), handle.fds.size()) != 0)
    throw std::runtime_error("the fds cannot be sent");
  std::ostringstream words;
  words << kTransports.at(static_cast<std::size_t>(handle.transport)) << " " << handle.device << " "
        << (handle.uuid ? hex_of(*handle.uuid) : "-") << " " << handle.nbytes << " "
        << handle.offset << " " << (handle.counter.empty() ? "-" : handle.counter) << " "
        << handle.slot << " " << (handle.event_required ? 1 : 0) << " "
        << (handle.memory.empty() ? "-" : hex_of(handle.event)) << " " << hex_of(handle.memory)
        << " " << handle.fds.size();
  return words.str();
}

inline tenon::Storage open_cuda_handle(const Words& words, int socket) {
  tenon::CudaHandle handle;
  const auto transport =
      std::find(kTransports.begin(), kTransports.end(), words.at(0)) - kTransports.begin();
  handle.transport = static_cast<tenon::CudaTransport>(transport);
  handle.device = std::stoi(words.at(1));
  if (const Bytes uuid = bytes_of(words.at(2)); !uuid.empty())
    std::copy_n(uuid.begin(), 16, handle.uuid.emplace().begin());
  handle.nbytes = std::stoull(words.at(3));
  handle.offset = std::stoull(words.at(4));
  if (words.at(5) != "-") handle.counter = words.at(5);
  handle.slot = std::stoull(words.at(6));
  handle.event_required = words.at(7) == "1";
  const Bytes event = bytes_of(words.at(8));
  std::copy_n(event.begin(), std::min(event.size(), handle.event.size()), handle.event.begin());
  handle.memory = bytes_of(words.at(9));
  if (socket >= 0) {
    std::array<int, WIRE_FDS> fds{};
    const int n = wire_receive_fds(socket, fds.data());
    if (n < 0) throw std::runtime_error("no fds came");
    handle.fds.assign(fds.begin(), fds.begin() + n);
  }
  const tenon::Result<tenon::Storage> opened = tenon::try_open_cuda(handle, nullptr);
  for (const int fd : handle.fds) close(fd);
  return opened.value();
}

#endif
