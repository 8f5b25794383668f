// These tests compare the committed bytes of tests/peers/golden/deposit: tickets, requests, answers
// and the header of a claims page.
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <sys/socket.h>
#include <tenon/by_fd.h>
#include <tenon/dtype.h>
#include <tenon/storage.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "channel/deposit.h"
#include "channel/depot_packets.h"
#include "channel/fetch.h"
#include "channel/lease_block.h"
#include "channel/ticket.h"
#include "memory/claims_page.h"
#include "memory/depot.h"
#include "memory/lease_page.h"
#include "os/memfd.h"
#include "support/must.h"
#include "support/unix_socket.h"
#include "tensor/descriptor.h"
#include "unit/channel/block_kit.h"

namespace tenon::channel::golden {
namespace {

constexpr DepotId kDepot = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
                            0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f};

Ticket head() {
  Ticket ticket;
  ticket.depot = kDepot;
  ticket.rendezvous = "/dev/shm/tenon_golden";
  ticket.pid = 4711;
  ticket.message = 0x11223344;
  ticket.generation = 0x55667788;
  ticket.envelope = 4'194'303;
  return ticket;
}

// Returns a ticket with three storages in two segments, one of them without a lease, and with the
// token of a lender further up.
Ticket whole() {
  Ticket ticket = head();
  ticket.slots = {7, kNoLease, 8};
  ticket.things = {{0, ThingKind::kSegment, 1},
                   {65'535, ThingKind::kSegment, 0x1122334455667788},
                   {2, ThingKind::kToken, 3}};
  return ticket;
}

tensor::DescriptorContent whole_content() {
  tensor::DescriptorContent content;
  content.sender_pid = 4711;
  for (size_t i = 0; i < 2; ++i) {
    tensor::SegmentRecord segment;
    segment.nbytes = 4096 * (i + 1);
    segment.access = TENON_ACCESS_WRITABLE;
    segment.reach = tensor::Reach::kKnown;
    segment.id = whole().things[i].serial;
    content.segments.push_back(segment);
  }
  content.storages = {{0, 0, 64}, {1, 0, 128}, {1, 4096, 4096}};
  for (uint32_t storage = 0; storage < 3; ++storage) {
    tensor::TensorRecord bytes;
    bytes.storage = storage;
    bytes.dtype = {TENON_DTYPE_UINT, 8, 1};
    bytes.ndim = 1;
    bytes.dims = static_cast<uint32_t>(content.dims.size());
    content.dims.insert(content.dims.end(), {64, 1});  // the size and the stride of the tensor
    content.tensors.push_back(bytes);
  }
  content.user = {std::byte{'h'}, std::byte{'i'}};
  return content;
}

StorageTicket record() {
  StorageTicket storage;
  storage.slot = 5;
  storage.segment = {65'535, ThingKind::kSegment, 0x1122334455667788};
  storage.offset = 8192;
  storage.nbytes = 4096;
  storage.segment_nbytes = 67'108'864;
  storage.access = TENON_ACCESS_READ_ONLY;
  storage.mode = TENON_MODE_LENDER_WRITES;
  return storage;
}
StorageTicket record_with_tokens() {
  StorageTicket storage = record();
  storage.slot = kNoLease;
  storage.access = TENON_ACCESS_WRITABLE;
  storage.mode = TENON_MODE_SHARED;
  storage.tokens = {{2, ThingKind::kToken, 3}, {9, ThingKind::kToken, 0xffffffffffffffff}};
  return storage;
}
StorageTicket record_of_nothing() {
  StorageTicket storage;
  storage.slot = kNoLease;
  storage.access = TENON_ACCESS_WRITABLE;
  return storage;
}

template <typename T>
void append(Bytes* bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), from, from + sizeof value);
}

Bytes request(DepotRequest what, const std::vector<Thing>& things) {
  Bytes bytes;
  append(&bytes, DepotRequestPacket{kDepotMagic, static_cast<uint32_t>(what),
                                    static_cast<uint32_t>(things.size()), 0});
  for (const Thing& thing : things)
    append(&bytes, WireThingName{thing.number, static_cast<uint32_t>(thing.kind), thing.serial});
  return bytes;
}

Bytes answer(Code code, uint32_t borrower, uint32_t n_fds) {
  Bytes bytes;
  append(&bytes,
         DepotAnswerPacket{kDepotMagic, static_cast<int32_t>(code), kDepot, borrower, n_fds});
  return bytes;
}

// Returns the header that a new depot writes.
Bytes claims_header() {
  const Ref<memory::Depot> depot = memory::Depot::create().value();
  Bytes bytes(sizeof(memory::claims_page::Header));
  EXPECT_TRUE(os::read_file(depot->page(), 0, bytes.data(), bytes.size()).is_ok());
  return bytes;
}

struct Golden {
  const char* file;
  Bytes bytes;
};
std::vector<Golden> golden_files() {
  return {{"whole.bin", encode_ticket(whole(), tensor::encode_descriptor(whole_content()))},
          {"head.bin", encode_ticket(head(), {})},
          {"record.bin", encode_storage_ticket(record())},
          {"record_with_tokens.bin", encode_storage_ticket(record_with_tokens())},
          {"record_of_nothing.bin", encode_storage_ticket(record_of_nothing())},
          {"hello.bin", request(DepotRequest::kHello, whole().things)},
          {"things.bin", request(DepotRequest::kThings, {whole().things[1]})},
          {"answer.bin", answer(Code::kOk, 2, 7)},
          {"answer_not_found.bin", answer(Code::kNotFound, 0, 0)},
          {"claims_page.bin", claims_header()}};
}

const test::GoldenFiles& committed() {
  static const test::GoldenFiles kFiles("deposit");
  return kFiles;
}

Bytes read(const char* file) { return committed().read(file); }

TEST(DepositGolden, TheSameContentHasTheCommittedBytes) {
  committed().expect_committed(golden_files(), [](const Golden& each) { return each.bytes; });
}

void expect_same(const Ticket& a, const Ticket& b) {
  EXPECT_EQ(a.depot, b.depot);
  EXPECT_EQ(a.rendezvous, b.rendezvous);
  EXPECT_EQ(a.pid, b.pid);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.envelope, b.envelope);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.things, b.things);
}

