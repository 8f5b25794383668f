// Reads the arrays of NumPy's files as weights: .npy has one, and .npz is a zip archive of them
// (contents_builder.h).
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "modules/weights/contents_builder.h"
#include "modules/weights/npy_header.h"
#include "tensor/layout.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using archive::ZipReader;
using archive::ZipRecord;
using value::StorageValue;
using value::TensorValue;
using value::TensorValueRef;

namespace {

constexpr std::string_view kNpySuffix = ".npy";
constexpr const char* kBigEndianArray = "the array is big-endian. Save it as little-endian";

// The strides of an array whose first index varies fastest.
Result<std::vector<int64_t>> fortran_strides(const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> reversed(sizes.rbegin(), sizes.rend());
  TENON_ASSIGN(const std::vector<int64_t> strides, tensor::contiguous_strides(reversed));
  return std::vector<int64_t>(strides.rbegin(), strides.rend());
}

Result<TensorValueRef> array_of(const NpyHeader& header, size_t record, PartStorages* part) {
  if (!header.type) return Status(Code::kUnsupported, header.refusal);
  value::StridedSpec spec;
  spec.sizes = header.sizes;
  TENON_ASSIGN(spec.strides, header.is_fortran_order ? fortran_strides(spec.sizes)
                                                     : tensor::contiguous_strides(spec.sizes));
  TENON_ASSIGN(Ref<storage::Storage> bytes, part->bytes_of(record, *header.type, "cpu"));
  const uint64_t numel = header.nbytes / tensor::scalar_type_info(*header.type).nbytes;
  TENON_ASSIGN(spec.storage, StorageValue::create(*header.type, numel, std::move(bytes)));
  return TensorValue::create(spec);
}

Status add_array(std::string name, const NpyHeader& header, size_t record, PartStorages* part,
                 Contents* contents) {
  Result<TensorValueRef> tensor = array_of(header, record, part);
  Weight weight;
  weight.name = std::move(name);
  if (header.nbytes != 0) weight.slot = part->slot_of(record);
  return add_weight(std::move(weight), std::move(tensor), contents);
}

Ref<ZipReader> array_ranges(Ref<archive::ZipSource> source,
                            const std::vector<ZipReader::Range>& ranges) {
  return ZipReader::of_ranges(std::move(source), ranges, "array ");
}

class NpzArrays {
 public:
  NpzArrays(const module::ImportOptions& options, Contents* contents) noexcept
      : options_(options), contents_(contents), archive_(*contents->archive) {}

  Status run() {
    TENON_TRY(read_headers());
    // The parts of the mapped arrays are two, because an ArchiveStorages has one byte order.
    PartStorages native = add_part(&native_, false);
    PartStorages foreign = add_part(&foreign_, true);
    for (const Array& array : arrays_) {
      if (archive_.records()[array.member].deflated) {
        TENON_TRY(add_inflated(array));
      } else {
        TENON_TRY(add_array(name_of(array), array.header, array.index,
                            array.header.is_foreign_endian ? &foreign : &native, contents_));
      }
    }
    TENON_TRY(native.finish());
    return foreign.finish();
  }

 private:
  struct Array {
    size_t member = 0;  // the archive's record
    size_t index = 0;   // the record of its part
    NpyHeader header;   // not filled in for a deflated member
  };
  struct Ranges {
    std::vector<ZipReader::Range> ranges;
    std::vector<size_t> members;
  };

  std::string name_of(const Array& array) const {
    std::string_view name = archive_.records()[array.member].name;
    name.remove_suffix(kNpySuffix.size());
    return std::string(name);
  }

  Result<NpyHeader> header_of(const Array& array, const archive::ZipSource& source,
                              uint64_t begin) const {
    const ZipRecord& record = archive_.records()[array.member];
    Result<NpyHeader> header =
        read_npy_header(source, begin, record.nbytes, options_.pickle_limits.max_nbytes);
    if (header.is_ok()) return header;
    const std::string name(record.name);
    return Status(header.status().code(),
                  format("record %.200s: %s", name.c_str(), header.status().message().c_str()))
        .with_details_of(header.status())
        .with("record", name);
  }

  Status read_headers() {
    for (size_t i = 0; i < archive_.records().size(); ++i) {
      const ZipRecord& record = archive_.records()[i];
      if (!record.name.ends_with(kNpySuffix)) {
        add_skipped(std::string(record.name), "a record that is no array", contents_);
        continue;
      }
      Array array;
      array.member = i;
      if (!record.deflated) {
        // A range has no checksum, so a copy of an array could not be checked later.
        if (options_.check != archive::Check::kStructure) TENON_TRY(archive_.verify(record));
        TENON_ASSIGN(array.header, header_of(array, *contents_->source, record.data_offset));
        Ranges& into = array.header.is_foreign_endian ? foreign_ : native_;
        array.index = into.ranges.size();
        into.ranges.push_back({array.header.offset, array.header.nbytes});
        into.members.push_back(i);
      }
      arrays_.push_back(std::move(array));
    }
    return Status::ok();
  }

  PartStorages add_part(Ranges* from, bool is_foreign_endian) {
    Part part;
    part.reader = array_ranges(contents_->source, from->ranges);
    part.members = std::move(from->members);
    if (is_foreign_endian) part.fixed_because = kBigEndianArray;
    contents_->parts.push_back(std::move(part));
    return PartStorages(contents_, options_, is_foreign_endian);
  }

  // The directory's check has bounded the inflated bytes of all members together.
  Status add_inflated(const Array& array) {
    const ZipRecord& record = archive_.records()[array.member];
    TENON_ASSIGN(std::vector<std::byte> bytes, archive_.read(record));
    const Ref<archive::ZipSource> source =
        archive::OwnedSource::create(contents_->source->name(), std::move(bytes));
    TENON_ASSIGN(const NpyHeader header, header_of(array, *source, 0));
    Part part;
    part.reader = array_ranges(source, {{header.offset, header.nbytes}});
    part.fixed_because = "its record is compressed. Save the arrays by numpy.savez";
    contents_->parts.push_back(std::move(part));
    PartStorages storages(contents_, options_, header.is_foreign_endian);
    TENON_TRY(add_array(name_of(array), header, 0, &storages, contents_));
    TENON_TRY(storages.finish());
    // Views keep the inflated bytes. Without a view, as after a copy into an arena, they go now.
    contents_->parts.back().reader = array_ranges(archive::MemorySource::create({}), {{0, 0}});
    return Status::ok();
  }

  const module::ImportOptions& options_;
  Contents* contents_;
  const ZipReader& archive_;
  std::vector<Array> arrays_;
  Ranges native_;
  Ranges foreign_;
};

}  // namespace

Status read_npy(const module::ImportOptions& options, Contents* contents) {
  const archive::ZipSource& source = *contents->source;
  TENON_ASSIGN(const NpyHeader header,
               read_npy_header(source, 0, source.nbytes(), options.pickle_limits.max_nbytes));
  Part added;
  added.reader = array_ranges(contents->source, {{header.offset, header.nbytes}});
  if (header.is_foreign_endian) added.fixed_because = kBigEndianArray;
  contents->parts.push_back(std::move(added));
  PartStorages part(contents, options, header.is_foreign_endian);
  TENON_TRY(add_array("", header, 0, &part, contents));
  return part.finish();
}

Status read_npz(const module::ImportOptions& options, Contents* contents) {
  return NpzArrays(options, contents).run();
}

}  // namespace tenon::weights
