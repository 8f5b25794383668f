#include "modules/flatbuffer/flat_tensor_reader.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#ifdef TENON_HAS_FLATBUFFERS
#ifdef TENON_FLATBUFFERS_GENERATED
#include <flat_tensor_generated.h>
#else
#include "modules/flatbuffer/flat_tensor_generated.h"
#endif
#endif
#include "base/checked.h"
#include "os/limits.h"
#include "tensor/layout.h"

namespace tenon::flatbuffer {

#ifdef TENON_HAS_FLATBUFFERS

namespace {

using archive::ZipSource;

// The header lies between the flatbuffer's identifier and its tables.
constexpr uint64_t kHeaderAt = 8;
constexpr uint32_t kHeaderNbytes = 40;
constexpr uint32_t kNewestVersion = 0;

[[gnu::cold]] Status broken(const std::string& what) {
  return {Code::kCorrupt, "the .ptd file is broken: " + what};
}

struct Header {
  char magic[4];
  uint32_t nbytes;
  uint64_t table_offset;
  uint64_t table_nbytes;
  uint64_t segment_base;
  uint64_t segment_nbytes;
};
static_assert(sizeof(Header) == kHeaderNbytes);

Result<Header> read_header(const ZipSource& source) {
  Header header{};
  if (source.nbytes() < kHeaderAt + sizeof header)
    return broken("it ends in its header. Copy or download the file again");
  TENON_TRY(source.read(kHeaderAt, &header, sizeof header));
  if (std::memcmp(header.magic, "FH01", 4) != 0) return broken("it lacks the header FH01");
  if (header.nbytes < kHeaderNbytes) return broken("its header is too short");
  if (!range_inside(header.table_offset, header.table_nbytes, source.nbytes()))
    return broken("its table leaves the file");
  if (!range_inside(header.segment_base, header.segment_nbytes, source.nbytes())) {
    return broken("its data leave the file. Copy or download the file again");
  }
  return header;
}

// A copy of the file's beginning up to the end of the table. Its address is aligned for the table's
// numbers.
class Table {
 public:
  static Result<Table> copy(const ZipSource& source, const Header& header, uint64_t max_nbytes) {
    const uint64_t nbytes = header.table_offset + header.table_nbytes;
    if (nbytes > max_nbytes) {
      return Status(
                 Code::kResourceExhausted,
                 format(
                     "the table of the .ptd file has %llu bytes, and the limit max_nbytes is %llu",
                     static_cast<unsigned long long>(nbytes),
                     static_cast<unsigned long long>(max_nbytes)))
          .with("limit", "max_nbytes")
          .with("limit_value", max_nbytes);
    }
    if (nbytes < kHeaderAt + kHeaderNbytes) return broken("its table is too short");
    TENON_TRY(os::ask_headroom(nbytes));
    Table table;
    table.words_.resize(nbytes / sizeof(uint64_t) + 1);
    table.nbytes_ = nbytes;
    TENON_TRY(source.read(0, table.words_.data(), nbytes));
    return table;
  }

  Result<const ptd::FlatTensor*> verify() const {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(words_.data());
    ::flatbuffers::Verifier::Options options;
    // Each table of the flatbuffer has four bytes or more of its own.
    options.max_tables = static_cast<uint32_t>(nbytes_ / sizeof(uint32_t));
    ::flatbuffers::Verifier verifier(bytes, nbytes_, options);
    if (!ptd::VerifyFlatTensorBuffer(verifier))
      return broken("FlatBuffers' verifier refuses its table. Copy or download the file again");
    return ptd::GetFlatTensor(bytes);
  }

  uint64_t nbytes() const noexcept { return nbytes_; }

 private:
  std::vector<uint64_t> words_;
  uint64_t nbytes_ = 0;
};

Result<std::vector<archive::ZipReader::Range>> read_segments(const ptd::FlatTensor& root,
                                                             const Header& header) {
  std::vector<archive::ZipReader::Range> segments;
  for (uint32_t i = 0; root.segments() != nullptr && i < root.segments()->size(); ++i) {
    const ptd::DataSegment& segment = *root.segments()->Get(i);
    if (!range_inside(segment.offset(), segment.size(), header.segment_nbytes))
      return broken(format("segment %u leaves the data", i));
    segments.push_back({header.segment_base + segment.offset(), segment.size()});
  }
  std::vector<archive::ZipReader::Range> sorted = segments;
  std::ranges::sort(sorted, {}, &archive::ZipReader::Range::offset);
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i - 1].offset + sorted[i - 1].nbytes > sorted[i].offset)
      return broken("two segments lie over each other");
  }
  return segments;
}

