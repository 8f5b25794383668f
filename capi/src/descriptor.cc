// tenon/descriptor.h: messages as bytes and fds (impl/tensor/portable.h).
#include <tenon/descriptor.h>

#include <memory>
#include <span>
#include <vector>

#include "boundary.h"
#include "by_fd.h"
#include "handles.h"
#include "os/fd.h"

using namespace tenon::capi;
using tenon::Status;
using tenon::tensor::Descriptor;

namespace {

constexpr uint32_t kDescriptorOpenFlags = TENON_OPEN_ADOPT_FD | TENON_OPEN_OTHER_USER;

}  // namespace

extern "C" {

tenon_status tenon_descriptor_new(const tenon_message* message,
                                  const tenon_descriptor_options* options, tenon_descriptor** out,
                                  tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon_descriptor_options given{};
    TENON_TRY(read_struct(options, "tenon_descriptor_options", &given));
    TENON_TRY(check_flags(given.flags, TENON_DESCRIPTOR_BYTES_ONLY, "tenon_descriptor_options"));
    TENON_TRY(check_flags(given.reserved, 0, "tenon_descriptor_options"));
    TENON_ASSIGN(
        std::unique_ptr<Descriptor> descriptor,
        Descriptor::create(*object(message), (given.flags & TENON_DESCRIPTOR_BYTES_ONLY) != 0));
    *out = handle<tenon_descriptor>(descriptor.release());
    return Status::ok();
  });
}

const void* tenon_descriptor_bytes(const tenon_descriptor* descriptor, size_t* nbytes) noexcept {
  if (nbytes != nullptr) *nbytes = descriptor == nullptr ? 0 : object(descriptor)->bytes().size();
  return descriptor == nullptr ? nullptr : object(descriptor)->bytes().data();
}

const int32_t* tenon_descriptor_fds(const tenon_descriptor* descriptor, size_t* n) noexcept {
  const size_t count = descriptor == nullptr ? 0 : object(descriptor)->fds().size();
  if (n != nullptr) *n = count;
  return count == 0 ? nullptr : object(descriptor)->fds().data();
}

void tenon_descriptor_release(tenon_descriptor* descriptor) noexcept { delete object(descriptor); }

tenon_status tenon_descriptor_open(const void* bytes, size_t nbytes, const int32_t* fds,
                                   size_t n_fds, const tenon_open_options* options,
                                   tenon_message** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(bytes != nullptr || nbytes == 0, "bytes is NULL"));
    TENON_TRY(check_argument(fds != nullptr || n_fds == 0, "fds is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(check_argument(nbytes <= tenon::tensor::DescriptorLimits().max_nbytes,
                             "nbytes is over 64 MiB"));
    TENON_TRY(check_argument(n_fds <= tenon::tensor::DescriptorLimits().max_segments,
                             "n_fds is over 65,536"));
    tenon_open_options given{};
    TENON_TRY(read_struct(options, "tenon_open_options", &given));
    TENON_ASSIGN(tenon::share::OpenOptions how,
                 read_open_flags(given.access, given.flags & ~kDescriptorOpenFlags));
    how.other_user = (given.flags & TENON_OPEN_OTHER_USER) != 0;
    std::vector<tenon::os::Fd> adopted;
    adopted.reserve((given.flags & TENON_OPEN_ADOPT_FD) != 0 ? n_fds : 0);
    TENON_ASSIGN(auto message,
                 tenon::tensor::open_descriptor({static_cast<const std::byte*>(bytes), nbytes},
                                                {fds, n_fds}, how));
    // The fds are adopted last, when nothing can fail any more. Until here they are the caller's.
    for (size_t i = 0; i < adopted.capacity() && i < n_fds; ++i)
      adopted.emplace_back(fds[i]).mark_foreign();
    *out = handle<tenon_message>(message.release());
    return Status::ok();
  });
}
}
