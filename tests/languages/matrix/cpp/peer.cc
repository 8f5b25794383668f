// usage: peer produce|consume. The C++ wrapper in the matrix (tests/languages/matrix/README.md).
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

#include "composite.h"
#include "cuda.h"
#include "object.h"
#include "words.h"

namespace {

const tenon::Wait kTenSeconds{.timeout = std::chrono::seconds(WIRE_WAIT_SECONDS)};

struct Held {
  tenon::Tensor tensor;  // a composite's values; empty if it has none
  tenon::Descriptor descriptor = {};
  tenon::Composite composite = {};
};

struct Link {
  tenon::Connection connection;  // empty: a raw socket
  int socket = -1;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() {
    if (!connection && socket >= 0) close(socket);
  }
};

std::map<std::string, Held> held;
std::map<std::string, Link> links;
int listener = -1;

template <class Value>
Value& found(std::map<std::string, Value>& all, const std::string& key) {
  const auto at = all.find(key);
  if (at == all.end()) throw std::runtime_error("there is no " + key);
  return at->second;
}

int checked(int fd) {
  if (fd < 0) throw std::runtime_error(std::strerror(errno));
  return fd;
}

// ---- elements in logical order

// Calls each(place, packed, nbytes) for every element, with its byte offset from the first element,
// its offset in the packed bytes, and its size.
void for_each_element(const tenon::TensorView& view,
                      const std::function<void(std::ptrdiff_t, std::size_t, std::size_t)>& each) {
  const std::size_t itemsize = view.dtype().bits / 8U;
  std::vector<std::int64_t> index(view.sizes().size());
  for (std::uint64_t i = 0; i < view.numel(); ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * view.strides()[d];
    each(static_cast<std::ptrdiff_t>(place * static_cast<std::int64_t>(itemsize)), i * itemsize,
         itemsize);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < view.sizes()[d]) break;
      index[d] = 0;
    }
  }
}

// Gives the host the bytes of a tensor's storage. A device's bytes are copied to the host, and
// write_back() copies them back.
class Bytewise {
 public:
  explicit Bytewise(const tenon::Tensor& tensor)
      : storage_(tensor.storage()), staged_(tensor.device().is_cpu() ? 0 : storage_.nbytes()) {
    if (!staged_.empty()) copy_device(storage_, staged_, false);
  }
  // The byte for an address in the storage.
  std::byte* at(const void* address) {
    if (staged_.empty()) return const_cast<std::byte*>(static_cast<const std::byte*>(address));
    return staged_.data() + (static_cast<const std::byte*>(address) -
                             static_cast<const std::byte*>(tenon_storage_data(storage_.get())));
  }
  void write_back() {
    if (!staged_.empty()) copy_device(storage_, staged_, true);
  }

 private:
  tenon::Storage storage_;
  Bytes staged_;
};

Bytes content_of(const tenon::Tensor& tensor) {
  const tenon::TensorView view = tensor.view();
  Bytewise bytes(tensor);
  Bytes packed(view.nbytes());
  for_each_element(view, [&](std::ptrdiff_t place, std::size_t at, std::size_t size) {
    std::memcpy(&packed[at], bytes.at(view.data()) + place, size);
  });
  return packed;
}

void write_content(tenon::Tensor& tensor, const Bytes& packed) {
  tenon::TensorView view = tensor.view();
  Bytewise bytes(tensor);
  std::byte* const data = bytes.at(view.data_mut());
  for_each_element(view, [&](std::ptrdiff_t place, std::size_t at, std::size_t size) {
    std::memcpy(data + place, &packed[at], size);
  });
  bytes.write_back();
}

// ---- commands

bool is_message(const std::string& strategy) {
  return strategy == "fd" || strategy == "read_only" || strategy == "bytes" ||
         strategy == "arena" || strategy == "cuda";
}

// The words DTYPE SIZES STRIDES OFFSET from `first` on.
tenon::Tensor over(const tenon::Storage& storage, const Words& words, std::size_t first) {
  return tenon::Tensor::over(
      storage, numbers_of(words.at(first + 1)), dtype_of(words.at(first)),
      {.strides = numbers_of(words.at(first + 2)), .offset = std::stoull(words.at(first + 3))});
}

