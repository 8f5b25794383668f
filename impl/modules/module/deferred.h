// Deferred is the part of an import that waits until the module is first used. Module::complete()
// runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/counted.h"
#include "base/status.h"

namespace tenon::module {

class Module;

// What an importer has read so far.
class DeferredImport {
 public:
  DeferredImport() noexcept = default;
  DeferredImport(const DeferredImport&) = delete;
  DeferredImport& operator=(const DeferredImport&) = delete;
  virtual ~DeferredImport() = default;
  // Reads the rest, and makes the module. Several threads may call this at a time. Each gets a
  // module of its own, and these share nothing that can change but the bytes of tensors.
  virtual Result<Ref<Module>> finish() const = 0;
};

// Runs a DeferredImport once, and keeps its module or its error. Several threads may run it at a
// time. Then one of their modules stays. There is no lock, so a child of fork never waits for a
// thread of its parent, and finds nothing half done that it can reach.
class Deferred {
 public:
  explicit Deferred(std::unique_ptr<const DeferredImport> import) noexcept
      : import_(import.release()) {}
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  ~Deferred();

  // The errors are those of DeferredImport::finish(). RESOURCE_EXHAUSTED is not kept: the next call
  // tries again.
  Result<Module*> get() const;

 private:
  struct Done {
    Status status;
    Ref<Module> module;
  };
  class Use;
  static Result<Module*> result_of(const Done& done);

  mutable std::atomic<const Done*> done_{nullptr};
  // How many threads are using import_. The last of them frees it after done_ is set, because a
  // thread that comes later sees done_.
  mutable std::atomic<uint32_t> users_{0};
  mutable std::atomic<const DeferredImport*> import_;
};

}  // namespace tenon::module
