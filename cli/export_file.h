// ExportFile is the file that `tenon export` writes. A long write shows its progress on the
// terminal. After an interrupt no part of the file is left behind.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "modules/archive/file_output.h"
#include "modules/archive/sink.h"
#include "modules/module/module.h"
#include "progress.h"

namespace tenon::cli {

// Holds SIGINT, SIGTERM and SIGHUP back while it lives. When it is destroyed, a signal that has
// come takes effect, which ends the process. A signal that the process ignores or blocks is left
// alone. Only the signal mask of the calling thread changes, so the thread that made the object
// destroys it.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  // Whether a signal has come that is held back.
  bool has_come() const noexcept;

 private:
  sigset_t held_{};
  sigset_t before_{};
};

class ExportFile : public archive::Sink {
 public:
  struct Options {
    uint64_t expected_nbytes = 0;  // the approximate size of the file
    bool shows_progress = false;
  };
  // The old file of that name stays until commit(). Without commit() there is no new file. The
  // errors are those of FileOutput.
  static Result<std::unique_ptr<ExportFile>> create(const std::string& path,
                                                    const Options& options);

  // Returns INTERRUPTED after a signal, which ends the process when this object is destroyed. The
  // caller must not commit then. A signal during commit() comes too late: the new file is there.
  Status write(std::span<const std::byte> bytes) override;
  Status write_both(std::span<const std::byte> head, std::span<const std::byte> body) override;
  Status commit();

 private:
  ExportFile() = default;

  // The order matters: the file and the bar are destroyed before a pending signal ends the process.
  HeldSignals signals_;
  std::optional<archive::FileOutput> file_;
  std::optional<Progress> progress_;
};

// Counts the bytes of the module's storages, each storage once. An export of the module writes
// about as many.
uint64_t storage_nbytes(const module::Module& module);

}  // namespace tenon::cli
