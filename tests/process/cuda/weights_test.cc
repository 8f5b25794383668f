// Weights that processes share by a name in the memory of a device: one copy for all processes,
// which outlives the process that loaded it and ends with the last process, killed or not.
#include <cuda.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "process/cuda/kit.h"
#include "process/shared_weights/kit.h"

namespace {

using cuda_test::in_child;
using cuda_test::library;
using fault::Outcome;
using sharing::How;
using sharing::Opened;
using sharing::Report;
using sharing::Scene;

constexpr uint64_t kWeightsNbytes = 5'000'000;
// The device makes pieces of 2 MiB.
constexpr uint64_t kCopyNbytes = 6 * fault::kMiB;

template <typename Function>
Function* driver_function(Function*, const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(library(), name));
  REQUIRE(found != nullptr);
  return found;
}
#define DRIVER(function, symbol) driver_function(static_cast<decltype(&function)>(nullptr), symbol)

// Opens the driver's library for the ledger, and starts no driver in this process.
void open_ledger() { REQUIRE(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr); }

uint64_t bytes_on(uint32_t device) { return COUNT(fake_cuda_bytes, device); }

Opened open_on(const Scene& scene, const char* device, bool with_file = true) {
  const std::string file = scene.file();
  return sharing::open_weights(scene,
                               {.path = with_file ? file.c_str() : nullptr, .device = device});
}

Opened must_open_on(const Scene& scene, const char* device, bool with_file = true) {
  Opened opened = open_on(scene, device, with_file);
  if (!CHECK_SAYING(opened.outcome.ok(), opened.outcome.text())) _exit(1);
  return opened;
}

