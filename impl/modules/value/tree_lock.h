// The lock for trees of objects. Several threads can have modules over one tree, and no caller can
// see which modules belong to one tree. So there is one lock for all trees: any number of threads
// read at a time, or one thread changes. A function of the C API that reads the attributes of
// objects or the code of modules holds ReadTrees, and one that changes them holds ChangeTrees. An
// export holds ReadTrees itself (modules/module/export.h), because it gives the lock back while it
// waits for a sink. modules/weights guards the bytes of replaced weights by the same lock.
//
// No code of the user runs under the lock. A value whose last reference goes while its thread holds
// the lock is freed when that thread has given the lock back (Value::dispose), because the end of a
// tensor can call a function of the user, which may use modules.
//
// fork waits until no thread changes a tree, so a forked child finds every tree whole. It does not
// wait for readers, because the compilation in an export can take seconds.
#pragma once

#include "base/status.h"

namespace tenon::value {

class Value;

// Waits until no thread changes a tree. A thread that holds the lock already, for either purpose,
// goes on at once. What is held belongs to the thread, so the same thread ends a ReadTrees or
// ChangeTrees.
class ReadTrees {
 public:
  ReadTrees() noexcept;
  ReadTrees(const ReadTrees&) = delete;
  ReadTrees& operator=(const ReadTrees&) = delete;
  ~ReadTrees();
};

// Waits until no other thread reads or changes a tree.
class ChangeTrees {
 public:
  // PERMISSION if this thread holds the lock already. It would wait for itself.
  static Result<ChangeTrees> begin();
  ChangeTrees(ChangeTrees&& other) noexcept;
  ChangeTrees& operator=(ChangeTrees&&) = delete;
  ~ChangeTrees();

 private:
  ChangeTrees() noexcept = default;
  bool holds_ = true;
};

// Gives the lock of a ReadTrees of this thread back while it lives, for code of the user or for a
// wait. What the thread reads may have changed afterwards.
class PauseReading {
 public:
  PauseReading() noexcept;
  PauseReading(const PauseReading&) = delete;
  PauseReading& operator=(const PauseReading&) = delete;
  ~PauseReading();

 private:
  int depth_;
};

// For Value::dispose(). Returns the list of the values that this thread frees later, or null if
// this thread does not hold the lock.
Value** values_to_free_later() noexcept;

}  // namespace tenon::value
