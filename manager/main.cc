// tenon-manager: guards the names that processes of PyTorch and of Tenon hold in shared memory.
#include <getopt.h>
#include <sys/stat.h>
#include <tenon/version.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "channel/deposit_keeper.h"
#include "manager/objects.h"
#include "manager/place.h"
#include "manager/server.h"
#include "names/filename.h"
#include "os/background.h"
#include "os/confine.h"

// A confined process cannot read the files that the leak checker needs. The checker would report
// this by the exit status.
extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_options() { return "detect_leaks=0"; }

namespace tenon::manager {
namespace {

constexpr const char* kUsage =
    "usage: tenon-manager [--socket PATH [--own-folder] [--foreground]] [--directory DIR] "
    "[--linger-ms N]\n"
    "       tenon-manager --keep FD\n"
    "\n"
    "Guards names in shared memory: processes tell it which they hold, and what a dead one leaves "
    "it removes. It speaks the\n"
    "protocol of PyTorch's torch_shm_manager and ends when its last client has gone.\n"
    "\n"
    "Without --socket it makes a folder and a socket where temporary files are, prints the "
    "socket's path on stdout and stays a\n"
    "child of who started it: as PyTorch starts its own manager.\n"
    "\n"
    "  --socket PATH     listen there, print PATH and go to the background; if a manager serves "
    "PATH already, print it and end\n"
    "  --own-folder      make the socket's folder if there is none (mode 0700), and remove it at "
    "the end\n"
    "  --foreground      stay a child of who started it\n"
    "  --directory DIR   where the names are (default: /dev/shm)\n"
    "  --linger-ms N     wait so long for another client when the last has gone (default: 500; "
    "four times as long while a\n"
    "                    message may be on its way)\n"
    "  --keep FD         serve the deposited messages of a process that ends; the library starts "
    "this, with what FD lists\n"
    "  --help, --version\n";

struct Options {
  std::string socket;
  std::string directory{names::kSharedMemory};
  int64_t linger_ms = 500;
  bool own_folder = false;
  bool foreground = false;
  std::optional<int> plan;  // the fd of the list of deposited messages to keep
};

struct Ask {
  Options options;
  std::optional<int> exit_status;  // set: the program ends with this status and serves nothing
};

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 86'400'000)
    return std::nullopt;
  return value;
}

Ask refuse(const std::string& why) {
  if (!why.empty()) std::fprintf(stderr, "tenon-manager: %s\n", why.c_str());
  std::fputs(kUsage, stderr);
  return {{}, 2};
}

Ask parse(int count, char** words) {
  static const option kOptions[] = {{"socket", required_argument, nullptr, 's'},
                                    {"own-folder", no_argument, nullptr, 'o'},
                                    {"foreground", no_argument, nullptr, 'f'},
                                    {"directory", required_argument, nullptr, 'd'},
                                    {"linger-ms", required_argument, nullptr, 'l'},
                                    {"keep", required_argument, nullptr, 'k'},
                                    {"help", no_argument, nullptr, 'h'},
                                    {"version", no_argument, nullptr, 'v'},
                                    {nullptr, 0, nullptr, 0}};
  Ask ask;
  for (int found = 0; (found = ::getopt_long(count, words, "", kOptions, nullptr)) != -1;) {
    switch (found) {
      case 's': ask.options.socket = optarg; break;
      case 'o': ask.options.own_folder = true; break;
      case 'f': ask.options.foreground = true; break;
      case 'd': ask.options.directory = optarg; break;
      case 'l':
        if (const auto number = parse_number(optarg)) {
          ask.options.linger_ms = *number;
        } else {
          return refuse(std::string("--linger-ms takes a number of milliseconds, not '") + optarg +
                        "'");
        }
        break;
      case 'k':
        if (const auto number = parse_number(optarg); number && *number > STDERR_FILENO) {
          ask.options.plan = static_cast<int>(*number);
        } else {
          return refuse(std::string("--keep takes the number of an fd over 2, not '") + optarg +
                        "'");
        }
        break;
      case 'h': std::fputs(kUsage, stdout); return {{}, 0};
      case 'v': std::printf("tenon-manager %s\n", tenon_version_string()); return {{}, 0};
      default: return refuse("");
    }
  }
  if (optind < count) return refuse(std::string("what is '") + words[optind] + "'?");
  if (ask.options.socket.empty() && (ask.options.own_folder || ask.options.foreground))
    return refuse("--own-folder and --foreground go with --socket");
  if (ask.options.plan && !ask.options.socket.empty())
    return refuse("--keep and --socket do not go together");
  return ask;
}

