// Helpers that the agents of these tests share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "modules/module/module.h"
#include "modules/value/tensor_value.h"
#include "modules/value/value.h"
#include "support/run_tasks.h"

namespace tenon::module {

// Returns the tensor with `number` added to each element of its storage.
inline Result<value::ValueRef> added(const value::TensorValue& tensor, float number) {
  const value::StorageValue& old = *tensor.storage();
  storage::StorageOptions options;
  options.is_private = true;
  TENON_ASSIGN(Ref<storage::Storage> bytes,
               storage::Storage::create_from(options, old.data(), old.nbytes()));
  TENON_ASSIGN(std::byte * data, bytes->data_mut());
  for (uint64_t i = 0; i < old.numel(); ++i) {
    float element = 0;
    std::memcpy(&element, data + i * sizeof element, sizeof element);
    element += number;
    std::memcpy(data + i * sizeof element, &element, sizeof element);
  }
  value::StridedSpec spec;
  TENON_ASSIGN(spec.storage,
               value::StorageValue::whole(tensor::ScalarType::kFloat, std::move(bytes)));
  spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
  spec.offset = tensor.offset();
  spec.requires_grad = tensor.requires_grad();
  TENON_ASSIGN(value::TensorValueRef made, value::TensorValue::create(spec));
  return value::Value::of_tensor(std::move(made));
}

// Adds `number` to every float parameter below the module.
inline Status add_to_parameters(Module& module, float number) {
  TENON_ASSIGN(const std::vector<NamedTensor> tensors, module.tensors());
  std::vector<const value::TensorValue*> done;
  for (const NamedTensor& named : tensors) {
    TENON_ASSIGN(const Member member, module.find(named.name));
    if (member.kind != MemberKind::kParameter) continue;
    const value::TensorValue& tensor = *member.value->as_tensor();
    if (tensor.type() != tensor::ScalarType::kFloat ||
        tensor.layout() != value::TensorLayout::kStrided || !tensor.storage()->bytes())
      continue;
    // A shared tensor has the new value under its other names already.
    if (std::find(done.begin(), done.end(), &tensor) != done.end()) continue;
    TENON_ASSIGN(value::ValueRef made, added(tensor, number));
    done.push_back(made->as_tensor().get());
    TENON_TRY(module.set(named.name, std::move(made)));
  }
  return Status::ok();
}

}  // namespace tenon::module
