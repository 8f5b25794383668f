// Two workers borrow from one arena. One worker is killed, and the blocks that it held come back to
// the lender. The other worker reads on.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <tenon/tenon.hpp>

using namespace std::chrono_literals;

namespace {

constexpr int kTensors = 8;
constexpr std::int64_t kElements = 1 << 18;
constexpr std::uint64_t kNbytes = kElements * sizeof(float);

struct Worker {
  pid_t process = -1;
  tenon::Connection connection;
};

int work(int socket) {
  auto lender = tenon::Connection::make(socket);
  const tenon::Message weights = lender.recv();
  lender.send(tenon::Message::make());
  lender.recv();  // meanwhile the lender kills one worker
  const tenon::Tensor last = weights[kTensors - 1];
  std::cout << "a worker still reads " << last.view<float>()[kElements - 1] << std::endl;
  return 0;  // the leases end with the message
}

Worker start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return {};
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    _exit(work(ends[1]));
  }
  close(ends[1]);
  return {process, tenon::Connection::make(ends[0], {.adopt_socket = true})};
}

// Makes tensors in the arena, and destroys them as soon as they are sent. From then on the worker's
// leases keep their memory.
void lend(Worker& worker, const tenon::Arena& arena) {
  auto message = tenon::Message::make();
  for (int i = 0; i < kTensors; ++i) {
    auto tensor = tenon::zeros<float>({kElements}, {.arena = &arena});
    std::ranges::fill(tensor.view_mut<float>(), 42.0F);
    message.add(tensor);
  }
  worker.connection.send(message);
  worker.connection.recv();  // the worker has the tensors
}

void print_holders() {
  for (const tenon::LeaseHolder& each : tenon::lease_holders())
    std::cout << "process " << each.pid << " holds " << each.leases << " leases of " << each.nbytes
              << " bytes\n";
}

}  // namespace

int main() try {
  Worker workers[] = {start(), start()};
  const auto arena = tenon::Arena::make({.capacity_nbytes = 2 * kTensors * kNbytes});
  for (Worker& worker : workers) lend(worker, arena);
  print_holders();
  try {
    tenon::Storage::make(kNbytes, {.arena = &arena});
    return 1;
  } catch (const tenon::ResourceExhausted& error) {
    std::cout << "full: " << error.what() << "\n";
  }

  if (kill(workers[0].process, SIGKILL) != 0) return 1;
  // Waits until there is room.
  const auto storage = tenon::Storage::make(kNbytes, {.arena = &arena, .wait = {.timeout = 10s}});
  std::cout << "one worker was killed, and there is room\n";
  print_holders();
  std::cout.flush();
  workers[1].connection.send(tenon::Message::make());
  int result = 0;
  if (waitpid(workers[1].process, &result, 0) < 0 || result != 0) return 1;
  const tenon::ArenaStats now = arena.stats();
  std::cout << now.blocks_lent << " blocks are lent, " << now.bytes_live << " bytes are in use\n";
  return waitpid(workers[0].process, &result, 0) < 0 ? 1 : 0;
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
