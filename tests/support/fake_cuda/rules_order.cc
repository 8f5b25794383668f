// Rules of streams and events: what is ordered, what is not, and what an event of another process
// orders.
#include <ctime>

#include <atomic>
#include <thread>

#include "peer.h"

using namespace rules;

namespace {

constexpr size_t kOrderSize = size_t{1} << 20;

void pause_ms(long ms) {
  const timespec time = {ms / 1000, (ms % 1000) * 1000000};
  nanosleep(&time, nullptr);
}

// Work in a stream that ends when the test sets `gate`, so that no result depends on timing. Each
// test is a process of its own.
std::atomic<int> gate{0};
void stand_at_the_gate(CUstream stream) {
  const auto wait = [](void*) {
    while (gate == 0) pause_ms(1);
  };
  OK(cu.cuLaunchHostFunc(stream, wait, nullptr));
}

}  // namespace

TEST(event_flags) {
  const Started started;
  CUevent event = nullptr;
  // "CU_EVENT_INTERPROCESS must be specified along with CU_EVENT_DISABLE_TIMING."
  EQUAL(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  CUipcEventHandle handle{};
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cu.cuIpcGetEventHandle(&handle, event) != CUDA_SUCCESS);
  OK(cu.cuEventDestroy(event));
  OK(cu.cuEventCreate(&event, kInterprocess));
  OK(cu.cuIpcGetEventHandle(&handle, event));
  OK(cu.cuEventQuery(event));
  float ms = 0;
  EQUAL(cu.cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
  CUevent opened = nullptr;
  CHECK(cu.cuIpcOpenEventHandle(&opened, handle) != CUDA_SUCCESS);
  OK(cu.cuEventDestroy(event));
}

FAKE_TEST(work_is_late, "FAKE_CUDA_LATENCY=stream=100000") {
  const Started started;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc(&pointer, kOrderSize));
  CUstream writer = nullptr;
  CUstream reader = nullptr;
  OK(cu.cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING));
  OK(cu.cuMemsetD8(pointer, 1, kOrderSize));
  CUevent start = nullptr;
  CUevent end = nullptr;
  OK(cu.cuEventCreate(&start, CU_EVENT_DEFAULT));
  OK(cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
  stand_at_the_gate(writer);
  OK(cu.cuEventRecord(start, writer));
  OK(cu.cuMemsetD8Async(pointer, 2, kOrderSize, writer));
  OK(cu.cuMemsetD8Async(pointer, 3, kOrderSize, writer));
  OK(cu.cuEventRecord(end, writer));
  EQUAL(cu.cuEventQuery(end), CUDA_ERROR_NOT_READY);
  EQUAL(cu.cuStreamQuery(writer), CUDA_ERROR_NOT_READY);
  // A stream that does not wait sees the old byte.
  unsigned char early = 0;
  OK(cu.cuMemcpyDtoHAsync(&early, pointer, 1, reader));
  OK(cu.cuStreamSynchronize(reader));
  EQUAL(early, 1);
  void* late = nullptr;
  // A copy into memory that the driver does not know would block the host, and the gate opens only
  // later.
  OK(cu.cuMemHostAlloc(&late, 1, 0));
  OK(cu.cuStreamWaitEvent(reader, end, 0));
  OK(cu.cuMemcpyDtoHAsync(late, pointer, 1, reader));
  EQUAL(cu.cuStreamQuery(reader), CUDA_ERROR_NOT_READY);
  gate = 1;
  OK(cu.cuStreamSynchronize(reader));
  EQUAL(*static_cast<unsigned char*>(late), 3);
  OK(cu.cuMemFreeHost(late));
  OK(cu.cuEventSynchronize(end));
  float ms = 0;
  OK(cu.cuEventElapsedTime(&ms, start, end));
  CHECK(ms >= 200);
  OK(cu.cuEventDestroy(start));
  OK(cu.cuEventDestroy(end));
  OK(cu.cuStreamDestroy(writer));
  OK(cu.cuStreamDestroy(reader));
  OK(cu.cuMemFree(pointer));
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_STREAM, 0), 0U);
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_EVENT, 0), 0U);
}

