// Composites: they are made of a case's parts, sent through a descriptor and compared.
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

#include "../../composite_parts.hpp"
#include "case.h"
#include "kinds.h"

namespace {

// Returns the prefix of the keys of the part with that name, or nothing if the case lacks it.
std::optional<std::string> prefix_of(const Case& test, const std::string& name) {
  const std::int64_t count = test.text("parts").empty() ? 0 : test.number("parts");
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string prefix = "parts." + std::to_string(i) + ".";
    if (test.text(prefix + "part") == name) return prefix;
  }
  return std::nullopt;
}

double scale_of(const Case& test) {
  const std::vector<std::byte> bytes =
      bytes_of_hex(test.find("spec.scale").value_or("0000000000000000"));
  double scale = 0;
  std::memcpy(&scale, bytes.data(), sizeof scale);
  return scale;
}

// Returns the numbers of a spec that have a name of their own in a case. An absent one is 0.
std::map<std::string, std::int64_t> tie_of(const tenon::CompositeSpec& spec) {
  const std::int64_t coalesced = !spec.coalesced   ? TENON_COALESCED_UNKNOWN
                                 : *spec.coalesced ? TENON_COALESCED_YES
                                                   : TENON_COALESCED_NO;
  return {{"layout", static_cast<std::int64_t>(spec.layout)},
          {"offset", static_cast<std::int64_t>(spec.offset)},
          {"flags", spec.flags},
          {"zero_point", spec.zero_point},
          {"axis", spec.axis},
          {"ragged_dim", spec.ragged_dim},
          {"quantizer", static_cast<std::int64_t>(spec.quantizer)},
          {"coalesced", coalesced}};
}

tenon::CompositeSpec spec_of(const Case& test) {
  tenon::CompositeSpec spec;
  spec.layout = static_cast<tenon::TensorLayout>(test.number("spec.layout"));
  spec.sizes = test.numbers("spec.sizes").value_or(std::vector<std::int64_t>());
  spec.strides = test.numbers("spec.strides").value_or(std::vector<std::int64_t>());
  spec.offset = static_cast<std::uint64_t>(test.number_or("spec.offset", 0));
  if (test.find("spec.dtype")) spec.dtype = dtype_of(test, "spec.dtype");
  spec.flags = static_cast<std::uint32_t>(test.number_or("spec.flags", 0));
  spec.scale = scale_of(test);
  spec.zero_point = test.number_or("spec.zero_point", 0);
  spec.axis = static_cast<std::int32_t>(test.number_or("spec.axis", 0));
  spec.ragged_dim = static_cast<std::int32_t>(test.number_or("spec.ragged_dim", 0));
  spec.quantizer = static_cast<tenon::Quantizer>(test.number_or("spec.quantizer", 0));
  if (test.number_or("spec.coalesced", 0) != 0)
    spec.coalesced = test.number("spec.coalesced") == TENON_COALESCED_YES;
  for (const auto& [name, part] : kCompositeParts) {
    const std::optional<std::string> prefix = prefix_of(test, name);
    if (prefix)
      spec.*part = make_tensor(
          test, *prefix, tenon::Storage::make_from(bytes_of_hex(test.text(*prefix + "data"))));
  }
  return spec;
}

void same_data(const tenon::Tensor& tensor, const Case& test, const std::string& prefix) {
  const tenon::Storage storage = tensor.storage();
  same(prefix + "data", hex_of(storage.bytes()), test.text(prefix + "data"));
}

// Compares one part of a composite. checked: the part may be a copy, so only its shape is compared.
void same_part(const Case& test, const std::string& prefix, const tenon::Tensor& tensor,
               bool checked) {
  const tenon::TensorView view = tensor.view();
  same(prefix + "dtype", numbers_of(view.dtype()), test.numbers(prefix + "dtype").value());
  same(prefix + "sizes", numbers_of(view.sizes()), test.numbers(prefix + "sizes").value());
  if (checked) return;
  same<std::int64_t>(prefix + "offset", static_cast<std::int64_t>(view.offset()),
                     test.number_or(prefix + "offset", 0));
  if (test.numbers(prefix + "strides"))
    same(prefix + "strides", numbers_of(view.strides()), test.numbers(prefix + "strides").value());
  same_data(tensor, test, prefix);
}

