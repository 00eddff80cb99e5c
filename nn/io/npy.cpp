// The format: the bytes 93 "NUMPY", major and minor version, the header's length (2 bytes in 1.0, 4
// later, little endian), the header, the elements. The header is a Python literal,
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, padded with blanks to a newline, so
// that the elements begin at a multiple of 64 bytes.
#include "nn/io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "nn/io/safetensors_format.h"

namespace heed::nn {

using namespace autograd;

namespace {

static_assert(std::endian::native == std::endian::little, "what heed writes is little endian");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

template <class... Parts>
[[noreturn]] void refuse_npy(const std::string& path, const Parts&... parts) {
  fail<IoError>("load_npy", "cannot read ", path, ": ", parts...);
}

// How the elements of a file lie in it, and what they become.
struct NpyType {
  std::string_view descr;
  std::uint64_t bytes;
  Tensor (*read)(std::span<const std::byte>, const Shape&);
};

template <class File, class Memory>
Tensor read_elements(std::span<const std::byte> bytes, const Shape& shape) {
  Tensor x = empty(shape, kDTypeOf<Memory>);
  Memory* out = x.mutable_data<Memory>();
  for (std::size_t i = 0; i < bytes.size() / sizeof(File); ++i) {
    File value;
    std::memcpy(&value, &bytes[i * sizeof(File)], sizeof(File));
    out[i] = Memory(value);
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

struct NpyHeader {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

// Reads the one kind of Python literal that stands there.
class NpyHeaderParser {
 public:
  NpyHeaderParser(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  NpyHeader parse() {
    NpyHeader header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted_text();
      expect(':');
      if (key == "descr" && !header.descr)
        header.descr = quoted_text();
      else if (key == "fortran_order" && !header.fortran_order)
        header.fortran_order = truth();
      else if (key == "shape" && !header.shape)
        header.shape = sizes();
      else
        bad("the key '" + key + "', which is unknown or there twice");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (!rest_.empty()) bad("text behind its }");
    if (!header.descr || !header.fortran_order || !header.shape)
      bad("no descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    refuse_npy(path_, "its header has ", safetensors::quoted(what), "; damaged, or no npy file");
  }
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
  }
  bool accept(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(std::string("no ") + c + " where one is needed");
  }
  std::string quoted_text() {
    const bool single = accept('\'');
    if (!single) expect('"');
    const std::size_t end = rest_.find(single ? '\'' : '"');
    if (end == std::string_view::npos) bad("a text without an end");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    skip_blanks();
    const bool yes = rest_.starts_with("True");
    if (!yes && !rest_.starts_with("False")) bad("neither True nor False for fortran_order");
    rest_.remove_prefix(yes ? 4 : 5);
    return yes;
  }
  std::vector<std::uint64_t> sizes() {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      const auto size = parse_number<std::uint64_t>(rest_.substr(0, digits));
      if (!size) bad("a size that is no whole number >= 0");
      rest_.remove_prefix(digits);
      sizes.push_back(*size);
      if (sizes.size() > std::size_t(kMaxRank)) bad("more than 8 sizes");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  const std::string& path_;
  std::string_view rest_;
};

// The header's text, and where the elements begin.
std::pair<std::string, std::uint64_t> npy_header_text(const InputFile& file) {
  constexpr std::uint64_t kShortest = 10, kLongest = 1'000'000;
  const std::uint64_t given = std::min<std::uint64_t>(file.size(), 12);
  std::string start(std::size_t(given), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  if (given < kShortest || !start.starts_with(kNpyMagic))
    refuse_npy(file.path(), "it does not begin as an npy file does");
  const int major = start[6];
  if (major < 1 || major > 3)
    refuse_npy(file.path(), "it has version ", major, " of the format; heed reads 1 to 3");
  const std::uint64_t digits = major == 1 ? 2 : 4, begin = 8 + digits;
  std::uint64_t length = 0;
  if (given < begin) refuse_npy(file.path(), "it ends within its header: cut off");
  std::memcpy(&length, &start[8], std::size_t(digits));
  if (length > file.size() - begin || length > kLongest)
    refuse_npy(file.path(), "it says a header of ", length, " bytes, ", file.size() - begin,
               " follow: cut off, or no npy file");
  std::string text(std::size_t(length), '\0');
  file.read(begin, std::as_writable_bytes(std::span(text)));
  return {text, begin + length};
}

// Of these sizes, one element for each `bytes` of the file's rest.
std::vector<std::int64_t> npy_shape(const std::string& path, const NpyHeader& header,
                                    std::uint64_t bytes, std::uint64_t left) {
  std::uint64_t elements = 1, strides = 1;  // a size of 0 counts as 1 in strides
  std::vector<std::int64_t> shape;
  for (const std::uint64_t n : *header.shape) {
    if (n > kMostElements || (n > 0 && strides > kMostElements / n))
      refuse_npy(path, "its shape has more than 2^40 elements");
    elements *= n;
    strides *= std::max<std::uint64_t>(n, 1);
    shape.push_back(std::int64_t(n));
  }
  if (elements * bytes != left)
    refuse_npy(path, "its shape ", Shape(shape), " needs ", elements * bytes, " bytes of ",
               *header.descr, ", ", left, " follow the header: cut off, or damaged");
  return shape;
}

}  // namespace

void save_npy(const std::string& path, const Tensor& x) {
  check<DTypeError>(!is_dual(x.dtype()), "save_npy", x.dtype(), " exists inside jvp only");
  const std::string_view descr = x.dtype() == float32   ? "<f4"
                                 : x.dtype() == float64 ? "<f8"
                                 : x.dtype() == int64   ? "<i8"
                                                        : "|b1";
  std::string sizes;  // a Python tuple: (), (3,), (3, 4)
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
  const InputFile file(path);
  const auto [text, begin] = npy_header_text(file);
  const NpyHeader header = NpyHeaderParser(path, text).parse();
  const auto type = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                 [&](const NpyType& t) { return t.descr == *header.descr; });
  if (type == std::end(kNpyTypes))
    refuse_npy(path, "its elements are ", safetensors::quoted(*header.descr),
               "; convert them, in Python by numpy.save(file, a.astype('<f4'))");
  const std::uint64_t left = file.size() - begin;
  std::vector<std::int64_t> shape = npy_shape(path, header, type->bytes, left);
  std::vector<int> axes;
  if (*header.fortran_order) {  // C order of the axes turned around
    std::reverse(shape.begin(), shape.end());
    for (int i = int(shape.size()) - 1; i >= 0; --i) axes.push_back(i);
  }
  try {
    std::vector<std::byte> bytes(static_cast<std::size_t>(left));
    file.read(begin, bytes);
    const Tensor x = type->read(bytes, shape);
    return *header.fortran_order ? contiguous(permute(x, axes)) : x;
  } catch (const std::bad_alloc&) {
    refuse_npy(path, "it needs ", left, " bytes of memory, more than there is");
  }
}

}  // namespace heed::nn
