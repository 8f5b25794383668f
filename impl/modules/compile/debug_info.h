// DebugInfo: where in the source each instruction of a program comes from, and through which calls.
// The emitter fills one on request; impl/modules/module makes the debug tables of an archive from
// it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "modules/compile/graph.h"

namespace tenon::compile {

struct DebugInfo {
  static constexpr size_t kNoCall = SIZE_MAX;

  // A call whose called function was copied into its caller. `callee` links it to the next inner
  // call, so a call site is also a chain of calls.
  struct CallSite {
    const script::Source* source = nullptr;  // the caller's; it belongs to the Declarations
    script::Range range;
    std::string module;    // the class whose method is called; empty: a function is called
    std::string instance;  // the attribute that holds the object
    std::string function;  // the called function's name without its qualifier
    // The index of the next call, which is in the called function. It is smaller than this call's
    // own index.
    size_t callee = kNoCall;
  };
  // The node from which one or more instructions were made.
  struct Origin {
    std::string node;  // as PyTorch calls it: "aten::linear"
    const script::Source* source = nullptr;
    script::Range range;
    size_t call = kNoCall;  // the outermost call; it is in the function that has the instruction
  };

  std::vector<CallSite> calls;
  std::vector<Origin> origins;
  // For each function of the program: the index of the origin of each of its instructions.
  std::vector<std::vector<size_t>> functions;
};

// DebugRecorder: records the origins of a function's instructions while the function is emitted.
class DebugRecorder {
 public:
  // `info` must outlive the recorder.
  explicit DebugRecorder(DebugInfo* info) : info_(*info) {}

  // Begins a function. A node without a place in the source gets the place of the function's name.
  void begin(const script::Source* source, script::Range name_range);
  // Records that the next instruction comes from `node`, which must live until end().
  void add(const Node* node);
  // Ends the function. begin() without end() drops the function's instructions.
  void end();

 private:
  size_t origin_of(const Node* node);
  size_t call_of(const Node* node);

  DebugInfo& info_;
  const script::Source* source_ = nullptr;
  script::Range name_range_;
  std::vector<size_t> function_;
  // Cleared for each function, because nodes of the next function can have the same addresses.
  std::unordered_map<const Node*, size_t> origins_;
  std::map<std::pair<const Call*, size_t>, size_t> calls_;
};

}  // namespace tenon::compile
