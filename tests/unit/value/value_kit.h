// The tests of values use these helpers to make storages, tensors and values.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "modules/value/tensor_value.h"
#include "modules/value/type.h"
#include "modules/value/value.h"
#include "storage/storage.h"
#include "support/must.h"

namespace tenon::value {

using tensor::ScalarType;

using Dims = std::vector<int64_t>;

inline TypeRef type(const char* text) {
  Result<TypeRef> parsed = Type::parse(text);
  EXPECT_TRUE(parsed.is_ok()) << text << ": " << parsed.status().message();
  return parsed.is_ok() ? parsed.value() : Type::none();
}

inline Ref<storage::Storage> bytes_of(uint64_t nbytes, unsigned char fill = 0) {
  storage::StorageOptions options;
  options.is_private = true;
  const std::vector<unsigned char> data(nbytes, fill);
  return must(storage::Storage::create_from(options, data.data(), nbytes));
}

inline StorageValueRef storage_of(ScalarType scalar_type, uint64_t numel, unsigned char fill = 0) {
  return must(StorageValue::create(
      scalar_type, numel, bytes_of(numel * tensor::scalar_type_info(scalar_type).nbytes, fill)));
}

inline StridedSpec spec_of(StorageValueRef storage, Dims sizes, Dims strides, int64_t offset = 0) {
  StridedSpec spec;
  spec.storage = std::move(storage);
  spec.sizes = std::move(sizes);
  spec.strides = std::move(strides);
  spec.offset = offset;
  return spec;
}

inline TensorValueRef tensor_of(ScalarType scalar_type, int64_t numel, unsigned char fill = 0) {
  return must(TensorValue::create(
      spec_of(storage_of(scalar_type, static_cast<uint64_t>(numel), fill), {numel}, {1})));
}

inline ValueRef num(int64_t value) { return Value::of_int(value); }
inline ValueRef str(const char* text) { return Value::of_str(text); }
inline ValueRef list(const char* text, std::vector<ValueRef> items) {
  return Value::list(type(text), std::move(items));
}

}  // namespace tenon::value
