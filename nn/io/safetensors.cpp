// The format: 8 bytes N (little endian), N bytes of JSON, the data. The JSON maps each name to
// {"dtype", "shape", "data_offsets": [begin, end]} counted from the data's start, and
// "__metadata__" to text pairs. The data have no holes.
// Ours have the metadata "heed_checksum": "crc32c:HHHHHHHH", the checksum of all bytes of the file
// with 00000000 in that place.
#include "nn/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <span>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include "autograd/base/files.h"
#include "autograd/base/utf8.h"
#include "autograd/graph/graph.h"
#include "autograd/graph/inplace.h"
#include "autograd/ops/ops.h"
#include "nn/io/crc32c.h"
#include "nn/io/json.h"
#include "nn/io/nearest.h"

namespace heed::nn {

using namespace autograd;

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 40;

constexpr const char* kChecksumKey = "heed_checksum";
constexpr std::string_view kChecksumPrefix = "crc32c:", kNoChecksum = "00000000";

// Where a header has the eight digits of its checksum, or npos. Within a text the quotes would be
// escaped: only the metadata's own entry is found.
std::size_t find_checksum(const std::string& header) {
  const std::string entry =
      std::string("\"") + kChecksumKey + "\":\"" + std::string(kChecksumPrefix);
  const std::size_t at = header.find(entry);
  return at == std::string::npos ? at : at + entry.size();
}

std::string hex_text(std::uint32_t x) {
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(x >> shift) & 15];
  return text;
}

struct Format {
  std::string_view name;
  std::uint64_t bytes;  // per element, in the file
  DType dtype;          // in memory
};
constexpr Format kFormats[] = {{"F64", 8, float64}, {"I64", 8, int64},    {"F32", 4, float32},
                               {"F16", 2, float32}, {"BF16", 2, float32}, {"BOOL", 1, bool8}};

struct Entry {
  std::string name;
  const Format* format;
  Shape shape;
  std::uint64_t begin, end;
};

template <class... Parts>
[[noreturn]] void refuse(const std::string& path, const Parts&... parts) {
  fail<IoError>("load_safetensors", "cannot read ", path, ": ", parts...);
}

// Text from a file, fit for one line of a message.
std::string quoted(const std::string& text) {
  const std::string shown = Json(text.substr(0, 80)).dump(true);
  return text.size() > 80 ? shown + "..." : shown;
}
std::string shown(const Json& value) {
  std::string text = value.dump(true);
  if (text.size() > 80) text.replace(80, std::string::npos, "...");
  return text;
}

// As the format needs it: anything deeper or longer could fill the memory.
Json parse_header(const std::string& path, const std::string& text) {
  try {
    return Json::parse(text, {.depth = 3, .length = kMaxRank});
  } catch (const JsonError& e) {
    refuse(path, "its header ", e.what(), "; damaged, or no safetensors file of rank 0 to ",
           kMaxRank);
  }
}

Shape parse_shape(const std::string& path, const std::string& name, const Json& sizes) {
  const auto bad = [&](std::string_view need) {
    refuse(path, "tensor ", quoted(name), " has shape ", shown(sizes), "; heed needs ", need);
  };
  if (sizes.kind() != Json::Kind::kArray || sizes.items().size() > kMaxRank)
    bad("a list of at most 8 sizes");
  Shape shape;
  std::uint64_t elements = 1;  // a size of 0 counts as 1: strides must not overflow either
  for (const Json& size : sizes.items()) {
    if (!size.is_count()) bad("integer sizes >= 0");
    const auto n = size.count();
    if (n > kMaxElements || (n > 0 && elements > kMaxElements / n)) bad("at most 2^40 elements");
    elements *= std::max<std::uint64_t>(n, 1);
    shape.push_back(std::int64_t(n));
  }
  return shape;
}

Entry parse_entry(const std::string& path, const std::string& name, const Json& info) {
  const Json *dtype = info.find("dtype"), *sizes = info.find("shape"),
             *offsets = info.find("data_offsets");
  if (!dtype || !sizes || !offsets)
    refuse(path, "tensor ", quoted(name), " lacks dtype, shape or data_offsets; damaged");
  const auto format = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) {
    return dtype->kind() == Json::Kind::kText && dtype->text() == f.name;
  });
  if (format == std::end(kFormats))
    refuse(path, "tensor ", quoted(name), " has dtype ", shown(*dtype),
           "; convert it to one of F32, F64, F16, BF16, I64, BOOL");
  const std::vector<Json>& pair = offsets->items();
  if (offsets->kind() != Json::Kind::kArray || pair.size() != 2 || !pair[0].is_count() ||
      !pair[1].is_count())
    refuse(path, "tensor ", quoted(name), " has data_offsets ", shown(*offsets),
           ", needs [begin, end]; damaged");
  const Shape shape = parse_shape(path, name, *sizes);
  const auto begin = pair[0].count(), end = pair[1].count();
  const std::uint64_t need = std::uint64_t(shape.numel()) * format->bytes;
  if (end < begin || end - begin != need)
    refuse(path, "tensor ", quoted(name), ", ", format->name, " ", shape, ", needs ", need,
           " bytes, its data_offsets are ", shown(*offsets), "; damaged");
  return {name, format, shape, begin, end};
}

