#include "modules/weights/npy_header.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/checked.h"
#include "os/file_kind.h"

namespace tenon::weights {

using tensor::ScalarType;

namespace {

constexpr size_t kMostNpyDims = 64;
// The magic, two bytes of version, and the length of the header in two or four bytes.
constexpr size_t kNpyVersionAt = 6;
constexpr size_t kNpyLengthAt = 8;
constexpr size_t kNpyAlignment = 64;
// NumPy leaves room for the most digits of the first size, so that an array can grow in its file.
constexpr size_t kNpyMostDigits = 21;

struct KnownDescr {
  std::string_view name;  // without the byte order
  ScalarType type;
};
constexpr KnownDescr kKnownDescrs[] = {
    {"b1", ScalarType::kBool},         {"i1", ScalarType::kChar},
    {"i2", ScalarType::kShort},        {"i4", ScalarType::kInt},
    {"i8", ScalarType::kLong},         {"u1", ScalarType::kByte},
    {"u2", ScalarType::kUInt16},       {"u4", ScalarType::kUInt32},
    {"u8", ScalarType::kUInt64},       {"f2", ScalarType::kHalf},
    {"f4", ScalarType::kFloat},        {"f8", ScalarType::kDouble},
    {"c8", ScalarType::kComplexFloat}, {"c16", ScalarType::kComplexDouble},
};

Status broken_npy(const std::string& what) {
  return {Code::kCorrupt, "the header of an array of NumPy " + what};
}

// Parses the text {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and nothing else.
class NpyDictParser {
 public:
  NpyDictParser(std::string_view text, NpyHeader* header) noexcept : text_(text), header_(header) {}

  Status run() {
    if (!take('{')) return wrong("begins with no {");
    for (bool more = true; more && !take('}');) {
      std::string_view key;
      if (!take_text(&key) || !take(':')) return wrong("has no key");
      TENON_TRY(read_field(key));
      more = take(',');
      if (!more && !take('}')) return wrong("does not end with }");
    }
    skip_spaces();
    if (at_ != text_.size()) return wrong("goes on behind its }");
    if (seen_ != kAllKeys) return wrong("lacks descr, fortran_order or shape");
    return Status::ok();
  }

 private:
  enum Key : uint8_t { kDescr = 1, kOrder = 2, kShape = 4, kAllKeys = 7 };

  Status wrong(const char* what) const {
    return broken_npy(format("%s, at its byte %zu", what, at_));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char wanted) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  // A text in quotes of either kind. NumPy escapes only characters of names of fields.
  bool take_text(std::string_view* out) {
    skip_spaces();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return false;
    *out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out->find('\\') == std::string_view::npos;
  }

  Status read_field(std::string_view key) {
    const int field = key == "descr"           ? kDescr
                      : key == "fortran_order" ? kOrder
                      : key == "shape"         ? kShape
                                               : 0;
    if (field == 0) return wrong("has a key that NumPy does not have");
    if ((seen_ & field) != 0) return wrong("has a key twice");
    seen_ |= field;
    if (field == kDescr) return read_descr();
    if (field == kShape) return read_shape();
    header_->is_fortran_order = take_word("True");
    if (header_->is_fortran_order || take_word("False")) return Status::ok();
    return wrong("has a fortran_order that is no bool");
  }

  Status read_descr() {
    skip_spaces();
    if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(')) {
      header_->refusal = "its dtype is structured, and a tensor has one number in each element";
      return skip_brackets();
    }
    std::string_view descr;
    if (!take_text(&descr)) return wrong("has a descr that is no text");
    const char order = descr.empty() ? '\0' : descr[0];
    const auto* const known =
        std::ranges::find(kKnownDescrs, descr.substr(order == '\0' ? 0 : 1), &KnownDescr::name);
    const bool is_known = known != std::end(kKnownDescrs);
    const bool has_order = is_known && tensor::scalar_type_info(known->type).nbytes > 1;
    if (is_known && (order == '<' || order == '>' || (order == '|' && !has_order))) {
      header_->type = known->type;
      header_->is_foreign_endian = order == '>' && has_order;
    } else {
      const bool is_object = descr.find('O') != std::string_view::npos;
      header_->refusal = format(
          "its dtype is '%.40s', %s", std::string(descr).c_str(),
          is_object ? "which are objects of Python in a pickle" : "which a tensor cannot have");
    }
    return Status::ok();
  }

  // Skips a list of fields. Its content does not matter, because it is refused.
  Status skip_brackets() {
    size_t depth = 0;
    do {
      std::string_view text;
      if (take('[') || take('(')) {
        ++depth;
      } else if (take(']') || take(')')) {
        --depth;
      } else if (!take_text(&text)) {
        if (at_ >= text_.size()) return wrong("ends in its descr");
        ++at_;
      }
    } while (depth > 0);
    return Status::ok();
  }