TEST(DepositGolden, TicketsAreRead) {
  size_t used = 0;
  const Bytes bytes = read("whole.bin");
  Ticket ticket = must(decode_ticket(bytes, &used));
  expect_same(ticket, whole());
  tensor::DescriptorContent content =
      must(tensor::decode_descriptor(std::span(bytes).subspan(used), 0, {}));
  EXPECT_EQ(tensor::encode_descriptor(content), tensor::encode_descriptor(whole_content()));
  const Bytes alone = read("head.bin");
  Ticket of_pieces = must(decode_ticket(alone, &used));
  EXPECT_EQ(used, alone.size());
  expect_same(of_pieces, head());
}

// A message has exactly one right ticket. This ticket has the right CRC, but one byte of its
// padding is not 0.
TEST(DepositGolden, TicketsWithOtherPaddingAreRefused) {
  Ticket ticket = whole();
  ticket.rendezvous = "/a";
  ticket.slots = {kNoLease};
  const size_t path_padding = 64 + 2, slots_padding = 64 + 8 + 4;
  for (const size_t at : {path_padding, slots_padding}) {
    Bytes bytes = encode_ticket(ticket, {});
    size_t used = 0;
    ASSERT_TRUE(decode_ticket(bytes, &used).is_ok());
    bytes.at(at) = std::byte{1};
    std::memset(bytes.data() + 12, 0, 4);
    const uint32_t crc = libdeflate_crc32(0, bytes.data(), bytes.size());
    std::memcpy(bytes.data() + 12, &crc, sizeof crc);
    const Status status = decode_ticket(bytes, &used).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find("padding"), std::string::npos) << status.message();
  }
}

TEST(DepositGolden, RecordsAreRead) {
  const std::vector<std::pair<const char*, StorageTicket>> records = {
      {"record.bin", record()},
      {"record_with_tokens.bin", record_with_tokens()},
      {"record_of_nothing.bin", record_of_nothing()}};
  for (const auto& [file, wanted] : records) {
    Result<StorageTicket> got = decode_storage_ticket(read(file));
    ASSERT_TRUE(got.is_ok()) << file << ": " << got.status().message();
    EXPECT_EQ(got.value().slot, wanted.slot) << file;
    EXPECT_EQ(got.value().segment, wanted.segment) << file;
    EXPECT_EQ(got.value().offset, wanted.offset) << file;
    EXPECT_EQ(got.value().nbytes, wanted.nbytes) << file;
    EXPECT_EQ(got.value().segment_nbytes, wanted.segment_nbytes) << file;
    EXPECT_EQ(got.value().access, wanted.access) << file;
    EXPECT_EQ(got.value().mode, wanted.mode) << file;
    EXPECT_EQ(got.value().tokens, wanted.tokens) << file;
  }
}