TEST(legacy_stream_blocks) {
  const Started started;
  CUstream blocking = nullptr;
  CUstream free_running = nullptr;
  OK(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  OK(cu.cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
  stand_at_the_gate(blocking);
  CUevent event = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuEventRecord(event, nullptr));
  CUevent aside = nullptr;
  OK(cu.cuEventCreate(&aside, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuEventRecord(aside, free_running));
  OK(cu.cuEventSynchronize(aside));
  EQUAL(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate = 1;
  OK(cu.cuEventSynchronize(event));
  OK(cu.cuStreamSynchronize(blocking));
  OK(cu.cuStreamQuery(blocking));
  OK(cu.cuCtxSynchronize());
  OK(cu.cuEventDestroy(event));
  OK(cu.cuEventDestroy(aside));
  OK(cu.cuStreamDestroy(blocking));
  OK(cu.cuStreamDestroy(free_running));
}

TEST(copy_into_pageable_memory_waits) {
  const Started started;
  CUdeviceptr pointer = 0;
  CUstream stream = nullptr;
  OK(cu.cuMemAlloc(&pointer, kOrderSize));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuMemsetD8(pointer, 1, kOrderSize));
  stand_at_the_gate(stream);
  OK(cu.cuMemsetD8Async(pointer, 2, kOrderSize, stream));
  std::atomic<bool> opened{false};
  std::thread opener([&opened] {
    pause_ms(100);
    opened = true;
    gate = 1;
  });
  unsigned char byte = 0;
  OK(cu.cuMemcpyDtoHAsync(&byte, pointer, 1, stream));
  CHECK(opened);
  EQUAL(byte, 2);
  opener.join();
  OK(cu.cuStreamDestroy(stream));
  OK(cu.cuMemFree(pointer));
}

TEST(threads) {
  const Started started;
  std::vector<std::thread> all;
  CUevent shared = nullptr;
  OK(cu.cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING));
  all.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    all.emplace_back([&, value = static_cast<unsigned char>(10 + thread)] {
      OK(cu.cuCtxSetCurrent(started.context));
      CUstream stream = nullptr;
      OK(cu.cuStreamCreate(&stream, value % 2 == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
      for (int round = 0; round < 50; ++round) {
        CUdeviceptr pointer = 0;
        CUevent event = nullptr;
        OK(cu.cuMemAlloc(&pointer, kOrderSize));
        OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cu.cuMemsetD8Async(pointer, value, kOrderSize, stream));
        OK(cu.cuLaunchHostFunc(stream, [](void*) {}, nullptr));
        OK(cu.cuEventRecord(event, stream));
        OK(cu.cuEventRecord(shared, stream));
        OK(cu.cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
        unsigned char byte = 0;
        OK(cu.cuMemcpyDtoHAsync(&byte, pointer + kOrderSize - 1, 1, CU_STREAM_PER_THREAD));
        OK(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
        EQUAL(byte, value);
        OK(cu.cuEventDestroy(event));
        OK(cu.cuMemFree(pointer));
      }
      OK(cu.cuStreamDestroy(stream));
    });
  }
  for (std::thread& thread : all) thread.join();
  OK(cu.cuEventSynchronize(shared));
  OK(cu.cuEventDestroy(shared));
  if (!cu.fake) return;
  EQUAL(cu.fake_cuda_live(0, 0), cu.fake_cuda_live(FAKE_CUDA_CONTEXT, 0));
  EQUAL(cu.fake_cuda_faults(0), 0U);
}

PEER(waits) {
  const Started started;
  const Sent sent = parent.receive<Sent>();
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  OK(cu.cuIpcOpenMemHandle(&pointer, sent.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cu.cuIpcOpenEventHandle(&event, sent.event));
  CUipcEventHandle again{};
  if (cu.fake) CHECK(cu.cuIpcGetEventHandle(&again, event) != CUDA_SUCCESS);
  parent.send(1);
  parent.receive<int>();
  CUstream stream = nullptr;
  void* late = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  // A copy into memory that the driver does not know may block the host, and the gate opens only
  // later.
  OK(cu.cuMemHostAlloc(&late, 1, 0));
  EQUAL(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  OK(cu.cuStreamWaitEvent(stream, event, 0));
  OK(cu.cuMemcpyDtoHAsync(late, pointer, 1, stream));
  EQUAL(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  parent.send(1);
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(*static_cast<unsigned char*>(late), 2);
  OK(cu.cuEventQuery(event));
  // The reverse: this process records the event, and its maker waits.
  OK(cu.cuMemsetD8Async(pointer, 3, 1, stream));
  OK(cu.cuEventRecord(event, stream));
  parent.send(2);
  parent.receive<int>();
  OK(cu.cuEventDestroy(event));
  OK(cu.cuStreamDestroy(stream));
  OK(cu.cuMemFreeHost(late));
  OK(cu.cuIpcCloseMemHandle(pointer));
}

TEST(events_order_processes) {
  const Started started;
  CUdeviceptr pointer = 0;
  Sent sent;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuMemAlloc(&pointer, kOrderSize));
  OK(cu.cuMemsetD8(pointer, 1, kOrderSize));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, kInterprocess));
  OK(cu.cuIpcGetMemHandle(&sent.memory, pointer));
  OK(cu.cuIpcGetEventHandle(&sent.event, event));
  Peer peer("waits");
  peer.send(sent);
  peer.receive<int>();
  stand_at_the_gate(stream);
  OK(cu.cuMemsetD8Async(pointer, 2, kOrderSize, stream));
  OK(cu.cuEventRecord(event, stream));
  peer.send(1);
  peer.receive<int>();
  gate = 1;
  peer.receive<int>();
  OK(cu.cuEventSynchronize(event));
  EQUAL(first_byte(pointer), 3);
  peer.send(1);
  EQUAL(peer.join(), 0);
  OK(cu.cuEventDestroy(event));
  OK(cu.cuStreamDestroy(stream));
  OK(cu.cuMemFree(pointer));
  if (cu.fake) EQUAL(cu.fake_cuda_faults(0), 0U);
}

PEER(records_for_ever) {
  const Started started;
  CUevent event = nullptr;
  OK(cu.cuEventCreate(&event, kInterprocess));
  CUipcEventHandle handle{};
  OK(cu.cuIpcGetEventHandle(&handle, event));
  OK(cu.cuLaunchHostFunc(nullptr, [](void*) { pause_ms(1000000); }, nullptr));
  OK(cu.cuEventRecord(event, nullptr));
  parent.send(handle);
  parent.receive<int>();
}

// The wait must end on hardware, too. What a real driver returns then is not known.
FAKE_TEST(dead_recorder_is_not_waited_for, "") {
  const Started started;
  Peer peer("records_for_ever");
  const auto handle = peer.receive<CUipcEventHandle>();
  CUevent event = nullptr;
  OK(cu.cuIpcOpenEventHandle(&event, handle));
  EQUAL(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  OK(cu.cuStreamWaitEvent(nullptr, event, 0));
  EQUAL(cu.cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  peer.kill();
  OK(cu.cuStreamSynchronize(nullptr));
  OK(cu.cuEventQuery(event));
  OK(cu.cuEventDestroy(event));
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_EVENT, 0), 0U);
}

PEER(uses_destroyed) {
  const Started started;
  CUevent event = nullptr;
  OK(cu.cuIpcOpenEventHandle(&event, parent.receive<CUipcEventHandle>()));
  parent.send(1);
  parent.receive<int>();
  cu.cuEventQuery(event);
  OK(cu.cuEventDestroy(event));
}

FAKE_TEST(destroyed_event_is_not_used, "") {
  const Started started;
  CUevent event = nullptr;
  CUipcEventHandle handle{};
  OK(cu.cuEventCreate(&event, kInterprocess));
  OK(cu.cuIpcGetEventHandle(&handle, event));
  {
    Peer peer("uses_destroyed");
    peer.send(handle);
    peer.receive<int>();
    OK(cu.cuEventDestroy(event));
    peer.send(1);
  }
  EQUAL(cu.fake_cuda_faults(FAKE_CUDA_EVENT_USED_AFTER_DESTROY), 1U);
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_EVENT, 0), 0U);
}

FAKE_TEST(events_run_out, "FAKE_CUDA_IPC_EVENTS=3") {
  const Started started;
  CUevent events[4] = {};
  for (int i = 0; i < 3; ++i) OK(cu.cuEventCreate(&events[i], kInterprocess));
  EQUAL(cu.cuEventCreate(&events[3], kInterprocess), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.cuEventDestroy(events[0]));
  OK(cu.cuEventCreate(&events[3], kInterprocess));
  for (int i = 1; i < 4; ++i) OK(cu.cuEventDestroy(events[i]));
}
