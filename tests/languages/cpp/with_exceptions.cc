// The half of no_exceptions.cc that throws. It uses the same inline functions, compiled with
// exceptions, in the same program.
#include <tenon/tenon.hpp>

#ifdef TENON_NO_EXCEPTIONS
#error "compiled without exceptions"
#endif

int with_exceptions(tenon_storage* storage);

int with_exceptions(tenon_storage* storage) {
  tenon::Storage mine = tenon::Storage::adopt(storage);
  tenon::Tensor tensor = tenon::Tensor::over(mine, {4}, tenon::kDtypeOf<float>);
  try {
    (void)tensor.view<int>();
    return 1;
  } catch (const tenon::InvalidArgument&) {
    tensor.view_mut<float>()[0] = 1;
  }
  return tensor.view<float>()[0] == 1 ? 0 : 2;
}
