// `tenon inspect`: decides whether the input is a descriptor, a name or an archive, and shows a
// name's head.
#include "inspect.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_input.h"
#include "commands.h"
#include "name_table.h"
#include "names/filename.h"
#include "names/liveness.h"
#include "os/fd.h"
#include "os/file_kind.h"
#include "os/memfd.h"
#include "os/named_file.h"
#include "output.h"
#include "share/named_file_head.h"
#include "tensor/descriptor.h"
#include "tensor/descriptor_wire.h"

namespace tenon::cli {
namespace {

using names::NameKind;
using names::NameReport;
using share::FilenameHead;

std::string time_text(int64_t realtime_ns) {
  const std::time_t seconds = realtime_ns / 1'000'000'000;
  std::tm parts{};
  char text[32];
  if (realtime_ns <= 0 || gmtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return "-";
  return text;
}

// Reads the first bytes of a file that may be swept or cut short at this moment.
Result<FilenameHead> read_head_of(int directory, const std::string& leaf) {
  for (int tries = 1;; ++tries) {
    Result<os::Fd> opened = os::open_name(directory, leaf, false);
    if (!opened.is_ok() && opened.status().code() == Code::kWouldBlock && tries < kPatience) {
      (void)poll(nullptr, 0, 1);
      continue;
    }
    TENON_ASSIGN(const os::Fd fd, std::move(opened));
    return share::read_head(fd.get());
  }
}

using Fields = std::vector<std::pair<std::string, std::string>>;

void print_fields(const Fields& fields) {
  constexpr size_t kIndent = 16;
  for (const auto& [key, value] : fields) {
    print_text(paint(Colour::kBold, key) + std::string(kIndent - key.size(), ' '));
    print_wrapped(safe_text(value), kIndent);
  }
}

Fields fields_of(const names::Filename& filename, const Listed& listed, const FilenameHead* head) {
  const NameReport& report = listed.report;
  Fields fields = {{"name", filename.text()},
                   {"kind", kind_name(report.kind)},
                   {"state", std::string(state_name(report.state)) + ": " + report.why},
                   {"owner", format("user %u, mode %04o", report.uid, report.mode)}};
  if (report.kind != NameKind::kSocket) {
    fields.emplace_back("size", format("%" PRIu64 " bytes of payload, %s of memory", report.nbytes,
                                       size_text(report.allocated_nbytes).c_str()));
  }
  if (head != nullptr) fields.emplace_back("count", std::to_string(head->count));
  if (head != nullptr && report.kind == NameKind::kFile) {
    fields.emplace_back("in flight", std::to_string(head->in_flight));
    fields.emplace_back("kept until", time_text(head->keep_until_ns));
    fields.emplace_back("maker", format("pid %d in pid namespace %" PRIu64, head->maker_pid,
                                        head->maker_pid_namespace));
    fields.emplace_back("made",
                        time_text(head->made_ns) + " (" + age_text(report.age_ns) + " ago)");
    // Every holder can write the head, so it may differ from the file.
    if (head->nbytes != report.nbytes)
      fields.emplace_back("head's size",
                          format("%" PRIu64 " bytes, not what the file has", head->nbytes));
  }
  for (const os::ProcessFacts& holder : listed.holders)
    fields.emplace_back("held by", format("%d ", holder.pid) + holder.command);
  if (listed.unreadable != 0) {
    fields.emplace_back("not asked", plural_text(listed.unreadable, "process", "processes"));
  }
  return fields;
}

Json head_json(const FilenameHead& head, NameKind kind) {
  Json json = {{"count", head.count}};
  if (kind != NameKind::kFile) return json;
  json["in_flight"] = head.in_flight;
  json["maker_pid"] = head.maker_pid;
  json["maker_pid_namespace"] = head.maker_pid_namespace;
  json["nbytes"] = head.nbytes;
  json["made_ns"] = head.made_ns;
  json["keep_until_ns"] = head.keep_until_ns;
  return json;
}

Result<std::vector<std::byte>> read_all(int fd, const std::string& source) {
  const uint64_t most = tensor::DescriptorLimits{}.max_nbytes;
  std::vector<std::byte> bytes;
  for (;;) {
    constexpr size_t kStep = 65536;
    const size_t old = bytes.size();
    if (old > most)
      return Status(Code::kInvalidArgument,
                    format("%s is longer than a descriptor can be", source.c_str()));
    bytes.resize(old + kStep);
    const ssize_t got = read(fd, bytes.data() + old, kStep);
    const int error = errno;
    bytes.resize(old + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return errno_status(error, source);
    if (got == 0) return bytes;
  }
}

bool exists_as(const std::string& path, bool (*wanted)(mode_t)) noexcept {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && wanted(info.st_mode);
}

bool is_regular(mode_t mode) { return S_ISREG(mode); }
bool is_socket(mode_t mode) { return S_ISSOCK(mode); }
bool is_anything(mode_t /*mode*/) { return true; }

// Whether the file has a named file's head, and is not a descriptor.
bool has_filename_head(const std::string& path, std::string_view leaf) {
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open()) return errno == EWOULDBLOCK;  // a sweep holds a lease on it, so it is a name
  std::byte bytes[share::kFilenameHeaderNbytes];
  if (!os::read_file(fd.get(), 0, bytes, sizeof bytes).is_ok()) return false;
  if (std::memcmp(bytes, tensor::wire::kMagic.data(), tensor::wire::kMagic.size()) == 0)
    return false;
  return share::parse_head(bytes).magic == share::kFilenameMagic || leaf.starts_with("torch_");
}

// Finds the name that the text means: the text of a handle, or a path to a file that is not a
// descriptor.
bool find_name(const std::string& text, names::Filename* out) {
  if (text.starts_with('/')) {
    Result<names::Filename> parsed = names::parse_filename(text);
    if (parsed.is_ok() && parsed.value().text() == text && text.rfind('/') == 0) {
      const names::Filename& filename = parsed.value();
      // A file in the root folder can look like a name too. The existing file decides.
      if (exists_as(filename.path(), is_anything) || !exists_as(text, is_anything)) {
        *out = filename;
        return true;
      }
    }
  }
  const std::string path = std::filesystem::absolute(text).lexically_normal().string();
  Result<names::Filename> parsed = names::parse_filename(path);
  if (!parsed.is_ok()) return false;
  *out = parsed.value();
  if (path.rfind('/') == 0) out->directory = "/";
  return exists_as(path, is_socket) ||
         (exists_as(path, is_regular) && has_filename_head(path, out->leaf));
}

}  // namespace

int inspect_name(const names::Filename& filename, bool json) {
  const auto show = [&]() -> Status {
    TENON_ASSIGN(const os::Fd directory, os::open_directory(filename.directory));
    names::LookOptions look;
    look.any_user = true;
    look.patience = kPatience;
    TENON_ASSIGN(NameReport report, names::look_at(directory.get(), filename.leaf, look));
    FilenameHead head;
    bool has_head = report.kind == NameKind::kFile || report.kind == NameKind::kTorchFile;
    if (has_head) {
      Result<FilenameHead> read = read_head_of(directory.get(), filename.leaf);
      // If the file cannot be opened, the report says why.
      if (!read.is_ok() && report.state != names::NameState::kUnsure) return read.status();
      has_head = read.is_ok();
      if (has_head) head = read.value();
    }
    const Listed listed = std::move(add_holders(filename.directory, {std::move(report)}).front());
    if (json) {
      Json all = name_json(filename.directory, listed.report);
      all["head"] = has_head ? head_json(head, listed.report.kind) : Json(nullptr);
      all["holders"] = holders_json(listed);
      all["unreadable_processes"] = listed.unreadable;
      print_json(all);
    } else {
      print_fields(fields_of(filename, listed, has_head ? &head : nullptr));
    }
    return Status::ok();
  };
  const Status status = show();
  if (status.is_ok()) return kExitOk;
  print_error(status.code() == Code::kNotFound ? filename.path() + ": no such name"
                                               : status.message());
  return kExitProblem;
}

int run_inspect(const InspectOptions& options) {
  if (options.ops) return inspect_operators(options);
  names::Filename filename;
  if (options.what != "-" && options.module.empty() && find_name(options.what, &filename))
    return inspect_name(filename, options.json);
  Result<ArchiveInput> opened = ArchiveInput::open(options.what);
  if (!opened.is_ok()) {
    print_error(opened.status());
    return kExitProblem;
  }
  const ArchiveInput& input = opened.value();
  if (input.is_zip() || input.is_flatbuffer() || input.is_plain_weights())
    return inspect_archive(input, options);
  if (!options.module.empty()) {
    print_error(input.shown +
                " is no package of torch.package, which --module is for. Leave out --module");
    return kExitProblem;
  }
  const std::string kind = os::file_kind(std::as_bytes(std::span(input.head)), input.nbytes);
  // For an empty file, the reader of descriptors has the better message.
  if (!kind.empty() && input.nbytes > 0) {
    print_error(Status(Code::kUnsupported, input.shown + " is " + kind));
    return kExitProblem;
  }
  Result<std::vector<std::byte>> bytes = read_all(input.fd.get(), input.shown);
  if (bytes.is_ok()) return inspect_descriptor(bytes.value(), input.shown, options.json);
  print_error(bytes.status());
  return kExitProblem;
}

}  // namespace tenon::cli