TEST(DepositGolden, RequestsAndAnswersAreTaken) {
  for (const char* const file : {"hello.bin", "things.bin"}) {
    const Bytes bytes = read(file);
    DepotRequestPacket request;
    ASSERT_GE(bytes.size(), sizeof request);
    std::memcpy(&request, bytes.data(), sizeof request);
    EXPECT_TRUE(is_request(request, bytes.size(), false)) << file;
    EXPECT_FALSE(is_request(request, bytes.size() - 1, false)) << file;
    EXPECT_FALSE(is_request(request, bytes.size(), true)) << file;
    request.zero = 1;
    EXPECT_FALSE(is_request(request, bytes.size(), false)) << file;
  }
  DepotAnswerPacket answer;
  Bytes bytes = read("answer.bin");
  ASSERT_EQ(bytes.size(), sizeof answer);
  std::memcpy(&answer, bytes.data(), sizeof answer);
  EXPECT_TRUE(check_answer(answer, bytes.size(), false, head()).is_ok());
  EXPECT_TRUE(check_answer_fds(answer, DepotRequest::kHello, 3, 7, head()).is_ok());
  EXPECT_EQ(check_answer_fds(answer, DepotRequest::kThings, 7, 7, head()).code(), Code::kCorrupt);
  EXPECT_EQ(check_answer_fds(answer, DepotRequest::kHello, 3, 6, head()).code(), Code::kCorrupt);
  EXPECT_EQ(check_answer(answer, bytes.size() - 1, false, head()).code(), Code::kCorrupt);
  EXPECT_EQ(check_answer(answer, bytes.size(), true, head()).code(), Code::kCorrupt);
  Ticket other = head();
  other.depot[15] = 0;
  EXPECT_EQ(check_answer(answer, bytes.size(), false, other).code(), Code::kPeerGone);
  bytes = read("answer_not_found.bin");
  ASSERT_EQ(bytes.size(), sizeof answer);
  std::memcpy(&answer, bytes.data(), sizeof answer);
  EXPECT_EQ(check_answer(answer, bytes.size(), false, head()).code(), Code::kNotFound);
}

TEST(DepositGolden, TheHeaderOfAClaimsPageIsTaken) {
  namespace page = memory::claims_page;
  const Bytes bytes = read("claims_page.bin");
  ASSERT_EQ(bytes.size(), sizeof(page::Header));
  const std::span<const std::byte, sizeof(page::Header)> header(bytes);
  const size_t nbytes =
      page::page_nbytes(page::kMessages, page::kThings, memory::lease_page::kSlots);
  page::Counts counts = must(page::check_header(header, nbytes, memory::lease_page::kSlots));
  EXPECT_EQ(counts.messages, page::kMessages);
  EXPECT_EQ(counts.things, page::kThings);
  EXPECT_EQ(page::check_header(header, nbytes - 1, memory::lease_page::kSlots).status().code(),
            Code::kCorrupt);
  EXPECT_EQ(page::check_header(header, nbytes, memory::lease_page::kSlots - 1).status().code(),
            Code::kCorrupt);
}

Bytes packet_from(int socket) {
  Bytes bytes(8192);
  const ssize_t got = recv(socket, bytes.data(), bytes.size(), 0);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

// A real receiver sends the committed request to a lender that it has not met before.
TEST(DepositGolden, AReceiverSaysHello) {
  const std::string path = "/dev/shm/tenon_golden_" + std::to_string(getpid());
  const os::Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(test::bind_path(listener.get(), path));
  ASSERT_EQ(listen(listener.get(), 1), 0);
  Bytes said;
  std::thread lender([&] {
    const os::Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    said = packet_from(client.get());
    unlink(path.c_str());  // a receiver whose connection hangs up would ask again
  });
  Ticket ticket = whole();
  ticket.rendezvous = path;
  const Bytes bytes = encode_ticket(ticket, tensor::encode_descriptor(whole_content()));
  EXPECT_EQ(fetch(bytes, {}, os::Wait{.timeout_ns = 10'000'000'000}).status().code(),
            Code::kPeerGone);
  lender.join();
  EXPECT_EQ(said, read("hello.bin"));
}

// A real lender answers with the committed bytes, apart from its id, the receiver's number and the
// number of fds.
TEST(DepositGolden, ALenderAnswers) {
  const std::unique_ptr<Deposit> deposit = Deposit::create().value();
  size_t used = 0;
  const Ticket ticket = decode_ticket(deposit->head(), &used).value();
  const std::vector<std::pair<Bytes, const char*>> talks = {
      {request(DepotRequest::kHello, {}), "answer.bin"},
      {read("things.bin"), "answer_not_found.bin"}};
  for (const auto& [asked, file] : talks) {
    const os::Fd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(test::connect_path(client.get(), ticket.rendezvous));
    ASSERT_EQ(send(client.get(), asked.data(), asked.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(asked.size()));
    Bytes got = packet_from(client.get());
    ASSERT_EQ(got.size(), sizeof(DepotAnswerPacket)) << file;
    std::memcpy(got.data() + offsetof(DepotAnswerPacket, depot), kDepot.data(), kDepot.size());
    if (std::string(file) == "answer.bin") {
      got = with<uint32_t>(got, offsetof(DepotAnswerPacket, borrower), 2);
      EXPECT_EQ(with<uint32_t>(got, offsetof(DepotAnswerPacket, n_fds), 7), read(file));
      EXPECT_EQ(got, with<uint32_t>(read(file), offsetof(DepotAnswerPacket, n_fds), kGreetingFds));
    } else {
      EXPECT_EQ(got, read(file));
    }
  }
  EXPECT_TRUE(deposit->withdraw());
}

}  // namespace
}  // namespace tenon::channel::golden
