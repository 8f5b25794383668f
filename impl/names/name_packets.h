// The packets on the socket of a name (docs/format/filename.md). A borrower (name_client.cc) sends
// one request, and the lender (name_server.cc) sends one answer.
#pragma once

#include <cstdint>

namespace tenon::names {

inline constexpr uint32_t kNameMagic = 0x31536e54;  // "TnS1", little-endian

struct RequestPacket {
  uint32_t magic;
  uint32_t request;  // a NameRequest (name_server.h)
};
// If `code` is 0 and the request was to open, the segment's fd comes with the packet. Otherwise the
// fields behind `code` are 0.
struct AnswerPacket {
  uint32_t magic;
  int32_t code;     // a tenon_status
  uint32_t access;  // 1: read-only, 2: writable
  uint32_t zero;
  uint64_t segment_nbytes;
};
static_assert(sizeof(RequestPacket) == 8 && sizeof(AnswerPacket) == 24);

}  // namespace tenon::names
