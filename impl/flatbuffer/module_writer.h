// Writes a module in PyTorch's flatbuffer form: one buffer with the bytecode, the values and the
// TorchScript code. The lite loader and torch.jit.load of PyTorch 1.13 and later read it.
//
// Source of the format: docs/format/flatbuffer.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "archive/sink.h"
#include "base/status.h"
#include "bytecode/program.h"
#include "value/value.h"

namespace tenon::flatbuffer {

// A file inside the file. Both texts are the caller's, and stay valid until the module is written.
struct NamedText {
  std::string_view name;
  std::string_view content;
};

// What a file of this form holds.
struct ModuleContents {
  const bytecode::Program* program = nullptr;
  value::ValueRef root;  // an object
  // TorchScript code; the names are qualifiers, "__torch__".
  std::vector<NamedText> sources;
  std::span<const value::ValueRef> constants;  // of the code: CONSTANTS.c0 and on
  std::vector<NamedText> extra_files;
  int version = 0;  // of the operators, in the code and in the bytecode
};

// Fills `into` with the bytes of a storage.
using ReadStorage =
    std::function<Status(const value::StorageValue& storage, std::span<std::byte> into)>;

// Writes nothing to `sink` before the whole buffer is made, which is in memory until then.
// `nbytes` gets its size.
//
// UNSUPPORTED for what the form cannot hold: more than 2 GiB, tensors that are sparse, meta or
// lazily conjugated, sizes of 2^31 elements or more. UNSUPPORTED too in a build without
// FlatBuffers.
Status write_module(const ModuleContents& contents, const ReadStorage& read_storage,
                    archive::Sink* sink, uint64_t* nbytes);

}  // namespace tenon::flatbuffer
