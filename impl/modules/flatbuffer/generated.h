// The classes that flatc generates from module.fbs, and PyTorch's numbers that the schema does not
// have. The reader and the writer of the flatbuffer form share them.
//
// A build with another version of FlatBuffers than 2.0.8 generates its own header. A build
// without FlatBuffers defines no TENON_HAS_FLATBUFFERS and cannot include this file.
#pragma once

#include <cstdint>

#ifdef TENON_FLATBUFFERS_GENERATED
#include <module_generated.h>
#else
#include "modules/flatbuffer/module_generated.h"
#endif
#include "modules/value/tensor_value.h"

namespace tenon::flatbuffer {

// FlatBuffers' offsets have 31 bits, so a file has fewer bytes than this.
inline constexpr uint64_t kMostNbytes = uint64_t{1} << 31;

// The numbers of PyTorch's enum QScheme (c10/core/QScheme.h).
struct QSchemeNumber {
  int8_t number;
  value::QScheme scheme;
};
inline constexpr QSchemeNumber kQSchemeNumbers[] = {
    {0, value::QScheme::kPerTensorAffine},
    {1, value::QScheme::kPerChannelAffine},
    {4, value::QScheme::kPerChannelAffineFloatQParams},
};

}  // namespace tenon::flatbuffer
