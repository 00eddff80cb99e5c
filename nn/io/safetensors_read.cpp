// Reads safetensors files. The reader checks the size of the header, and the checksum if the file
// has one. It also checks that the tensors cover the data without holes and overlaps.
#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <tuple>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "nn/io/json.h"
#include "nn/io/limits.h"
#include "nn/io/safetensors.h"
#include "nn/io/safetensors_format.h"

namespace heed::nn {

using namespace autograd;
using namespace safetensors;

namespace {

// Entry of a tensor in the header. `begin` and `end` are offsets in bytes from the start of the
// data.
struct Entry {
  std::string name;
  const Format* format;
  Shape shape;
  std::uint64_t begin, end;
};

template <class E = IoError, class... Parts>
[[noreturn]] void refuse(const std::string& path, const Parts&... parts) {
  fail<E>("cannot read " + path, parts...);
}

// Parses the header. A valid header stays within the limits that are passed to Json::parse().
// Deeper or longer JSON could fill the memory.
Json parse_header(const std::string& path, const std::string& text) {
  try {
    return Json::parse(text, {.depth = 3, .length = kMaxRank});
  } catch (const JsonError& e) {
    refuse<NotSafetensors>(
        path, "its header ", e.what(),
        "; the file is damaged, or it is not a safetensors file with tensors of rank 0 to ",
        kMaxRank);
  }
}

Entry parse_entry(const std::string& path, const std::string& name, const Json& info) {
  const Json *dtype = info.find("dtype"), *sizes = info.find("shape"),
             *offsets = info.find("data_offsets");
  if (!dtype || !sizes || !offsets)
    refuse(path, "tensor ", quoted(name), " lacks dtype, shape or data_offsets", kDamaged);
  const auto format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const Format& f) { return *dtype == Json(f.name); });
  if (format == std::end(kFormats))
    refuse(path, "tensor ", quoted(name), " has dtype ", shown(*dtype),
           "; convert it to one of F32, F64, F16, BF16, I64, BOOL");
  const auto* pair = offsets->as<Json::Array>();
  const bool is_pair = pair && pair->size() == 2;
  const auto *first = is_pair ? (*pair)[0].as<std::uint64_t>() : nullptr,
             *last = is_pair ? (*pair)[1].as<std::uint64_t>() : nullptr;
  if (!first || !last)
    refuse(path, "tensor ", quoted(name), " has data_offsets ", shown(*offsets),
           ", needs [begin, end]", kDamaged);
  Shape shape;
  try {
    shape = shape_of(*sizes);
  } catch (const JsonError& e) {
    refuse(path, "tensor ", quoted(name), " ", e.what());
  }
  const auto begin = *first, end = *last;
  const std::uint64_t need = std::uint64_t(shape.numel()) * format->bytes;
  if (end < begin || end - begin != need)
    refuse(path, "tensor ", quoted(name), ", ", format->name, " ", shape, ", needs ", need,
           " bytes, but its data_offsets are ", shown(*offsets), kDamaged);
  return {name, format, shape, begin, end};
}

// Throws IoError unless the entries cover the bytes [0, size) of the data exactly, without
// overlaps, holes and additional bytes.
void check_tiling(const std::string& path, const std::vector<Entry>& entries, std::uint64_t size) {
  std::uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.end > size)
      refuse(path, "tensor ", quoted(e.name), " ends at byte ", e.end, " of the data, which has ",
             size, " bytes; the file was cut off: copy it again");
    if (e.begin != at)
      refuse(path, "tensor ", quoted(e.name), " starts at byte ", e.begin, " of the data, needs ",
             at, (e.begin < at ? " (tensors overlap)" : " (there is a hole before it)"), kDamaged);
    at = e.end;
  }
  if (at != size) refuse(path, size - at, " bytes follow the last tensor", kDamaged);
}

// Converts an IEEE half-precision number to float32, exactly.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // a subnormal number is fraction * 2^-24, which is exact in float
    const float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

// Converts a bfloat16 number to float32, exactly.
float from_bfloat(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t(half) << 16); }

Tensor read_halves(const Entry& e, std::span<const std::byte> bytes) {
  Tensor x = empty(e.shape, float32);
  float* out = x.mutable_data<float>();
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
    std::uint16_t half;
    std::memcpy(&half, &bytes[2 * i], 2);
    out[i] = e.format->name == "F16" ? from_half(half) : from_bfloat(half);
  }
  return x;
}

// Returns the memory of the elements of x, to be written.
std::span<std::byte> writable_bytes(const Tensor& x) {
  return dispatch_any(x.dtype(), [&]<class T> {
    return std::as_writable_bytes(std::span(x.mutable_data<T>(), std::size_t(x.numel())));
  });
}

