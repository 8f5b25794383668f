// These tests compare the bytes of a lease page that the library makes with
// tests/peers/golden/lease_page, and check what a lender reads from the golden bytes.
//
// A golden file has a line for each 8 bytes that are not 0: their offset, and the bytes in
// hexadecimal. TENON_REGENERATE_GOLDEN=1 writes the files again. The test then fails, so that the
// variable cannot be left on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "memory/holding.h"
#include "memory/lease_page.h"
#include "memory/ledger.h"
#include "os/memfd.h"

namespace tenon::memory {
namespace {

using Bytes = std::vector<std::byte>;

const std::vector<uint32_t> kGivenBack{0, 63, 64, 4095, 4096, lease_page::kSlots - 1};

std::string words_of(const Bytes& bytes) {
  std::string text;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word == 0) continue;
    text += format("%zu ", at);
    for (size_t i = 0; i < 8; ++i)
      text += format(" %02x", std::to_integer<unsigned>(bytes[at + i]));
    text += "\n";
  }
  return text;
}

Bytes bytes_of(const std::string& text, size_t nbytes) {
  Bytes bytes(nbytes);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    size_t at = 0;
    words >> at >> std::hex;
    for (size_t i = 0; i < 8; ++i) {
      unsigned value = 0;
      words >> value;
      EXPECT_TRUE(words && at + i < nbytes && value < 256) << line;
      bytes.at(at + i) = static_cast<std::byte>(value);
    }
  }
  return bytes;
}

Bytes read_page(int fd) {
  Bytes bytes(lease_page::page_nbytes(lease_page::kSlots));
  EXPECT_EQ(os::inspect_file(fd).value().nbytes, bytes.size());
  EXPECT_TRUE(os::read_file(fd, 0, bytes.data(), bytes.size()).is_ok());
  return bytes;
}

// A page that its two writers made: a ledger, and a borrower that has the page mapped.
struct GoldenPage {
  const char* file;
  Bytes bytes;
};
std::vector<GoldenPage> make_pages() {
  std::vector<GoldenPage> pages;
  Ref<Ledger> ledger = Ledger::create({getpid(), getuid()}, true).value();
  os::Fd token = os::duplicate(ledger->fds().token.get()).value();
  os::Fd page = os::duplicate(ledger->fds().page.get()).value();
  os::Fd bell = os::duplicate(ledger->fds().bell.get()).value();
  const os::Fd look = os::duplicate(page.get()).value();
  (void)ledger->take_fds();
  pages.push_back({"born.txt", read_page(look.get())});
  const Ref<Holding> holding = Holding::open(&token, &page, &bell).value();
  for (const uint32_t slot : kGivenBack) holding->give_back(slot, fork_mark());
  pages.push_back({"given_back.txt", read_page(look.get())});
  ledger->set_waiting(true);
  pages.push_back({"given_back_and_waited_for.txt", read_page(look.get())});
  return pages;
}

TEST(LeasePageGolden, Files) {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "skipped: TENON_SOURCE_DIR is not set";
  const std::filesystem::path folder =
      std::filesystem::path(source) / "tests/peers/golden/lease_page";
  const bool regenerate = std::getenv("TENON_REGENERATE_GOLDEN") != nullptr;
  for (const GoldenPage& each : make_pages()) {
    const std::string text = words_of(each.bytes);
    if (regenerate) {
      std::ofstream(folder / each.file) << text;
      continue;
    }
    std::ifstream in(folder / each.file);
    ASSERT_TRUE(in) << each.file;
    const std::string golden{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    EXPECT_EQ(golden, text) << each.file;
    // The lender must find the released slots in the golden bytes too.
    Bytes bytes = bytes_of(golden, each.bytes.size());
    std::vector<uint32_t> slots;
    lease_page::drain(bytes.data(), lease_page::kSlots, lease_page::kSlots,
                      [&](uint32_t slot) { slots.push_back(slot); });
    EXPECT_EQ(slots, std::string(each.file) == "born.txt" ? std::vector<uint32_t>{} : kGivenBack)
        << each.file;
    EXPECT_EQ(words_of(bytes).find("\n4096 "), std::string::npos)
        << "drained, and a summary is left";
  }
  EXPECT_FALSE(regenerate) << "the golden files were written anew";
}

}  // namespace
}  // namespace tenon::memory