// The strides in elements if the file has the dimensions in the order `order`. Empty if `order`
// does not name each dimension once.
std::vector<int64_t> strides_of(std::span<const int64_t> sizes, std::span<const uint8_t> order) {
  std::vector<int64_t> strides(sizes.size(), -1);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t dim = order[i];
    if (dim >= sizes.size() || strides[dim] != -1) return {};
    strides[dim] = stride;
    if (!checked_mul(stride, std::max<int64_t>(sizes[dim], 1), &stride)) return {};
  }
  return strides;
}

Result<FlatTensorLayout> read_layout(const ptd::TensorLayout& from, const std::string& key) {
  FlatTensorLayout layout;
  // A negative number becomes a number that no element type has.
  layout.scalar_type = static_cast<uint8_t>(from.scalar_type());
  const uint32_t ndim = from.sizes() == nullptr ? 0 : from.sizes()->size();
  const uint32_t order = from.dim_order() == nullptr ? 0 : from.dim_order()->size();
  const auto wrong = [&](const char* what) {
    return broken(format("the layout of \"%.200s\" %s", key.c_str(), what));
  };
  if (ndim > tensor::kMaxNdim) return wrong("has more than 64 dimensions");
  if (order != ndim) return wrong("does not have one place in dim_order for each size");
  for (uint32_t i = 0; i < ndim; ++i) {
    if (from.sizes()->Get(i) < 0) return wrong("has a negative size");
    layout.sizes.push_back(from.sizes()->Get(i));
  }
  if (ndim == 0) return layout;
  layout.strides = strides_of(layout.sizes, {from.dim_order()->data(), order});
  if (layout.strides.empty()) return wrong("has a dim_order that is no order of its dimensions");
  return layout;
}

Result<std::vector<FlatTensorEntry>> read_entries(const ptd::FlatTensor& root, size_t n_segments,
                                                  uint64_t table_nbytes) {
  const uint32_t count = root.named_data() == nullptr ? 0 : root.named_data()->size();
  // Keys can overlap in the table, so their bytes are counted before any key is copied.
  std::vector<std::string_view> keys;
  uint64_t keys_nbytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const auto* const key = root.named_data()->Get(i)->key();
    if (key == nullptr) return broken(format("entry %u has no key", i));
    keys.emplace_back(key->c_str(), key->size());
    keys_nbytes += key->size();
    if (keys_nbytes > table_nbytes) return broken("its keys lie over each other");
  }
  std::vector<std::string_view> sorted = keys;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return broken("two entries have one key");
  std::vector<FlatTensorEntry> entries;
  for (uint32_t i = 0; i < count; ++i) {
    const ptd::NamedData& from = *root.named_data()->Get(i);
    FlatTensorEntry entry;
    entry.key = keys[i];
    entry.segment = from.segment_index();
    if (entry.segment >= n_segments) {
      return broken(format("\"%.200s\" is in the segment %u, and there are %zu", entry.key.c_str(),
                           entry.segment, n_segments));
    }
    if (from.tensor_layout() != nullptr) {
      TENON_ASSIGN(entry.layout, read_layout(*from.tensor_layout(), entry.key));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

Result<FlatTensorFile> read_flat_tensor(const ZipSource& source, uint64_t max_nbytes) {
  TENON_ASSIGN(const Header header, read_header(source));
  TENON_ASSIGN(const Table table, Table::copy(source, header, max_nbytes));
  TENON_ASSIGN(const ptd::FlatTensor* const root, table.verify());
  if (root->version() > kNewestVersion) {
    return Status(
        Code::kUnsupported,
        format("the .ptd file has the version %u, and Tenon knows version 0", root->version()));
  }
  FlatTensorFile file;
  TENON_ASSIGN(file.segments, read_segments(*root, header));
  TENON_ASSIGN(file.entries, read_entries(*root, file.segments.size(), table.nbytes()));
  return file;
}

#else

Result<FlatTensorFile> read_flat_tensor(const archive::ZipSource&, uint64_t) {
  return Status(Code::kUnsupported,
                "this build of Tenon reads no .ptd files: build it where FlatBuffers is installed "
                "(libflatbuffers-dev and "
                "flatbuffers-compiler of Debian)");
}

#endif

}  // namespace tenon::flatbuffer