// Compares a composite with the case.
void same_composite(const Case& test, const tenon::Composite& composite, bool checked) {
  const tenon::CompositeSpec spec = composite.spec();
  for (const auto& [name, number] : tie_of(spec))
    same(name, number, test.number_or("spec." + name, 0));
  same("scale", std::bit_cast<std::int64_t>(spec.scale),
       std::bit_cast<std::int64_t>(scale_of(test)));
  same("dtype", numbers_of(spec.dtype), test.numbers("expect.dtype").value());
  same("sizes", spec.sizes, test.numbers("expect.sizes").value());
  same("strides", spec.strides,
       test.numbers("expect.strides").value_or(std::vector<std::int64_t>()));
  for (const auto& [name, part] : kCompositeParts) {
    const std::optional<std::string> prefix = prefix_of(test, name);
    if (prefix.has_value() != static_cast<bool>(spec.*part))
      throw Wrong(std::string(name) + (prefix ? " is missing" : " is there"));
    if (prefix) same_part(test, *prefix, spec.*part, checked);
  }
}

// Compares a message in which the composite comes after one tensor. Its parts follow that tensor.
void same_message(const Case& test, const tenon::Message& message,
                  std::optional<std::string_view> name) {
  const std::vector<std::string> parts = test.texts("expect.parts");
  same<std::int64_t>("composites", static_cast<std::int64_t>(message.composite_count()), 1);
  same<std::int64_t>("tensors", static_cast<std::int64_t>(message.size()),
                     static_cast<std::int64_t>(parts.size() + 1));
  const tenon::Message::Parts place = message.composite_parts(0);
  same<std::int64_t>("first part", static_cast<std::int64_t>(place.first), 1);
  same<std::int64_t>("parts", static_cast<std::int64_t>(place.count),
                     static_cast<std::int64_t>(parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<std::string> prefix = prefix_of(test, parts[i]);
    if (!prefix) throw Wrong("the case does not give " + parts[i]);
    same_data(message.tensor(place.first + i), test, *prefix);
  }
  if (message.composite_name(0) != name) throw Wrong("the name does not come back");
  if (name && message.find_composite(*name).get() != message.composite(0).get())
    throw Wrong("the name does not find the composite");
}

// Opens a bytes-only descriptor of a message that has a tensor and the composite.
tenon::Message pass_on(const Case& test, const tenon::Composite& composite,
                       std::optional<std::string_view> name) {
  tenon::Message message = tenon::Message::make();
  message.add(tenon::empty<std::uint8_t>({1}), "t");
  message.add(composite, name.value_or(std::string_view()));
  const tenon::Descriptor descriptor = tenon::Descriptor::make(message, {.bytes_only = true});
  const std::span<const std::byte> bytes = descriptor.bytes();
  std::uint64_t begin = 0;
  for (std::size_t i = 8; i-- > 0;)
    begin = begin << 8U | std::to_integer<std::uint64_t>(bytes[240 + i]);
  if (begin > bytes.size()) throw Wrong("the composites begin past the end");
  test.same_bytes(bytes.subspan(static_cast<std::size_t>(begin)));
  return tenon::open_descriptor(bytes);
}

}  // namespace

void run_composite(const Case& test) {
  std::optional<std::string> name;
  if (test.text("name") != "-") name = text_of(bytes_of_hex(test.text("name")));
  const tenon::CompositeSpec spec = spec_of(test);
  tenon::Composite composite;
  if (!outcome(test, [&] { composite = tenon::Composite::make(spec); })) return;
  const tenon::Message message = pass_on(test, composite, name);
  same_message(test, message, name);
  same_composite(test, message.composite(0), false);
  tenon::Composite checked;
  if (outcome(test, [&] { checked = message.composite(0).check(); }, "expect.check."))
    same_composite(test, checked, true);
}
