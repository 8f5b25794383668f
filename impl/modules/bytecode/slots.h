// ModuleSlots: how many attributes the objects of a module have. The verifier checks the
// instructions GET_ATTR and SET_ATTR of a program with it.
//
// These instructions name an attribute by its place in the object, its slot. If an object has no
// such slot, the lite interpreter reads foreign memory. (A slot of a lease is something else.)
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/bytecode/verify.h"
#include "modules/value/check.h"
#include "modules/value/value.h"

namespace tenon::bytecode {

class ModuleSlots {
 public:
  struct Class {
    std::string name;
    size_t count = 0;  // the number of attributes
    // By slot: the class of the object in that slot, if it is the same in all objects of this
    // class. Null: the class is not known. The list may be shorter than `count`.
    std::vector<const Class*> inner;
    bool has_inner = false;  // whether `inner` was filled

    const Class* inner_at(size_t slot) const noexcept {
      return slot < inner.size() ? inner[slot] : nullptr;
    }
  };

  // `module` is the object whose methods the program has. `classes` may be null. Both are used only
  // during the call. INVALID_ARGUMENT if values are nested too deep.
  static Result<ModuleSlots> create(const Program& program, const value::ValueRef& module,
                                    const value::ClassTable* classes);

  // The class of the object whose method `function` is. It lives as long as this object. Null: it
  // is not known.
  const Class* self_of(const Function& function) const;
  // The most attributes that any object has.
  size_t largest() const noexcept { return largest_; }

 private:
  void count_object(const value::Value& object, const value::ClassTable* classes);
  void note_inner(const value::Value& object, const std::vector<bool>& is_set);

  std::map<std::string, Class, std::less<>> classes_;
  std::string root_;
  size_t largest_ = 0;
};

// Checks the slots of a function that verify.cc has found good otherwise, so each register is
// written before it is read. CORRUPT, with the place of the instruction, for a slot that the object
// does not have. The class of an object is known if the object is `self`, or was read from an
// attribute of such an object that no instruction of the program sets. For any other object a slot
// is good if some object of the module has it.
Status check_slots(const Function& function, const ModuleSlots& slots, const FindArity& find_arity);

}  // namespace tenon::bytecode
