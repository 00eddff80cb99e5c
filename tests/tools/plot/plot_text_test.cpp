// Tests of the text in pictures: its size, and that invisible tokens become visible.
#include "tests/support/catch.h"
#include "tests/support/pictures.h"
#include "tools/plot/text.h"

namespace heed::plot {
namespace {

Image drawn(const std::string& text, double size, bool upward = false) {
  Image image(240, 240);
  image.text(40, upward ? 200 : 40, text, {.color = {0, 0, 0}, .size = size, .upward = upward});
  return image;
}

struct Ink {
  int left = 1 << 20, right = -1, top = 1 << 20, bottom = -1;
};

Ink ink(const Image& image) {
  Ink box;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) {
      if (image.at(x, y) == kWhite) continue;
      box.left = std::min(box.left, x), box.right = std::max(box.right, x);
      box.top = std::min(box.top, y), box.bottom = std::max(box.bottom, y);
    }
  }
  return box;
}

}  // namespace

TEST_CASE("drawn text has the size that cap_height(), text_width() and line_height() return",
          "[plot]") {
  for (const double size : {11.0, 16.5, 40.0}) {
    const Ink capital = ink(drawn("H", size));
    CHECK(capital.top == 40);
    CHECK(capital.bottom - capital.top + 1 == cap_height(size));
    const std::string text = "Query [qp]";
    const Ink flat = ink(drawn(text, size)), upward = ink(drawn(text, size, true));
    const int width = text_width(text, size);
    CHECK(flat.left >= 40);
    CHECK(flat.right < 40 + width);
    CHECK(flat.right > 40 + width * 9 / 10);
    CHECK(flat.bottom < 40 + line_height(size));
    // Upward text has the pixels of horizontal text, rotated about the point at which the text is
    // drawn.
    CHECK(upward.left - 40 == flat.top - 40);
    CHECK(upward.right - 40 == flat.bottom - 40);
    CHECK(199 - upward.bottom == flat.left - 40);
    CHECK(199 - upward.top == flat.right - 40);
  }
  // Kerning moves the letters of AVAVAV closer together.
  CHECK(text_width("AVAVAV", 40) < 3 * (text_width("A", 40) + text_width("V", 40)) - 6);
  CHECK(text_width("", 11) == 0);
  CHECK(ink(drawn("", 11)).right == -1);
}

TEST_CASE("invalid bytes and invisible characters are spelled out", "[plot]") {
  CHECK(visible_text("a z~ \xC3\xA9 \xF0\x9F\x98\x80") == "a z~ \xC3\xA9 \xF0\x9F\x98\x80");
  CHECK(visible_text("a\n\t\r\x07") == "a\\n\\t\\r\\x07");
  CHECK(visible_text("\xFF\xC3") == "\\xff\\xc3");  // a stray byte and a truncated character
  CHECK(visible_text("\xC0\x80") == "\\xc0\\x80");  // an overlong encoding
  CHECK(visible_text(std::string("\0", 1)) == "\\x00");
  CHECK(same(drawn("\xFF", 16.5), drawn("\\xff", 16.5)));

  CHECK(token_text(" the\n") == "␣the\\n");
  CHECK(token_text("\u00A0") == "U+00A0");
  CHECK(token_text("\u3000") == "\u3000");  // the font lacks it and draws a box, which is visible
  CHECK(token_text("^") == "^");
}

TEST_CASE("text is wrapped at spaces and shortened between characters", "[plot]") {
  CHECK(wrap_text("aa bb cc", text_width("aa bb", 20), 20) ==
        std::vector<std::string>{"aa bb", "cc"});
  CHECK(wrap_text("", 100, 20).empty());
  const std::string word = "ééééé";
  CHECK(shorten_text(word, text_width(word, 20), 20) == word);
  CHECK(shorten_text(word, text_width(word, 20) - 1, 20) == "ééé…");
  CHECK(shorten_text(word, 0, 20) == "…");
}

TEST_CASE("format_number uses typographic minus signs and powers of ten", "[plot]") {
  CHECK(format_number(1.0 / 3) == "0.333");
  CHECK(format_number(-12) == "−12");
  CHECK(format_number(-1.5e-7) == "−1.5·10⁻⁷");
  CHECK(format_number(1e12) == "10¹²");
  CHECK(format_number(-1e100) == "−10¹⁰⁰");
  CHECK(format_number(0) == "0");
  CHECK(format_number(std::nan("")) == "nan");
  CHECK(format_number(123456, 6) == "123456");
}

}  // namespace heed::plot
