// `tenon bench`: measures lends from one process to another, which are made, opened and released,
// against the bare system calls that a lend needs.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <tenon/by_fd.h>
#include <tenon/by_filename.h>
#include <tenon/storage.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench_pair.h"
#include "commands.h"
#include "os/fd.h"
#include "output.h"

namespace tenon::cli {
namespace {

using os::Fd;

constexpr uint64_t kSmall = 4096;
constexpr uint64_t kLarge = uint64_t{16} << 20;
constexpr uint64_t kHuge = uint64_t{64} << 20;

struct Row {
  const char* id;
  const char* what;
  const char* bare;  // the bare system calls of the comparison
  uint64_t nbytes;
  size_t rounds;
  double tenon_us = 0;  // medians
  double bare_us = 0;
};

using Round = std::function<Status()>;

double now_us() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double median(std::vector<double>* samples) {
  const auto middle = samples->begin() + static_cast<ptrdiff_t>(samples->size() / 2);
  std::nth_element(samples->begin(), middle, samples->end());
  return *middle;
}

// Holds signals that would end the program until the end of a round, because a bare round uses a
// name that only it removes.
class SignalsBetweenRounds {
 public:
  SignalsBetweenRounds() noexcept {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, number);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~SignalsBetweenRounds() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBetweenRounds(const SignalsBetweenRounds&) = delete;
  SignalsBetweenRounds& operator=(const SignalsBetweenRounds&) = delete;
  void let_in() noexcept {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    sigprocmask(SIG_BLOCK, &set_, nullptr);
  }

 private:
  sigset_t set_;
  sigset_t before_;
};

// Runs the two kinds of rounds in turns, so that both meet the same state of the machine.
Status measure(Row* row, const Round& tenon, const Round& bare) {
  SignalsBetweenRounds signals;
  std::vector<double> tenon_samples;
  std::vector<double> bare_samples;
  const size_t warm_up = row->rounds / 10 + 1;
  for (size_t i = 0; i < row->rounds + warm_up; ++i) {
    const double begin = now_us();
    TENON_TRY(tenon());
    const double middle = now_us();
    TENON_TRY(bare());
    const double end = now_us();
    signals.let_in();
    if (i < warm_up) continue;
    tenon_samples.push_back(middle - begin);
    bare_samples.push_back(end - middle);
  }
  row->tenon_us = median(&tenon_samples);
  row->bare_us = median(&bare_samples);
  return Status::ok();
}

class Lender {
 public:
  explicit Lender(BorrowerProcess* borrower) noexcept : borrower_(borrower) {}

  Status by_fd(uint64_t nbytes, uint32_t flags) {
    TENON_ASSIGN(Held storage, new_storage(nbytes, flags));
    return lend_fd(storage.get(), nbytes);
  }

  Status lend_fd(tenon_storage* storage, uint64_t nbytes) {
    BorrowRequest request;
    request.how = Borrow::kOpenFd;
    request.nbytes = nbytes;
    request.fd_handle.struct_size = sizeof request.fd_handle;
    tenon_error* error = nullptr;
    TENON_TRY(take_error(tenon_share_fd(storage, nullptr, &request.fd_handle, &error), error));
    Status status = borrower_->ask(request, request.fd_handle.fd);
    tenon_fd_handle_close(&request.fd_handle);
    return status;
  }

  Status by_file(uint64_t nbytes) {
    tenon_storage* made = nullptr;
    tenon_error* error = nullptr;
    TENON_TRY(take_error(tenon_storage_new_filename(nullptr, nbytes, &made, &error), error));
    const Held storage(made);
    return lend_name(storage.get(), nbytes);
  }

  Status by_socket(uint64_t nbytes) {
    TENON_ASSIGN(Held storage, new_storage(nbytes, 0));
    return lend_name(storage.get(), nbytes);
  }

