#include "modules/weights/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "os/file_kind.h"

#ifdef TENON_HAS_JSON
#include <nlohmann/json.hpp>
#endif

namespace tenon::weights {

#ifdef TENON_HAS_JSON

using tensor::ScalarType;

namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthNbytes = 8;
// A header has a depth of 3. More is allowed, for fields that this reader does not know.
constexpr size_t kMostHeaderDepth = 64;
constexpr size_t kMostShapeDims = 64;
constexpr size_t kUsualDims = 4;
// A name of usual length, a dtype, a shape and an offset take about as many bytes in a header.
constexpr size_t kUsualEntryNbytes = 160;

constexpr SafetensorsDtype kDtypes[] = {
    {"BOOL", 8, ScalarType::kBool},
    // PyTorch packs two of F4 in an element (read_safetensors.cc), and has none of 6 bits.
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"U8", 8, ScalarType::kByte},
    {"I8", 8, ScalarType::kChar},
    {"F8_E5M2", 8, ScalarType::kFloat8E5m2},
    {"F8_E4M3", 8, ScalarType::kFloat8E4m3fn},
    {"F8_E8M0", 8, ScalarType::kFloat8E8m0fnu},
    {"F8_E4M3FNUZ", 8, ScalarType::kFloat8E4m3fnuz},
    {"F8_E5M2FNUZ", 8, ScalarType::kFloat8E5m2fnuz},
    {"I16", 16, ScalarType::kShort},
    {"U16", 16, ScalarType::kUInt16},
    {"F16", 16, ScalarType::kHalf},
    {"BF16", 16, ScalarType::kBFloat16},
    {"I32", 32, ScalarType::kInt},
    {"U32", 32, ScalarType::kUInt32},
    {"F32", 32, ScalarType::kFloat},
    {"C64", 64, ScalarType::kComplexFloat},
    {"F64", 64, ScalarType::kDouble},
    {"I64", 64, ScalarType::kLong},
    {"U64", 64, ScalarType::kUInt64},
};

// What the parser is in.
enum class HeaderLevel : uint8_t { kOutside, kRoot, kMetadata, kEntry, kShape, kOffsets, kSkipped };

enum HeaderField : uint8_t { kDtypeField = 1, kShapeField = 2, kOffsetsField = 4 };
constexpr uint8_t kEntryFields = kDtypeField | kShapeField | kOffsetsField;

// Receives the events of the JSON parser. A function that returns false ends the reading, and
// `wrong_` says why. A text is copied and not moved: the parser would have to grow its memory anew
// for the next one. An index of shards has an object of texts as a header has, and is read by the
// same class, because the parser is compiled anew for each class.
class HeaderReader {
 public:
  HeaderReader(bool is_index, SafetensorsHeader* header) noexcept
      : is_index_(is_index), header_(header) {}
  // Forgets all events.
  void begin_again() {
    header_->entries.clear();
    header_->metadata.clear();
    *this = HeaderReader(is_index_, header_);
  }
  bool has_texts() const noexcept { return has_texts_; }
  const std::string& wrong() const noexcept { return wrong_; }
  size_t wrong_at() const noexcept { return wrong_at_; }

  bool null() { return skip("null"); }
  bool boolean(bool) { return skip("a boolean"); }
  bool number_integer(int64_t) { return skip("a negative number"); }
  bool number_float(double, const std::string&) { return skip("no integer"); }
  bool number_unsigned(uint64_t value) {
    switch (level()) {
      case HeaderLevel::kShape:
        if (entry().sizes.size() >= kMostShapeDims) return refuse("has more than 64 dimensions");
        if (value > static_cast<uint64_t>(INT64_MAX)) return refuse("has a size that is too large");
        entry().sizes.push_back(static_cast<int64_t>(value));
        return true;
      case HeaderLevel::kOffsets:
        if (offsets_ >= 2) return refuse("has more than two data_offsets");
        (offsets_++ == 0 ? entry().offset : end_) = value;
        return true;
      default: return skip("a number");
    }
  }
  bool string(std::string& value) {
    if (level() == HeaderLevel::kMetadata) {
      if (header_->metadata.emplace(std::move(key_), std::move(value)).second) return true;
      return refuse("has a key of " + texts_name() + " twice");
    }
    if (level() != HeaderLevel::kEntry || field_ != kDtypeField) return skip("a text");
    entry().dtype = value;
    return true;
  }
  bool binary(Json::binary_t&) { return false; }

