// The portable form of a message: bytes, and the fds that they count on.
#ifndef TENON_CPP_DESCRIPTOR_HPP
#define TENON_CPP_DESCRIPTOR_HPP

#include <tenon/descriptor.h>
#include <tenon/cpp/message.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TENON_CPP_BEGIN

/// How a descriptor is made.
struct DescriptorOptions {
  bool bytes_only =
      false;  ///< no fds travel: the opener fetches them from this process, which must live, and hold the descriptor, until then
};

/// An encoded message. Keeps its tensors and fds alive until its end.
class Descriptor : public detail::Owned<Descriptor, tenon_descriptor, tenon_descriptor_release> {
 public:
  /// Encode a message.
  static Result<Descriptor> try_make(const Message& message, const DescriptorOptions& options = {}) {
    tenon_descriptor_options c{};
    c.struct_size = sizeof c;
    c.flags = options.bytes_only ? std::uint32_t{TENON_DESCRIPTOR_BYTES_ONLY} : 0U;
    return detail::make<Descriptor>(
        [&](tenon_descriptor** out, tenon_error** err) { return tenon_descriptor_new(message.get(), &c, out, err); });
  }
#ifndef TENON_NO_EXCEPTIONS
  static Descriptor make(const Message& message, const DescriptorOptions& options = {}) { return try_make(message, options).value(); }
#endif

  /// The bytes to carry, borrowed from the descriptor.
  std::span<const std::byte> bytes() const& noexcept {
    std::size_t nbytes = 0;
    const void* data = tenon_descriptor_bytes(get(), &nbytes);
    return {static_cast<const std::byte*>(data), data == nullptr ? 0 : nbytes};
  }
  std::span<const std::byte> bytes() const&& = delete;

  /// The fds to carry, in this order; they are the descriptor's: do not close them.
  std::span<const std::int32_t> fds() const& noexcept {
    std::size_t n = 0;
    const std::int32_t* data = tenon_descriptor_fds(get(), &n);
    return {data, data == nullptr ? 0 : n};
  }
  std::span<const std::int32_t> fds() const&& = delete;
};

/// Open a descriptor that came from another process. Nobody is trusted about the bytes. The fds stay the caller's.
inline Result<Message> try_open_descriptor(std::span<const std::byte> bytes, std::span<const std::int32_t> fds = {},
                                           const OpenOptions& options = {}) {
  const tenon_open_options c = detail::c_options(options);
  return detail::make<Message>([&](tenon_message** out, tenon_error** err) {
    return tenon_descriptor_open(bytes.data(), bytes.size(), fds.data(), fds.size(), &c, out, err);
  });
}

#ifndef TENON_NO_EXCEPTIONS
inline Message open_descriptor(std::span<const std::byte> bytes, std::span<const std::int32_t> fds = {}, const OpenOptions& options = {}) {
  return try_open_descriptor(bytes, fds, options).value();
}
#endif

TENON_CPP_END

#endif
