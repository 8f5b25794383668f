// Objects: they are read from the user bytes of a case, described value by value, and written
// again.
#include <algorithm>
#include <bit>
#include <complex>
#include <iomanip>
#include <sstream>
#include <vector>

#include "kinds.h"

namespace {

std::string real(double number) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << std::bit_cast<std::uint64_t>(number);
  return text.str();
}

std::string dims(std::span<const std::int64_t> numbers) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text.empty() ? "-" : text;
}

std::string tensor_text(const tenon::Message& message, const tenon::Tensor& tensor) {
  const tenon::TensorView view = tensor.view();
  std::size_t index = 0;
  while (index < message.size() && message.tensor(index).storage().get() != tensor.storage().get())
    ++index;
  if (index == message.size()) throw Wrong("a tensor has a storage of its own");
  std::ostringstream text;
  text << "x" << index << ":" << int{view.dtype().code} << ":" << int{view.dtype().bits} << ":"
       << view.dtype().lanes << ":" << dims(view.sizes()) << ":" << dims(view.strides()) << ":"
       << view.offset() << ":" << view.flags();
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
    case tenon::ObjectKind::kStr:
      return "s" + hex_of(std::as_bytes(std::span(object.as<std::string_view>())));
    case tenon::ObjectKind::kBytes: return "b" + hex_of(object.as<std::span<const std::byte>>());
    case tenon::ObjectKind::kTensor: return tensor_text(message, object.as<tenon::Tensor>());
    case tenon::ObjectKind::kComposite:
      return "k" +
             std::to_string(static_cast<std::int32_t>(object.as<tenon::Composite>().spec().layout));
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
    message.add(tenon::Tensor::over(storage, {static_cast<std::int64_t>(storage.nbytes())},
                                    tenon::kDtypeOf<std::uint8_t>));
  }
  message.set_user_bytes(bytes_of_hex(test.text("user")));
  return message;
}

// Appends the storages that the object uses, each at its first use. A composite ends the walk with
// false, because the text does not list its parts.
bool collect_storages(const tenon::Object& object, std::vector<tenon::Storage>& used) {
  if (object.kind() == tenon::ObjectKind::kComposite) return false;
  if (object.kind() == tenon::ObjectKind::kTensor) {
    const tenon::Storage storage = object.as<tenon::Tensor>().storage();
    const auto is_storage = [&](const tenon::Storage& other) {
      return other.get() == storage.get();
    };
    if (std::none_of(used.begin(), used.end(), is_storage)) used.push_back(storage);
  }
  for (const tenon::Object& item : object.items()) {
    if (!collect_storages(item, used)) return false;
  }
  for (const tenon::ObjectEntry& entry : object.entries()) {
    if (!collect_storages(entry.key, used) || !collect_storages(entry.value, used)) return false;
  }
  return true;
}

// Compares the tensors of a message that is made from the object with the storages that the object
// uses. The message has one tensor for each storage, in the order of first use. The header in
// expect.user has their number.
void same_storages(const Case& test, const tenon::Object& object, const tenon::Message& again) {
  const std::vector<std::byte> user = bytes_of_hex(test.text("expect.user"));
  if (user.size() < 16) throw Wrong(std::to_string(user.size()) + " bytes are no object");
  std::int64_t wanted = 0;
  for (std::size_t i = 4; i-- > 0;)
    wanted = wanted << 8 | std::to_integer<std::int64_t>(user[12 + i]);
  same<std::int64_t>("tensors", static_cast<std::int64_t>(again.size()), wanted);
  std::vector<tenon::Storage> used;
  if (collect_storages(object, used))
    same<std::int64_t>("storages", static_cast<std::int64_t>(used.size()), wanted);
  if (used.size() > again.size()) throw Wrong("a storage is not in the new message");
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (again.tensor(i).storage().get() != used[i].get())
      throw Wrong("tensor " + std::to_string(i) + " has another storage");
  }
}

}  // namespace

void run_object(const Case& test) {
  const tenon::Message message = message_of(test);
  tenon::Object object;
  if (!outcome(test, [&] { object = tenon::Object::from(message); })) return;
  same("text", words_of(message, object), test.text("expect.text"));
  if (!test.find("expect.user")) return;
  const tenon::Message again = object.to_message();
  same("user", hex_of(again.user_bytes()), test.text("expect.user"));
  same_storages(test, object, again);
}