// The entries must tile [0, size): no overlap, no hole, nothing after.
void check_tiling(const std::string& path, const std::vector<Entry>& entries, std::uint64_t size) {
  std::uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.end > size)
      refuse(path, "tensor ", quoted(e.name), " ends at byte ", e.end, " of the data, which has ",
             size, ": the file was cut off; copy it again");
    if (e.begin != at)
      refuse(path, "tensor ", quoted(e.name), " starts at byte ", e.begin, " of the data, needs ",
             at, (e.begin < at ? ": tensors overlap" : ": there is a hole before it"), "; damaged");
    at = e.end;
  }
  if (at != size)
    refuse(path, size - at, " bytes follow the last tensor; damaged, or not written by a program");
}

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // subnormal: fraction * 2^-24, exact in float
    const float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

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

// The elements as they are in memory.
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
               std::to_integer<int>(bytes[i]), ", not 0 or 1; damaged");
    return x;
  } catch (const std::bad_alloc&) {
    refuse(file.path(), "tensor ", quoted(e.name), ", ", e.format->name, " ", e.shape, ", needs ",
           e.end - e.begin, " bytes of memory, more than there is");
  }
}

// The header's text, its size known to fit the file.
std::string read_header(const InputFile& file) {
  const std::string& path = file.path();
  if (file.size() < 8)
    refuse(path, "it has ", file.size(),
           " bytes, a safetensors file has at least 8: cut off? copy it again");
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > file.size() - 8)
    refuse(path, "its first 8 bytes say a header of ", length, " bytes, ", file.size() - 8,
           " follow: no safetensors file, or cut off");
  if (length > kMaxHeader)
    refuse(path, "its header has ", length, " bytes, the limit is ", kMaxHeader);
  std::string text(std::size_t(length), '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  if (text.empty() || text[0] != '{')
    refuse(path, "its header is not a JSON object: no safetensors file");
  if (text.find('\0') != std::string::npos)  // where the parser would stop, and call it the end
    refuse(path, "its header holds a zero byte: no safetensors file, or damaged");
  return text;
}

void read_metadata(const std::string& path, const Json& info,
                   std::map<std::string, std::string>& metadata) {
  if (info.kind() != Json::Kind::kObject)
    refuse(path, "its __metadata__ is not an object of strings");
  for (std::size_t j = 0; j < info.items().size(); ++j) {
    const std::string& key = info.keys()[j];
    const Json& value = info.items()[j];
    if (value.kind() != Json::Kind::kText)
      refuse(path, "its __metadata__ ", quoted(key), " is ", shown(value), ", not a string");
    metadata[key] = value.text();
  }
}

// Takes the checksum out of the metadata; "" if there is none. A key without such a value, or a
// value without the key, is what damage leaves of one.
std::string take_checksum(const std::string& path, const std::string& header,
                          std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (key != kChecksumKey && !value.starts_with(kChecksumPrefix)) continue;
    const std::size_t at = find_checksum(header);
    text = value.substr(std::min(value.size(), kChecksumPrefix.size()));
    if (key != kChecksumKey || at == std::string::npos || text.size() != kNoChecksum.size() ||
        header.compare(at, text.size(), text) != 0)
      refuse(path, "its metadata ", quoted(key), " is ", quoted(value), ", needs ", kChecksumKey,
             " crc32c: and 8 digits; damaged");
  }
  metadata.erase(kChecksumKey);
  return text;
}

// Of the length and the header, the checksum's own digits as zeros.
Crc32c checksum_of_header(std::string header) {
  Crc32c sum;
  const std::uint64_t length = header.size();
  if (const std::size_t at = find_checksum(header); at != std::string::npos)
    header.replace(at, kNoChecksum.size(), kNoChecksum);
  sum.add(std::as_bytes(std::span(&length, 1)));
  sum.add(std::as_bytes(std::span(header)));
  return sum;
}

}  // namespace

