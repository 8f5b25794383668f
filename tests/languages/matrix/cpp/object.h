// Objects as the driver's words describe them (tests/languages/matrix/README.md, "Objects").
#ifndef TENON_TESTS_MATRIX_CPP_OBJECT_H
#define TENON_TESTS_MATRIX_CPP_OBJECT_H

#include <bit>
#include <complex>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

#include "composite.h"
#include "words.h"

inline double real_of(const std::string& digits) {
  return std::bit_cast<double>(std::uint64_t{std::stoull(digits, nullptr, 16)});
}

inline std::string word_of(double number) {
  std::ostringstream digits;
  digits << std::hex << std::setfill('0') << std::setw(16) << std::bit_cast<std::uint64_t>(number);
  return digits.str();
}

inline std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads the next node with everything inside it. tensor(key) and composite(key) give held parts.
template <class FindTensor, class FindComposite>
tenon::Object read_object(std::istream& nodes, const FindTensor& tensor,
                          const FindComposite& composite) {
  std::string node;
  if (!std::getline(nodes, node, ';') || node.empty())
    throw std::runtime_error("the object lacks a node");
  const std::string value = node.substr(1);
  const auto read_items = [&](std::size_t n) {
    std::vector<tenon::Object> items;
    while (items.size() < n) items.push_back(read_object(nodes, tensor, composite));
    return items;
  };
  switch (node[0]) {
    case 'N': return tenon::Object::none();
    case 'T': return true;
    case 'F': return false;
    case 'i': return std::int64_t{std::stoll(value)};
    case 'f': return real_of(value);
    case 'c':
      return std::complex<double>(real_of(value), real_of(value.substr(value.find(',') + 1)));
    case 's': return text_of(bytes_of(value));
    case 'b': return bytes_of(value);
    case 'x': return tensor(value);
    case 'k': return composite(value);
    case 't': return tenon::Object::tuple(read_items(std::stoul(value)));
    case 'l': return tenon::Object::list(read_items(std::stoul(value)));
    case 'S': return tenon::Object::set(read_items(std::stoul(value)));
    case 'd': {
      const std::vector<tenon::Object> both = read_items(2 * std::stoul(value));
      std::vector<tenon::ObjectEntry> entries;
      for (std::size_t i = 0; i < both.size(); i += 2) entries.push_back({both[i], both[i + 1]});
      return tenon::Object::dict(entries);
    }
    default: throw std::runtime_error("no node begins so: " + node);
  }
}

// The words of a tensor, which stand behind its key.
template <class Content>
std::string words_of(const tenon::Tensor& tensor, const Content& content) {
  const tenon::TensorView view = tensor.view();
  return std::to_string(tensor.storage().id()) + "/" + word_of(view.dtype()) + "/" +
         word_of(view.sizes()) + "/" + word_of(view.strides()) + "/" +
         std::to_string(view.offset()) + "/" + hex_of(content(tensor));
}

// The word of an object. tensor(part) and composite(part) hold a part, and give its node's words.
template <class SayTensor, class SayComposite>
std::string word_of(const tenon::Object& object, const SayTensor& tensor,
                    const SayComposite& composite) {
  using Kind = tenon::ObjectKind;
  std::string word;
  switch (object.kind()) {
    case Kind::kNone: return "N";
    case Kind::kBool: return object.as<bool>() ? "T" : "F";
    case Kind::kInt: return "i" + std::to_string(object.as<std::int64_t>());
    case Kind::kFloat: return "f" + word_of(object.as<double>());
    case Kind::kComplex: {
      const auto number = object.as<std::complex<double>>();
      return "c" + word_of(number.real()) + "," + word_of(number.imag());
    }
    case Kind::kStr: return "s" + hex_of(std::as_bytes(std::span(object.as<std::string_view>())));
    case Kind::kBytes: return "b" + hex_of(object.as<std::span<const std::byte>>());
    case Kind::kTensor: return "x" + tensor(object.as<tenon::Tensor>());
    case Kind::kComposite: return "k" + composite(object.as<tenon::Composite>());
    case Kind::kTuple: word = "t"; break;
    case Kind::kList: word = "l"; break;
    case Kind::kSet: word = "S"; break;
    case Kind::kDict: word = "d"; break;
  }
  word += std::to_string(object.size());
  for (const tenon::Object& item : object.items()) word += ";" + word_of(item, tensor, composite);
  for (const tenon::ObjectEntry& entry : object.entries()) {
    word +=
        ";" + word_of(entry.key, tensor, composite) + ";" + word_of(entry.value, tensor, composite);
  }
  return word;
}

#endif
