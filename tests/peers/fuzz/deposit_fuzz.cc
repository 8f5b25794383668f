// libFuzzer target: it decodes the requests that a lender reads on its depot's socket, the answers
// that a receiver reads there, and the header of a claims page, which the receiver checks before it
// maps the page. An accepted one must have the right length and name only places that exist.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "channel/depot_packets.h"
#include "memory/claims_page.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::channel;
namespace page = tenon::memory::claims_page;

// Fills a T with the bytes, and the rest with zeros.
template <typename T>
T take(const uint8_t* data, size_t size) {
  T value{};
  if (size > 0) std::memcpy(static_cast<void*>(&value), data, std::min(size, sizeof value));
  return value;
}

void check_request(const uint8_t* data, size_t size) {
  const auto head = take<DepotRequestPacket>(data, size);
  for (const bool is_cut : {false, true}) {
    if (!is_request(head, size, is_cut)) continue;
    require(!is_cut && head.n_things <= kMostThings && size == 16 + size_t{head.n_things} * 16,
            "more or fewer names than there are");
    require(head.request == 1 || head.request == 2, "a request that is none");
  }
}

void check_one_answer(const DepotAnswerPacket& answer, size_t size, const Ticket& ticket) {
  const Status status = check_answer(answer, size, false, ticket);
  require(!check_answer(answer, size, true, ticket).is_ok(), "an answer that was cut is taken");
  if (!status.is_ok()) {
    require(!status.message().empty(), "refused without a message");
    return;
  }
  require(size == sizeof answer && answer.depot == ticket.depot,
          "an answer of another length or lender is taken");
  for (const DepotRequest request : {DepotRequest::kHello, DepotRequest::kThings}) {
    const bool is_hello = request == DepotRequest::kHello;
    for (size_t n_things = 0; n_things <= kMostThings; n_things += 83) {
      const size_t n_fds = n_things + (is_hello ? 4 : 0);
      const bool fits = answer.n_fds == n_fds && (answer.borrower != 0) == is_hello;
      require(check_answer_fds(answer, request, n_things, n_fds, ticket).is_ok() == fits,
              "fds are counted wrong");
      require(!check_answer_fds(answer, request, n_things, n_fds + 1, ticket).is_ok(),
              "an fd too many is taken");
    }
  }
}

void check_answers(const uint8_t* data, size_t size) {
  auto answer = take<DepotAnswerPacket>(data, size);
  Ticket ticket;
  ticket.pid = 1;
  check_one_answer(answer, size, ticket);
  ticket.depot = answer.depot;
  check_one_answer(answer, size, ticket);
  answer.magic = kDepotMagic;
  answer.code = 0;
  check_one_answer(answer, size, ticket);
}

void check_one_header(std::array<std::byte, sizeof(page::Header)> bytes, uint64_t file_nbytes,
                      uint32_t slots) {
  Result<page::Counts> counts = page::check_header(bytes, file_nbytes, slots);
  if (!counts.is_ok())
    return fuzz::require_refusal(counts.status(), {Code::kCorrupt, Code::kIncompatible});
  // Everything that a receiver accesses must lie in the file.
  const uint64_t messages = counts.value().messages;
  const uint64_t things = counts.value().things;
  require(messages > 0 && things > 0, "a page without messages or things is taken");
  require(4096 + messages * 8 + things * 8 + uint64_t{slots} * 4 == file_nbytes,
          "a page of another size is taken");
}

void check_header(const uint8_t* data, size_t size) {
  const auto bytes = take<std::array<std::byte, sizeof(page::Header)>>(data, size);
  const auto messages =
      take<uint32_t>(data + std::min<size_t>(size, 12), size - std::min<size_t>(size, 12));
  const auto things =
      take<uint32_t>(data + std::min<size_t>(size, 16), size - std::min<size_t>(size, 16));
  const auto slots =
      take<uint32_t>(data + std::min<size_t>(size, 20), size - std::min<size_t>(size, 20));
  check_one_header(bytes, size, slots);
  // A fuzzer guesses neither the file's size nor the magic, so they are set here.
  const uint64_t nbytes =
      4096 + uint64_t{messages} * 8 + uint64_t{things} * 8 + uint64_t{slots} * 4;
  check_one_header(bytes, nbytes, slots);
  auto marked = bytes;
  std::memcpy(marked.data(), page::kMagic.data(), page::kMagic.size());
  std::memcpy(marked.data() + 8, &page::kVersion, sizeof page::kVersion);
  check_one_header(marked, nbytes, slots);
  check_one_header(marked, nbytes, slots + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check_request(data, size);
  check_answers(data, size);
  check_header(data, size);
  return 0;
}
