// Tensors in files: the safetensors format (github.com/huggingface/safetensors), which PyTorch,
// NumPy and JAX read too. A file from anywhere is either read as it says or refused with a reason.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/named_tensor.h"

namespace heed::nn {

/// What a file holds.
struct SafeTensors {
  std::string path;
  std::vector<NamedTensor> tensors;  ///< in the order of their data
  std::map<std::string, std::string> metadata = {};
  std::string checksum = {};  ///< the file's CRC-32C, which is right; "" if it has none

  /// Undefined if there is none of this name.
  Tensor find(std::string_view name) const;
};

/// Writes float32, float64, int64 and bool8 tensors, of any strides, bit for bit, replacing the
/// file at once (write_file). The data lie by falling element size, else in the order given. A
/// checksum of the whole file goes into its metadata (heed_checksum), which readers of the format
/// take for one more text.
/// ValueError for a name twice, "__metadata__" as a name, or text that is not UTF-8; DTypeError for
/// dual64; IoError with path and reason.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Reads F32, F64, I64 and BOOL as they are, F16 and BF16 as float32 (exact). IoError with path,
/// what is wrong and what to do for anything else: the header is checked against the file's size
/// before memory is taken, and a checksum, if the file has one, against all of its bytes: then any
/// bit that is not as it was written is found.
SafeTensors load_safetensors(const std::string& path);
/// Its metadata alone: reads no tensors, so that a checksum is not compared. IoError likewise.
std::map<std::string, std::string> load_metadata(const std::string& path);

/// "crc32c " and eight digits, of the tensors' names and elements, in this order: equal weights
/// have the same one, whatever file they lie in and whatever else that file holds.
std::string hash_of_tensors(const std::vector<NamedTensor>& tensors);

/// Copies the file's tensors into these, by name: parameters(model), or an optimizer's state().
/// IoError listing every tensor that is missing, unexpected (with the nearest name) or of another
/// shape or dtype; then nothing was written.
void load_parameters(const std::vector<NamedTensor>& into, const SafeTensors& file);

}  // namespace heed::nn
