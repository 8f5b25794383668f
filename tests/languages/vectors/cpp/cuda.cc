// Device memory. It comes from an archive that is imported to the device. That needs no function of
// the driver.
#include <chrono>
#include <map>
#include <memory>
#include <tenon/tenon.hpp>

#include "kinds.h"

namespace {

using Archive = std::shared_ptr<const std::vector<std::byte>>;

Archive archive_of(const tenon::Module& module, const tenon::ExportOptions& options = {}) {
  auto all = std::make_shared<std::vector<std::byte>>();
  tenon::export_module_to(
      module,
      [&](std::span<const std::byte> bytes) {
        all->insert(all->end(), bytes.begin(), bytes.end());
      },
      options);
  return all;
}

tenon::Module import_from(const Archive& archive, const tenon::ImportOptions& options = {}) {
  return tenon::import_module_memory(*archive, archive, options);
}

tenon::ImportOptions to_device(std::int32_t device) {
  return {.tensors = tenon::ImportTensors::kDevice, .device = device};
}

// Returns a module on the host with the case's data as the buffers t0, t1 and so on.
tenon::Module module_of(const Case& test) {
  tenon::Module module = tenon::Module::make("Net");
  int index = 0;
  for (const std::string& data : test.texts("data")) {
    const std::vector<std::byte> bytes = bytes_of_hex(data);
    tenon::Tensor tensor = tenon::empty<std::uint8_t>({static_cast<std::int64_t>(bytes.size())});
    tensor.storage().write(bytes);
    module.add_buffer("t" + std::to_string(index++), tensor);
  }
  return module;
}

tenon::Storage storage_of(const tenon::Module& module, std::int64_t index) {
  return module.value("t" + std::to_string(index)).as<tenon::Tensor>().storage();
}

void same_device(const tenon::Storage& storage, std::int32_t type, std::int64_t id) {
  same<std::int64_t>("device type", storage.device().type, type);
  same<std::int64_t>("device", storage.device().id, id);
}

void compare(const Case& test, const tenon::CudaHandle& handle) {
  const auto figure = [&](const std::string& key, std::uint64_t got) {
    same(key, static_cast<std::int64_t>(got), test.number("expect." + key));
  };
  const std::string memory = test.find("expect.memory").value_or("");
  const std::string counter = test.text("expect.counter");
  figure("transport", static_cast<std::uint64_t>(handle.transport));
  figure("device", static_cast<std::uint64_t>(handle.device));
  figure("nbytes", handle.nbytes);
  figure("offset", handle.offset);
  figure("memory_nbytes", handle.memory.size());
  same("memory", hex_of(handle.memory).substr(0, memory.size()), memory);
  figure("counter_nbytes", handle.counter.size());
  same("counter", handle.counter.substr(0, counter.size()), counter);
  figure("fds", handle.fds.size());
  figure("event_required", handle.event_required ? 1 : 0);
  if (!handle.uuid) throw Wrong("uuid is not known");
}

}  // namespace

std::optional<std::string> missing(const Case& test) {
  const std::optional<std::string> required = test.find("requires");
  if (!required) return {};
  if (*required != "cuda") throw Wrong("unknown requirement " + *required);
  const tenon::Result<void> available = tenon::try_cuda_available();
  if (available) return {};
  return std::string("requires cuda: ") + available.error().what();
}

void run_cuda_counter(const Case& test) {
  (void)outcome(test, [&] {
    tenon::release_cuda_counter(test.text("counter"),
                                static_cast<std::uint64_t>(test.number("slot")));
  });
}

void run_cuda_open(const Case& test) {
  tenon::CudaHandle handle;
  handle.device = static_cast<std::int32_t>(test.number("device"));
  handle.nbytes = static_cast<std::uint64_t>(test.number("nbytes"));
  handle.offset = static_cast<std::uint64_t>(test.number("offset"));
  handle.counter = test.text("counter");
  handle.slot = static_cast<std::uint64_t>(test.number("slot"));
  handle.memory = bytes_of_hex(test.text("memory"));
  tenon::Storage storage;
  if (!outcome(test, [&] {
        storage =
            tenon::open_cuda(handle, nullptr, {.read_only = test.number_or("read_only", 0) != 0});
      }))
    return;
  same("nbytes", static_cast<std::int64_t>(storage.nbytes()), test.number("nbytes"));
  same_device(storage, 2, handle.device);
}

