#include "autograd/base/dtype.h"

#include <ostream>

namespace heed::autograd {

std::string_view dtype_name(DType dtype) {
  constexpr std::string_view kNames[] = {"float32", "float64", "int64", "bool8", "tracked64"};
  return kNames[std::size_t(dtype)];
}

void append_text(std::string& out, DType dtype) { out += dtype_name(dtype); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << dtype_name(dtype); }

}  // namespace heed::autograd
