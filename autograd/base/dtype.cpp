#include "autograd/base/dtype.h"

namespace heed::autograd {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case float32:
      return "float32";
    case float64:
      return "float64";
    case int64:
      return "int64";
    case bool8:
      return "bool8";
    case dual64:
      return "dual64";
  }
  return "unknown";
}

std::int64_t size_of(DType dtype) {
  return dispatch_any(dtype, []<class T> { return std::int64_t{sizeof(T)}; });
}

}  // namespace heed::autograd
