// Writes a module in PyTorch's flatbuffer form: one buffer with the bytecode, the values and the
// TorchScript code. The exports of impl/module call this. The lite loader and torch.jit.load of
// PyTorch 1.13 and later read the form.
//
// Source of the format: docs/format/flatbuffer.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/archive/sink.h"
#include "modules/bytecode/program.h"
#include "modules/value/value.h"

namespace tenon::flatbuffer {

// A file inside the file. The caller owns both texts and keeps them valid until the module is
// written.
struct NamedText {
  std::string_view name;
  std::string_view content;
};

// The contents of a file in this form, borrowed until the module is written.
struct ModuleContents {
  const bytecode::Program* program = nullptr;
  value::ValueRef root;  // an object
  // TorchScript code. The names are qualifiers, such as "__torch__".
  std::vector<NamedText> sources;
  std::span<const value::ValueRef> constants;  // the code's: CONSTANTS.c0, CONSTANTS.c1 and so on
  std::vector<NamedText> extra_files;
  int version = 0;  // the version of the operators, in the code and in the bytecode
};

// Fills `into` with the bytes of a storage.
using ReadStorage =
    std::function<Status(const value::StorageValue& storage, std::span<std::byte> into)>;

// Makes the whole buffer in memory before it writes to `sink`. `*nbytes` is set to the size of the
// buffer. An error before that writes nothing.
//
// UNSUPPORTED for contents that the form cannot hold: 2 GiB or more, tensors that are sparse,
// meta or lazily conjugated, sizes of 2^31 elements or more. UNSUPPORTED too in a build without
// FlatBuffers. INVALID_ARGUMENT for values that contain themselves or are nested too deep, and for
// two objects of one class that differ in their attributes. Errors of `read_storage` and of the
// sink are returned as they are.
Status write_module(const ModuleContents& contents, const ReadStorage& read_storage,
                    archive::Sink* sink, uint64_t* nbytes);

}  // namespace tenon::flatbuffer
