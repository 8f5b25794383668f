// Tests events as objects, through the C API: they order the work of two processes, and the host
// queries them and waits for them.
#include <pthread.h>
#include <signal.h>
#include <tenon/tenon.h>

#include <atomic>
#include <memory>
#include <thread>

#include "gate.h"
#include "share_kit.h"

namespace cuda_test {
namespace {

struct ReleaseEvent {
  void operator()(tenon_cuda_event* event) const { tenon_cuda_event_release(event); }
  void operator()(tenon_cancel* cancel) const { tenon_cancel_release(cancel); }
  void operator()(tenon_error* error) const { tenon_error_release(error); }
};
using EventPointer = std::unique_ptr<tenon_cuda_event, ReleaseEvent>;
using CancelPointer = std::unique_ptr<tenon_cancel, ReleaseEvent>;
using EventErrorPointer = std::unique_ptr<tenon_error, ReleaseEvent>;

#define OK(call) ASSERT_EQ(call, TENON_OK)

tenon_cuda_event_options options(uint32_t flags, int32_t device = 0) {
  return {sizeof(tenon_cuda_event_options), flags, device};
}

EventPointer new_event(uint32_t flags = 0, int32_t device = 0) {
  const tenon_cuda_event_options how = options(flags, device);
  tenon_cuda_event* event = nullptr;
  tenon_error* error = nullptr;
  EXPECT_EQ(tenon_cuda_event_new(&how, &event, &error), TENON_OK) << tenon_error_message(error);
  return EventPointer(event);
}
EventPointer open_event(const IpcBytes& handle) {
  tenon_cuda_event* event = nullptr;
  tenon_error* error = nullptr;
  EXPECT_EQ(tenon_cuda_event_from_ipc_handle(handle.data(), nullptr, &event, &error), TENON_OK)
      << tenon_error_message(error);
  return EventPointer(event);
}
IpcBytes handle_of(const EventPointer& event) {
  IpcBytes handle{};
  EXPECT_EQ(tenon_cuda_event_ipc_handle(event.get(), handle.data(), nullptr), TENON_OK);
  return handle;
}
bool is_complete(const EventPointer& event) {
  int complete = -1;
  EXPECT_EQ(tenon_cuda_event_query(event.get(), &complete, nullptr), TENON_OK);
  EXPECT_TRUE(complete == 0 || complete == 1);
  return complete == 1;
}
tenon_status synchronize(const EventPointer& event, int64_t timeout_ns,
                         tenon_cancel* cancel = nullptr, uint32_t flags = 0) {
  const tenon_wait wait = {sizeof(tenon_wait), timeout_ns, cancel, flags, 0};
  return tenon_cuda_event_synchronize(event.get(), &wait, nullptr);
}
CancelPointer new_cancel() {
  tenon_cancel* cancel = nullptr;
  EXPECT_EQ(tenon_cancel_new(&cancel, nullptr), TENON_OK);
  return CancelPointer(cancel);
}

uint64_t events_here() { return COUNT(fake_cuda_live, FAKE_CUDA_EVENT, getpid()); }

// The receiver's copy is queued before the sender's fill may begin. Only the event holds the copy
// back.
TEST(CudaEvent, OrdersTheWorkOfTwoProcesses) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        CUstream stream = new_stream();
        Memory memory(kNbytes, 1);
        CU(cuStreamSynchronize(nullptr));
        Ref<Storage> storage = wrap(&memory);
        line.send(share(storage));
        line.expect('o');
        Gate gate;
        EventPointer event = new_event(TENON_CUDA_EVENT_INTERPROCESS);
        const IpcBytes handle = handle_of(event);
        EXPECT_EQ(handle_of(event), handle);
        gate.stand_in(stream);
        fill(memory.pointer, 5, kNbytes, stream);
        OK(tenon_cuda_event_record(event.get(), stream, nullptr));
        line.send_as(handle);
        line.expect('w');
        gate.open();
        line.expect('d');
        EXPECT_TRUE(is_complete(event));
        event = nullptr;
        release_all(&storage);
        CU(cuStreamDestroy(stream));
      },
      [](Line& line) {
        use_device();
        CUstream stream = new_stream();
        Ref<Storage> storage = open(line.receive());
        CU(cuStreamSynchronize(nullptr));
        EXPECT_EQ(byte_at(pointer_of(storage)), 1);
        line.say('o');
        EventPointer event = open_event(line.receive_as<IpcBytes>());
        EXPECT_COUNT(1U, fake_cuda_live, FAKE_CUDA_EVENT_IMPORT, getpid());
        EXPECT_FALSE(is_complete(event));
        EXPECT_EQ(synchronize(event, 0), TENON_WOULD_BLOCK);
        EXPECT_EQ(synchronize(event, 1'000'000), TENON_TIMEOUT);
        OK(tenon_cuda_event_wait(event.get(), stream, nullptr));
        const HostRoom room(1);
        CU(cuMemcpyAsync(room.pointer(), pointer_of(storage), 1, stream));
        line.say('w');
        CU(cuStreamSynchronize(stream));
        EXPECT_EQ(room[0], 5);
        OK(tenon_cuda_event_synchronize(event.get(), nullptr, nullptr));
        EXPECT_TRUE(is_complete(event));
        // cuEventSynchronize would spin on a processor.
        EXPECT_COUNT(0U, fake_cuda_calls, "cuEventSynchronize", getpid());
        event = nullptr;
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_EVENT_IMPORT, getpid());
        CU(cuStreamDestroy(stream));
        release_all(&storage);
        line.say('d');
      });
}

