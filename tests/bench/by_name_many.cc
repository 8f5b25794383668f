// Many names: sweep of 10,000 dead, cost of 100,000 live, 100,000 tensors under one.
//
// The dead names are files of a process that was killed. The sweep is compared with readdir and
// unlink of as many plain files, because no sweep can be faster. The live names show what they cost
// a process that opens another name. Other processes hold them, since one process has room for some
// 65,000 mappings.

#include "bench/names.h"
#include "support/sized.h"

namespace {

constexpr uint64_t kNbytes = 64;

tenon_sweep_result sweep(const std::string& directory) {
  auto options = tenon::test::sized<tenon_sweep_options>();
  options.directory = directory.c_str();
  auto result = tenon::test::sized<tenon_sweep_result>();
  BENCH_OK(tenon_filename_sweep(&options, &result, &err));
  return result;
}

void hold_files(const std::string& directory, size_t count) {
  const tenon_filename_options options = bench::name_options(directory);
  for (size_t i = 0; i < count; ++i) (void)bench::new_file(options, kNbytes, 1);
}

void run_sweep(size_t count, size_t rounds) {
  bench::Row whole{"sweep of " + std::to_string(count) + " dead names",
                   "ms",
                   "readdir + unlink of as many files",
                   {},
                   {},
                   {}};
  bench::Row each{"sweep, of one dead name among " + std::to_string(count), "us", "", {}, {}, {}};
  for (size_t round = 0; round < rounds; ++round) {
    const bench::Folder folder;
    bench::Holder dead([&](int) { hold_files(folder.path(), count); });
    dead.wait();
    BENCH_CHECK(folder.count() == count);
    dead.kill();
    const int64_t begin = bench::now_ns();
    const tenon_sweep_result result = sweep(folder.path());
    const int64_t end = bench::now_ns();
    BENCH_CHECK(result.dead == count && folder.count() == 0);
    // The same number of plain files, which need no checks.
    for (size_t i = 0; i < count; ++i) {
      const int fd = open((folder.path() + "/plain-" + std::to_string(i)).c_str(),
                          O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      BENCH_CHECK(fd >= 0 && fallocate(fd, 0, 0, kNbytes + 64) == 0);
      close(fd);
    }
    const int64_t bare_begin = bench::now_ns();
    BENCH_CHECK(folder.clear() == count);
    const int64_t bare_end = bench::now_ns();
    whole.ours.push_back(static_cast<double>(end - begin) / 1e6);
    whole.theirs.push_back(static_cast<double>(bare_end - bare_begin) / 1e6);
    each.ours.push_back(static_cast<double>(end - begin) / 1e3 / static_cast<double>(count));
  }
  bench::print_plain(whole);
  bench::print_plain(each);
}

// Compares a look-up in a crowded directory with one in a directory with few names. The same
// processes hold names in both, and so watch both.
void run_look_up(size_t crowd, size_t rounds) {
  const bench::Folder crowded;
  const bench::Folder quiet;
  constexpr size_t kProcesses = 3;
  std::vector<std::unique_ptr<bench::Holder>> holders;
  for (size_t i = 0; i < kProcesses; ++i) {
    const size_t part = crowd * (i + 1) / kProcesses - crowd * i / kProcesses;
    holders.push_back(std::make_unique<bench::Holder>([&, part](int) {
      hold_files(crowded.path(), part);
      hold_files(quiet.path(), 1);
    }));
  }
  for (const auto& each : holders) each->wait();
  BENCH_CHECK(crowded.count() == crowd);
  // In each directory another process holds one name, and this process holds one.
  const auto lend_in = [](const std::string& directory, int socket) {
    const tenon_filename_options options = bench::name_options(directory);
    bench::put(socket, bench::share_name(bench::new_file(options, kNbytes, 1), options));
  };
  bench::Holder lender([&](int socket) {
    lend_in(crowded.path(), socket);
    lend_in(quiet.path(), socket);
  });
  const auto in_crowd = bench::get<tenon_filename_handle>(lender.socket());
  const auto in_quiet = bench::get<tenon_filename_handle>(lender.socket());
  lender.wait();
  const std::string names = std::to_string(crowd) + " live names";
  const auto compare = [&](const char* what, const char* unit, double ns_per_unit, size_t times,
                           const auto& here, const auto& there) {
    bench::Row row{
        std::string(what) + ", " + names + " beside it", unit, "the same with 3", {}, {}, {}};
    bench::interleave(
        &row, rounds, ns_per_unit * static_cast<double>(times),
        [&] {
          for (size_t i = 0; i < times; ++i) here();
        },
        [&] {
          for (size_t i = 0; i < times; ++i) there();
        });
    bench::print_plain(row);
  };
  const auto open_and_release = [](const tenon_filename_handle& handle) {
    tenon_storage_release(bench::open_name(handle));
  };
  compare(
      "open and release a name that another process holds", "us", 1e3, 10,
      [&] { open_and_release(in_crowd); }, [&] { open_and_release(in_quiet); });
  const auto make_and_release = [](const std::string& directory) {
    tenon_storage_release(bench::new_file(bench::name_options(directory), kNbytes, 1));
  };
  // The first of these calls sweeps.
  make_and_release(crowded.path());
  make_and_release(quiet.path());
  compare(
      "make and release a file", "us", 1e3, 10, [&] { make_and_release(crowded.path()); },
      [&] { make_and_release(quiet.path()); });
  tenon_storage* held_here = bench::open_name(in_crowd);
  tenon_storage* held_there = bench::open_name(in_quiet);
  compare(
      "open a name that this process holds", "ns", 1, 100, [&] { open_and_release(in_crowd); },
      [&] { open_and_release(in_quiet); });
  tenon_storage_release(held_here);
  tenon_storage_release(held_there);
}

// An arena under one name. All its tensors need one file, one mapping and one socket on either
// side.
void run_arena(size_t count) {
  const bench::Folder folder;
  bench::Row sharing{
      "lend one of " + std::to_string(count) + " tensors under one name", "us", "", {}, {}, {}};
  bench::Row opening{
      "open one of " + std::to_string(count) + " tensors under one name", "us", "", {}, {}, {}};
  bench::Holder lender([&](int socket) {
    const tenon_filename_options options = bench::name_options(folder.path());
    std::vector<tenon_storage*> storages(count);
    for (tenon_storage*& storage : storages)
      BENCH_OK(tenon_storage_new(nullptr, kNbytes, &storage, &err));
    const int64_t begin = bench::now_ns();
    std::vector<tenon_filename_handle> handles;
    handles.reserve(count);
    for (tenon_storage* storage : storages) handles.push_back(bench::share_name(storage, options));
    bench::put(socket,
               static_cast<double>(bench::now_ns() - begin) / 1e3 / static_cast<double>(count));
    for (const tenon_filename_handle& handle : handles) bench::put(socket, handle);
  });
  sharing.ours.push_back(bench::get<double>(lender.socket()));
  std::vector<tenon_filename_handle> handles(count);
  for (tenon_filename_handle& handle : handles)
    handle = bench::get<tenon_filename_handle>(lender.socket());
  lender.wait();
  std::vector<tenon_storage*> storages;
  storages.reserve(count);
  const int64_t begin = bench::now_ns();
  for (const tenon_filename_handle& handle : handles) storages.push_back(bench::open_name(handle));
  opening.ours.push_back(static_cast<double>(bench::now_ns() - begin) / 1e3 /
                         static_cast<double>(count));
  for (tenon_storage* storage : storages) tenon_storage_release(storage);
  bench::print_plain(sharing);
  bench::print_plain(opening);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  bench::raise_fd_limit();
  run_sweep(smoke ? 200 : 10'000, smoke ? 2 : 5);
  run_look_up(smoke ? 300 : 100'000, smoke ? 3 : 100);
  run_arena(smoke ? 500 : 100'000);
  return 0;
}