Tensor read_tensor(const InputFile& file, std::uint64_t data, const Entry& e, Crc32c& sum) {
  const auto read = [&](std::span<std::byte> bytes) {
    file.read(data + e.begin, bytes);
    sum.add(bytes);
  };
  try {
    if (e.format->bytes == 2) {
      std::vector<std::byte> bytes(std::size_t(e.end - e.begin));
      read(bytes);
      return read_halves(e, bytes);
    }
    Tensor x = empty(e.shape, e.format->dtype);
    const std::span<std::byte> bytes = writable_bytes(x);
    read(bytes);
    for (std::size_t i = 0; e.format->dtype == bool8 && i < bytes.size(); ++i)
      if (std::to_integer<int>(bytes[i]) > 1)
        refuse(file.path(), "tensor ", quoted(e.name), " is BOOL but element ", i, " is the byte ",
               std::to_integer<int>(bytes[i]), ", not 0 or 1", kDamaged);
    return x;
  } catch (const std::bad_alloc&) {
    refuse(file.path(), "tensor ", quoted(e.name), ", ", e.format->name, " ", e.shape, ", needs ",
           e.end - e.begin, " bytes of memory, more than available");
  }
}

// Returns the text of the header. Throws IoError unless its size fits the size of the file.
std::string read_header(const InputFile& file) {
  const std::string& path = file.path();
  if (file.size() < 8)
    refuse<NotSafetensors>(
        path, "it has ", file.size(),
        " bytes, but a safetensors file has at least 8; if the file was cut off, copy it again");
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > file.size() - 8)
    refuse<NotSafetensors>(path, "its first 8 bytes give a header of ", length, " bytes, but only ",
                           file.size() - 8,
                           " follow; it is not a safetensors file, or it was cut off");
  if (length > kMaxSafetensorsHeader)
    refuse<NotSafetensors>(path, "its header has ", length, " bytes; the limit is ",
                           kMaxSafetensorsHeader);
  std::string text(std::size_t(length), '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  if (text.empty() || text[0] != '{')
    refuse<NotSafetensors>(path, "its header is not a JSON object; it is not a safetensors file");
  return text;
}

void read_metadata(const std::string& path, const Json& info,
                   std::map<std::string, std::string>& metadata) {
  if (!info.as<Json::Object>()) refuse(path, "its __metadata__ is not an object", kDamaged);
  for (const auto& [key, value] : info.entries()) {
    if (!value.as<std::string>())
      refuse(path, "its __metadata__ ", quoted(key), " is ", shown(value), ", not text", kDamaged);
    metadata[key] = value.text();
  }
}

// Removes the checksum from the metadata and returns its digits, or "" if there is none. Throws
// IoError if an entry has the key but not the value of a checksum, or the value but not the key,
// because then the entry is damaged.
std::string take_checksum(const std::string& path, const std::string& header,
                          std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (key != kChecksumKey && !value.starts_with(kChecksumPrefix)) continue;
    const std::size_t at = find_checksum(header);
    text = value.substr(std::min(value.size(), kChecksumPrefix.size()));
    if (key != kChecksumKey || at == std::string::npos || text.size() != kNoChecksum.size() ||
        header.compare(at, text.size(), text) != 0)
      refuse(path, "its metadata ", quoted(key), " is ", quoted(value),
             ", but heed writes a checksum as \"", kChecksumKey, "\":\"", kChecksumPrefix,
             "DDDDDDDD\", with digits D and without spaces", kDamaged);
  }
  metadata.erase(kChecksumKey);
  return text;
}

}  // namespace

std::map<std::string, std::string> load_metadata(const std::string& path) {
  const Json header = parse_header(path, read_header(InputFile(path)));
  std::map<std::string, std::string> metadata;
  if (const Json* info = header.find("__metadata__")) read_metadata(path, *info, metadata);
  return metadata;
}

SafeTensors load_safetensors(const std::string& path, std::string_view prefix) {
  const InputFile file(path);
  const std::string text = read_header(file);
  SafeTensors result{path, {}, {}};
  std::vector<Entry> entries;
  const Json header = parse_header(path, text);
  for (const auto& [name, info] : header.entries())
    if (name == "__metadata__")
      read_metadata(path, info, result.metadata);
    else
      entries.push_back(parse_entry(path, name, info));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  const std::uint64_t data = 8 + text.size();
  check_tiling(path, entries, file.size() - data);
  result.checksum = take_checksum(path, text, result.metadata);
  Crc32c sum = checksum_of_header(text);
  for (const Entry& e : entries) {
    Tensor x = read_tensor(file, data, e, sum);
    if (e.name.starts_with(prefix))
      result.tensors.push_back({e.name.substr(prefix.size()), std::move(x)});
  }
  if (!result.checksum.empty() && checksum_text(sum) != result.checksum)
    refuse(path, "its checksum is ", result.checksum, ", but its bytes give ", checksum_text(sum),
           "; the file is damaged, or another program changed it without removing ", kChecksumKey,
           ": use an intact copy");
  return result;
}

}  // namespace heed::nn