Status confine_to(const Place& place, const Options& options) {
  std::vector<os::AllowedPlace> places{
      {.path = options.directory, .read = true, .remove_files = true},
      {.path = place.folder(), .remove_files = true, .rename_sockets = true},
  };
  if (place.owns_folder()) places.push_back({.path = place.parent(), .remove_folders = true});
  return os::confine(places).status();
}

Status serve(const Options& options) {
  const pid_t starter = ::getppid();
  os::close_inherited_fds();
  os::raise_fd_limit();
  ::umask(077);
  const bool like_torch = options.socket.empty();
  Result<std::unique_ptr<Place>> taken =
      like_torch ? Place::make() : Place::take(options.socket, options.own_folder);
  if (!taken.is_ok()) return std::move(taken).status();
  const std::unique_ptr<Place> place = std::move(taken).value();
  if (place == nullptr) return os::print_line(options.socket);
  if (like_torch || options.foreground) {
    ::setsid();
  } else {
    TENON_ASSIGN(const bool in_background, os::fork_to_background());
    if (!in_background) ::_exit(0);
    place->renew();
  }
  const auto run = [&]() -> Status {
    TENON_ASSIGN(const std::unique_ptr<Objects> objects, Objects::open(options.directory, {}));
    TENON_ASSIGN(os::Fd signals, os::ending_signals());
    if (::chdir(place->folder().c_str()) != 0)
      return errno_status(errno, "entering " + place->folder());
    const ServerOptions server_options{.linger_ns = options.linger_ms * 1'000'000,
                                       .starter = starter};
    TENON_ASSIGN(const std::unique_ptr<Server> server,
                 Server::create(place.get(), objects.get(), std::move(signals), server_options));
    TENON_ASSIGN(os::Fd null, os::open_null());
    TENON_TRY(confine_to(*place, options));
    TENON_TRY(os::print_line(place->socket()));
    os::silence_standard_fds(null);
    null.reset();
    server->run();
    return {};
  };
  Status status = run();
  place->remove();
  return status;
}

Status keep(int plan) {
  TENON_ASSIGN(const std::shared_ptr<channel::Keeping> keeping, channel::inherit_deposits(plan));
  os::raise_fd_limit();
  TENON_ASSIGN(const bool in_background, os::fork_to_background());
  if (!in_background) ::_exit(0);
  TENON_ASSIGN(os::Fd null, os::open_null());
  if (::chdir("/") != 0) return errno_status(errno, "entering /");
  return channel::keep_deposits(keeping.get(), [&]() {
    (void)os::print_line(channel::kKeeping);
    os::silence_standard_fds(null);
    null.reset();
  });
}

int run(int count, char** words) {
  const Ask ask = parse(count, words);
  if (ask.exit_status) return *ask.exit_status;
  const Status status = ask.options.plan ? keep(*ask.options.plan) : serve(ask.options);
  if (status.is_ok()) return 0;
  static_cast<void>(os::print_line("ERROR: " + status.message()));
  return 1;
}

}  // namespace
}  // namespace tenon::manager

int main(int count, char** words) {
  // The starter may be gone before this process prints the path, while clients that were sent by
  // others may already be there.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return tenon::manager::run(count, words);
  } catch (const std::exception& failure) {
    static_cast<void>(tenon::os::print_line(std::string("ERROR: ") + failure.what()));
    return 1;
  }
}