// Both objects stand for the same event. The process that opened it records it, and its maker waits
// on the host.
TEST(CudaEvent, WhoOpenedItCanRecordIt) {
  in_two(
      {},
      [](Line& line) {
        EventPointer event = new_event(TENON_CUDA_EVENT_INTERPROCESS);
        line.send_as(handle_of(event));
        line.expect('r');
        EXPECT_FALSE(is_complete(event));
        line.say('g');
        OK(tenon_cuda_event_synchronize(event.get(), nullptr, nullptr));
        EXPECT_TRUE(is_complete(event));
        line.ask('d', 'e');
      },
      [](Line& line) {
        use_device();
        CUstream stream = new_stream();
        EventPointer event = open_event(line.receive_as<IpcBytes>());
        EXPECT_TRUE(is_complete(event));
        Gate gate;
        gate.stand_in(stream);
        OK(tenon_cuda_event_record(event.get(), stream, nullptr));
        line.ask('r', 'g');
        gate.open();
        line.expect('d');
        // Only the maker of an event can lend it.
        IpcBytes handle{};
        handle.fill(7);
        EXPECT_EQ(tenon_cuda_event_ipc_handle(event.get(), handle.data(), nullptr),
                  TENON_UNSUPPORTED);
        EXPECT_EQ(handle[0], 7);
        event = nullptr;
        CU(cuStreamDestroy(stream));
        line.say('e');
      });
}

