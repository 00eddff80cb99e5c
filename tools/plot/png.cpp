// stb_image_write encodes, this file adds the texts.
#include "tools/plot/png.h"

#include <array>
#include <cstdlib>
#include <new>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "tools/plot/png_format.h"

namespace {

// stb looks at no null.
void* reallocate(void* old, std::size_t bytes) {
  void* memory = std::realloc(old, bytes);
  if (!memory && bytes > 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The one place with stb's implementation; STATIC keeps its names out of the rest of the program.
#define STBIW_MALLOC(bytes) reallocate(nullptr, bytes)
#define STBIW_REALLOC(old, bytes) reallocate(old, bytes)
#define STBIW_FREE(memory) std::free(memory)
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

namespace heed::plot {
namespace {

void append_u32(std::string& out, std::uint32_t value) {  // big endian, as all of PNG
  for (int shift = 24; shift >= 0; shift -= 8) out += char((value >> shift) & 0xFF);
}

std::string text_chunk(std::string_view keyword, std::string_view text) {
  using namespace std::string_view_literals;
  heed::check<autograd::ValueError>(!keyword.empty() && keyword.size() <= kLongestKeyword, "png",
                                    "the keyword '", keyword, "' has ", keyword.size(),
                                    " letters, needs 1 to ", kLongestKeyword);
  std::string body = "iTXt";
  body += keyword;
  body += "\0"sv;    // its end
  body += "\0\0"sv;  // not compressed, compression method 0
  body += "\0\0"sv;  // no language tag, no translated keyword
  body += visible_text(text);
  std::string chunk;
  append_u32(chunk, std::uint32_t(body.size() - 4));
  chunk += body;
  PngCrc crc;
  crc.add(body);
  append_u32(chunk, crc.value());
  return chunk;
}

std::string encode(const Image& image) {
  // Cells and flat areas compress best unfiltered, and trying stb's five filters costs most of the
  // time. Set once: these are globals of stb, and two threads may write pictures.
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

// PNG specification, annex D: what a byte does to the remainder.
constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t crc = n;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
    table[n] = crc;
  }
  return table;
}

}  // namespace

void PngCrc::add(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  for (const char byte : bytes)
    crc_ = kTable[(crc_ ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc_ >> 8);
}

std::string encode_png(const Image& image, std::string_view alt_text,
                       const std::vector<PngText>& facts) {
  constexpr std::size_t kHeaderEnd = 8 + 25;  // signature and IHDR come first
  std::string texts = text_chunk("Description", alt_text);
  for (const PngText& fact : facts) texts += text_chunk(fact.keyword, fact.text);
  std::string png = encode(image);
  png.insert(kHeaderEnd, texts);
  return png;
}

void write_png(const std::string& path, const Image& image, std::string_view alt_text,
               const std::vector<PngText>& facts) {
  autograd::write_file(path, encode_png(image, alt_text, facts));
}

}  // namespace heed::plot
