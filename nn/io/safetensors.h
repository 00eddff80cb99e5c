// Reads and writes tensors in safetensors files (github.com/huggingface/safetensors). PyTorch,
// NumPy and JAX can read them, too. Files may come from untrusted sources: an invalid file is
// rejected with a reason.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/named_tensor.h"

namespace heed::nn {

/// Contents of a safetensors file.
struct SafeTensors {
  std::string path;                                  ///< path of the file, for errors
  std::vector<NamedTensor> tensors;                  ///< all tensors, in the order of their data
  std::map<std::string, std::string> metadata = {};  ///< metadata except the checksum
  std::string checksum = {};  ///< verified CRC-32C of the file; "" if the file has no checksum

  /// Returns the tensor of this name, or an undefined tensor if there is none.
  Tensor find(std::string_view name) const;
};

/// Writes float32, float64, int64 and bool8 tensors with any strides, bit for bit. An existing file
/// is replaced atomically (write_file()). The data is sorted by decreasing element size, and
/// otherwise in the given order. The metadata contains a checksum of the whole file
/// (heed_checksum). Other readers of the format ignore it. Throws ValueError for a duplicate name,
/// the name "__metadata__", an undefined tensor, and text that is not UTF-8. Throws DTypeError for
/// dual64, and IoError with path and reason.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Reads all tensors of a file. F32, F64, I64 and BOOL keep their type; F16 and BF16 are converted
/// to float32, which is exact. Throws IoError for an invalid file, with path, problem and what to
/// do. The header is compared with the size of the file before memory is allocated. If the file has
/// a checksum, it is verified over all bytes, so that any flipped bit is found.
SafeTensors load_safetensors(const std::string& path);
/// Reads only the metadata of a file. The tensors are not read, so the checksum is not verified.
/// Throws IoError like load_safetensors().
std::map<std::string, std::string> load_metadata(const std::string& path);

/// Returns "crc32c " followed by eight hexadecimal digits: the checksum of names and elements of
/// the tensors, in the given order. It depends neither on the file of the weights nor on other
/// contents of that file.
std::string hash_of_tensors(const std::vector<NamedTensor>& tensors);

/// Copies the tensors of the file into the tensors with the same names, such as parameters(model)
/// or the state() of an optimizer. Throws IoError if a tensor is missing, unexpected, or has
/// another shape or dtype. The text lists up to five tensors per problem and their number, with the
/// nearest names. Nothing is copied then.
void load_parameters(const std::vector<NamedTensor>& into, const SafeTensors& file);

}  // namespace heed::nn
