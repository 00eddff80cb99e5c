// PNG files. stb_image_write encodes the pixels; this file adds the texts. Numbers in
// PNG are big endian. A chunk consists of length, type, data and checksum.
#include "tools/plot/png.h"

#include <cstdlib>
#include <new>

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

constexpr std::size_t kLongestKeyword = 79;

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += char((value >> shift) & 0xFF);
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
  append_u32(chunk, stbiw__crc32(reinterpret_cast<unsigned char*>(body.data()), int(body.size())));
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

}  // namespace heed::plot