  bool start_object(size_t) {
    switch (level()) {
      case HeaderLevel::kOutside: return enter(HeaderLevel::kRoot);
      case HeaderLevel::kRoot:
        if (key_ == texts_name()) {
          if (std::exchange(has_texts_, true)) return refuse("has " + texts_name() + " twice");
          return enter(HeaderLevel::kMetadata);
        }
        if (is_index_) return enter(HeaderLevel::kSkipped);
        header_->entries.emplace_back().name = key_;
        seen_ = 0;
        return enter(HeaderLevel::kEntry);
      default: return skip("an object") && enter(HeaderLevel::kSkipped);
    }
  }
  bool end_object() {
    if (level() == HeaderLevel::kEntry && seen_ != kEntryFields)
      return refuse("lacks its dtype, shape or data_offsets");
    return leave();
  }
  bool start_array(size_t) {
    if (level() == HeaderLevel::kEntry && field_ == kShapeField) {
      entry().sizes.reserve(kUsualDims);
      return enter(HeaderLevel::kShape);
    }
    if (level() == HeaderLevel::kEntry && field_ == kOffsetsField) {
      offsets_ = 0;
      return enter(HeaderLevel::kOffsets);
    }
    return skip("a list") && enter(HeaderLevel::kSkipped);
  }
  bool end_array() {
    if (level() == HeaderLevel::kOffsets) {
      if (offsets_ != 2 || end_ < entry().offset)
        return refuse("has data_offsets that are no range");
      entry().nbytes = end_ - entry().offset;
    }
    return leave();
  }
  bool key(std::string& name) {
    field_ = 0;
    if (level() == HeaderLevel::kEntry) {
      if (name == "dtype") field_ = kDtypeField;
      if (name == "shape") field_ = kShapeField;
      if (name == "data_offsets") field_ = kOffsetsField;
      if ((seen_ & field_) != 0) return refuse("has a field twice");
      seen_ |= field_;
    }
    key_ = name;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    wrong_ = "is no JSON";
    wrong_at_ = position;
    return false;
  }

 private:
  HeaderLevel level() const noexcept {
    return levels_.empty() ? HeaderLevel::kOutside : levels_.back();
  }
  SafetensorsEntry& entry() noexcept { return header_->entries.back(); }

  bool enter(HeaderLevel level) {
    if (levels_.size() >= kMostHeaderDepth) return refuse("is too deep");
    levels_.push_back(level);
    field_ = 0;
    return true;
  }
  bool leave() {
    levels_.pop_back();
    field_ = 0;
    return true;
  }
  // Accepts a value only where this reader does not know the field.
  bool skip(const char* what) {
    const HeaderLevel at = level();
    if (at == HeaderLevel::kSkipped || (at == HeaderLevel::kEntry && field_ == 0)) return true;
    if (is_index_ && at == HeaderLevel::kRoot && key_ != texts_name()) return true;
    return refuse(std::string("has ") + what + " where the format has none");
  }
  bool refuse(const std::string& what) {
    wrong_ = what;
    if (!header_->entries.empty())
      wrong_ += format(", at the tensor \"%.200s\"", header_->entries.back().name.c_str());
    return false;
  }

  // The name of the object whose values are texts.
  std::string texts_name() const { return is_index_ ? "weight_map" : "__metadata__"; }

  bool is_index_;
  SafetensorsHeader* header_;
  std::vector<HeaderLevel> levels_;
  std::string key_;
  uint8_t field_ = 0;  // the field of the next value; 0 if it is not known
  uint8_t seen_ = 0;   // the fields of the entry so far, as bits
  int offsets_ = 0;
  uint64_t end_ = 0;
  bool has_texts_ = false;
  std::string wrong_;
  size_t wrong_at_ = 0;
};

// Reads the JSON that writers of safetensors files produce, several times as fast as the parser of
// nlohmann. It accepts only a part of JSON: no escapes, no bytes outside ASCII, and no numbers but
// unsigned ones of at most 18 digits. Such a text has the same events with either parser. For any
// other text run() returns false, and the caller starts anew with the parser of nlohmann, which has
// the errors.
class PlainJson {
 public:
  PlainJson(std::string_view text, HeaderReader* reader) noexcept : text_(text), reader_(reader) {}
  bool run() { return value() && (skip_blanks(), at_ == text_.size()); }

