#include "export_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "modules/value/value.h"
#include "modules/value/walk.h"

namespace tenon::cli {
namespace {

// A longer piece is split, so that signals are noticed and the bar moves.
constexpr size_t kPieceNbytes = size_t{4} << 20;

constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};

bool is_ignored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

using Sizes = std::map<value::StorageKey, uint64_t>;

void add_storages(const value::TensorValue& tensor, Sizes* sizes) {
  if (tensor.layout() == value::TensorLayout::kStrided) {
    if (!tensor.storage()->is_meta())
      sizes->emplace(tensor.storage()->key(), tensor.storage()->nbytes());
    return;
  }
  for (const value::TensorValueRef& part :
       {tensor.indices(), tensor.plain_indices(), tensor.values()}) {
    if (part) add_storages(*part, sizes);
  }
}

}  // namespace

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  sigprocmask(SIG_BLOCK, nullptr, &before_);
  // A blocked signal waits even if it is ignored, and would be taken for an interrupt.
  for (const int each : kInterrupts) {
    if (!is_ignored(each) && sigismember(&before_, each) == 0) sigaddset(&held_, each);
  }
  sigprocmask(SIG_BLOCK, &held_, nullptr);
}

HeldSignals::~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

bool HeldSignals::has_come() const noexcept {
  sigset_t waiting;
  sigemptyset(&waiting);
  sigpending(&waiting);
  for (const int each : kInterrupts) {
    if (sigismember(&held_, each) == 1 && sigismember(&waiting, each) == 1) return true;
  }
  return false;
}

Result<std::unique_ptr<ExportFile>> ExportFile::create(const std::string& path,
                                                       const Options& options) {
  std::unique_ptr<ExportFile> out(new ExportFile());
  TENON_ASSIGN(archive::FileOutput file, archive::FileOutput::create(path));
  out->file_.emplace(std::move(file));
  if (options.shows_progress) out->progress_.emplace(path, options.expected_nbytes);
  return out;
}

Status ExportFile::write(std::span<const std::byte> bytes) { return write_both({}, bytes); }

Status ExportFile::write_both(std::span<const std::byte> head, std::span<const std::byte> body) {
  do {
    const std::span<const std::byte> piece = body.first(std::min(body.size(), kPieceNbytes));
    TENON_TRY(head.empty() ? file_->write(piece) : file_->write_both(head, piece));
    if (signals_.has_come()) return {Code::kInterrupted, "a signal came, and no file was written"};
    if (progress_) progress_->add(head.size() + piece.size());
    head = {};
    body = body.subspan(piece.size());
  } while (!body.empty());
  return Status::ok();
}

Status ExportFile::commit() {
  progress_.reset();
  return file_->commit(archive::Durability::kNone);
}

uint64_t storage_nbytes(const module::Module& module) {
  Sizes sizes;
  const auto look = [&sizes](value::Value& each, size_t) {
    if (each.is(value::ValueKind::kTensor)) add_storages(*each.as_tensor(), &sizes);
    return Status::ok();
  };
  // The error is ignored: the export refuses values that are nested too deep.
  static_cast<void>(value::for_each(*module.object(), look).is_ok());
  uint64_t sum = 0;
  for (const auto& [key, nbytes] : sizes) sum += nbytes;
  return sum;
}

}  // namespace tenon::cli
