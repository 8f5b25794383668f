// Objects: read from the user bytes that a case gives, told value by value, and written again.
#include <bit>
#include <complex>
#include <iomanip>
#include <sstream>

#include "kinds.h"

namespace {

std::string real(double number) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << std::bit_cast<std::uint64_t>(number);
  return text.str();
}

std::string dims(std::span<const std::int64_t> numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text.empty() ? "-" : text;
}

std::string tensor_text(const tenon::Message& message, const tenon::Tensor& tensor) {
  const tenon::TensorView view = tensor.view();
  std::size_t index = 0;
  while (index < message.size() && message.tensor(index).storage().get() != tensor.storage().get()) ++index;
  if (index == message.size()) throw Wrong("a tensor has a storage of its own");
  std::ostringstream text;
  text << "x" << index << ":" << int{view.dtype().code} << ":" << int{view.dtype().bits} << ":" << view.dtype().lanes << ":"
       << dims(view.sizes()) << ":" << dims(view.strides()) << ":" << view.offset() << ":" << view.flags();
  return text.str();
}

std::string head(const tenon::Message& message, const tenon::Object& object) {
  switch (object.kind()) {
    case tenon::ObjectKind::kNone: return "N";
    case tenon::ObjectKind::kBool: return object.as<bool>() ? "T" : "F";
    case tenon::ObjectKind::kInt: return "i" + std::to_string(object.as<std::int64_t>());
    case tenon::ObjectKind::kFloat: return "f" + real(object.as<double>());
    case tenon::ObjectKind::kComplex: {
      const auto number = object.as<std::complex<double>>();
      return "c" + real(number.real()) + "," + real(number.imag());
    }
    case tenon::ObjectKind::kStr: return "s" + hex_of(std::as_bytes(std::span(object.as<std::string_view>())));
    case tenon::ObjectKind::kBytes: return "b" + hex_of(object.as<std::span<const std::byte>>());
    case tenon::ObjectKind::kTensor: return tensor_text(message, object.as<tenon::Tensor>());
    case tenon::ObjectKind::kComposite: return "k" + std::to_string(static_cast<std::int32_t>(object.as<tenon::Composite>().spec().layout));
    case tenon::ObjectKind::kTuple: return "t" + std::to_string(object.size());
    case tenon::ObjectKind::kList: return "l" + std::to_string(object.size());
    case tenon::ObjectKind::kSet: return "S" + std::to_string(object.size());
    case tenon::ObjectKind::kDict: return "d" + std::to_string(object.size());
  }
  throw Wrong("a value of an unknown kind");
}

std::string words_of(const tenon::Message& message, const tenon::Object& object) {
  std::string text = head(message, object);
  for (const tenon::Object& item : object.items()) text += " " + words_of(message, item);
  for (const tenon::ObjectEntry& entry : object.entries()) {
    text += " " + words_of(message, entry.key) + " " + words_of(message, entry.value);
  }
  return text;
}

tenon::Message message_of(const Case& test) {
  tenon::Message message = tenon::Message::make();
  for (const std::string& data : test.texts("storages")) {
    const tenon::Storage storage = tenon::Storage::make_from(bytes_of_hex(data));
    message.add(tenon::Tensor::over(storage, {static_cast<std::int64_t>(storage.nbytes())}, tenon::kDtypeOf<std::uint8_t>));
  }
  message.set_user_bytes(bytes_of_hex(test.text("user")));
  return message;
}

}  // namespace

void run_object(const Case& test) {
  const tenon::Message message = message_of(test);
  tenon::Object object;
  if (!outcome(test, [&] { object = tenon::Object::from(message); })) return;
  same("text", words_of(message, object), test.text("expect.text"));
  const tenon::Message again = object.to_message();
  same("user", hex_of(again.user_bytes()), test.text("expect.user"));
}