Tensor SafeTensors::find(std::string_view name) const {
  for (const NamedTensor& t : tensors)
    if (t.name == name) return t.tensor;
  return {};
}

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  const auto need = [](bool ok, const auto&... what) {
    check<ValueError>(ok, "save_safetensors", what...);
  };
  std::map<std::string, Json> header;  // by name, as the reference implementation writes it
  for (const auto& [key, value] : metadata)
    need(is_utf8(key) && is_utf8(value), "metadata ", quoted(key), " is not UTF-8");
  std::map<std::string, std::string> facts = metadata;
  facts[kChecksumKey] = std::string(kChecksumPrefix) + std::string(kNoChecksum);
  header["__metadata__"] = facts;
  // By falling element size every tensor is aligned; the header is padded to 8 bytes below.
  std::vector<NamedTensor> sorted = tensors;
  for (const auto& [name, x] : sorted) {
    need(is_utf8(name), "the name ", quoted(name), " is not UTF-8");
    need(x.defined(), "tensor ", quoted(name), " is undefined");
    check<DTypeError>(x.dtype() != dual64, "save_safetensors", quoted(name), " is dual64, which ",
                      "lives inside jvp only");
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return element_size(a.tensor.dtype()) > element_size(b.tensor.dtype());
  });
  std::uint64_t end = 0;
  for (const auto& [name, x] : sorted) {
    need(name != "__metadata__", "\"__metadata__\" cannot be a tensor's name");
    need(!header.contains(name), "two tensors are named ", quoted(name));
    const auto format = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const auto& f) {
      return f.dtype == x.dtype();  // F32 precedes F16 and BF16
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
  text.replace(find_checksum(text), kNoChecksum.size(), hex_text(sum.value()));
  write_file(path, parts);
}

SafeTensors load_safetensors(const std::string& path) {
  const InputFile file(path);
  const std::string text = read_header(file);
  SafeTensors result{path, {}, {}};
  std::vector<Entry> entries;
  const Json header = parse_header(path, text);
  for (std::size_t i = 0; i < header.items().size(); ++i) {
    const Json& info = header.items()[i];
    if (header.keys()[i] == "__metadata__")
      read_metadata(path, info, result.metadata);
    else
      entries.push_back(parse_entry(path, header.keys()[i], info));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  const std::uint64_t data = 8 + text.size();
  check_tiling(path, entries, file.size() - data);
  result.checksum = take_checksum(path, text, result.metadata);
  Crc32c sum = checksum_of_header(text);
  for (const Entry& e : entries)
    result.tensors.push_back({e.name, read_tensor(file, data, e, sum)});
  if (!result.checksum.empty() && hex_text(sum.value()) != result.checksum)
    refuse(path, "its checksum is ", result.checksum, ", its bytes give ", hex_text(sum.value()),
           ": it was damaged, or changed by another program (which should leave ", kChecksumKey,
           " out); take a copy of it");
  return result;
}

void load_parameters(const std::vector<NamedTensor>& into, const SafeTensors& file) {
  constexpr std::size_t kShown = 5;  // per kind of trouble
  std::unordered_map<std::string_view, const Tensor*> found;
  for (const NamedTensor& t : file.tensors) found[t.name] = &t.tensor;
  std::vector<const Tensor*> sources;  // of each of `into`
  std::vector<std::string> names, missing, unexpected, different;
  for (const auto& [name, p] : into) {
    names.push_back(name);
    const auto match = found.find(name);
    std::ostringstream text;
    if (match == found.end()) {
      text << name << " " << p.shape();
      missing.push_back(text.str());
      continue;
    }
    const Tensor& x = *match->second;
    if (x.shape() != p.shape() || x.dtype() != p.dtype()) {
      text << name << " is " << x.dtype() << " " << x.shape() << " in the file, needs " << p.dtype()
           << " " << p.shape();
      different.push_back(text.str());
    }
    sources.push_back(&x);
    found.erase(match);
  }
  for (const NamedTensor& t : file.tensors) {
    if (!found.count(t.name)) continue;
    std::string text = quoted(t.name);
    if (unexpected.size() < kShown && !names.empty() && t.name.size() <= 200)
      text += " (nearest: " + nearest(t.name, names) + ")";
    unexpected.push_back(text);
  }

  std::string problems;
  const auto report = [&](const char* what, const std::vector<std::string>& list) {
    if (list.empty()) return;
    problems += std::string(problems.empty() ? "" : "; ") + what;
    for (std::size_t i = 0; i < std::min(list.size(), kShown); ++i)
      problems += (i ? ", " : " ") + list[i];
    if (list.size() > kShown) problems += " and " + std::to_string(list.size() - kShown) + " more";
  };
  report("missing", missing);
  report("unexpected", unexpected);
  report("different:", different);
  check<IoError>(problems.empty(), "load_parameters", file.path, " does not fit: ", problems);

  const NoGrad guard;
  for (std::size_t i = 0; i < into.size(); ++i) copy_(into[i].tensor, *sources[i]);
}

}  // namespace heed::nn
