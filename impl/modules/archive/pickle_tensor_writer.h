// Writes tensors as PyTorch's C++ pickler does. values_to_pickle() uses it. It is the inverse of
// PickledTensors, for the forms that the C++ pickler has.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "modules/archive/pickle_from_values.h"
#include "modules/value/tensor_value.h"
#include "pickle/writer.h"

namespace tenon::archive {

class PickledTensorWriter {
 public:
  // `writer` and `options` must outlive this object.
  PickledTensorWriter(pickle::PickleWriter* writer, const FromValuesOptions& options)
      : writer_(*writer), options_(options) {}

  // The errors are those of values_to_pickle(). After a failure the pickle is of no use.
  Status write(const value::TensorValue& tensor);

 private:
  Status write_strided(const value::TensorValue& tensor);
  Status write_sparse(const value::TensorValue& tensor);
  Status write_quantizer(const value::Quantizer& quantizer);
  void write_math_bits(const value::TensorValue& tensor);
  Status write_storage(const value::StorageValueRef& storage);
  Status error(Code code, const std::string& message) const;

  pickle::PickleWriter& writer_;
  const FromValuesOptions& options_;
  std::map<value::StorageKey, uint32_t> storages_;  // the number of each storage in the memo
};

}  // namespace tenon::archive
