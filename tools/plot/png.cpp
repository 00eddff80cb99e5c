// PNG files. stb_image_write encodes the pixels; this file adds the texts, and reads the texts of
// any PNG file. Numbers in PNG are big endian. A chunk consists of length, type, data and checksum.
#include "tools/plot/png.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <optional>
#include <span>

#include "autograd/base/error.h"
#include "autograd/base/files.h"

namespace {

// Allocates for stb, which does not check for null. Throws std::bad_alloc on failure.
void* reallocate(void* old, std::size_t bytes) {
  void* memory = std::realloc(old, bytes);
  if (!memory && bytes > 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Only this file contains the implementation of stb_image_write. STB_IMAGE_WRITE_STATIC hides its
// names from all other files.
#define STBIW_MALLOC(bytes) reallocate(nullptr, bytes)
#define STBIW_REALLOC(old, bytes) reallocate(old, bytes)
#define STBIW_FREE(memory) std::free(memory)
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

namespace heed::plot {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::size_t kLongestKeyword = 79;

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += char((value >> shift) & 0xFF);
}

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i)
    value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

constexpr auto kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    table[n] = n;
    for (int bit = 0; bit < 8; ++bit)
      table[n] = (table[n] & 1) != 0 ? 0xEDB88320U ^ (table[n] >> 1) : table[n] >> 1;
  }
  return table;
}();

