// What the C++ wrapper adds to its C calls; 300 x 4 KiB tensors received and viewed in C++.
//
// A sample is the mean over many calls of one kind, made in turn through the wrapper and through
// the C header. Both check errors. Another process sends the 300 tensors in one message each time,
// in a known segment. The time runs from the call that receives the message, which is already in
// the socket, until the first byte of each tensor was read.

#include <poll.h>

#include <tenon/tenon.hpp>

#include "bench/bench.h"
#include "support/sized.h"

namespace {

constexpr uint64_t kNbytes = 4096;

template <class Ours, class Theirs>
void compare(const char* measure, size_t rounds, int calls, Ours&& ours, Theirs&& theirs) {
  bench::Row row{std::string(measure) + ", C++",  "ns", "C",
                 {"ours-theirs", "at_most", 100}, {},   {}};
  bench::interleave(
      &row, rounds, calls,
      [&] {
        for (int i = 0; i < calls; ++i) ours();
      },
      [&] {
        for (int i = 0; i < calls; ++i) theirs();
      });
  bench::print(row);
}

tenon_tensor_spec floats_spec(const int64_t* sizes) {
  auto spec = tenon::test::sized<tenon_tensor_spec>();
  spec.dtype = {TENON_DTYPE_FLOAT, 32, 1};
  spec.ndim = 1;
  spec.sizes = sizes;
  return spec;
}

void calls(size_t rounds, int each) {
  const int64_t sizes[] = {kNbytes / 4};
  compare(
      "new and release of a storage of 4 KiB", rounds, each,
      [] { const tenon::Storage storage = tenon::Storage::make(kNbytes); },
      [] {
        tenon_storage* storage = nullptr;
        BENCH_OK(tenon_storage_new(nullptr, kNbytes, &storage, &err));
        tenon_storage_release(storage);
      });
  tenon::Tensor tensor = tenon::zeros<float>({sizes[0]});
  const tenon::Storage storage = tensor.storage();
  compare(
      "new and release of a tensor", rounds, each,
      [&] {
        const tenon::Tensor made = tenon::Tensor::over(storage, sizes, tenon::kDtypeOf<float>);
      },
      [&] {
        const tenon_tensor_spec spec = floats_spec(sizes);
        tenon_tensor* made = nullptr;
        BENCH_OK(tenon_tensor_new(storage.get(), &spec, &made, &err));
        tenon_tensor_release(made);
      });
  compare(
      "view of a tensor", rounds, each, [&] { bench::touch(tensor.view<float>().data()); },
      [&] {
        tenon_tensor_view view;
        view.struct_size = sizeof view;
        BENCH_OK(tenon_tensor_get_view(tensor.get(), &view, &err));
        bench::touch(view.data);
      });
  compare(
      "one more reference and its release", rounds, each,
      [&] { const tenon::Tensor more = tensor; },
      [&] { tenon_tensor_release(tenon_tensor_retain(tensor.get())); });
  compare(
      "share by fd", rounds, each, [&] { const tenon::FdHandle handle = tenon::share_fd(storage); },
      [&] {
        tenon_fd_handle handle;
        handle.struct_size = sizeof handle;
        BENCH_OK(tenon_share_fd(storage.get(), nullptr, &handle, &err));
        tenon_fd_handle_close(&handle);
      });
  const tenon::FdHandle handle = tenon::share_fd(storage);
  compare(
      "open by fd of what is known", rounds, each,
      [&] { const tenon::Storage opened = tenon::open_fd(handle); },
      [&] {
        tenon_storage* opened = nullptr;
        BENCH_OK(tenon_open_fd(&handle.c(), nullptr, &opened, &err));
        tenon_storage_release(opened);
      });
  const bench::Sockets sockets;
  tenon::Connection here = tenon::Connection::make(sockets.here);
  tenon::Connection there = tenon::Connection::make(sockets.there);
  compare(
      "send and receive of a tensor", rounds, each / 10 + 1,
      [&] {
        here.send(tenon::Message::of({{"weight", tensor}}));
        const tenon::Message received = there.recv();
      },
      [&] {
        tenon_message* message = nullptr;
        tenon_tensor* added = tensor.get();
        const char* name = "weight";
        BENCH_OK(tenon_message_new(&message, &err));
        BENCH_OK(tenon_message_add(message, &added, &name, 1, nullptr, &err));
        BENCH_OK(tenon_send(here.get(), message, nullptr, &err));
        tenon_message_release(message);
        BENCH_OK(tenon_recv(there.get(), nullptr, &message, &err));
        tenon_message_release(message);
      });
}

constexpr size_t kTensors = 300;

void receive(tenon::Connection& connection) {
  const tenon::Message message = connection.recv();
  for (const tenon::TensorView& view : message.views()) bench::touch(view.view<float>().data());
}

void receive_c(tenon_connection* connection) {
  tenon_message* message = nullptr;
  BENCH_OK(tenon_recv(connection, nullptr, &message, &err));
  std::vector<tenon_tensor_view> views(tenon_message_count(message));
  views[0].struct_size = sizeof views[0];
  BENCH_OK(tenon_message_get_views(message, views.data(), views.size(), &err));
  for (const tenon_tensor_view& view : views) bench::touch(view.data);
  tenon_message_release(message);
}

void many(size_t rounds) {
  bench::Sockets messages;
  bench::Sockets turns;
  const bench::Child lender([&] {
    messages.keep_there();
    turns.keep_there();
    tenon::Connection connection = tenon::Connection::make(messages.there);
    tenon::Message message = tenon::Message::make();
    for (size_t i = 0; i < kTensors; ++i)
      message.add(tenon::zeros<float>({kNbytes / 4}), "weight " + std::to_string(i));
    for (size_t round = 0; round < 2 * bench::total_rounds(rounds); ++round) {
      bench::get_byte(turns.there);
      connection.send(message);
    }
  });
  messages.keep_here();
  turns.keep_here();
  tenon::Connection connection = tenon::Connection::make(messages.here);
  const auto timed = [&](const auto& receives) {
    bench::put_byte(turns.here);
    pollfd ready{messages.here, POLLIN, 0};
    BENCH_CHECK(poll(&ready, 1, -1) == 1);
    const int64_t begin = bench::now_ns();
    receives();
    return static_cast<double>(bench::now_ns() - begin) / 1e6;
  };
  const char* what = "300 x 4 KiB tensors received and viewed";
  bench::Row cpp{std::string(what) + ", C++", "ms", "C", {"ours", "at_most", 0.2}, {}, {}};
  bench::Row c{std::string(what) + ", C", "ms", "", {"ours", "at_most", 0.2}, {}, {}};
  for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
    const double ours = timed([&] { receive(connection); });
    const double theirs = timed([&] { receive_c(connection.get()); });
    if (round < bench::total_rounds(rounds) - rounds) continue;  // warm-up
    cpp.ours.push_back(ours);
    cpp.theirs.push_back(theirs);
    c.ours.push_back(theirs);
  }
  bench::print(c);
  bench::print(cpp);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  many(smoke ? 5 : 2000);
  calls(smoke ? 5 : 200, smoke ? 10 : 1000);
  return 0;
}