std::string do_lend(const Words& words) {
  const std::string &key = words.at(1), &strategy = words.at(2);
  Bytes bytes = pattern(static_cast<unsigned>(std::stoul(words.at(5))), std::stoull(words.at(4)));
  tenon::Storage storage;
  if (strategy == "filename") {
    storage = tenon::make_filename(bytes.size(), {.prefix = std::getenv("TENON_MATRIX_PREFIX")});
    storage.write(bytes);
  } else if (is_cuda(strategy)) {
    storage = make_cuda_storage(strategy, bytes);
  } else if (strategy == "arena" || strategy == "arena_fd") {
    // The storage must not begin where the arena does.
    const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = 1U << 20});
    const tenon::Storage neighbour = tenon::Storage::make(100, {.arena = &arena});
    storage = tenon::Storage::make_from(bytes, {.arena = &arena});
  } else {
    storage = tenon::Storage::make_from(
        bytes, {.mode = strategy == "read_only" ? tenon::Mode::kFrozen : tenon::Mode::kShared});
  }
  Held made{over(storage, words, 6)};
  std::string handle;
  if (is_message(strategy)) {
    const std::string name = "t" + key;
    tenon::Message message = tenon::Message::of({{name, made.tensor}});
    message.set_user_bytes(std::as_bytes(std::span(name)));
    if (strategy == "bytes") {
      made.descriptor = tenon::Descriptor::make(message, {.bytes_only = true});
      handle = hex_of(made.descriptor.bytes());
    } else {
      found(links, words.at(3)).connection.send(message, kTenSeconds);
    }
  } else if (is_cuda(strategy)) {
    handle = lend_cuda(storage, strategy == "cuda_fd" ? found(links, words.at(3)).socket : -1);
  } else if (strategy == "raw_fd" || strategy == "arena_fd") {
    const tenon::FdHandle shared = tenon::share_fd(storage);
    checked(wire_send_fd(found(links, words.at(3)).socket, shared.fd()));
    handle = std::to_string(shared.offset()) + " " + std::to_string(shared.nbytes());
    if (strategy == "arena_fd") handle += " " + std::to_string(shared.segment_nbytes());
  } else if (strategy == "filename" || strategy == "socket") {
    tenon::ShareFilenameOptions options;
    options.torch = strategy == "filename";
    if (strategy == "socket") options.filename.directory = std::getenv("TENON_MATRIX_DIRECTORY");
    const tenon::FilenameHandle shared = tenon::share_filename(storage, options);
    handle = (shared.manager.empty() ? "-" : shared.manager) + " " + shared.name + " " +
             std::to_string(shared.offset) + " " + std::to_string(shared.nbytes);
  } else {
    throw std::runtime_error("no such strategy");
  }
  held.insert_or_assign(key, std::move(made));
  return handle;
}

tenon::Storage open_storage(const Words& words) {
  const std::string& strategy = words.at(2);
  if (is_cuda(strategy))
    return open_cuda_handle({words.begin() + 8, words.end()},
                            strategy == "cuda_fd" ? found(links, words.at(3)).socket : -1);
  if (strategy == "raw_fd" || strategy == "arena_fd") {
    const tenon::FdHandle handle(checked(wire_receive_fd(found(links, words.at(3)).socket)),
                                 std::stoull(words.at(9)), std::stoull(words.at(8)));
    return tenon::open_fd(handle, {.allow_unsealed = true});
  }
  if (strategy != "filename" && strategy != "socket") throw std::runtime_error("no such strategy");
  tenon::FilenameHandle handle{.name = words.at(9),
                               .nbytes = std::stoull(words.at(11)),
                               .offset = std::stoull(words.at(10))};
  if (words.at(8) != "-") handle.manager = words.at(8);
  return tenon::open_filename(handle, {.allow_unsealed = strategy == "filename"});
}