 private:
  static constexpr size_t kMostDigits = 18;

  void skip_blanks() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  // Takes this character if it is the next one that is not blank.
  bool take(char wanted) noexcept {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  // The reader refuses a depth of more than kMostHeaderDepth, so this recursion ends.
  bool value() {
    if (take('{')) return reader_->start_object(SIZE_MAX) && members() && reader_->end_object();
    if (take('[')) return reader_->start_array(SIZE_MAX) && elements() && reader_->end_array();
    if (take('"')) return string() && reader_->string(string_);
    return number();
  }
  bool members() {
    if (take('}')) return true;
    do {
      if (!take('"') || !string() || !reader_->key(string_) || !take(':') || !value()) return false;
    } while (take(','));
    return take('}');
  }
  bool elements() {
    if (take(']')) return true;
    do {
      if (!value()) return false;
    } while (take(','));
    return take(']');
  }
  // Reads the rest of a text into string_.
  bool string() {
    const size_t begin = at_;
    const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
    if (at_ == text_.size() || text_[at_] != '"') return false;
    string_.assign(text_, begin, at_ - begin);
    ++at_;
    return true;
  }
  bool number() {
    const size_t begin = at_;
    uint64_t number = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (at_ - begin == kMostDigits) return false;
      number = number * 10 + static_cast<uint64_t>(text_[at_] - '0');
    }
    const bool has_leading_zero = at_ - begin > 1 && text_[begin] == '0';
    if (at_ == begin || has_leading_zero) return false;
    // A character that may follow a number is a blank, a comma or a bracket, for which the caller
    // looks. "1.5" and "1e5" end here, at the point and the letter.
    return reader_->number_unsigned(number);
  }

  const std::string_view text_;
  HeaderReader* const reader_;
  size_t at_ = 0;
  std::string string_;
};

// Gives the events of a text to the reader. False: the reader knows what is wrong.
bool parse(const std::string& text, HeaderReader* reader) {
  if (PlainJson(text, reader).run()) return true;
  reader->begin_again();
  return Json::sax_parse(text.begin(), text.end(), reader);
}

Status broken(const std::string& what) {
  return {Code::kCorrupt, "the safetensors header " + what};
}

Status broken_entry(const SafetensorsEntry& entry, const char* what) {
  return {Code::kCorrupt, format("the tensor \"%.200s\" %s", entry.name.c_str(), what)};
}

// Checks an entry against its type, and turns its offset into one of the file. `at` is where the
// bytes of the entry must begin, counted from the end of the header.
Status check_entry(uint64_t data_offset, uint64_t at, SafetensorsEntry* entry) {
  const SafetensorsDtype* const known = safetensors_dtype_named(entry->dtype);
  if (known == nullptr) {
    return broken_entry(*entry, format("has the dtype \"%.40s\", which safetensors does not have",
                                       entry->dtype.c_str())
                                    .c_str());
  }
  entry->type = known->type;
  uint64_t bits = known->bits;
  for (const int64_t size : entry->sizes) {
    if (!checked_mul(bits, static_cast<uint64_t>(size), &bits))
      return broken_entry(*entry, "has too many elements");
  }
  if (bits % 8 != 0 || bits / 8 != entry->nbytes)
    return broken_entry(*entry, "has another number of bytes than its shape and dtype need");
  if (entry->offset != at)
    return broken_entry(*entry, "does not begin where the tensor before it ends");
  entry->offset += data_offset;
  return Status::ok();
}

}  // namespace

const SafetensorsDtype* safetensors_dtype_of(ScalarType type) noexcept {
  const auto* const found =
      type == ScalarType::kFloat4E2m1fnX2
          ? std::ranges::find(kDtypes, std::string_view("F4"), &SafetensorsDtype::name)
          : std::ranges::find(kDtypes, std::optional(type), &SafetensorsDtype::type);
  return found == std::end(kDtypes) ? nullptr : found;
}

