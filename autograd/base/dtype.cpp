#include "autograd/base/dtype.h"

#include <ostream>

namespace heed::autograd {

std::string_view dtype_name(DType dtype) {
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
    case tracked64:
      return "tracked64";
  }
  return "unknown";
}

void append_text(std::string& out, DType dtype) { out += dtype_name(dtype); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << dtype_name(dtype); }

std::int64_t element_size(DType dtype) {
  return dispatch_any(dtype, []<class T> { return std::int64_t{sizeof(T)}; });
}

}  // namespace heed::autograd
