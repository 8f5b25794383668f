/// @file
/// Descriptors: messages in portable form, as bytes and the fds to which the bytes refer. A program
/// that has its own transport uses them instead of a connection.
#ifndef TENON_CPP_DESCRIPTOR_HPP
#define TENON_CPP_DESCRIPTOR_HPP

#include <tenon/descriptor.h>
#include <tenon/cpp/message.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TENON_CPP_BEGIN

/// How to make a descriptor.
struct DescriptorOptions {
  /// The descriptor carries no fds. Its opener fetches them from this process, which must live and
  /// keep the descriptor until then.
  bool bytes_only = false;
};

/// A message in portable form. A descriptor keeps its tensors and fds alive until it ends.
class Descriptor : public detail::Owned<Descriptor, tenon_descriptor, tenon_descriptor_release> {
 public:
  /// Encodes a message.
  static Result<Descriptor> try_make(const Message& message,
                                     const DescriptorOptions& options = {}) {
    tenon_descriptor_options c{};
    c.struct_size = sizeof c;
    c.flags = options.bytes_only ? std::uint32_t{TENON_DESCRIPTOR_BYTES_ONLY} : 0U;
    return detail::make<Descriptor>([&](tenon_descriptor** out, tenon_error** err) {
      return tenon_descriptor_new(message.get(), &c, out, err);
    });
  }
#ifndef TENON_NO_EXCEPTIONS
  static Descriptor make(const Message& message, const DescriptorOptions& options = {}) {
    return try_make(message, options).value();
  }
#endif

  /// The bytes that the program must send, borrowed from the descriptor.
  std::span<const std::byte> bytes() const& noexcept {
    std::size_t nbytes = 0;
    const void* data = tenon_descriptor_bytes(get(), &nbytes);
    return {static_cast<const std::byte*>(data), data == nullptr ? 0 : nbytes};
  }
  std::span<const std::byte> bytes() const&& = delete;

  /// The fds that the program must pass on, in this order. They belong to the descriptor: do not
  /// close them.
  std::span<const std::int32_t> fds() const& noexcept {
    std::size_t n = 0;
    const std::int32_t* data = tenon_descriptor_fds(get(), &n);
    return {data, data == nullptr ? 0 : n};
  }
  std::span<const std::int32_t> fds() const&& = delete;
};

/// Opens a descriptor that came from another process. The bytes need not come from a trusted
/// process. The fds stay the caller's.
inline Result<Message> try_open_descriptor(std::span<const std::byte> bytes,
                                           std::span<const std::int32_t> fds = {},
                                           const OpenOptions& options = {}) {
  const tenon_open_options c = detail::c_options(options);
  return detail::make<Message>([&](tenon_message** out, tenon_error** err) {
    return tenon_descriptor_open(bytes.data(), bytes.size(), fds.data(), fds.size(), &c, out, err);
  });
}

#ifndef TENON_NO_EXCEPTIONS
inline Message open_descriptor(std::span<const std::byte> bytes,
                               std::span<const std::int32_t> fds = {},
                               const OpenOptions& options = {}) {
  return try_open_descriptor(bytes, fds, options).value();
}
#endif

TENON_CPP_END

#endif
