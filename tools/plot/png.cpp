// PNG files: stb_image_write encodes, this file adds the description.
#include <cstdlib>
#include <new>

#include "autograd/base/files.h"
#include "tools/plot/image.h"

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

std::uint32_t crc32(std::string_view bytes) {  // PNG specification, annex D
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

std::string description_chunk(std::string_view alt_text) {
  using namespace std::string_view_literals;
  std::string body = "iTXt";
  body += "Description\0"sv;  // keyword
  body += "\0\0"sv;           // not compressed, compression method 0
  body += "\0\0"sv;           // no language tag, no translated keyword
  body += visible_text(alt_text);
  std::string chunk;
  append_u32(chunk, std::uint32_t(body.size() - 4));
  chunk += body;
  append_u32(chunk, crc32(body));
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

}  // namespace

std::string encode_png(const Image& image, std::string_view alt_text) {
  constexpr std::size_t kHeaderEnd = 8 + 25;  // signature and IHDR come first
  std::string png = encode(image);
  png.insert(kHeaderEnd, description_chunk(alt_text));
  return png;
}

void write_png(const std::string& path, const Image& image, std::string_view alt_text) {
  autograd::write_file(path, encode_png(image, alt_text));
}

}  // namespace heed::plot
