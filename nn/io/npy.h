// Reads and writes npy files: one array in the format of NumPy, version 1.0 and later
// (numpy.lib.format). Files may come from untrusted sources: an invalid file is rejected with a
// reason.
#pragma once

#include <string>

#include "nn/io/names.h"

namespace heed::nn {

/// Writes x in format 1.0, in C order and little endian, with the type '<f4', '<f8', '<i8' or
/// '|b1'. An existing file is replaced atomically (write_file()). Throws DTypeError for dual64.
/// Throws IoError, with path and reason, if the file cannot be written.
void save_npy(const std::string& path, const Tensor& x);

/// Reads an array in C or Fortran order. The types f4, f8 and b1 become float32, float64 and bool8,
/// and all integer types except u8 become int64. Throws IoError for any other file. The error text
/// has the path, the problem and what to do. The header is compared with the size of the file
/// before memory is allocated.
Tensor load_npy(const std::string& path);

}  // namespace heed::nn
