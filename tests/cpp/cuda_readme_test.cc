// What wrappers/cpp/README.md shows of CUDA, word for word, with a driver: tests/cuda runs this with the fake one, and says so.
#include "cuda_kit.h"

#include <iostream>

namespace {

using namespace std::chrono_literals;

void do_what_the_readme_says(tenon::Connection& connection, void* stream, void* other_stream) {
  if (const auto available = tenon::try_cuda_available(); !available) {
    std::cerr << available.error().what() << "\n";  // why not
    return;
  }
  auto arena = tenon::CudaArena::make({.capacity_nbytes = 1 << 20});     // one allocation, which a receiver opens once
  const tenon::Storage storage = arena.allocate(4000, {.timeout = 5s});  // waits for room: for streams, and for leases to end
  const auto weight = tenon::Tensor::over(storage, {1000}, tenon::kDtypeOf<float>);

  connection.set_stream(0, stream);                           // of device 0; without it, the default stream
  connection.send(tenon::Message::of({{"weight", weight}}));  // what is in the stream comes first

  const tenon::CudaHandle handle = tenon::share_cuda(storage, stream);  // without a connection: for one receiver, who opens it once
  const tenon::Storage opened = tenon::open_cuda(handle, stream);       // there
  opened.record_stream(other_stream);                                   // used in that one, too
  tenon::cuda_collect();                                                // gives back what nobody uses any more

  auto event = tenon::CudaEvent::make({.interprocess = true});
  event.record(stream);
  const tenon::CudaEventHandle bytes = event.ipc_handle();  // there: tenon::CudaEvent::from_ipc_handle(bytes)
  event.wait(other_stream);                                 // a stream waits
  event.synchronize({.timeout = 5s});                       // the host waits

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