TEST(CudaEvent, TheHostAsksAndWaits) {
  in_child({}, [] {
    use_device();
    CUstream stream = new_stream();
    const uint64_t before = events_here();
    EventPointer event = new_event();
    EXPECT_TRUE(is_complete(event));
    EXPECT_EQ(synchronize(event, 0), TENON_OK);
    Gate gate;
    gate.stand_in(stream);
    OK(tenon_cuda_event_record(event.get(), stream, nullptr));
    EXPECT_FALSE(is_complete(event));
    EXPECT_EQ(synchronize(event, 0), TENON_WOULD_BLOCK);
    EXPECT_EQ(synchronize(event, 3'000'000), TENON_TIMEOUT);
    EXPECT_EQ(synchronize(event, 1), TENON_TIMEOUT);

    const CancelPointer cancel = new_cancel();
    std::thread trigger([&] { tenon_cancel_trigger(cancel.get()); });
    EXPECT_EQ(synchronize(event, -1, cancel.get()), TENON_CANCELLED);
    trigger.join();
    EXPECT_EQ(synchronize(event, 0, cancel.get()), TENON_CANCELLED);
    tenon_cancel_reset(cancel.get());
    EXPECT_EQ(synchronize(event, 0, cancel.get()), TENON_WOULD_BLOCK);

    // Other waits on the event continue: one that has no cancel, and one with a long timeout.
    std::thread waits(
        [&] { EXPECT_EQ(tenon_cuda_event_synchronize(event.get(), nullptr, nullptr), TENON_OK); });
    std::thread looks([&] {
      EXPECT_EQ(synchronize(event, int64_t{3600} * 1'000'000'000, cancel.get()), TENON_OK);
    });
    EXPECT_TRUE(wait_until([] {
      return !on_the_fake() || LEDGER(fake_cuda_calls)("cuEventSynchronize", getpid()) == 1;
    }));
    gate.open();
    waits.join();
    looks.join();
    EXPECT_TRUE(is_complete(event));
    EXPECT_EQ(synchronize(event, 0), TENON_OK);
    // A triggered cancel wins over a complete event, as in all waits.
    tenon_cancel_trigger(cancel.get());
    EXPECT_EQ(synchronize(event, -1, cancel.get()), TENON_CANCELLED);
    event = nullptr;
    EXPECT_EQ(events_here(), before);
    CU(cuStreamDestroy(stream));
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

TEST(CudaEvent, ASignalEndsAWaitThatAllowsIt) {
  in_child({}, [] {
    struct sigaction quiet{};
    quiet.sa_handler = [](int) {};
    ASSERT_EQ(sigaction(SIGUSR1, &quiet, nullptr), 0);
    use_device();
    CUstream stream = new_stream();
    EventPointer event = new_event();
    Gate gate;
    gate.stand_in(stream);
    OK(tenon_cuda_event_record(event.get(), stream, nullptr));
    std::atomic<bool> over{false};
    const pthread_t here = pthread_self();
    // Signals that arrive between two polls do not end the wait.
    std::thread signals([&] {
      while (!over) {
        pthread_kill(here, SIGUSR1);
        usleep(1000);
      }
    });
    EXPECT_EQ(synchronize(event, -1, nullptr, TENON_WAIT_INTERRUPTIBLE), TENON_INTERRUPTED);
    EXPECT_EQ(synchronize(event, 20'000'000, nullptr, 0), TENON_TIMEOUT);
    EXPECT_EQ(synchronize(event, 0, nullptr, TENON_WAIT_INTERRUPTIBLE), TENON_WOULD_BLOCK);
    gate.open();
    EXPECT_EQ(tenon_cuda_event_synchronize(event.get(), nullptr, nullptr), TENON_OK);
    over = true;
    signals.join();
    CU(cuStreamDestroy(stream));
  });
}

// A wait on an event is for the mark that was the latest at the time of the call.
TEST(CudaEvent, AStreamWaitsForTheMarkOfThatTime) {
  in_child({}, [] {
    use_device();
    CUstream first = new_stream();
    CUstream second = new_stream();
    CUstream waiting = new_stream();
    Gate gate;
    Gate later;
    Memory memory(kNbytes);
    EventPointer event = new_event();
    OK(tenon_cuda_event_wait(event.get(), waiting, nullptr));  // no mark was recorded yet
    gate.stand_in(first);
    OK(tenon_cuda_event_record(event.get(), first, nullptr));
    OK(tenon_cuda_event_wait(event.get(), waiting, nullptr));
    fill(memory.pointer, 3, kNbytes, waiting);
    EXPECT_EQ(driver().cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    later.stand_in(second);
    OK(tenon_cuda_event_record(event.get(), second, nullptr));
    gate.open();
    CU(cuStreamSynchronize(waiting));
    EXPECT_EQ(byte_at(memory.pointer, waiting), 3);
    EXPECT_FALSE(is_complete(event));
    // The event is released before its mark is complete. The stream goes on waiting.
    OK(tenon_cuda_event_wait(event.get(), waiting, nullptr));
    event = nullptr;
    EXPECT_EQ(driver().cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    later.open();
    CU(cuStreamSynchronize(waiting));
    CU(cuMemFree(memory.pointer));
    for (CUstream stream : {first, second, waiting}) CU(cuStreamDestroy(stream));
  });
}

void expect_driver_error(tenon_status got, tenon_error* error, tenon_status wanted,
                         const char* number, const char* name) {
  const EventErrorPointer owner(error);
  EXPECT_EQ(got, wanted) << name;
  ASSERT_NE(error, nullptr) << name;
  EXPECT_STREQ(tenon_error_detail(error, "cuda_error"), number) << tenon_error_message(error);
  EXPECT_STREQ(tenon_error_detail(error, "cuda_error_name"), name) << tenon_error_message(error);
}

void expect_another_context(const EventPointer& event, CUstream stream) {
  tenon_error* error = nullptr;
  const tenon_status status = tenon_cuda_event_record(event.get(), stream, &error);
  EXPECT_NE(strstr(tenon_error_message(error), "another context than the event's"), nullptr)
      << tenon_error_message(error);
  expect_driver_error(status, error, TENON_INVALID_ARGUMENT, "400", "CUDA_ERROR_INVALID_HANDLE");
}

TEST(CudaEvent, ARecordIsOfTheEventsDevice) {
  NEEDS_THE_FAKE("it wants two devices");
  in_child({"FAKE_CUDA_DEVICES=gpu=64,gpu=64"}, [] {
    use_device(1);
    CUstream of_other_device = new_stream();
    EventPointer event = new_event();
    expect_another_context(event, of_other_device);
    OK(tenon_cuda_event_wait(event.get(), of_other_device, nullptr));
    // The default stream is the one of the event's device, whatever context is current.
    OK(tenon_cuda_event_record(event.get(), nullptr, nullptr));
    OK(tenon_cuda_event_record(event.get(), CU_STREAM_PER_THREAD, nullptr));
    OK(tenon_cuda_event_wait(event.get(), nullptr, nullptr));
    CUcontext current = nullptr;
    CU(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, cuda::primary_context(driver(), 1).value());
    const EventPointer on_it = new_event(0, 1);
    OK(tenon_cuda_event_record(on_it.get(), of_other_device, nullptr));
    CU(cuStreamDestroy(of_other_device));
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

// Uses a second context of the event's own device.
TEST(CudaEvent, ARecordIsOfTheEventsContext) {
  in_child({}, [] {
    use_device();
    const EventPointer event = new_event();
    using Create = CUresult(CUcontext*, unsigned, CUdevice);
    using Destroy = CUresult(CUcontext);
    CUcontext second = nullptr;
    ASSERT_EQ(reinterpret_cast<Create*>(dlsym(library(), "cuCtxCreate_v2"))(&second, 0, 0),
              CUDA_SUCCESS);
    CUstream of_second = new_stream();
    expect_another_context(event, of_second);
    expect_another_context(event, nullptr);
    OK(tenon_cuda_event_wait(event.get(), of_second, nullptr));
    CU(cuStreamDestroy(of_second));
    ASSERT_EQ(reinterpret_cast<Destroy*>(dlsym(library(), "cuCtxDestroy_v2"))(second),
              CUDA_SUCCESS);
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

TEST(CudaEvent, HandlesThatLeadNowhere) {
  in_child({}, [] {
    EventPointer event = new_event(TENON_CUDA_EVENT_INTERPROCESS);
    IpcBytes handle = handle_of(event);
    auto* untouched = reinterpret_cast<tenon_cuda_event*>(&handle);
    tenon_error* error = nullptr;
    // cuda.h names no error for either case, so the test asks a real driver for any error at all.
    const auto is_refused = [](tenon_status got) {
      EXPECT_NE(got, TENON_OK);
      if (on_the_fake()) EXPECT_EQ(got, TENON_INVALID_ARGUMENT);
    };
    is_refused(tenon_cuda_event_from_ipc_handle(handle.data(), nullptr, &untouched, &error));
    if (on_the_fake()) {
      EXPECT_NE(strstr(tenon_error_message(error), "the process that made it cannot"), nullptr)
          << tenon_error_message(error);
    }
    tenon_error_release(error);
    handle[9] ^= 1U;
    is_refused(tenon_cuda_event_from_ipc_handle(handle.data(), nullptr, &untouched, nullptr));
    EXPECT_EQ(untouched, reinterpret_cast<tenon_cuda_event*>(&handle));

    const EventPointer of_this_process = new_event();
    error = nullptr;
    EXPECT_EQ(tenon_cuda_event_ipc_handle(of_this_process.get(), handle.data(), &error),
              TENON_INVALID_ARGUMENT);
    EXPECT_STREQ(tenon_error_detail(error, "option"), "TENON_CUDA_EVENT_INTERPROCESS");
    tenon_error_release(error);
    for (const int32_t device : {-1, 999}) {
      const tenon_cuda_event_options how = options(0, device);
      EXPECT_EQ(tenon_cuda_event_new(&how, &untouched, nullptr), TENON_INVALID_ARGUMENT);
      EXPECT_EQ(tenon_cuda_event_from_ipc_handle(handle.data(), &how, &untouched, nullptr),
                TENON_INVALID_ARGUMENT);
    }
  });
}

TEST(CudaEvent, WithoutIpcHandlesItIsOfThisProcess) {
  NEEDS_THE_FAKE("its devices have what they have");
  in_child({"FAKE_CUDA_IPC=0"}, [] {
    const tenon_cuda_event_options how = options(TENON_CUDA_EVENT_INTERPROCESS);
    tenon_cuda_event* event = nullptr;
    EXPECT_EQ(tenon_cuda_event_new(&how, &event, nullptr), TENON_UNSUPPORTED);
    EXPECT_TRUE(is_complete(new_event()));
  });
}

TEST(CudaEvent, ItGoesWithItsLastReference) {
  in_child({}, [] {
    use_device();
    const uint64_t before = events_here();
    tenon_cuda_event* const event = new_event().release();
    EXPECT_EQ(tenon_cuda_event_retain(event), event);
    tenon_cuda_event_release(event);
    EXPECT_COUNT(before + 1, fake_cuda_live, FAKE_CUDA_EVENT, getpid());
    tenon_cuda_event_release(event);
    EXPECT_EQ(events_here(), before);
  });
}

TEST(CudaEvent, ByManyThreads) {
  in_child({}, [] {
    use_device();
    const EventPointer event = new_event(TENON_CUDA_EVENT_INTERPROCESS);
    const auto use = [&] {
      for (int i = 0; i < 200; ++i) {
        const EventPointer own(tenon_cuda_event_retain(event.get()));
        OK(tenon_cuda_event_record(own.get(), CU_STREAM_PER_THREAD, nullptr));
        OK(tenon_cuda_event_wait(own.get(), CU_STREAM_PER_THREAD, nullptr));
        (void)is_complete(own);
        (void)handle_of(own);
        EXPECT_EQ(synchronize(own, int64_t{60} * 1'000'000'000), TENON_OK);
      }
    };
    std::thread other(use);
    std::thread third(use);
    other.join();
    third.join();
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

TEST(CudaEvent, AFailedDriverCallIsToldAndLeavesNothing) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_two(
      {},
      [](Line& line) {
        const EventPointer event = new_event(TENON_CUDA_EVENT_INTERPROCESS);
        line.send_as(handle_of(event));
        line.expect('d');
      },
      [](Line& line) {
        const auto sent = line.receive_as<IpcBytes>();
        use_device();
        const uint64_t before = events_here();
        EventPointer event = new_event(TENON_CUDA_EVENT_INTERPROCESS);
        tenon_cuda_event* made = nullptr;
        int complete = 7;
        IpcBytes handle{};
        const tenon_wait soon_over = {sizeof(tenon_wait), 1'000'000'000, nullptr, 0, 0};
        const auto fails = [](const char* function,
                              const std::function<tenon_status(tenon_error**)>& call) {
          LEDGER(fake_cuda_fail)(function, 1, CUDA_ERROR_ECC_UNCORRECTABLE);
          tenon_error* error = nullptr;
          const tenon_status status = call(&error);
          expect_driver_error(status, error, TENON_IO, "214", "CUDA_ERROR_ECC_UNCORRECTABLE");
        };
        fails("cuEventCreate",
              [&](tenon_error** err) { return tenon_cuda_event_new(nullptr, &made, err); });
        fails("cuIpcOpenEventHandle", [&](tenon_error** err) {
          return tenon_cuda_event_from_ipc_handle(sent.data(), nullptr, &made, err);
        });
        fails("cuIpcGetEventHandle", [&](tenon_error** err) {
          return tenon_cuda_event_ipc_handle(event.get(), handle.data(), err);
        });
        fails("cuEventRecord", [&](tenon_error** err) {
          return tenon_cuda_event_record(event.get(), nullptr, err);
        });
        fails("cuStreamWaitEvent",
              [&](tenon_error** err) { return tenon_cuda_event_wait(event.get(), nullptr, err); });
        fails("cuEventQuery", [&](tenon_error** err) {
          return tenon_cuda_event_query(event.get(), &complete, err);
        });
        fails("cuEventQuery", [&](tenon_error** err) {
          return tenon_cuda_event_synchronize(event.get(), &soon_over, err);
        });
        fails("cuEventSynchronize", [&](tenon_error** err) {
          return tenon_cuda_event_synchronize(event.get(), nullptr, err);
        });
        EXPECT_EQ(made, nullptr);
        EXPECT_EQ(complete, 7);
        EXPECT_EQ(handle, IpcBytes{});
        event = nullptr;
        EXPECT_EQ(events_here(), before);
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_EVENT_IMPORT, getpid());
        event = open_event(sent);
        EXPECT_TRUE(is_complete(event));
        event = nullptr;
        line.say('d');
      });
}

TEST(CudaEvent, AChildOfForkReleasesItAndNoMore) {
  in_child({}, [] {
    use_device();
    EventPointer event = new_event(TENON_CUDA_EVENT_INTERPROCESS);
    const IpcBytes handle = handle_of(event);
    const pid_t child = start([&] {
      tenon_cuda_event* made = nullptr;
      int complete = 7;
      IpcBytes bytes{};
      EXPECT_EQ(tenon_cuda_event_new(nullptr, &made, nullptr), TENON_UNSUPPORTED);
      EXPECT_EQ(tenon_cuda_event_from_ipc_handle(handle.data(), nullptr, &made, nullptr),
                TENON_UNSUPPORTED);
      EXPECT_EQ(tenon_cuda_event_record(event.get(), nullptr, nullptr), TENON_UNSUPPORTED);
      EXPECT_EQ(tenon_cuda_event_wait(event.get(), nullptr, nullptr), TENON_UNSUPPORTED);
      EXPECT_EQ(tenon_cuda_event_query(event.get(), &complete, nullptr), TENON_UNSUPPORTED);
      EXPECT_EQ(tenon_cuda_event_synchronize(event.get(), nullptr, nullptr), TENON_UNSUPPORTED);
      EXPECT_EQ(synchronize(event, 0), TENON_UNSUPPORTED);
      EXPECT_EQ(tenon_cuda_event_ipc_handle(event.get(), bytes.data(), nullptr), TENON_UNSUPPORTED);
      tenon_cuda_event_release(tenon_cuda_event_retain(event.get()));
      event = nullptr;
    });
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_TRUE(is_complete(event));
    event = nullptr;
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

}  // namespace
}  // namespace cuda_test
