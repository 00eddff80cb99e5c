// Reads and writes tensors in safetensors files (github.com/huggingface/safetensors). PyTorch,
// NumPy and JAX can read them, too. Files may come from untrusted sources: an invalid file is
// rejected with a reason.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/files.h"
#include "nn/io/named_tensor.h"

namespace heed::nn {

/// Thrown if a file does not begin with the header of a safetensors file.
struct NotSafetensors : autograd::IoError {
  using IoError::IoError;
};

/// End of the error text for a file with wrong contents.
inline constexpr const char* kDamaged = "; the file is damaged or was changed: restore it";

/// Contents of a safetensors file.
struct SafeTensors {
  std::string path;                                  ///< path of the file, for errors
  std::vector<NamedTensor> tensors;                  ///< all tensors, in the order of their data
  std::map<std::string, std::string> metadata = {};  ///< all metadata except the checksum
  std::string checksum = {};  ///< verified checksum of the file; "" if the file has none

  /// Returns the tensor with this name, or an undefined tensor if no tensor has it.
  Tensor find(std::string_view name) const;
};

/// Writes float32, float64, int64 and bool8 tensors with any strides, bit for bit. An existing file
/// is replaced atomically (write_file()). The tensors are sorted by decreasing element size.
/// Tensors of equal element size keep their order. The metadata contains a checksum of the whole
/// file (heed_checksum), which other readers of the format ignore. Throws ValueError for a
/// duplicate name, the name "__metadata__", an undefined tensor, and text that is not UTF-8. Throws
/// DTypeError for tracked64. Throws IoError, with path and reason, if the file cannot
/// be written.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Reads all tensors of a file. F32, F64, I64 and BOOL keep their type; F16 and BF16 are converted
/// to float32, which is exact. Throws IoError for an invalid file. The error text contains the
/// path, the problem and what to do. The header is compared with the size of the file before memory
/// is allocated. If the file has a checksum, it must match the bytes of the whole file, so that any
/// single flipped bit is detected. If `prefix` is given, returns only the tensors whose names begin
/// with it, without the prefix; the others are read for the checksum.
SafeTensors load_safetensors(const std::string& path, std::string_view prefix = "");
/// Reads only the metadata of a file. The tensors are not read, so the checksum is not verified.
/// Throws IoError if the file cannot be read or if its header is invalid.
std::map<std::string, std::string> load_metadata(const std::string& path);

/// Returns "crc32c " followed by eight hexadecimal digits. They are the checksum of the names and
/// elements of these tensors, in the given order, and do not depend on the file that contains the
/// tensors.
std::string hash_of_tensors(const std::vector<NamedTensor>& tensors);

/// Returns whether the shapes, dtypes and bits of all elements are equal.
bool same_bits(const Tensor& a, const Tensor& b);

/// Copies the tensors of the file into the tensors with the same names, such as parameters(model)
/// or the state() of an optimizer. Throws IoError, and copies nothing, if a tensor is missing in
/// the file, is unexpected, or has another shape or dtype. For each of these problems, the error
/// text names at most five tensors and gives the number of the others. For an unexpected tensor, it
/// also has the nearest expected name.
void load_parameters(const std::vector<NamedTensor>& into, const SafeTensors& file);

}  // namespace heed::nn