  Status read_shape() {
    if (!take('(')) return wrong("has a shape that is no tuple");
    bool has_comma = true;
    while (!take(')')) {
      if (!has_comma) return wrong("has a shape without a comma");
      skip_spaces();
      uint64_t size = 0;
      const char* const first = text_.data() + at_;
      const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), size);
      if (error != std::errc() || size > static_cast<uint64_t>(INT64_MAX))
        return wrong("has a shape with something else than sizes");
      at_ += static_cast<size_t>(end - first);
      take_word("L");  // Python 2 writes its long numbers so
      if (header_->sizes.size() >= kMostNpyDims) return wrong("has more than 64 dimensions");
      header_->sizes.push_back(static_cast<int64_t>(size));
      has_comma = take(',');
    }
    // (3) is a number of Python, and no tuple.
    if (header_->sizes.size() == 1 && !has_comma) return wrong("has a shape that is no tuple");
    return Status::ok();
  }

  std::string_view text_;
  NpyHeader* header_;
  size_t at_ = 0;
  int seen_ = 0;
};

// The length of the header, and in `at` where its text begins.
Result<uint64_t> length_of_header(const std::byte* head, uint64_t nbytes, uint64_t* at) {
  const auto major = static_cast<unsigned>(head[kNpyVersionAt]);
  const auto minor = static_cast<unsigned>(head[kNpyVersionAt + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return Status(Code::kUnsupported, format("the array of NumPy has the version %u.%u, and 1.0 to "
                                             "3.0 are known",
                                             major, minor));
  }
  const size_t width = major == 1 ? 2 : 4;
  *at = kNpyLengthAt + width;
  if (nbytes < *at) return broken_npy("is cut short");
  uint32_t length = 0;
  std::memcpy(&length, head + kNpyLengthAt, width);  // little-endian, as this machine
  return uint64_t{length};
}

}  // namespace

Result<NpyHeader> read_npy_header(const archive::ZipSource& source, uint64_t begin, uint64_t nbytes,
                                  uint64_t max_nbytes) {
  std::byte head[kNpyLengthAt + 4] = {};
  TENON_TRY(source.read(begin, head, std::min<uint64_t>(nbytes, sizeof head)));
  if (nbytes < sizeof head || !os::is_numpy_array(head))
    return Status(Code::kCorrupt, "is no array of NumPy");
  uint64_t at = 0;
  TENON_ASSIGN(const uint64_t length, length_of_header(head, nbytes, &at));
  if (length > nbytes - at) return broken_npy("is cut short. Copy or download the file again");
  if (length > max_nbytes) {
    return Status(Code::kResourceExhausted,
                  format("the header of an array of NumPy has %llu bytes, and the limit max_nbytes "
                         "is %llu",
                         as_llu(length), as_llu(max_nbytes)))
        .with("limit", "max_nbytes")
        .with("limit_value", max_nbytes);
  }
  std::string text(length, '\0');
  TENON_TRY(source.read(begin + at, text.data(), length));
  NpyHeader header;
  TENON_TRY(NpyDictParser(text, &header).run());
  header.offset = begin + at + length;
  if (!header.type) return header;
  header.nbytes = tensor::scalar_type_info(*header.type).nbytes;
  for (const int64_t size : header.sizes) {
    if (!checked_mul(header.nbytes, static_cast<uint64_t>(size), &header.nbytes))
      return broken_npy("has a shape of too many elements");
  }
  const uint64_t rest = nbytes - at - length;
  if (header.nbytes <= rest) return header;
  return Status(Code::kCorrupt, format("the array of NumPy needs %llu bytes, and %llu are left: "
                                       "the file is cut short. Copy or download it again",
                                       as_llu(header.nbytes), as_llu(rest)));
}

std::string npy_descr_of(ScalarType type) {
  const auto* const known = std::ranges::find(kKnownDescrs, type, &KnownDescr::type);
  if (known == std::end(kKnownDescrs)) return {};
  return (tensor::scalar_type_info(type).nbytes > 1 ? "<" : "|") + std::string(known->name);
}

std::string npy_head(ScalarType type, std::span<const int64_t> sizes) {
  std::string dict = "{'descr': '" + npy_descr_of(type) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < sizes.size(); ++i)
    dict += (i == 0 ? "" : " ") + std::to_string(sizes[i]) + (i + 1 < sizes.size() ? "," : "");
  dict += sizes.size() == 1 ? ",), }" : "), }";
  if (!sizes.empty()) dict.append(kNpyMostDigits - std::to_string(sizes[0]).size(), ' ');
  std::string head("\x93NUMPY\x01\x00", kNpyLengthAt);
  const size_t unpadded = head.size() + sizeof(uint16_t) + dict.size() + 1;
  dict.append(kNpyAlignment - unpadded % kNpyAlignment, ' ');  // NumPy adds 64 to a whole multiple
  dict += '\n';
  const auto length = static_cast<uint16_t>(dict.size());  // 64 dimensions need less than 2 KiB
  head.append(reinterpret_cast<const char*>(&length), sizeof length);
  return head + dict;
}

}  // namespace tenon::weights
