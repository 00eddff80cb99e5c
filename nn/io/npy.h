// One array in a file: the npy format of NumPy, version 1.0 and later (numpy.lib.format). A file
// from anywhere is read as it says or refused with a reason.
#pragma once

#include <string>

#include "nn/io/names.h"

namespace heed::nn {

/// Writes format 1.0, C order, little endian: '<f4', '<f8', '<i8' or '|b1', replacing the file at
/// once (write_file). DTypeError for dual64; IoError with path and reason.
void save_npy(const std::string& path, const Tensor& x);

/// Reads an array of either order: f4, f8 and b1 as they are, integers of any size but u8 as int64.
/// IoError with path, what is wrong and what to do for anything else; the header is checked against
/// the file's size before memory is taken for the array.
Tensor load_npy(const std::string& path);

}  // namespace heed::nn