// Returns the CRC-32 of `bytes`. `before` is the CRC-32 of the bytes before them; the checksum of a
// chunk covers its type and data.
std::uint32_t crc_of(std::string_view bytes, std::uint32_t before = 0) {
  std::uint32_t crc = ~before;
  for (const char byte : bytes)
    crc = kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string text_chunk(std::string_view keyword, std::string_view text) {
  using namespace std::string_view_literals;
  heed::check<autograd::ValueError>(!keyword.empty() && keyword.size() <= kLongestKeyword, "png",
                                    "the keyword '", keyword, "' has ", keyword.size(),
                                    " bytes, needs 1 to ", kLongestKeyword);
  std::string body = "iTXt";
  body += keyword;
  body += "\0"sv;    // end of the keyword
  body += "\0\0"sv;  // not compressed, compression method 0
  body += "\0\0"sv;  // no language tag, no translated keyword
  body += visible_text(text);
  std::string chunk;
  append_u32(chunk, std::uint32_t(body.size() - 4));
  chunk += body;
  append_u32(chunk, crc_of(body));
  return chunk;
}

std::string encode(const Image& image) {
  // Flat areas compress best without a filter, and trying all five filters would take most of the
  // time. Both settings are global variables of stb. They are set only once, because two threads
  // may write pictures at the same time.
  static const bool configured = [] {
    stbi_write_force_png_filter = 0;
    stbi_write_png_compression_level = 5;
    return true;
  }();
  static_cast<void>(configured);
  std::string bytes;
  const auto append = [](void* out, void* data, int size) {
    static_cast<std::string*>(out)->append(static_cast<const char*>(data), std::size_t(size));
  };
  if (stbi_write_png_to_func(append, &bytes, image.width(), image.height(), 3, image.data(),
                             3 * image.width()) == 0) {
    throw std::bad_alloc();
  }
  return bytes;
}

// Reads the data of a text chunk. tEXt consists of keyword, 0, Latin-1 text. iTXt consists of
// keyword, 0, compression flag, compression method, language, 0, translated keyword, 0, UTF-8 text.
// Returns std::nullopt if the data has another form.
std::optional<PngText> read_text(bool international, std::string_view body) {
  const std::size_t end = body.find('\0');
  if (end == body.npos || end == 0 || end > kLongestKeyword) return {};
  const std::string keyword(body.substr(0, end));
  if (!international) return PngText{keyword, std::string(body.substr(end + 1))};
  const std::size_t language = body.find('\0', end + 3);
  const std::size_t translated = language == body.npos ? body.npos : body.find('\0', language + 1);
  if (translated == body.npos) return {};
  const bool compressed = body[end + 1] != 0;
  return PngText{keyword, compressed ? "(compressed)" : std::string(body.substr(translated + 1))};
}

// Reads `size` bytes from offset `at`. The caller has checked that the file contains them.
std::string bytes_at(const autograd::InputFile& file, std::uint64_t at, std::uint64_t size) {
  std::string bytes(std::size_t(size), '\0');
  file.read(at, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::uint32_t crc_of(const autograd::InputFile& file, std::uint64_t at, std::uint64_t size) {
  std::uint32_t crc = 0;
  for (std::uint64_t piece; size > 0; at += piece, size -= piece) {
    piece = std::min<std::uint64_t>(size, 1 << 16);
    crc = crc_of(bytes_at(file, at, piece), crc);
  }
  return crc;
}

bool begins_as_png(const autograd::InputFile& file) {
  return file.size() >= kPngSignature.size() &&
         bytes_at(file, 0, kPngSignature.size()) == kPngSignature;
}

}  // namespace

std::string encode_png(const Image& image, std::string_view alt_text,
                       const std::vector<PngText>& metadata) {
  constexpr std::size_t kHeaderEnd = 8 + 25;  // bytes of the signature and the chunk IHDR
  std::string texts = text_chunk("Description", alt_text);
  for (const PngText& fact : metadata) texts += text_chunk(fact.keyword, fact.text);
  std::string png = encode(image);
  png.insert(kHeaderEnd, texts);
  return png;
}

void write_png(const std::string& path, const Image& image, std::string_view alt_text,
               const std::vector<PngText>& metadata) {
  autograd::write_file(path, encode_png(image, alt_text, metadata));
}

bool is_png(const std::string& path) { return begins_as_png(autograd::InputFile(path)); }

PngInfo read_png_info(const std::string& path) {
  constexpr std::uint64_t kFrame = 12;            // bytes of a chunk's length, type and checksum
  constexpr std::uint64_t kMostText = 1'000'000;  // bytes of all text chunks
  const autograd::InputFile file(path);
  const auto refuse = [&](const auto&... parts) {
    heed::fail<autograd::IoError>("png", "cannot read ", path, ": ", parts...);
  };
  if (!begins_as_png(file)) refuse("it does not begin with the PNG signature");
  PngInfo info;
  bool pixels = false;
  std::string type;
  std::uint64_t at = kPngSignature.size(), text_bytes = 0;
  while (type != "IEND") {
    if (file.size() - at < kFrame) refuse("it ends before its last chunk (IEND): cut off");
    const std::string head = bytes_at(file, at, 8);
    const std::uint64_t length = u32_at(head, 0), left = file.size() - at - kFrame;
    type = head.substr(4);
    if (!std::all_of(type.begin(), type.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }))
      refuse("the chunk at byte ", at, " has a type that is not four letters: damaged");
    if (length > left)
      refuse("chunk ", type, " at byte ", at, " has a length of ", length, " bytes, but only ",
             left, " remain: cut off or damaged");
    const bool first = at == kPngSignature.size(), is_text = type == "iTXt" || type == "tEXt";
    if (first != (type == "IHDR") || (first && length != 13) || (type == "IEND" && length > 0))
      refuse("chunk ", type, " of ", length, " bytes at byte ", at, " is out of place: damaged");
    if (crc_of(file, at + 4, length + 4) != u32_at(bytes_at(file, at + 8 + length, 4), 0))
      refuse("the checksum of chunk ", type, " at byte ", at, " is wrong: damaged");
    if (first) {
      const std::string size = bytes_at(file, at + 8, 8);
      info.width = u32_at(size, 0), info.height = u32_at(size, 4);
    }
    if (is_text) {
      text_bytes += length;
      if (text_bytes > kMostText)
        refuse("it has more than ", kMostText, " bytes of text, which is the limit");
      const auto text = read_text(type == "iTXt", bytes_at(file, at + 8, length));
      if (!text) refuse("chunk ", type, " at byte ", at, " has no keyword or no text: damaged");
      info.texts.push_back(*text);
    }
    pixels = pixels || type == "IDAT";
    at += kFrame + length;
  }
  if (info.width == 0 || info.height == 0)
    refuse("its size is ", info.width, " x ", info.height, ": damaged");
  if (!pixels) refuse("it has no pixels (no chunk IDAT): damaged");
  if (at != file.size())
    refuse(file.size() - at, " bytes follow the last chunk (IEND): damaged, or two files in one");
  return info;
}

}  // namespace heed::plot
