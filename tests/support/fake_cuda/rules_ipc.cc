// Rules of legacy IPC handles: each is a handle of one process, and that process cannot open it
// itself.
#include <sys/mman.h>

#include "peer.h"

using namespace rules;

namespace {

struct SentMemory {
  CUipcMemHandle handle{};
  size_t size = 0;
};

CUdeviceptr make(unsigned char value) {
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc(&pointer, kSize));
  OK(cu.cuMemsetD8(pointer, value, kSize));
  return pointer;
}

SentMemory share(CUdeviceptr pointer) {
  SentMemory sent;
  OK(cu.cuIpcGetMemHandle(&sent.handle, pointer));
  sent.size = kSize;
  return sent;
}

// Shares memory that exists as long as the peer runs.
void share_with(const char* role) {
  const CUdeviceptr pointer = make(7);
  {
    Peer peer(role);
    peer.send(share(pointer));
  }
  OK(cu.cuMemFree(pointer));
}

}  // namespace

TEST(exporter_cannot_open) {
  const Started started;
  const CUdeviceptr pointer = make(1);
  const SentMemory sent = share(pointer);
  CUdeviceptr opened = 0;
  REFUSED(cu.cuIpcOpenMemHandle(&opened, sent.handle, kLazy), CUDA_ERROR_INVALID_CONTEXT);
  // One allocation has one handle. A later allocation at the same address has another: "will return
  // a unique handle for the new memory".
  const SentMemory again = share(pointer);
  CHECK(std::memcmp(&sent, &again, sizeof sent) == 0);
  OK(cu.cuMemFree(pointer));
  const CUdeviceptr next = make(2);
  const SentMemory other = share(next);
  CHECK(std::memcmp(&sent, &other, sizeof sent) != 0);
  OK(cu.cuMemFree(next));
}

