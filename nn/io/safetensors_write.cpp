// Writes safetensors files, and computes the hash of tensors.
#include <algorithm>
#include <map>
#include <span>

#include "autograd/base/files.h"
#include "autograd/base/utf8.h"
#include "autograd/ops/ops.h"
#include "nn/io/json.h"
#include "nn/io/safetensors.h"
#include "nn/io/safetensors_format.h"

namespace heed::nn {

using namespace autograd;
using namespace safetensors;

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  const auto need = [](bool ok, const auto&... what) {
    check<ValueError>(ok, "save_safetensors", what...);
  };
  std::map<std::string, Json> header;  // sorted by name
  for (const auto& [key, value] : metadata)
    need(is_utf8(key) && is_utf8(value), "metadata ", quoted(key), " is not UTF-8");
  std::map<std::string, std::string> entries = metadata;
  entries[kChecksumKey] = std::string(kChecksumPrefix) + std::string(kNoChecksum);
  header["__metadata__"] = entries;
  // If the tensors are sorted by decreasing element size, each of them is aligned, because the
  // header is padded to a multiple of 8 bytes.
  std::vector<NamedTensor> sorted = tensors;
  for (const auto& [name, x] : sorted) {
    need(is_utf8(name), "the name ", quoted(name), " is not UTF-8");
    need(x.defined(), "tensor ", quoted(name), " is undefined");
    check<DTypeError>(x.dtype() != tracked64, "save_safetensors", quoted(name), " is ", x.dtype(),
                      ", which exists only inside gradient checks");
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return element_size(a.tensor.dtype()) > element_size(b.tensor.dtype());
  });
  std::uint64_t end = 0;
  for (const auto& [name, x] : sorted) {
    need(name != "__metadata__", "\"__metadata__\" cannot be a tensor's name");
    need(!header.contains(name), "two tensors are named ", quoted(name));
    const auto format = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const auto& f) {
      return f.dtype == x.dtype();  // for float32, this finds F32, which precedes F16 and BF16
    });
    const std::uint64_t begin = end;
    end += std::uint64_t(x.numel() * element_size(x.dtype()));
    header[name] =
        Json::object({{"data_offsets", std::vector{begin, end}},
                      {"dtype", format->name},
                      {"shape", std::vector<std::int64_t>(x.shape().begin(), x.shape().end())}});
  }

  std::string text = Json(header).dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  Crc32c sum = checksum_of_header(text);
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&length, 1)),
                                                   std::as_bytes(std::span(text))};
  for (NamedTensor& named : sorted) {
    Tensor& x = named.tensor;
    x = contiguous(x.detach());
    dispatch_any(x.dtype(), [&]<class T> {
      parts.push_back(std::as_bytes(std::span(x.template data<T>(), std::size_t(x.numel()))));
    });
    sum.add(parts.back());
  }
  text.replace(find_checksum(text), kNoChecksum.size(), checksum_text(sum));
  write_file(path, parts);
}

std::string hash_of_tensors(const std::vector<NamedTensor>& tensors) {
  Crc32c sum;
  for (const auto& [name, x] : tensors) {
    sum.add(std::as_bytes(std::span(name)));
    const Tensor all = contiguous(x.detach());
    dispatch_any(all.dtype(), [&]<class T> {
      sum.add(std::as_bytes(std::span(all.template data<T>(), std::size_t(all.numel()))));
    });
  }
  return "crc32c " + checksum_text(sum);
}

}  // namespace heed::nn
