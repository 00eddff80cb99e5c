#include "tools/plot/font.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "autograd/base/error.h"
#include "autograd/base/utf8.h"
#include "tools/plot/text.h"

// Only this file contains the implementation of stb_truetype. STBTT_STATIC hides its names from all
// other files.
#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
// stb does not check for null, so it must allocate with operator new, which throws.
#define STBTT_malloc(bytes, unused) (static_cast<void>(unused), ::operator new(bytes))
#define STBTT_free(memory, unused) (static_cast<void>(unused), ::operator delete(memory))
#include <stb/stb_truetype.h>

extern "C" __attribute__((visibility("hidden"))) const unsigned char heed_font_file[];

namespace heed::plot {
namespace {

using autograd::ValueError;

constexpr float kCapitalUnits = 1493;  // height of H in font units

const stbtt_fontinfo* font() {
  static const stbtt_fontinfo info = [] {
    stbtt_fontinfo opened;
    check<autograd::Error>(stbtt_InitFont(&opened, heed_font_file, 0) != 0, "font",
                           "the embedded file is not a TrueType font");
    return opened;
  }();
  return &info;
}

int glyph_index(char32_t c) { return stbtt_FindGlyphIndex(font(), int(c)); }

// A rectangle in pixels. Right and bottom are exclusive; y grows downwards from the baseline.
struct Box {
  int left = 0, top = 0, right = 0, bottom = 0;
  int width() const { return right - left; }
  int height() const { return bottom - top; }
};

struct Glyph {
  int index = 0;
  float scale = 0;  // pixels per font unit
  float shift = 0;  // fraction of a pixel by which the glyph is shifted to the right
  Box box;          // bounding box, relative to the beginning of the line
};

// The positioned glyphs of one line. `width` is the sum of their advances.
struct Line {
  std::vector<Glyph> glyphs;
  double width = 0;
};

Line place_glyphs(std::string_view text, double size) {
  check<ValueError>(size >= kSmallestText, "text", "needs a size of at least ", kSmallestText,
                    " pixels, got ", size);
  Line line;
  const std::string visible = visible_text(text);
  // With this scale the top of a capital is at the edge of a pixel.
  const float scale = float(cap_height(size)) / kCapitalUnits;
  int previous = 0;
  for (std::size_t at = 0; at < visible.size();) {
    const int index = glyph_index(autograd::next_code_point(visible, at).value());
    if (previous != 0)
      line.width += scale * float(stbtt_GetGlyphKernAdvance(font(), previous, index));
    const double start = std::floor(line.width);
    Glyph glyph{index, scale, float(line.width - start), {}};
    Box& box = glyph.box;
    stbtt_GetGlyphBitmapBoxSubpixel(font(), index, scale, scale, glyph.shift, 0, &box.left,
                                    &box.top, &box.right, &box.bottom);
    box.left += int(start);
    box.right += int(start);
    if (box.width() > 0 && box.height() > 0) line.glyphs.push_back(glyph);
    int advance = 0, bearing = 0;
    stbtt_GetGlyphHMetrics(font(), index, &advance, &bearing);
    line.width += scale * float(advance);
    previous = index;
  }
  return line;
}

}  // namespace

TextMask rasterize_text(std::string_view text, double size) {
  const Line line = place_glyphs(text, size);
  if (line.glyphs.empty()) return {};
  Box all = line.glyphs.front().box;
  for (const Glyph& glyph : line.glyphs) {
    all.left = std::min(all.left, glyph.box.left);
    all.top = std::min(all.top, glyph.box.top);
    all.right = std::max(all.right, glyph.box.right);
    all.bottom = std::max(all.bottom, glyph.box.bottom);
  }
  TextMask mask{all.left, all.top + cap_height(size), all.width(), all.height(), {}};
  mask.coverage.resize(std::size_t(all.width()) * std::size_t(all.height()));
  std::vector<std::uint8_t> ink;
  for (const Glyph& glyph : line.glyphs) {
    const Box& box = glyph.box;
    ink.assign(std::size_t(box.width()) * std::size_t(box.height()), 0);
    stbtt_MakeGlyphBitmapSubpixel(font(), ink.data(), box.width(), box.height(), box.width(),
                                  glyph.scale, glyph.scale, glyph.shift, 0, glyph.index);
    for (int y = 0; y < box.height(); ++y) {
      for (int x = 0; x < box.width(); ++x) {
        std::uint8_t& below = mask.coverage[std::size_t((box.top - all.top + y) * mask.width +
                                                        box.left - all.left + x)];
        below = std::uint8_t(std::min(255, below + ink[std::size_t(y * box.width() + x)]));
      }
    }
  }
  return mask;
}

double advance_width(std::string_view text, double size) { return place_glyphs(text, size).width; }

bool has_ink(char32_t c) { return stbtt_IsGlyphEmpty(font(), glyph_index(c)) == 0; }

}  // namespace heed::plot