std::string do_open(const Words& words) {
  const std::string& strategy = words.at(2);
  tenon::Tensor tensor;
  std::string name = "-", user = "-";
  if (is_message(strategy)) {
    const tenon::Message message = strategy == "bytes"
                                       ? tenon::open_descriptor(bytes_of(words.at(8)))
                                       : found(links, words.at(3)).connection.recv(kTenSeconds);
    if (message.size() != 1) throw std::runtime_error("not one tensor");
    tensor = message[0];
    name = message.name(0).value_or("-");
    const auto bytes = message.user_bytes();
    if (!bytes.empty()) user.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } else {
    tensor = over(open_storage(words), words, 4);
  }
  const tenon::TensorView view = tensor.view();
  std::ostringstream answer;
  answer << unsigned{view.dtype().code} << ":" << unsigned{view.dtype().bits} << ":"
         << unsigned{view.dtype().lanes} << " " << word_of(view.sizes()) << " "
         << word_of(view.strides()) << " " << view.offset() << " "
         << (tensor.is_read_only() ? 1 : 0) << " " << tensor.device().type << ":"
         << tensor.device().id << " " << name << " " << user << " " << hex_of(content_of(tensor));
  held.insert_or_assign(words.at(1), Held{std::move(tensor)});
  return answer.str();
}

std::string do_write(const Words& words) {
  tenon::Tensor& tensor = found(held, words.at(1)).tensor;
  write_content(tensor, pattern(static_cast<unsigned>(std::stoul(words.at(2))), tensor.nbytes()));
  return "";
}

// compose K COMPOSITE
void do_compose(const Words& words) {
  const tenon::Composite composite = read_composite(words, 2);
  held.insert_or_assign(words.at(1), Held{composite.spec().values, {}, composite});
}

// send C K...
void do_send(const Words& words) {
  tenon::Message message = tenon::Message::make();
  for (std::size_t i = 2; i < words.size(); ++i)
    message.add(found(held, words[i]).composite, "c" + words[i]);
  found(links, words.at(1)).connection.send(message, kTenSeconds);
}

// receive C K...
std::string do_receive(const Words& words) {
  const tenon::Message message = found(links, words.at(1)).connection.recv(kTenSeconds);
  if (message.composite_count() + 2 != words.size())
    throw std::runtime_error("another number of composites came");
  std::string names;
  for (std::size_t i = 0; i < message.composite_count(); ++i) {
    const tenon::Composite composite = message.composite(i);
    held.insert_or_assign(words[2 + i], Held{composite.spec().values, {}, composite});
    names += (i == 0 ? "" : " ") + std::string(message.composite_name(i).value_or("-"));
  }
  return names;
}

// tensor K NBYTES SEED DTYPE SIZES STRIDES OFFSET
void do_tensor(const Words& words) {
  const Bytes bytes =
      pattern(static_cast<unsigned>(std::stoul(words.at(3))), std::stoull(words.at(2)));
  held.insert_or_assign(words.at(1), Held{over(tenon::Storage::make_from(bytes), words, 4)});
}

// view K FROM DTYPE SIZES STRIDES OFFSET
void do_view(const Words& words) {
  held.insert_or_assign(words.at(1),
                        Held{over(found(held, words.at(2)).tensor.storage(), words, 3)});
}

// send_object C OBJECT
void do_send_object(const Words& words) {
  std::istringstream nodes(words.at(2));
  const tenon::Object object = read_object(
      nodes, [](const std::string& key) { return found(held, key).tensor; },
      [](const std::string& key) { return found(held, key).composite; });
  found(links, words.at(1)).connection.send(object.to_message(), kTenSeconds);
}

// recv_object C K...
std::string do_recv_object(const Words& words) {
  const tenon::Object object =
      tenon::Object::from(found(links, words.at(1)).connection.recv(kTenSeconds));
  std::size_t next = 2;
  std::string word = word_of(
      object,
      [&](const tenon::Tensor& tensor) {
        held.insert_or_assign(words.at(next), Held{tensor});
        return words[next++] + "/" + words_of(tensor, content_of);
      },
      [&](const tenon::Composite& composite) {
        held.insert_or_assign(words.at(next), Held{composite.spec().values, {}, composite});
        return words[next++];
      });
  if (next != words.size()) throw std::runtime_error("fewer tensors and composites came");
  return word;
}

