// KeptBytecode is the bytecode of an imported archive. An export writes it again while it still
// fits the module. It fits if the code is the same, and the attributes are the same in the same
// order. Their values may differ.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/once.h"
#include "base/status.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/bytecode/program.h"
#include "modules/bytecode/slots.h"
#include "modules/bytecode/verify.h"
#include "modules/module/resolve.h"
#include "modules/value/check.h"
#include "modules/value/value.h"
#include "pickle/reader.h"

namespace tenon::module {

// The names of each class's attributes, in the order in which its objects list them. An instruction
// GET_ATTR names an attribute by its place there.
class SlotOrder {
 public:
  // Reads the order from all objects with attributes below `root`. CORRUPT if two objects of a
  // class differ.
  static Result<SlotOrder> of(const ValueRef& root);
  const std::map<std::string, std::vector<std::string>, std::less<>>& names() const noexcept {
    return names_;
  }
  // INVALID_ARGUMENT, with the reason, if an object below `root` lists other attributes, or another
  // order, than the objects of its class did in of(), or if of() met no object of its class.
  Status check(const ValueRef& root) const;

 private:
  using Names = std::vector<std::string>;
  static bool lists(const value::Value& object, const Names& names);

  std::map<std::string, Names, std::less<>> names_;  // by class
};

// The facts that `tenon inspect` prints about the bytecode.
struct BytecodeFacts {
  int64_t version = 0;
  std::vector<std::string> functions;  // qualified names
  uint64_t instructions = 0;
  std::vector<std::string> operators;  // "aten::add.Tensor", each once, in order
};

// Holds the record of the archive, or the program of a flatbuffer, and the storages that it names.
// It never changes, so any thread may use it. A program is verified when check() is first called.
// Call the other functions only if check() says that the bytecode is good.
class KeptBytecode {
 public:
  // Used only during create() and of_program(). `classes` and what the functions refer to need not
  // live longer.
  struct Options {
    std::function<archive::FindStorage(const pickle::PickleTree& tree)> finder;
    archive::CheckClass check_class;
    const value::ClassTable* classes = nullptr;  // the classes of the archive's code
    pickle::PickleLimits limits;
  };

  // Reads and verifies the record. `directory` is where the archive has its storages: "constants/",
  // or "bytecode/" in old archives. `root` is the archive's module. The errors are those of
  // archive::pickle_to_values(), bytecode::read_program(), bytecode::verify() and SlotOrder::of().
  static Result<std::shared_ptr<const KeptBytecode>> create(std::string pickle,
                                                            std::string directory,
                                                            const ValueRef& root,
                                                            const Options& options);
  using Storages = std::map<std::string, value::StorageValueRef>;
  using StorageNames = std::map<value::StorageKey, std::string>;
  // Keeps a program that comes from another form than the record. check() verifies it for the
  // objects that are below `root` now. `names` has a key for each storage of its constants. The
  // record is made when it is asked for, because making it takes longer than all else that an
  // import does. The errors are those of ModuleSlots::create() and SlotOrder::of().
  static Result<std::shared_ptr<const KeptBytecode>> of_program(bytecode::Program program,
                                                                std::string directory,
                                                                StorageNames names,
                                                                const ValueRef& root,
                                                                const Options& options);

  // Whether the bytecode can be run. The errors are those of bytecode::verify(). Several threads
  // may make the first call at a time.
  const Status& check() const { return checked().status; }
  const BytecodeFacts& facts() const { return checked().facts; }
  const std::string& directory() const noexcept { return directory_; }

  // INVALID_ARGUMENT, with the reason, if the bytecode does not fit what an export of the module
  // writes. `version` is that of the archive from which the bytecode came.
  Status check_fits(const Resolved& resolved, int version) const;
  struct Record {
    std::string pickle;
    Storages storages;  // the constants' storages, by their keys
  };
  // Gives the record that an export writes. This is the record of the archive, byte for byte, in
  // most cases. It is made anew for the program of a flatbuffer, if any storage was saved on a
  // device other than the CPU, or if keep_device is set and a storage is on a device now.
  Result<Record> record(bool keep_device) const;
  // Gives the program. If the record is kept, this parses the record again, because a program takes
  // much more memory.
  Result<bytecode::Program> program() const;

 private:
  KeptBytecode(std::string directory, const pickle::PickleLimits& limits)
      : directory_(std::move(directory)), limits_(limits) {}
  struct Checked {
    Status status;
    BytecodeFacts facts;
  };
  const Checked& checked() const;
  Result<archive::UnpickledValue> values(const Options& options) const;
  // Reads the values again, and gives them the storages that are in storages_.
  Result<archive::UnpickledValue> values_again() const;
  Result<Record> pickled(const ValueRef& values, const std::vector<ValueRef>* memoised,
                         const StorageNames& names, bool keep_device) const;

  std::string pickle_;
  std::optional<bytecode::Program> program_;  // if it is set, pickle_ is empty
  StorageNames names_;                        // the keys of the storages in program_
  std::string directory_;
  pickle::PickleLimits limits_;
  Storages storages_;      // the storages that pickle_ names
  bool is_of_cpu_ = true;  // every storage was saved on the CPU
  SlotOrder slots_;
  std::optional<bytecode::ModuleSlots> module_slots_;  // for the check of program_
  Once<Checked> checked_;
};

}  // namespace tenon::module
