// A cache that does not keep its storages alive. It holds weak references, and makes a storage
// again after its last user has released it.
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <tenon/tenon.hpp>

namespace {

std::map<int, tenon::WeakStorage> cache;

tenon::Storage get(int entry) {
  if (tenon::Storage storage = cache[entry].lock()) {
    std::cout << "entry " << entry << ": found\n";
    return storage;
  }
  std::cout << "entry " << entry << ": made\n";
  const std::string text = "this is entry " + std::to_string(entry);
  tenon::Storage storage = tenon::Storage::make_from(std::as_bytes(std::span(text)));
  cache[entry] = tenon::WeakStorage::make(storage);
  return storage;
}

}  // namespace

int main() try {
  {
    const tenon::Storage first = get(1);
    const tenon::Storage second = get(1);
    const auto bytes = first.bytes();
    std::cout << std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())
              << ": the same storage: " << (first == second ? "yes" : "no") << "\n";
  }
  std::cout << "expired after the last release: " << (cache[1].expired() ? "yes" : "no") << "\n";
  get(1);
} catch (const tenon::Error& error) {
  std::cerr << "failed: " << error.what() << "\n";
  return 1;
}