  Status bare_fd(uint64_t nbytes) {
    const Fd fd(memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    TENON_TRY(make_and_touch(fd, nbytes));
    BorrowRequest request;
    request.how = Borrow::kMapFd;
    request.nbytes = nbytes;
    return borrower_->ask(request, fd.get());
  }

  Status bare_name(uint64_t nbytes) {
    BorrowRequest request;
    request.how = Borrow::kMapName;
    request.nbytes = nbytes;
    std::snprintf(request.name_handle.name, sizeof request.name_handle.name, "/bench-%d-%llu",
                  getpid(), static_cast<unsigned long long>(++names_));
    const Fd fd(shm_open(request.name_handle.name, O_RDWR | O_CREAT | O_EXCL, 0600));
    Status status = make_and_touch(fd, nbytes);
    if (status.is_ok()) status = borrower_->ask(request, -1);
    if (fd.is_open()) shm_unlink(request.name_handle.name);
    return status;
  }

  class Held {
   public:
    explicit Held(tenon_storage* storage) noexcept : storage_(storage) {}
    Held(Held&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Held& operator=(Held&&) = delete;
    ~Held() { tenon_storage_release(storage_); }
    tenon_storage* get() const noexcept { return storage_; }

   private:
    tenon_storage* storage_;
  };

  static Result<Held> new_storage(uint64_t nbytes, uint32_t flags) {
    tenon_storage_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    tenon_storage* storage = nullptr;
    tenon_error* error = nullptr;
    TENON_TRY(take_error(tenon_storage_new(&options, nbytes, &storage, &error), error));
    return Held(storage);
  }

 private:
  Status lend_name(tenon_storage* storage, uint64_t nbytes) {
    BorrowRequest request;
    request.how = Borrow::kOpenName;
    request.nbytes = nbytes;
    request.name_handle.struct_size = sizeof request.name_handle;
    tenon_error* error = nullptr;
    TENON_TRY(take_error(
        tenon_share_filename(storage, nullptr, nullptr, &request.name_handle, &error), error));
    return borrower_->ask(request, -1);
  }

  // Reserves the memory before it is used, as Tenon does.
  static Status make_and_touch(const Fd& fd, uint64_t nbytes) {
    if (!fd.is_open()) return errno_status(errno, "making the bare memory");
    if (ftruncate(fd.get(), static_cast<off_t>(nbytes)) != 0)
      return errno_status(errno, "sizing the bare memory");
    if (fallocate(fd.get(), 0, 0, static_cast<off_t>(nbytes)) != 0)
      return errno_status(errno, "reserving the bare memory");
    void* mapping = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapping == MAP_FAILED) return errno_status(errno, "mapping the bare memory");
    munmap(mapping, nbytes);
    return Status::ok();
  }

  BorrowerProcess* borrower_;
  uint64_t names_ = 0;
};

Status measure_copy(Row* row, Lender* lender) {
  TENON_ASSIGN(const Lender::Held storage,
               Lender::new_storage(row->nbytes, TENON_STORAGE_ISOLATED));
  const std::vector<char> from(row->nbytes, 1);
  std::vector<char> to(row->nbytes, 2);
  return measure(
      row, [&] { return lender->lend_fd(storage.get(), row->nbytes); },
      [&] {
        std::memcpy(to.data(), from.data(), row->nbytes);
        // The result is used, so that the compiler cannot remove the copy.
        return *static_cast<volatile char*>(to.data()) == 1
                   ? Status::ok()
                   : Status(Code::kInternal, "the copy went wrong");
      });
}

Result<std::vector<Row>> measure_all(bool quick) {
  const auto rounds = [quick](size_t count) { return quick ? count / 20 + 3 : count; };
  TENON_ASSIGN(BorrowerProcess borrower, BorrowerProcess::start());
  Lender lender(&borrower);
  constexpr const char* kBareFd = "memfd_create, fallocate, mmap, sendmsg, mmap";
  constexpr const char* kBareName = "shm_open, fallocate, mmap, shm_open, mmap, shm_unlink";
  std::vector<Row> rows;
  for (const uint64_t nbytes : {kSmall, kLarge}) {
    const size_t count = rounds(nbytes == kSmall ? 2000 : 100);
    Row fd{"fd", "by fd, from the arena", kBareFd, nbytes, count};
    TENON_TRY(measure(
        &fd, [&] { return lender.by_fd(nbytes, 0); }, [&] { return lender.bare_fd(nbytes); }));
    Row isolated{"fd_isolated", "by fd, a segment of its own", kBareFd, nbytes, count};
    TENON_TRY(measure(
        &isolated, [&] { return lender.by_fd(nbytes, TENON_STORAGE_ISOLATED); },
        [&] { return lender.bare_fd(nbytes); }));
    Row file{"name_file", "by name, a file", kBareName, nbytes, count};
    TENON_TRY(measure(
        &file, [&] { return lender.by_file(nbytes); }, [&] { return lender.bare_name(nbytes); }));
    Row socket{"name_socket", "by name, a socket", kBareName, nbytes, count};
    TENON_TRY(measure(
        &socket, [&] { return lender.by_socket(nbytes); },
        [&] { return lender.bare_name(nbytes); }));
    rows.insert(rows.end(), {fd, isolated, file, socket});
  }
  Row copy{"fd_known", "by fd, memory that exists", "memcpy of the same bytes", kHuge, rounds(60)};
  TENON_TRY(measure_copy(&copy, &lender));
  rows.push_back(copy);
  return rows;
}

void print_rows(const std::vector<Row>& rows) {
  Table table({{"LEND AND OPEN"},
               {"SIZE", true},
               {"TENON", true},
               {"BARE", true},
               {"RATIO", true},
               {"BARE IS"}});
  for (const Row& row : rows) {
    const double ratio = row.tenon_us / row.bare_us;
    table.add({{row.what},
               {size_text(row.nbytes)},
               {format("%.1f µs", row.tenon_us)},
               {format("%.1f µs", row.bare_us)},
               {format(ratio < 0.095 ? "%.4f" : "%.2f", ratio),
                ratio <= 1 ? Colour::kGreen : Colour::kNone},
               {row.bare}});
  }
  table.print();
  print_text(
      "Medians, two processes, in turns: made, lent, opened, first byte read, let go. RATIO = "
      "TENON / BARE; below 1 Tenon is faster.\n");
}

}  // namespace

int run_bench(const BenchOptions& options) {
  Result<std::vector<Row>> rows = measure_all(options.quick);
  if (!rows.is_ok()) {
    print_error(rows.status());
    return kExitProblem;
  }
  if (!options.json) {
    print_rows(rows.value());
    return kExitOk;
  }
  Json list = Json::array();
  for (const Row& row : rows.value()) {
    list.push_back({{"id", row.id},
                    {"what", row.what},
                    {"against", row.bare},
                    {"nbytes", row.nbytes},
                    {"rounds", row.rounds},
                    {"tenon_us", row.tenon_us},
                    {"bare_us", row.bare_us},
                    {"ratio", row.tenon_us / row.bare_us}});
  }
  print_json({{"quick", options.quick}, {"rows", std::move(list)}});
  return kExitOk;
}

}  // namespace tenon::cli
