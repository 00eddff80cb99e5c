// Reads and writes npy files.
//
// The format is: the byte 0x93 and "NUMPY", major and minor version, the length of the header (2
// bytes in version 1.0, 4 in later ones, little endian), the header, and the elements. The header
// is a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. It is
// padded with blanks and a newline, so that the elements begin at a multiple of 64 bytes.
#include "nn/io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <numeric>
#include <span>
#include <vector>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "nn/io/limits.h"
#include "nn/io/safetensors_format.h"

namespace heed::nn {

using namespace autograd;

namespace {

static_assert(std::endian::native == std::endian::little, "npy files of heed are little endian");

constexpr std::string_view kNpyMagic = "\x93NUMPY";

template <class... Parts>
[[noreturn]] void refuse_npy(const std::string& path, const Parts&... parts) {
  fail<IoError>("load_npy", "cannot read ", path, ": ", parts...);
}

// Element type of an npy file.
struct NpyType {
  std::string_view descr;  // name of the type in the header
  std::uint64_t bytes;     // bytes per element
  Tensor (*read)(const InputFile& file, std::uint64_t begin, const Shape&);
};

// Reads elements of type File from the offset `begin` and converts them to type Memory.
template <class File, class Memory>
Tensor read_elements(const InputFile& file, std::uint64_t begin, const Shape& shape) {
  Tensor x = empty(shape, kDTypeOf<Memory>);
  Memory* out = x.mutable_data<Memory>();
  const auto count = std::size_t(shape.numel());
  std::vector<File> piece;
  for (std::size_t done = 0; done < count; done += piece.size()) {
    piece.resize(std::min<std::size_t>(count - done, 1 << 16));
    file.read(begin + done * sizeof(File), std::as_writable_bytes(std::span(piece)));
    std::transform(piece.begin(), piece.end(), out + done,
                   [](File value) { return Memory(value); });
  }
  return x;
}

constexpr NpyType kNpyTypes[] = {
    {"<f4", 4, read_elements<float, float>},
    {"<f8", 8, read_elements<double, double>},
    {"<i8", 8, read_elements<std::int64_t, std::int64_t>},
    {"|b1", 1, read_elements<std::uint8_t, bool>},
    {"|i1", 1, read_elements<std::int8_t, std::int64_t>},
    {"|u1", 1, read_elements<std::uint8_t, std::int64_t>},
    {"<i2", 2, read_elements<std::int16_t, std::int64_t>},
    {"<u2", 2, read_elements<std::uint16_t, std::int64_t>},
    {"<i4", 4, read_elements<std::int32_t, std::int64_t>},
    {"<u4", 4, read_elements<std::uint32_t, std::int64_t>},
};

// Converts a header, which is a Python literal, to JSON. Replaces quotes, brackets and constants,
// and removes the comma at the end of a list. The JSON constants true, false and null are not
// Python, so they are replaced by invalid text.
std::string as_json(std::string_view python) {
  constexpr std::string_view kPython = "'()TFtfn", kJson = "\"[]tf???";
  std::string json;
  char quote = 0;  // quote that begins the current string, or 0 outside of strings
  for (const char c : python) {
    if (quote == 0 && (c == ')' || c == ']' || c == '}')) {
      json.erase(json.find_last_not_of(' ') + 1);
      if (json.ends_with(',')) json.pop_back();
    }
    const std::size_t at = quote == 0 || c == quote ? kPython.find(c) : kPython.npos;
    json += at == kPython.npos ? c : kJson[at];
    if (c == quote)
      quote = 0;
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
  }
  return json;
}

// Returns the text of the header and the offset of the elements.
std::pair<std::string, std::uint64_t> read_npy_header(const InputFile& file) {
  constexpr std::uint64_t kShortest = 10;
  std::string start(std::size_t(std::min<std::uint64_t>(file.size(), 12)), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  if (start.size() < kShortest || !start.starts_with(kNpyMagic))
    refuse_npy(file.path(), "it does not begin like an npy file");
  const int major = start[6];
  if (major < 1 || major > 3)
    refuse_npy(file.path(), "it has version ", major, " of the format; heed reads 1 to 3");
  const std::size_t begin = std::min<std::size_t>(major == 1 ? 10 : 12, start.size());
  std::uint32_t length = 0;
  std::memcpy(&length, &start[8], begin - 8);
  if (length > kMaxNpyHeader)
    refuse_npy(file.path(), "its header has ", length, " bytes; the limit is ", kMaxNpyHeader);
  if (length > file.size() - begin)
    refuse_npy(file.path(), "its header has ", length, " bytes, and ", file.size() - begin,
               " follow; the file is cut off, or it is not an npy file");
  std::string header(length, '\0');
  file.read(begin, std::as_writable_bytes(std::span(header)));
  return {std::move(header), begin + length};
}

Json parse_npy_header(const std::string& text) {
  Json header;
  try {
    header = Json::parse(as_json(text));
  } catch (const JsonError&) {
  }
  const Json *descr = header.find("descr"), *fortran = header.find("fortran_order");
  // A shape must be a tuple. Only the descr of a structured type may contain lists.
  const bool is_list = descr && !descr->as<Json::Array>() && text.find('[') != text.npos;
  if (!descr || !header.find("shape") || !fortran || !fortran->as<bool>() ||
      header.entries().size() > 3 || is_list)
    throw JsonError("is not a Python dictionary of descr, fortran_order and shape");
  return header;
}

// Reads the array, after a check that the file has the size that follows from the header.
Tensor read_npy(const InputFile& file) {
  const auto [text, begin] = read_npy_header(file);
  const Json header = parse_npy_header(text), &descr = *header.find("descr");
  const auto type = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                 [&](const NpyType& t) { return descr == t.descr; });
  if (type == std::end(kNpyTypes))
    refuse_npy(file.path(), "its elements are ", safetensors::shown(descr),
               "; convert them, in Python by numpy.save(file, a.astype('<f4'))");
  const Shape shape = safetensors::shape_of(*header.find("shape"));
  const std::uint64_t need = std::uint64_t(shape.numel()) * type->bytes, left = file.size() - begin;
  if (need != left)
    refuse_npy(file.path(), "its shape ", shape, " needs ", need, " bytes of ", type->descr,
               ", but ", left, " follow the header; the file is cut off or damaged");
  if (*header.find("fortran_order") == false) return type->read(file, begin, shape);
  // An array in Fortran order has the same bytes as the transposed array in C order.
  std::vector<std::int64_t> transposed(shape.begin(), shape.end());
  std::reverse(transposed.begin(), transposed.end());
  std::vector<int> axes(transposed.size());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return contiguous(permute(type->read(file, begin, transposed), axes));
}

}  // namespace

void save_npy(const std::string& path, const Tensor& x) {
  check<DTypeError>(!is_dual(x.dtype()), "save_npy", "cannot write ", x.dtype(),
                    ", which exists only inside jvp");
  const std::string_view descr = x.dtype() == float32   ? "<f4"
                                 : x.dtype() == float64 ? "<f8"
                                 : x.dtype() == int64   ? "<i8"
                                                        : "|b1";
  std::string sizes;  // shape as a Python tuple: (), (3,), (3, 4)
  for (int i = 0; i < x.rank(); ++i)
    sizes += (i == 0 ? "" : ", ") + std::to_string(x.size(i)) + (x.rank() == 1 ? "," : "");
  std::string text =
      "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  const std::size_t before = kNpyMagic.size() + 4;
  text.resize((before + text.size() + 1 + 63) / 64 * 64 - before, ' ');
  text.back() = '\n';
  std::string head(kNpyMagic);
  head += {'\1', '\0', char(text.size() & 0xFF), char(text.size() >> 8)};
  head += text;
  const Tensor all = contiguous(x.detach());
  dispatch_any(all.dtype(), [&]<class T> {
    const std::vector<std::span<const std::byte>> parts = {
        std::as_bytes(std::span(head)),
        std::as_bytes(std::span(all.template data<T>(), std::size_t(all.numel())))};
    write_file(path, parts);
  });
}

Tensor load_npy(const std::string& path) {
  try {
    return read_npy(InputFile(path));
  } catch (const JsonError& e) {
    refuse_npy(path, "its header ", e.what(), "; the file is damaged, or it is not an npy file");
  } catch (const std::bad_alloc&) {
    refuse_npy(path, "there is not enough memory for it");
  }
}

}  // namespace heed::nn
