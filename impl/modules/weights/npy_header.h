// Reads and makes the header of an array of NumPy (docs/format/numpy.md): its element type, its
// shape and the place of its elements. read_npy() and read_npz() make weights of it, and
// npz_output.cc writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/archive/zip_source.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

struct NpyHeader {
  std::optional<tensor::ScalarType> type;  // nothing: a tensor has no such elements
  std::string refusal;                     // why, if there is no type
  bool is_foreign_endian = false;
  bool is_fortran_order = false;  // the first index varies fastest
  std::vector<int64_t> sizes;
  uint64_t offset = 0;  // of the first element, in the source
  uint64_t nbytes = 0;  // of all elements; 0 if there is no type
};

// Reads the array that begins at `begin` of the source, and of which the source has `nbytes` bytes.
// CORRUPT if these bytes are no array of NumPy, or fewer than the array needs. RESOURCE_EXHAUSTED
// for a header of more than `max_nbytes`. UNSUPPORTED for a version of the format that is not
// known. Nothing is evaluated: the header is a dict of Python with three known keys, and any other
// text is CORRUPT. Time and memory are linear in the header.
Result<NpyHeader> read_npy_header(const archive::ZipSource& source, uint64_t begin, uint64_t nbytes,
                                  uint64_t max_nbytes);

// NumPy's word for little-endian elements of this type: "<f4". Empty: NumPy has no such type.
std::string npy_descr_of(tensor::ScalarType type);
// The header of a contiguous array, byte for byte as NumPy 2 makes it. Its size is a multiple of
// 64. npy_descr_of() has a word for the type.
std::string npy_head(tensor::ScalarType type, std::span<const int64_t> sizes);

}  // namespace tenon::weights
