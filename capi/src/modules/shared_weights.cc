// tenon/shared_weights.h: weights that processes share by a name (impl/modules/shared_weights).
#include <tenon/shared_weights.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary.h"
#include "handles.h"
#include "module_lists.h"
#include "modules/shared_weights/on_device.h"
#include "modules/shared_weights/publish.h"
#include "named_tensors.h"
#include "text.h"
#include "wait.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::shared_weights::OpenOptions;
using tenon::shared_weights::SharedWeights;
using tenon::value::TensorValueRef;
using tenon::value::Value;
using tenon::weights::Weight;

namespace {

// `reuses` may be null: the flag REUSE is refused.
tenon::Result<OpenOptions> read_open_options(const tenon_shared_weights_options* options,
                                             bool* reuses = nullptr) {
  tenon_shared_weights_options given{};
  TENON_TRY(read_struct(options, "tenon_shared_weights_options", &given));
  TENON_TRY(check_flags(given.flags, TENON_SHARED_WEIGHTS_GROUP | TENON_SHARED_WEIGHTS_REUSE,
                        "tenon_shared_weights_options"));
  const bool wants_reuse = (given.flags & TENON_SHARED_WEIGHTS_REUSE) != 0;
  TENON_TRY(check_argument(!wants_reuse || reuses != nullptr,
                           "REUSE is for tenon_publish_shared_weights_values alone"));
  if (reuses != nullptr) *reuses = wants_reuse;
  const bool for_group = (given.flags & TENON_SHARED_WEIGHTS_GROUP) != 0;
  TENON_TRY(
      check_argument(for_group || given.group == 0, "a group is given, but not the flag GROUP"));
  OpenOptions how;
  if (given.directory != nullptr) {
    TENON_TRY(check_argument(*given.directory != '\0', "directory is empty"));
    how.access.directory = given.directory;
  }
  if (for_group) how.access.group = given.group;
  how.max_nbytes = given.max_nbytes;
  TENON_ASSIGN(how.device,
               tenon::shared_weights::parse_device(given.device != nullptr ? given.device : "cpu"));
  how.budget_nbytes = given.budget_nbytes;
  if (given.progress != nullptr) {
    how.progress = [call = given.progress, context = given.progress_context](
                       uint64_t done, uint64_t total) { call(context, done, total); };
  }
  return how;
}

}  // namespace

extern "C" {

tenon_status tenon_open_shared_weights(const char* path, const char* name,
                                       const tenon_shared_weights_options* options,
                                       const tenon_wait* wait, tenon_shared_weights** out,
                                       tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(const OpenOptions how, read_open_options(options));
    TENON_ASSIGN(const tenon::os::Wait patience, read_wait(wait));
    std::optional<std::string> file;
    if (path != nullptr) file = path;
    TENON_ASSIGN(Ref<SharedWeights> weights,
                 SharedWeights::open(file, std::string(text), how, patience));
    *out = handle<tenon_shared_weights>(weights.detach());
    return Status::ok();
  });
}

tenon_status tenon_publish_shared_weights(const char* path, const char* name,
                                          const tenon_shared_weights_options* options,
                                          const tenon_wait* wait, tenon_shared_weights** out,
                                          tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(const OpenOptions how, read_open_options(options));
    TENON_ASSIGN(const tenon::os::Wait patience, read_wait(wait));
    TENON_ASSIGN(Ref<SharedWeights> weights,
                 tenon::shared_weights::publish_file(path, std::string(text), how, patience));
    *out = handle<tenon_shared_weights>(weights.detach());
    return Status::ok();
  });
}

tenon_status tenon_publish_shared_weights_values(const char* const* names,
                                                 tenon_value* const* values, size_t count,
                                                 const char* name,
                                                 const tenon_shared_weights_options* options,
                                                 const tenon_wait* wait, tenon_shared_weights** out,
                                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::vector<tenon::weights::SavedTensor> given,
                 read_named_tensors(names, values, count));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    bool reuses = false;
    TENON_ASSIGN(const OpenOptions how, read_open_options(options, &reuses));
    TENON_ASSIGN(const tenon::os::Wait patience, read_wait(wait));
    TENON_ASSIGN(Ref<SharedWeights> weights, tenon::shared_weights::publish_values(
                                                 given, std::string(text), how, reuses, patience));
    *out = handle<tenon_shared_weights>(weights.detach());
    return Status::ok();
  });
}

tenon_status tenon_shared_weights_changed(const tenon_shared_weights* weights,
                                          const tenon_wait* wait, uint64_t* version,
                                          tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_ASSIGN(const tenon::os::Wait patience, read_wait(wait));
    TENON_ASSIGN(const uint64_t newest, object(weights)->wait_changed(patience));
    if (version != nullptr) *version = newest;
    return Status::ok();
  });
}

tenon_status tenon_shared_weights_changed_fd(const tenon_shared_weights* weights, int* out,
                                             tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(*out, object(weights)->changed_fd());
    return Status::ok();
  });
}

tenon_shared_weights* tenon_shared_weights_retain(tenon_shared_weights* weights) noexcept {
  if (weights != nullptr) object(weights)->retain();
  return weights;
}

void tenon_shared_weights_release(tenon_shared_weights* weights) noexcept {
  if (weights != nullptr) object(weights)->release();
}

tenon_status tenon_shared_weights_names(const tenon_shared_weights* weights, tenon_name_list** out,
                                        tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto found = std::make_unique<NameList>();
    for (const Weight& weight : object(weights)->weights().list())
      found->names.push_back(weight.name);
    *out = handle<tenon_name_list>(found.release());
    return Status::ok();
  });
}

tenon_status tenon_shared_weights_tensor(const tenon_shared_weights* weights, const char* name,
                                         tenon_value** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(TensorValueRef tensor, object(weights)->weights().tensor(text));
    *out = handle<tenon_value>(Value::of_tensor(std::move(tensor)).detach());
    return Status::ok();
  });
}

tenon_status tenon_shared_weights_info_get(const tenon_shared_weights* weights,
                                           tenon_shared_weights_info* out,
                                           tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_output(out, "tenon_shared_weights_info"));
    const SharedWeights& it = *object(weights);
    const tenon::shared_weights::Member::Info now = it.info();
    tenon_shared_weights_info info{};
    info.nbytes = it.segment().nbytes();
    info.file_nbytes = now.facts.file.nbytes;
    info.file_mtime_ns = now.facts.file.mtime_ns;
    info.file_crc = now.facts.file.head_crc;
    info.version = now.facts.version;
    info.count = it.weights().list().size();
    info.loaded = it.loaded_here() ? 1 : 0;
    info.serves = now.serves ? 1 : 0;
    info.loader_pid = now.facts.loader_pid;
    info.server_pid = now.server_pid;
    info.holders = now.facts.holders;
    write_struct(out, info);
    return Status::ok();
  });
}

tenon_status tenon_shared_weights_value_names(const tenon_shared_weights* weights,
                                              tenon_name_list** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto found = std::make_unique<NameList>();
    for (const tenon::weights::NamedValue& value : object(weights)->weights().values())
      found->names.push_back(value.name);
    *out = handle<tenon_name_list>(found.release());
    return Status::ok();
  });
}

tenon_status tenon_shared_weights_value(const tenon_shared_weights* weights, const char* name,
                                        tenon_value** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(weights != nullptr, "weights is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(Ref<Value> value, object(weights)->weights().value(text));
    *out = handle<tenon_value>(value.detach());
    return Status::ok();
  });
}
}
