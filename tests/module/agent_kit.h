// What the agents of these tests share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "value/tensor_value.h"
#include "value/value.h"

namespace tenon::module {

// The tensor with `number` added to each element of its storage.
inline Result<value::ValueRef> added(const value::TensorValue& tensor, float number) {
  const value::StorageValue& old = *tensor.storage();
  storage::StorageOptions options;
  options.is_private = true;
  TENON_ASSIGN(Ref<storage::Storage> bytes, storage::Storage::create_from(options, old.data(), old.nbytes()));
  TENON_ASSIGN(std::byte * data, bytes->data_mut());
  for (uint64_t i = 0; i < old.numel(); ++i) {
    float element = 0;
    std::memcpy(&element, data + i * sizeof element, sizeof element);
    element += number;
    std::memcpy(data + i * sizeof element, &element, sizeof element);
  }
  value::StridedSpec spec;
  TENON_ASSIGN(spec.storage, value::StorageValue::whole(value::ScalarType::kFloat, std::move(bytes)));
  spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
  spec.offset = tensor.offset();
  spec.requires_grad = tensor.requires_grad();
  TENON_ASSIGN(value::TensorValueRef made, value::TensorValue::create(spec));
  return value::Value::of_tensor(std::move(made));
}

}  // namespace tenon::module