std::string do_fork(const Words& words) {
  const tenon::Tensor tensor = found(held, words.at(1)).tensor;
  int ends[2];
  checked(pipe(ends));
  const pid_t child = fork();
  if (child == 0) {
    const std::string hex = hex_of(content_of(tensor));
    _exit(write(ends[1], hex.data(), hex.size()) == static_cast<ssize_t>(hex.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string hex;
  char room[65536];
  for (ssize_t got; (got = read(ends[0], room, sizeof room)) > 0;)
    hex.append(room, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error("the child did not end well");
  return hex;
}

void keep_link(const std::string& number, const std::string& kind, int socket) {
  Link& link = links[number];
  link.socket = checked(socket);
  if (kind == "tenon") link.connection = tenon::Connection::make(socket, {.adopt_socket = true});
}

std::string do_wait(const Words& words) {
  Link& link = found(links, words.at(1));
  if (link.connection) {
    (void)link.connection.recv(kTenSeconds);
  } else if (const int came = wire_wait(link.socket); came <= 0) {
    tenon::raise(
        tenon::Error(came == 0 ? tenon::Code::kPeerGone : tenon::Code::kTimeout, "no byte came"));
  }
  return "";
}

std::string do_settle() {
  tenon::trim();
  const std::uint64_t waiting = tenon::cuda_collect();
  const tenon::Stats stats = tenon::stats();
  return std::to_string(stats.storages) + " " + std::to_string(stats.segments) + " " +
         std::to_string(stats.segment_fds) + " " + std::to_string(waiting);
}

std::string run(const Words& words) {
  const std::string& command = words.at(0);
  if (command == "lend") return do_lend(words);
  if (command == "open") return do_open(words);
  if (command == "read") return hex_of(content_of(found(held, words.at(1)).tensor));
  if (command == "write") return do_write(words);
  if (command == "fork") return do_fork(words);
  if (command == "wait") return do_wait(words);
  if (command == "receive") return do_receive(words);
  if (command == "composite") return words_of(found(held, words.at(1)).composite, content_of);
  if (command == "recv_object") return do_recv_object(words);
  if (command == "settle") return do_settle();
  if (command == "compose") {
    do_compose(words);
  } else if (command == "send") {
    do_send(words);
  } else if (command == "tensor") {
    do_tensor(words);
  } else if (command == "view") {
    do_view(words);
  } else if (command == "send_object") {
    do_send_object(words);
  } else if (command == "check") {
    Held& checked = found(held, words.at(1));
    checked.composite = checked.composite.check();
  } else if (command == "drop") {
    (void)found(held, words.at(1));
    held.erase(words.at(1));
  } else if (command == "close") {
    (void)found(links, words.at(1));
    links.erase(words.at(1));
  } else if (command == "listen") {
    listener = checked(wire_listen(words.at(1).c_str()));
  } else if (command == "accept") {
    keep_link(words.at(1), words.at(2), wire_accept(listener));
  } else if (command == "connect") {
    keep_link(words.at(1), words.at(2), wire_connect(words.at(3).c_str()));
  } else {
    throw std::runtime_error("no such command");
  }
  return "";
}

}  // namespace

int main() {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::stringstream parts(line);
    Words words;
    for (std::string word; parts >> word;) words.push_back(word);
    if (words.empty()) continue;
    if (words[0] == "quit") break;
    std::string answer;
    try {
      answer = "ok " + run(words);
    } catch (const tenon::Error& error) {
      answer = std::string("error ") + tenon::name_of(error.code()) + " " + error.what();
    } catch (const std::exception& error) {
      answer = std::string("error OTHER ") + error.what();
    }
    std::cout << answer << std::endl;
  }
  held.clear();
  links.clear();
  if (listener >= 0) close(listener);
  std::cout << "ok" << std::endl;
  return 0;
}