PEER(opens) {
  const Started started;
  const SentMemory sent = parent.receive<SentMemory>();
  CUdeviceptr one = 0;
  CUdeviceptr two = 0;
  REFUSED(cu.cuIpcOpenMemHandle(&one, sent.handle, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuIpcOpenMemHandle(&one, sent.handle, kLazy));
  OK(cu.cuIpcOpenMemHandle(&two, sent.handle, kLazy));
  EQUAL(one, two);
  EQUAL(first_byte(one + kSize - 1), 7);
  CUdeviceptr base = 0;
  size_t size = 0;
  OK(cu.cuMemGetAddressRange(&base, &size, one + 4096));
  EQUAL(base, one);
  OK(cu.cuMemsetD8(one, 8, kSize));
  if (cu.fake) EQUAL(cu.fake_cuda_live(FAKE_CUDA_IPC_OPEN, getpid()), 1U);
  OK(cu.cuIpcCloseMemHandle(one));
  EQUAL(first_byte(one), 8);
  OK(cu.cuIpcCloseMemHandle(two));
  CHECK(cu.cuIpcCloseMemHandle(one) != CUDA_SUCCESS);
  if (cu.fake) EQUAL(cu.fake_cuda_live(FAKE_CUDA_IPC_OPEN, getpid()), 0U);
  // A received pointer is not an allocation of this process.
  OK(cu.cuIpcOpenMemHandle(&one, sent.handle, kLazy));
  CHECK(cu.cuMemFree(one) != CUDA_SUCCESS);
  OK(cu.cuIpcCloseMemHandle(one));
}

TEST(opens_count) {
  const Started started;
  const CUdeviceptr pointer = make(7);
  {
    Peer peer("opens");
    peer.send(share(pointer));
  }
  EQUAL(first_byte(pointer), 8);
  OK(cu.cuMemFree(pointer));
}

PEER(second_context) {
  const Started started;
  const SentMemory sent = parent.receive<SentMemory>();
  CUdeviceptr one = 0;
  CUdeviceptr two = 0;
  OK(cu.cuIpcOpenMemHandle(&one, sent.handle, kLazy));
  CUcontext second = nullptr;
  OK(cu.cuCtxCreate(&second, 0, started.device));
  if (cu.fake) CHECK(cu.cuIpcOpenMemHandle(&two, sent.handle, kLazy) != CUDA_SUCCESS);
  OK(cu.cuCtxDestroy(second));
  OK(cu.cuCtxSetCurrent(started.context));
  OK(cu.cuIpcCloseMemHandle(one));
  // Without a context closing fails, too.
  OK(cu.cuIpcOpenMemHandle(&one, sent.handle, kLazy));
  OK(cu.cuCtxSetCurrent(nullptr));
  REFUSED(cu.cuIpcCloseMemHandle(one), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuCtxSetCurrent(started.context));
  OK(cu.cuIpcCloseMemHandle(one));
}

TEST(one_context_per_device) {
  const Started started;
  share_with("second_context");
}

PEER(guesses) {
  const Started started;
  const SentMemory sent = parent.receive<SentMemory>();
  CUdeviceptr pointer = 0;
  for (size_t byte = 0; byte < sizeof sent.handle; byte += 9) {
    SentMemory wrong = sent;
    wrong.handle.reserved[byte] = static_cast<char>(wrong.handle.reserved[byte] ^ 1);
    CHECK(cu.cuIpcOpenMemHandle(&pointer, wrong.handle, kLazy) != CUDA_SUCCESS);
  }
  CHECK(cu.cuIpcOpenMemHandle(&pointer, CUipcMemHandle{}, kLazy) != CUDA_SUCCESS);
}

FAKE_TEST(handles_are_not_guessed, "") {
  const Started started;
  share_with("guesses");
}

PEER(stale) {
  const Started started;
  const SentMemory sent = parent.receive<SentMemory>();
  CUdeviceptr pointer = 0;
  CHECK(cu.cuIpcOpenMemHandle(&pointer, sent.handle, kLazy) != CUDA_SUCCESS);
}

TEST(freed_is_not_opened) {
  const Started started;
  const CUdeviceptr pointer = make(7);
  const SentMemory sent = share(pointer);
  OK(cu.cuMemFree(pointer));
  Peer peer("stale");
  peer.send(sent);
}

PEER(keeps) {
  const Started started;
  const SentMemory sent = parent.receive<SentMemory>();
  CUdeviceptr pointer = 0;
  OK(cu.cuIpcOpenMemHandle(&pointer, sent.handle, kLazy));
  EQUAL(first_byte(pointer), 7);
  parent.send(1);
  parent.receive<int>();
  CHECK(first_byte(pointer) != 7);
  OK(cu.cuIpcCloseMemHandle(pointer));
}

FAKE_TEST(freed_while_open_is_a_fault, "") {
  const Started started;
  const CUdeviceptr pointer = make(7);
  {
    Peer peer("keeps");
    peer.send(share(pointer));
    peer.receive<int>();
    EQUAL(cu.fake_cuda_faults(0), 0U);
    OK(cu.cuMemFree(pointer));
    EQUAL(cu.fake_cuda_faults(FAKE_CUDA_FREED_WHILE_OPEN), 1U);
    EQUAL(cu.fake_cuda_bytes(0), kSize);
    peer.send(1);
  }
  EQUAL(cu.fake_cuda_faults(FAKE_CUDA_USED_AFTER_FREE), 1U);
  EQUAL(cu.fake_cuda_bytes(0), 0U);
}

TEST(interior_pointer) {
  const Started started;
  const CUdeviceptr pointer = make(7);
  const SentMemory base = share(pointer);
  const SentMemory inner = share(pointer + 4096);
  CHECK(std::memcmp(&base, &inner, sizeof base) == 0);
  if (cu.fake) EQUAL(cu.fake_cuda_faults(FAKE_CUDA_INTERIOR_POINTER_EXPORTED), 1U);
  OK(cu.cuMemFree(pointer));
}

PEER(other_numbers) {
  const Started started(1);
  const CUuuid theirs = parent.receive<CUuuid>();
  const SentMemory sent = parent.receive<SentMemory>();
  CUuuid mine{};
  OK(cu.cuDeviceGetUuid(&mine, 1));
  CHECK(std::memcmp(&mine, &theirs, sizeof mine) == 0);
  CUdeviceptr pointer = 0;
  OK(cu.cuIpcOpenMemHandle(&pointer, sent.handle, kLazy));
  int ordinal = -1;
  OK(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
  EQUAL(ordinal, 1);
  EQUAL(first_byte(pointer), 7);
  OK(cu.cuIpcCloseMemHandle(pointer));
}

PEER(sees_nothing) {
  const Started started;
  const SentMemory sent = parent.receive<SentMemory>();
  CUdeviceptr pointer = 0;
  EQUAL(cu.cuIpcOpenMemHandle(&pointer, sent.handle, kLazy), CUDA_ERROR_MAP_FAILED);
}

FAKE_TEST(ordinals_are_of_a_process, "FAKE_CUDA_DEVICES=gpu=64,gpu=64") {
  const Started started;
  const CUdeviceptr pointer = make(7);
  CUuuid uuid{};
  OK(cu.cuDeviceGetUuid(&uuid, 0));
  {
    Peer peer("other_numbers", {"CUDA_VISIBLE_DEVICES=1,0"});
    peer.send(uuid);
    peer.send(share(pointer));
  }
  {
    Peer peer("sees_nothing", {"CUDA_VISIBLE_DEVICES=1"});
    peer.send(share(pointer));
  }
  OK(cu.cuMemFree(pointer));
}

PEER(touches) {
  signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it and exit
  const Started started;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc(&pointer, kSize));
  OK(cu.cuMemsetD8(pointer, 7, kSize));
  EQUAL(*reinterpret_cast<volatile unsigned char*>(pointer), 7);
  OK(cu.cuMemFree(pointer));
}

TEST(host_may_not_touch) {
  Peer peer("touches");
  EQUAL(peer.join(), -SIGSEGV);
}

PEER(same_address) {
  const Started started;
  const SentMemory sent = parent.receive<SentMemory>();
  CUdeviceptr own = 0;
  OK(cu.cuMemAlloc(&own, kSize));
  OK(cu.cuMemsetD8(own, 9, kSize));
  CUdeviceptr opened = 0;
  OK(cu.cuIpcOpenMemHandle(&opened, sent.handle, kLazy));
  CHECK(opened != own);
  EQUAL(first_byte(opened), 7);
  OK(cu.cuIpcCloseMemHandle(opened));
  parent.send(own);
  OK(cu.cuMemFree(own));
}

// An address does not tell whose memory it is.
FAKE_TEST(addresses_are_of_a_process, "FAKE_CUDA_SAME_ADDRESSES=1") {
  const Started started;
  const CUdeviceptr pointer = make(7);
  {
    Peer peer("same_address");
    peer.send(share(pointer));
    EQUAL(peer.receive<CUdeviceptr>(), pointer);
  }
  EQUAL(first_byte(pointer), 7);
  OK(cu.cuMemFree(pointer));
}

FAKE_TEST(host_may_touch_if_told, "") { Peer peer("touches", {"FAKE_CUDA_MAPPED=1"}); }

TEST(managed_memory_is_not_lent) {
  const Started started;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAllocManaged(&pointer, kSize, CU_MEM_ATTACH_GLOBAL));
  std::memset(reinterpret_cast<void*>(pointer), 5, 4096);
  EQUAL(first_byte(pointer), 5);
  CUipcMemHandle handle{};
  EQUAL(cu.cuIpcGetMemHandle(&handle, pointer), CUDA_ERROR_INVALID_VALUE);
  unsigned managed = 0;
  OK(cu.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
  CHECK((managed & 0xffU) == 1);
  OK(cu.cuMemFree(pointer));
}

FAKE_TEST(without_ipc, "FAKE_CUDA_IPC=0") {
  const Started started;
  const CUdeviceptr pointer = make(7);
  CUipcMemHandle handle{};
  EQUAL(cu.cuIpcGetMemHandle(&handle, pointer), CUDA_ERROR_NOT_SUPPORTED);
  int supported = 1;
  if (cu.version >= 12000)
    OK(cu.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
                               started.device));
  OK(cu.cuMemFree(pointer));
}
