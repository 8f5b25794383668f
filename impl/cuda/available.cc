#include "cuda/available.h"

#include "cuda/driver.h"

namespace tenon::cuda {

Status available() { return driver().status(); }

}  // namespace tenon::cuda