void run_cuda_share(const Case& test) {
  tenon::Module module = module_of(test);
  if (test.text("on") == "cuda") module = import_from(archive_of(module), to_device(0));
  const tenon::Storage storage = storage_of(module, test.number("share"));
  tenon::CudaHandle handle;
  const bool shared = outcome(test, [&] {
    if (test.number("record") != 0) storage.record_stream(nullptr);
    handle =
        tenon::share_cuda(storage, nullptr,
                          {.transport = static_cast<tenon::CudaTransport>(test.number("transport")),
                           .form = static_cast<tenon::CudaForm>(test.number("form"))});
  });
  if (!shared) return;
  compare(test, handle);
  const tenon::Storage again = tenon::open_cuda(handle, nullptr);
  if (handle.nbytes == 0) {
    same<std::int64_t>("nbytes", static_cast<std::int64_t>(again.nbytes()), 0);
    return same_device(again, 2, handle.device);
  }
  if (again.id() != storage.id()) throw Wrong("opened is another storage");
}

void run_cuda_event(const Case& test) {
  const std::string ask = test.text("ask");
  bool complete = false;
  const bool done = outcome(test, [&] {
    tenon::CudaEvent event =
        tenon::CudaEvent::make({.device = static_cast<std::int32_t>(test.number("device")),
                                .interprocess = test.number("interprocess") != 0});
    event.record(nullptr);
    event.wait(nullptr);
    event.synchronize();
    if (ask != "query") {
      const tenon::CudaEventHandle handle = event.ipc_handle();
      if (ask == "open") (void)tenon::CudaEvent::from_ipc_handle(handle);
    }
    complete = event.query();
  });
  if (done) same<std::int64_t>("complete", complete ? 1 : 0, test.number("expect.complete"));
}

void run_cuda_module(const Case& test) {
  const auto device = static_cast<std::int32_t>(test.number("device"));
  const bool kept = test.number("keep_device") != 0;
  const Archive first = archive_of(module_of(test));
  tenon::Module there;
  if (!outcome(test, [&] { there = import_from(first, to_device(device)); })) return;
  const Archive again = archive_of(there, {.keep_device = kept});
  const bool names_device = text_of(*again).find("cuda:0") != std::string::npos;
  same<std::int64_t>("names_device", names_device ? 1 : 0, test.number("expect.names_device"));
  if (!kept && *again != *first) throw Wrong("another archive");
  const tenon::Module back = import_from(again);
  std::int64_t index = 0;
  for (const std::string& data : test.texts("expect.data")) {
    same_device(storage_of(there, index), 2, device);
    const tenon::Storage storage = storage_of(back, index++);
    same_device(storage, 1, 0);
    same("data", hex_of(storage.bytes()), data);
  }
}

void run_cuda_arena(const Case& test) {
  tenon::CudaArena arena;
  std::vector<tenon::Storage> kept;
  (void)outcome(test, [&] {
    arena = tenon::CudaArena::make(
        {.device = static_cast<std::int32_t>(test.number_or("device", 0)),
         .transport = static_cast<tenon::CudaTransport>(test.number_or("transport", 0)),
         .capacity_nbytes = static_cast<std::uint64_t>(test.number("capacity_nbytes"))});
    tenon::Wait wait;
    wait.timeout = std::chrono::milliseconds(test.number_or("timeout_ms", 0));
    const std::vector<std::int64_t> sizes = test.numbers("storages").value();
    for (const std::int64_t nbytes : sizes)
      kept.push_back(arena.allocate(static_cast<std::uint64_t>(nbytes), wait));
  });
  const std::string prefix = "expect.stats.";
  for (const auto& [key, value] : test.lines()) {
    if (!key.starts_with(prefix)) continue;
    const tenon::CudaArenaStats now = arena.stats();
    const auto number = [](auto figure) { return static_cast<std::int64_t>(figure); };
    const std::map<std::string, std::int64_t> figures = {
        {"device", number(now.device)},
        {"transport", number(now.transport)},
        {"bytes_capacity", number(now.bytes_capacity)},
        {"bytes_used", number(now.bytes_used)},
        {"bytes_free", number(now.bytes_free)},
        {"bytes_largest_free", number(now.bytes_largest_free)},
        {"bytes_peak", number(now.bytes_peak)},
        {"blocks_used", number(now.blocks_used)}};
    const auto found = figures.find(key.substr(prefix.size()));
    if (found == figures.end()) throw Wrong("unknown figure " + key);
    same<std::int64_t>(key, found->second, std::stoll(value));
  }
}
