// DebugInfo: where in the source each instruction of a program comes from, and through which calls.
// The emitter fills one on request; impl/module makes the debug tables of an archive from it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/graph.h"

namespace tenon::compile {

struct DebugInfo {
  static constexpr size_t kNoCall = SIZE_MAX;

  // A call by which an instruction came into a function, and all calls below it in one chain.
  struct CallSite {
    const script::Source* source = nullptr;  // of the caller; it belongs to the Declarations
    script::Range range;
    std::string module;    // the class whose method is called; empty: a function is called
    std::string instance;  // the attribute that holds the object
    std::string function;  // without its qualifier
    // The next call, in the function that is called; always an earlier element.
    size_t callee = kNoCall;
  };
  // What one or more instructions were made from.
  struct Origin {
    std::string node;  // as PyTorch calls it: "aten::linear"
    const script::Source* source = nullptr;
    script::Range range;
    size_t call = kNoCall;  // the first call, in the function that has the instruction
  };

  std::vector<CallSite> calls;
  std::vector<Origin> origins;
  // One element for each function of the program: of each instruction the number of its origin.
  std::vector<std::vector<size_t>> functions;
};

// Notes the origins while a function is emitted.
class DebugRecorder {
 public:
  explicit DebugRecorder(DebugInfo* info) : info_(*info) {}

  // A node without a place in the source gets the place of the function's name.
  void begin(const script::Source* source, script::Range name_range);
  // What the next instruction comes from. The node lives until end().
  void add(const Node* node);
  // A function that is not finished is forgotten.
  void end();

 private:
  size_t origin_of(const Node* node);
  size_t call_of(const Node* node);

  DebugInfo& info_;
  const script::Source* source_ = nullptr;
  script::Range name_range_;
  std::vector<size_t> function_;
  // Of this function: the next one's nodes can have the addresses.
  std::unordered_map<const Node*, size_t> origins_;
  std::map<std::pair<const Call*, size_t>, size_t> calls_;
};

}  // namespace tenon::compile
