// Composites as the driver's words describe them (tests/languages/matrix/README.md, "Composites").
#ifndef TENON_TESTS_MATRIX_CPP_COMPOSITE_H
#define TENON_TESTS_MATRIX_CPP_COMPOSITE_H

#include <algorithm>
#include <iomanip>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tenon/tenon.hpp>

#include "../../composite_parts.hpp"
#include "words.h"

inline std::string word_of(tenon::Dtype dtype) {
  return std::to_string(dtype.code) + ":" + std::to_string(dtype.bits) + ":" +
         std::to_string(dtype.lanes);
}

// DTYPE/SIZES/CONTENT
inline tenon::Tensor read_part(const std::string& word) {
  const std::size_t first = word.find('/'), last = word.rfind('/');
  const tenon::Storage storage = tenon::Storage::make_from(bytes_of(word.substr(last + 1)));
  return tenon::Tensor::over(storage, numbers_of(word.substr(first + 1, last - first - 1)),
                             dtype_of(word.substr(0, first)));
}

// The words from `first` on.
inline tenon::Composite read_composite(const Words& words, std::size_t first) {
  const auto word = [&](std::size_t i) -> const std::string& { return words.at(first + i); };
  tenon::CompositeSpec spec;
  spec.layout = static_cast<tenon::TensorLayout>(std::stoi(word(0)));
  spec.sizes = numbers_of(word(1));
  spec.strides = numbers_of(word(2));
  spec.offset = std::stoull(word(3));
  spec.dtype = dtype_of(word(4));
  spec.flags = static_cast<std::uint32_t>(std::stoul(word(5)));
  spec.scale = std::stod(word(6));
  spec.zero_point = std::stoll(word(7));
  spec.axis = std::stoi(word(8));
  spec.ragged_dim = std::stoi(word(9));
  spec.quantizer = static_cast<tenon::Quantizer>(std::stoi(word(10)));
  if (word(11) != "0") spec.coalesced = word(11) == "2";
  for (std::size_t i = first + 12; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const auto* const part =
        std::find_if(std::begin(kCompositeParts), std::end(kCompositeParts),
                     [&](const CompositePart& each) { return each.name == name; });
    if (part == std::end(kCompositeParts)) throw std::runtime_error("no part is called " + name);
    spec.*part->field = read_part(words[i].substr(name.size() + 1));
  }
  return tenon::Composite::make(spec);
}

// The words of a composite. content(tensor) gives the elements of a part.
template <class Content>
std::string words_of(const tenon::Composite& composite, const Content& content) {
  const tenon::CompositeSpec spec = composite.spec();
  std::ostringstream words;
  words << static_cast<int>(spec.layout) << " " << word_of(spec.sizes) << " "
        << word_of(spec.strides) << " " << spec.offset << " " << word_of(spec.dtype) << " "
        << spec.flags << " " << std::setprecision(std::numeric_limits<double>::max_digits10)
        << spec.scale << " " << spec.zero_point << " " << spec.axis << " " << spec.ragged_dim << " "
        << static_cast<int>(spec.quantizer) << " "
        << (!spec.coalesced   ? 0
            : *spec.coalesced ? 2
                              : 1);
  for (const auto& [name, field] : kCompositeParts) {
    const tenon::Tensor& part = spec.*field;
    if (!part) continue;
    const tenon::TensorView view = part.view();
    words << " " << name << "=" << word_of(view.dtype()) << "/" << word_of(view.sizes()) << "/"
          << hex_of(content(part));
  }
  return words.str();
}

#endif
