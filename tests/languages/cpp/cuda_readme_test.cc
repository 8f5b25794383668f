// Compiles and runs the CUDA code of wrappers/cpp/README.md, word for word. tests/process/cuda also
// runs it with the fake driver, and sets TENON_TEST_HAS_CUDA.
#include "cuda_kit.h"

#include <iostream>

namespace {

using namespace std::chrono_literals;

void do_what_the_readme_says(tenon::Connection& connection, void* stream, void* other_stream) {
  if (const auto available = tenon::try_cuda_available(); !available) {
    std::cerr << available.error().what() << "\n";  // why not
    return;
  }
  // One allocation, which a receiver opens once.
  auto arena = tenon::CudaArena::make({.capacity_nbytes = 1 << 20});
  // Waits for room: until streams have come far enough, and leases have ended.
  const tenon::Storage storage = arena.allocate(4000, {.timeout = 5s});
  const auto weight = tenon::Tensor::over(storage, {1000}, tenon::kDtypeOf<float>);

  // The stream is of device 0. Without this call it is the default stream.
  connection.set_stream(0, stream);
  connection.send(tenon::Message::of({{"weight", weight}}));  // what is in the stream comes first

  // Without a connection: a handle for one receiver, which opens it once.
  const tenon::CudaHandle handle = tenon::share_cuda(storage, stream);
  const tenon::Storage opened = tenon::open_cuda(handle, stream);  // in the receiver
  opened.record_stream(other_stream);                              // that one uses it too
  tenon::cuda_collect();  // gives back what nobody uses any more

  auto event = tenon::CudaEvent::make({.interprocess = true});
  event.record(stream);
  // In the receiver: tenon::CudaEvent::from_ipc_handle(bytes).
  const tenon::CudaEventHandle bytes = event.ipc_handle();
  event.wait(other_stream);            // a stream waits
  event.synchronize({.timeout = 5s});  // the host waits

  const tenon::Storage on_the_host = tenon::Storage::make(4000, {.isolated = true});
  void* const address = on_the_host.pin();  // where device 0 finds it
  EXPECT_TRUE(address != nullptr && opened == storage && bytes != tenon::CudaEventHandle{});
}

TEST(Cuda, TheReadmesLines) {
  NEEDS_DRIVER();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  auto lender = tenon::Connection::make(ends[0], {.adopt_socket = true});
  auto borrower = tenon::Connection::make(ends[1], {.adopt_socket = true});
  do_what_the_readme_says(lender, nullptr, nullptr);
  EXPECT_EQ(borrower.recv()["weight"].device(), (tenon::Device{2, 0}));
}

}  // namespace
