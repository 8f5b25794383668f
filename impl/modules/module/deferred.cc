#include "modules/module/deferred.h"

#include <utility>

#include "modules/module/module.h"

namespace tenon::module {

// Keeps import_ alive. In a child of fork, the threads of the parent count for ever, and import_
// lives as long as the module.
class Deferred::Use {
 public:
  explicit Use(const Deferred& deferred) noexcept : deferred_(deferred) {
    deferred_.users_.fetch_add(1, std::memory_order_acq_rel);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    const bool is_last = deferred_.users_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (is_last && deferred_.done_.load(std::memory_order_acquire) != nullptr)
      delete deferred_.import_.exchange(nullptr, std::memory_order_acq_rel);
  }

 private:
  const Deferred& deferred_;
};

Deferred::~Deferred() {
  delete done_.load(std::memory_order_acquire);
  delete import_.load(std::memory_order_acquire);
}

Result<Module*> Deferred::result_of(const Done& done) {
  TENON_TRY(done.status);
  return done.module.get();
}

Result<Module*> Deferred::get() const {
  if (const Done* const done = done_.load(std::memory_order_acquire)) return result_of(*done);
  const Use use(*this);
  // If done_ is not set now, no thread has freed import_, and none will before `use` ends.
  if (const Done* const done = done_.load(std::memory_order_acquire)) return result_of(*done);
  Result<Ref<Module>> module = import_.load(std::memory_order_acquire)->finish();
  if (module.status().code() == Code::kResourceExhausted) return module.status();
  auto made = std::make_unique<Done>();
  made->status = module.status();
  if (module.is_ok()) made->module = std::move(module).value();
  const Done* present = nullptr;
  if (done_.compare_exchange_strong(present, made.get(), std::memory_order_acq_rel,
                                    std::memory_order_acquire))
    return result_of(*made.release());
  return result_of(*present);
}

}  // namespace tenon::module