void read_device(void* to, const void* from, uint64_t nbytes, int device) {
  CUcontext context = nullptr;
  REQUIRE(DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")(&context, device) ==
          CUDA_SUCCESS);
  REQUIRE(DRIVER(cuCtxPushCurrent, "cuCtxPushCurrent_v2")(context) == CUDA_SUCCESS);
  CHECK_EQ(DRIVER(cuMemcpyDtoH, "cuMemcpyDtoH_v2")(to, reinterpret_cast<CUdeviceptr>(from), nbytes),
           CUDA_SUCCESS);
  CUcontext popped = nullptr;
  REQUIRE(DRIVER(cuCtxPopCurrent, "cuCtxPopCurrent_v2")(&popped) == CUDA_SUCCESS);
  REQUIRE(DRIVER(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")(device) ==
          CUDA_SUCCESS);
}

// Whether the tensor on the device has the bytes of the file.
bool has_on_device(const Scene& scene, const Opened& opened, int device, uint64_t seed = 1) {
  std::vector<unsigned char> bytes(scene.nbytes());
  read_device(bytes.data(), opened.data(), bytes.size(), device);
  return scene.has(bytes.data(), seed);
}

// The memory of the memfds of this process, which has the file's header and nothing more.
uint64_t memfd_nbytes() {
  uint64_t nbytes = 0;
  for (int fd = 0; fd < 256; ++fd) {
    char target[256] = {};
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    struct stat info{};
    const bool is_memfd = readlink(path.c_str(), target, sizeof target - 1) > 0 &&
                          std::strncmp(target, "/memfd:", 7) == 0;
    if (is_memfd && fstat(fd, &info) == 0) nbytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return nbytes;
}

// A process that has the weights on a device until the parent tells it to go.
pid_t spawn_engine(const Scene& scene, Report* report, const char* device = "cuda:0") {
  const pid_t parent = getpid();
  return fault::spawn([&] {
    tenon::test::die_with_parent(parent);
    {
      const Opened opened = must_open_on(scene, device);
      if (!has_on_device(scene, opened, 0)) report->bad.fetch_add(1);
      report->loads.fetch_add(opened.info().loaded);
      report->inode.store(1);
      while (report->go.load() < 2) {
        report->serves.store(opened.info().serves);
        usleep(500);
      }
      if (!has_on_device(scene, opened, 0)) report->bad.fetch_add(1);
    }
  });
}

void check_refused(const Outcome& outcome, tenon_status status, const char* text) {
  CHECK_SAYING(outcome.status == status && outcome.message.find(text) != std::string::npos,
               outcome.text());
}

// Checks that nothing of the weights is left, also on the device.
void check_gone(const Scene& scene) {
  CHECK(fault::wait_until([&] { return bytes_on(0) == 0; }));
  CHECK(scene.is_clean());
  CHECK_EQ(COUNT(fake_cuda_faults, 0), 0);
}

#define IN_WORLD(environment, ...)   \
  in_child(environment, [&] {        \
    __VA_ARGS__();                   \
    EXPECT_EQ(fault::g_failures, 0); \
  })

TEST(CudaWeights, AreOneCopyForAllProcesses) {
  IN_WORLD({}, [] {
    open_ledger();
    const Scene scene(kWeightsNbytes);
    auto* const reports = sharing::new_shared<std::array<Report, 3>>();
    std::vector<pid_t> engines;
    for (Report& each : *reports) engines.push_back(spawn_engine(scene, &each));
    for (Report& each : *reports) sharing::await_weights(each);
    uint32_t loads = 0;
    for (Report& each : *reports) loads += each.loads.load();
    CHECK_EQ(loads, 1);
    if (cuda_test::on_the_fake()) CHECK_EQ(bytes_on(0), kCopyNbytes);
    for (size_t i = 0; i < engines.size(); ++i) sharing::leave_now(engines[i], &(*reports)[i]);
    for (Report& each : *reports) CHECK_EQ(each.bad.load(), 0);
    CHECK_EQ(COUNT(fake_cuda_live, 0, 0), 0);
    check_gone(scene);
  });
}

TEST(CudaWeights, OfKilledProcessesAreHandedOnAndThenFreed) {
  IN_WORLD({}, [] {
    open_ledger();
    const Scene scene(kWeightsNbytes);
    auto* const reports = sharing::new_shared<std::array<Report, 3>>();
    const pid_t loader = spawn_engine(scene, reports->data());
    sharing::await_weights((*reports)[0]);
    const pid_t survivor = spawn_engine(scene, &(*reports)[1]);
    sharing::await_weights((*reports)[1]);
    CHECK_EQ((*reports)[0].loads.load(), 1);
    sharing::kill_now(loader);
    CHECK(fault::wait_until([&] { return (*reports)[1].serves.load() == 1; }));
    const pid_t newcomer = spawn_engine(scene, &(*reports)[2]);
    sharing::await_weights((*reports)[2]);
    CHECK_EQ((*reports)[1].loads.load() + (*reports)[2].loads.load(), 0);
    CHECK_EQ((*reports)[1].bad.load() + (*reports)[2].bad.load(), 0);
    if (cuda_test::on_the_fake()) CHECK_EQ(bytes_on(0), kCopyNbytes);
    sharing::kill_now(newcomer);
    sharing::kill_now(survivor);
    CHECK(fault::wait_until([&] { return bytes_on(0) == 0; }));
    CHECK_EQ(COUNT(fake_cuda_live, 0, 0), 0);
    // Nobody has the name any more, so the next process loads the file again.
    Report& last = *sharing::new_shared<Report>();
    const pid_t next = spawn_engine(scene, &last);
    sharing::await_weights(last);
    CHECK_EQ(last.loads.load(), 1);
    sharing::leave_now(next, &last);
    check_gone(scene);
  });
}

TEST(CudaWeights, TakeOnlyTheirHeaderFromTheHost) {
  IN_WORLD({}, [] {
    const Scene scene(kWeightsNbytes);
    uint64_t told = 0;
    const auto progress = [](void* context, uint64_t done, uint64_t total) {
      CHECK(done <= total);
      *static_cast<uint64_t*>(context) = done;
    };
    const std::string file = scene.file();
    Opened opened = sharing::open_weights(
        scene, {.path = file.c_str(), .progress = progress, .context = &told, .device = "cuda:0"});
    REQUIRE(opened.outcome.ok());
    CHECK(told > scene.nbytes());
    CHECK_EQ(opened.info().nbytes, kCopyNbytes);
    CHECK(memfd_nbytes() <= 64 * 1024);
    CHECK_EQ(reinterpret_cast<uintptr_t>(opened.data()) % 64, 0);
    // A second opening in this process uses the first one's mapping.
    const Opened again = must_open_on(scene, "cuda:0", false);
    CHECK_EQ(again.info().loaded, 0);
    CHECK(again.data() == opened.data());
    CHECK(has_on_device(scene, again, 0));
    CHECK(memfd_nbytes() <= 64 * 1024);
  });
}

TEST(CudaWeights, OfOneNameLieOnEachDeviceByItsUuid) {
  NEEDS_THE_FAKE("it needs two devices");
  IN_WORLD({"FAKE_CUDA_DEVICES=gpu=64,gpu=64"}, [] {
    open_ledger();
    const Scene scene(kWeightsNbytes);
    Report& report = *sharing::new_shared<Report>();
    const pid_t engine = spawn_engine(scene, &report);
    sharing::await_weights(report);
    const pid_t other = fault::spawn([&] {
      const Opened on_cpu = must_open_on(scene, nullptr);
      const Opened on_second = must_open_on(scene, "cuda:1");
      const Opened on_first = must_open_on(scene, "cuda:0", false);
      CHECK(on_cpu.info().loaded == 1 && scene.has(on_cpu.data()));
      CHECK(on_second.info().loaded == 1 && has_on_device(scene, on_second, 1));
      CHECK(on_first.info().loaded == 0 && has_on_device(scene, on_first, 0));
      CHECK(bytes_on(0) == kCopyNbytes && bytes_on(1) == kCopyNbytes);
    });
    CHECK_EQ(fault::wait_for_child(other), 0);
    sharing::leave_now(engine, &report);
    check_gone(scene);
    CHECK_EQ(bytes_on(1), 0);
  });
}

TEST(CudaWeights, AreFoundByAProcessWithOtherNumbers) {
  NEEDS_THE_FAKE("it needs two devices");
  IN_WORLD({"FAKE_CUDA_DEVICES=gpu=64,gpu=64"}, [] {
    const Scene scene(kWeightsNbytes);
    Report& report = *sharing::new_shared<Report>();
    const pid_t first = fault::spawn([&] {
      setenv("CUDA_VISIBLE_DEVICES", "1", 1);
      const Opened opened = must_open_on(scene, "cuda:0");
      CHECK_EQ(opened.info().loaded, 1);
      report.inode.store(1);
      while (report.go.load() < 2) usleep(500);
    });
    sharing::await_weights(report);
    const pid_t second = fault::spawn([&] {
      check_refused(open_on(scene, "cuda:0", false).outcome, TENON_NOT_FOUND, "no process");
      const Opened opened = must_open_on(scene, "cuda:1", false);
      CHECK(has_on_device(scene, opened, 1));
    });
    CHECK_EQ(fault::wait_for_child(second), 0);
    sharing::leave_now(first, &report);
  });
}

TEST(CudaWeights, GetNewVersions) {
  IN_WORLD({}, [] {
    const Scene scene(kWeightsNbytes);
    Opened old = must_open_on(scene, "cuda:0");
    const std::string file = scene.version_file(2);
    const How how{.path = file.c_str(), .device = "cuda:0"};
    Opened next = sharing::open_weights(scene, how, &tenon_publish_shared_weights);
    REQUIRE(next.outcome.ok());
    CHECK_EQ(next.info().version, 2);
    uint64_t version = 0;
    CHECK(sharing::changed(old, sharing::kLong, &version).ok() && version == 2);
    const Opened newest = must_open_on(scene, "cuda:0", false);
    CHECK(has_on_device(scene, newest, 0, 2) && has_on_device(scene, old, 0, 1));
    if (cuda_test::on_the_fake()) CHECK_EQ(bytes_on(0), 2 * kCopyNbytes);
    old = Opened();
    if (cuda_test::on_the_fake()) CHECK_EQ(bytes_on(0), kCopyNbytes);
  });
}

TEST(CudaWeights, AreReadOnlyWhereTheDeviceCanSaySo) {
  NEEDS_THE_FAKE("it needs a device without read-only access");
  for (const bool read_only : {true, false}) {
    IN_WORLD({std::string("FAKE_CUDA_READ_ONLY=") + (read_only ? "1" : "0")}, [&] {
      const Scene scene(kWeightsNbytes);
      open_ledger();
      Report& report = *sharing::new_shared<Report>();
      const pid_t loader = spawn_engine(scene, &report);
      sharing::await_weights(report);
      const pid_t engine = fault::spawn([&] {
        const Opened opened = must_open_on(scene, "cuda:0");
        CHECK(has_on_device(scene, opened, 0));
        unsigned long long access = 0;
        CUmemLocation location{};
        location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CHECK_EQ(DRIVER(cuMemGetAccess, "cuMemGetAccess")(
                     &access, &location,
                     reinterpret_cast<CUdeviceptr>(opened.data()) -
                         reinterpret_cast<CUdeviceptr>(opened.data()) % (2 * fault::kMiB)),
                 CUDA_SUCCESS);
        CHECK_EQ(access,
                 read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      });
      CHECK_EQ(fault::wait_for_child(engine), 0);
      sharing::leave_now(loader, &report);
      check_gone(scene);
    });
  }
}

TEST(CudaWeights, OfAnInheritedContextAreNotTheChilds) {
  IN_WORLD({}, [] {
    open_ledger();
    const Scene scene(kWeightsNbytes);
    Report& report = *sharing::new_shared<Report>();
    const pid_t owner = fault::spawn([&] {
      Opened opened = must_open_on(scene, "cuda:0");
      const pid_t child = fault::spawn([&] {
        const Outcome again = open_on(scene, "cuda:0").outcome;
        check_refused(again, TENON_UNSUPPORTED, "fork");
        opened = Opened();
        report.inode.store(1);
        while (report.go.load() == 0) usleep(500);
      });
      sharing::await_weights(report);
      CHECK(has_on_device(scene, opened, 0));
      // The weights go with their owner, although the child lives.
      opened = Opened();
      if (cuda_test::on_the_fake()) CHECK_EQ(bytes_on(0), 0);
      CHECK(scene.is_clean());
      report.go.store(1);
      CHECK_EQ(fault::wait_for_child(child), 0);
    });
    CHECK_EQ(fault::wait_for_child(owner), 0);
    check_gone(scene);
  });
}

TEST(CudaWeights, AreRefusedWithARemedy) {
  IN_WORLD({}, [] {
    const Scene scene(100);
    check_refused(open_on(scene, "cuda:99").outcome, TENON_INVALID_ARGUMENT, "99");
    for (const char* const device : {"gpu", "cuda", "cuda:", "cuda:-1", "cuda:1x", ""})
      check_refused(open_on(scene, device).outcome, TENON_INVALID_ARGUMENT, "\"cuda:N\"");
    CHECK(scene.is_clean());
  });
  if (!cuda_test::on_the_fake()) return;
  IN_WORLD({"FAKE_CUDA_WORLD"}, [] {
    const Scene scene(100);
    check_refused(open_on(scene, "cuda:0").outcome, TENON_UNSUPPORTED, "CUDA");
    CHECK(scene.is_clean());
  });
  IN_WORLD({"FAKE_CUDA_VMM=0"}, [] {
    const Scene scene(100);
    check_refused(open_on(scene, "cuda:0").outcome, TENON_UNSUPPORTED,
                  "cuda:0 has no memory that processes can share");
    CHECK(scene.is_clean());
  });
  IN_WORLD({"FAKE_CUDA_DEVICES=gpu=4"}, [] {
    const Scene scene(kWeightsNbytes);
    const Outcome full = open_on(scene, "cuda:0").outcome;
    check_refused(full, TENON_RESOURCE_EXHAUSTED, "choose another device");
    CHECK(full.detail("limit") == "device memory");
    CHECK_EQ(COUNT(fake_cuda_live, FAKE_CUDA_ALLOCATION, 0), 0);
    CHECK_EQ(COUNT(fake_cuda_live, FAKE_CUDA_MAPPING, 0), 0);
    CHECK(scene.is_clean());
  });
}

TEST(CudaWeights, ThatNoViewCanShowAreRefusedByName) {
  IN_WORLD({}, [] {
    const Scene scene(100);
    const std::string header = R"({"even":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                               R"("odd":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})";
    const uint64_t header_nbytes = header.size();
    std::FILE* const out = std::fopen(scene.file().c_str(), "wb");
    REQUIRE(out != nullptr && std::fwrite(&header_nbytes, 8, 1, out) == 1);
    REQUIRE(std::fwrite(header.data(), header.size(), 1, out) == 1);
    REQUIRE(std::fwrite("1234567", 7, 1, out) == 1 && std::fclose(out) == 0);
    const Opened opened = open_on(scene, "cuda:0");
    check_refused(opened.outcome, TENON_UNSUPPORTED, "\"odd\"");
    CHECK(opened.outcome.detail("name") == "odd");
    CHECK(scene.is_clean());
    if (cuda_test::on_the_fake()) CHECK_EQ(bytes_on(0), 0);
  });
}

tenon_tensor* tensor_of(tenon_value* value) {
  tenon_tensor* tensor = nullptr;
  REQUIRE_OK(tenon_value_get_tensor(value, &tensor, err));
  tenon_value_release(value);
  return tensor;
}

// The records of an archive lie where they lie in the file.
TEST(CudaWeights, OfAnArchiveHaveTheBytesOfTheFile) {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  const std::string file =
      std::string(source != nullptr ? source : "") + "/tests/peers/golden/weights/torch-2.8.0.pt2";
  if (access(file.c_str(), R_OK) != 0) GTEST_SKIP() << "there is no " << file;
  IN_WORLD({}, [&] {
    const Scene scene(100);
    const Opened opened = sharing::open_weights(scene, {.path = file.c_str(), .device = "cuda:0"});
    if (!CHECK_SAYING(opened.outcome.ok(), opened.outcome.text())) return;
    tenon_weights* plain = nullptr;
    tenon_name_list* names = nullptr;
    REQUIRE_OK(tenon_open_weights(file.c_str(), nullptr, &plain, err));
    REQUIRE_OK(tenon_weights_names(plain, &names, err));
    CHECK_EQ(tenon_name_list_count(names), opened.info().count);
    for (size_t i = 0; i < tenon_name_list_count(names); ++i) {
      const char* const name = tenon_name_list_get(names, i);
      tenon_value* there = nullptr;
      tenon_value* here = nullptr;
      REQUIRE_OK(tenon_shared_weights_tensor(opened.weights_, name, &there, err));
      REQUIRE_OK(tenon_weights_tensor(plain, name, &here, err));
      tenon_tensor* const device = tensor_of(there);
      tenon_tensor* const host = tensor_of(here);
      const uint64_t nbytes = tenon_tensor_nbytes(host);
      CHECK_EQ(tenon_tensor_nbytes(device), nbytes);
      CHECK_SAYING(tenon_storage_device(tenon_tensor_storage(device)).type == 2, name);
      std::vector<unsigned char> bytes(nbytes);
      if (nbytes > 0) read_device(bytes.data(), tenon_tensor_data(device), nbytes, 0);
      CHECK(nbytes == 0 || std::memcmp(bytes.data(), tenon_tensor_data(host), nbytes) == 0);
      tenon_tensor_release(device);
      tenon_tensor_release(host);
    }
    tenon_name_list_release(names);
    tenon_weights_release(plain);
  });
}

// A memfd that nobody can write any more.
int frozen_memfd(uint64_t nbytes) {
  const int fd = memfd_create("frozen", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(fd >= 0 && ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  return fd;
}

void send_with_fds(int socket, std::string packet, const std::vector<int>& fds) {
  iovec part{packet.data(), packet.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  REQUIRE(::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0);
}

// What listens on the socket sends memory of the CPU, no memory of the device, or something that is
// no memory of a device.
TEST(CudaWeights, AreNotTakenFromAHostileServer) {
  IN_WORLD({}, [] {
    const Scene scene(100);
    Report& report = *sharing::new_shared<Report>();
    const pid_t engine = spawn_engine(scene, &report);
    sharing::await_weights(report);
    std::string path;
    for (const auto& each : scene.names())
      if (each.ends_with(".sock")) path = scene.directory() + "/" + each;
    sharing::leave_now(engine, &report);
    CHECK(path.find("/net@cuda-") != std::string::npos);
    REQUIRE(::open((path.substr(0, path.size() - 5) + ".hold").c_str(), O_CREAT | O_RDWR, 0600) >=
            0);
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof name.sun_path);
    std::memcpy(name.sun_path, path.c_str(), path.size());
    REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    REQUIRE(::listen(listener, 8) == 0);
    const uint64_t nbytes = 2 * fault::kMiB;
    const int memfd = frozen_memfd(nbytes);
    struct Answer {
      char memory_flag;
      std::vector<int> fds;
    };
    for (const Answer& answer :
         {Answer{0, {memfd}}, Answer{8, {memfd}}, Answer{8, {memfd, memfd}}, Answer{2, {memfd}}}) {
      const pid_t child = fault::spawn([&] {
        const Outcome outcome = open_on(scene, "cuda:0", false).outcome;
        CHECK_SAYING(!outcome.ok() && outcome.status != TENON_TIMEOUT, outcome.text());
        CHECK(outcome.detail("pid") == std::to_string(getppid()));
      });
      const int client = ::accept(listener, nullptr, nullptr);
      char hello[64];
      REQUIRE(client >= 0 && ::recv(client, hello, sizeof hello, 0) == 56);
      std::string packet(76, '\0');
      packet.replace(0, 12, std::string("TNSW\x01\x00\x03\x00\x4c\x00\x00\x00", 12));
      packet[12] = answer.memory_flag;
      packet[16] = 1;
      packet[56] = 1;
      std::memcpy(packet.data() + 40, &nbytes, sizeof nbytes);
      send_with_fds(client, packet, answer.fds);
      CHECK_EQ(fault::wait_for_child(child), 0);
      close(client);
    }
  });
}

}  // namespace