const SafetensorsDtype* safetensors_dtype_named(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kDtypes, name, &SafetensorsDtype::name);
  return found == std::end(kDtypes) ? nullptr : found;
}

Result<SafetensorsHeader> read_safetensors_header(const archive::ZipSource& source,
                                                  uint64_t max_nbytes) {
  uint64_t length = 0;
  if (source.nbytes() < kLengthNbytes) return broken("is cut short");
  TENON_TRY(source.read(0, reinterpret_cast<std::byte*>(&length), sizeof length));
  if (length > os::kMostSafetensorsHeader)
    return broken("has more than 100 MB, the format's limit");
  if (length > source.nbytes() - kLengthNbytes)
    return broken("is cut short. Copy or download the file again");
  if (length > max_nbytes) {
    return Status(Code::kResourceExhausted,
                  format("the safetensors header has %llu bytes, and the limit max_nbytes is %llu",
                         as_llu(length), as_llu(max_nbytes)))
        .with("limit", "max_nbytes")
        .with("limit_value", max_nbytes);
  }
  std::string text(length, '\0');
  TENON_TRY(source.read(kLengthNbytes, reinterpret_cast<std::byte*>(text.data()), length));
  SafetensorsHeader header;
  header.entries.reserve(length / kUsualEntryNbytes);
  HeaderReader reader(false, &header);
  if (!text.starts_with('{')) return broken("does not begin with {");
  if (!parse(text, &reader))
    return broken(reader.wrong()).with("offset", kLengthNbytes + reader.wrong_at());
  const auto place = [](const SafetensorsEntry& entry) {
    return std::pair(entry.offset, entry.nbytes);
  };
  // Most writers list the tensors in the order of their bytes.
  if (!std::ranges::is_sorted(header.entries, {}, place))
    std::ranges::stable_sort(header.entries, {}, place);
  uint64_t at = 0;
  for (SafetensorsEntry& entry : header.entries) {
    TENON_TRY(check_entry(kLengthNbytes + length, at, &entry));
    if (!checked_add(at, entry.nbytes, &at)) return broken_entry(entry, "is too large");
  }
  const uint64_t wanted = source.nbytes() - kLengthNbytes - length;
  if (at == wanted) return header;
  return broken(format("describes %llu bytes of tensors, and the file has %llu%s", as_llu(at),
                       as_llu(wanted),
                       at > wanted ? ": it is cut short. Copy or download it again" : ""));
}

Result<std::map<std::string, std::string>> read_shard_index(const archive::ZipSource& source,
                                                            uint64_t max_nbytes) {
  const uint64_t nbytes = source.nbytes();
  if (nbytes > max_nbytes) {
    return Status(Code::kResourceExhausted,
                  format("the index of shards has %llu bytes, and the limit max_nbytes is %llu",
                         as_llu(nbytes), as_llu(max_nbytes)))
        .with("limit", "max_nbytes")
        .with("limit_value", max_nbytes);
  }
  std::string text(nbytes, '\0');
  TENON_TRY(source.read(0, reinterpret_cast<std::byte*>(text.data()), nbytes));
  SafetensorsHeader index;
  HeaderReader reader(true, &index);
  if (!parse(text, &reader)) {
    return Status(Code::kCorrupt, "the index of shards " + reader.wrong())
        .with("offset", reader.wrong_at());
  }
  if (reader.has_texts()) return std::move(index.metadata);
  return Status(Code::kUnsupported,
                "is a file of JSON without weight_map, and so no index of shards. Give the file "
                "that ends in .index.json, or a file of weights");
}

#else

const SafetensorsDtype* safetensors_dtype_of(tensor::ScalarType) noexcept { return nullptr; }
const SafetensorsDtype* safetensors_dtype_named(std::string_view) noexcept { return nullptr; }

Result<std::map<std::string, std::string>> read_shard_index(const archive::ZipSource& source,
                                                            uint64_t max_nbytes) {
  return read_safetensors_header(source, max_nbytes).status();
}

Result<SafetensorsHeader> read_safetensors_header(const archive::ZipSource&, uint64_t) {
  return Status(Code::kUnsupported,
                "this build of Tenon reads no JSON, and so no safetensors file: build it where "
                "nlohmann/json.hpp is installed (nlohmann-json3-dev of Debian)");
}

#endif

}  // namespace tenon::weights
