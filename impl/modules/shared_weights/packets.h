// The packets between a process that serves shared weights and the processes that open them
// (docs/format/shared_weights.md). This file only encodes, decodes and validates bytes. member.cc
// sends and receives the packets of a server, and shared_weights.cc those of an opener.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::shared_weights {

// Tells one version of a file from another. Two processes that see the file by different paths, or
// in different containers, compute the same identity.
struct FileIdentity {
  uint64_t nbytes = 0;
  int64_t mtime_ns = 0;
  uint64_t head_crc = 0;  // CRC-32 of the first MiB, which has the header of a safetensors file
  bool operator==(const FileIdentity&) const noexcept = default;
};

// The versions of the weights under one name count from 1 (publish.h).
inline constexpr uint64_t kFirstVersion = 1;

// What the sender of a Hello wants.
enum class Want : uint32_t {
  kWeights = 1,  // the fd of the weights; afterwards the connection is a watch of the server
  kWatch = 2,    // the sender has the weights and only watches the server
  kStatus = 3,   // the facts without the fd
  kPublish = 4,  // the sender replaces the server: a hang-up says that this is done, or has failed
};

struct Hello {
  Want want = Want::kWeights;
  std::optional<FileIdentity> file;  // the sender's file; nothing: any file will do
  // kWeights: the version that is wanted, or 0 for the newest. kWatch: the version that the sender
  // has, or 0 from a sender that knows of one version only.
  uint64_t version = 0;
};

// The server is still loading.
struct Progress {
  uint64_t done = 0;
  uint64_t total = 0;
};

// What the memory of the weights is. A process that reads a kind that it does not know refuses it.
enum class MemoryKind : uint32_t {
  kFrozen = 0,        // a memfd that nobody can write any more
  kLenderWrites = 1,  // a memfd that only its publisher can write; it does when nobody has a hold
  kFile = 2,          // the file itself, mapped
  kDevice = 3,        // memory of a device, and a memfd that has the file's header
};
inline constexpr uint32_t kMemoryKinds = 4;

// The weights. The packet of kind kWeights brings one fd, or two for the memory of a device. The
// packet of kind kStatus brings none.
struct Facts {
  FileIdentity file;
  uint64_t segment_nbytes = 0;  // 0 in a status while the server is still loading
  uint64_t file_offset = 0;     // where byte 0 of the file lies in the segment
  // The bytes of the file in the segment. Frozen memory ends with the file. It may have another
  // size than `file` says, because the shards of an index become one file.
  uint64_t file_nbytes() const noexcept {
    return memory == MemoryKind::kFrozen ? segment_nbytes - file_offset : file.nbytes;
  }
  uint64_t version = kFirstVersion;
  MemoryKind memory = MemoryKind::kFrozen;
  int32_t loader_pid = 0;
  uint32_t holders = 0;  // the server and the processes that watch it
  std::string label;     // the file's name without its directories, for messages
};

// Says to a holder of an older version which version the server has.
struct Newest {
  uint64_t version = kFirstVersion;
};

enum class Refusal : uint32_t {
  kUser = 1,       // the server does not admit this user
  kOtherFile = 2,  // the server lends another file, or another version of the file
  kFull = 3,       // the server has as many connections as it takes
  kVersion = 4,    // the server does not have the version that was asked for
};

struct Refused {
  Refusal why = Refusal::kUser;
  FileIdentity file;  // for kOtherFile: the file that the server lends
  std::string label;
};

enum class PacketKind : uint16_t {
  kHello = 1,
  kProgress = 2,
  kWeights = 3,
  kRefused = 4,
  kStatus = 5,
  kNewest = 6,
};

struct Packet {
  PacketKind kind = PacketKind::kHello;
  Hello hello;        // kHello
  Progress progress;  // kProgress
  Facts facts;        // kWeights, kStatus
  Refused refused;    // kRefused
  Newest newest;      // kNewest
};

inline constexpr size_t kMaxLabelNbytes = 255;
inline constexpr size_t kMaxPacketNbytes = 512;

std::vector<std::byte> encode_packet(const Hello& hello);
std::vector<std::byte> encode_packet(const Progress& progress);
std::vector<std::byte> encode_packet(const Newest& newest);
// `kind` is kWeights or kStatus. A longer label is cut.
std::vector<std::byte> encode_packet(PacketKind kind, const Facts& facts);
std::vector<std::byte> encode_packet(const Refused& refused);

// Validates every field. CORRUPT, with the detail "field", for bytes that no encoder writes.
// INCOMPATIBLE for a later format, and for flags that this version does not know.
Result<Packet> decode_packet(std::span<const std::byte> bytes);

}  // namespace tenon::shared_weights
