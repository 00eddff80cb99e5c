// Tests of pictures: color maps, PNG files read back with stb_image, and the pixels of charts.
#include <future>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/pictures.h"
#include "tests/support/png_pixels.h"

namespace heed::plot {
namespace {

namespace fs = std::filesystem;

struct Chunk {
  std::string type, data;
  std::uint32_t crc;
};

std::uint32_t u32(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = (value << 8) | static_cast<unsigned char>(bytes.at(at + i));
  }
  return value;
}

std::vector<Chunk> chunks(const std::string& png) {
  std::vector<Chunk> out;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t size = u32(png, at);
    out.push_back({png.substr(at + 4, 4), png.substr(at + 8, size), u32(png, at + 8 + size)});
    at += 12 + size;
  }
  return out;
}

// Returns the CRC-32 of `bytes`. It does not use the code of encode_png().
std::uint32_t crc32(const std::string& bytes) {
  std::uint32_t table[256];
  for (std::uint32_t n = 0; n < 256; ++n) {
    table[n] = n;
    for (int k = 0; k < 8; ++k) {
      table[n] = table[n] & 1 ? 0xEDB88320u ^ (table[n] >> 1) : table[n] >> 1;
    }
  }
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  }
  return crc ^ 0xFFFFFFFFu;
}

}  // namespace

TEST_CASE("viridis equals matplotlib's", "[plot]") {
  CHECK(viridis(0) == Rgb{0x44, 0x01, 0x54});
  CHECK(viridis(0.5) == Rgb{0x21, 0x91, 0x8c});
  CHECK(viridis(1) == Rgb{0xfd, 0xe7, 0x25});
  CHECK(viridis(-3) == viridis(0));
  CHECK(viridis(std::numeric_limits<double>::infinity()) == viridis(1));
  CHECK(viridis(std::nan("")) == kGray);
}

TEST_CASE("the diverging map is white at 0, blue below and orange above", "[plot]") {
  CHECK(diverging(0) == kWhite);
  CHECK(diverging(-0.0) == kWhite);
  CHECK(diverging(-7) == diverging(-1));
  CHECK(diverging(std::nan("")) == kGray);
  CHECK(diverging(-1).b > diverging(-1).r);
  CHECK(diverging(1).r > diverging(1).b);
}

TEST_CASE("drawing outside of the picture is clipped", "[plot]") {
  Image image(10, 10);
  image.rect(-5, -5, 100, 100, kGray);
  CHECK(count(image, kGray) == 100);
  image.line(-1e18, 5, 1e18, 5, kInk, 1);
  image.line(std::nan(""), 0, 5, 5, kInk);
  image.text(-20, -20, "outside", {.size = 30});
  image.set(10, 0, kInk);
  image.area(NAN, 0, 1, 2, 0, 1, kInk, 1);
  image.area(3, 0, 1, 3, 0, 1, kInk, 1);
  image.area(-9e9, -9e9, -8e9, 9e9, -9e9, -8e9, kInk, 1);
  CHECK_THROWS_AS(image.at(10, 0), autograd::ValueError);
  CHECK_THROWS_AS(Image(0, 5), autograd::ValueError);
  CHECK_THROWS_AS(Image(5, 100'000), autograd::ValueError);
}

TEST_CASE("write_png writes a correct structure, description and pixels", "[plot]") {
  const testing::Folder directory;
  const std::string path = (directory.path() / "a.png").string();
  Image image(37, 21, Rgb{1, 2, 3});
  image.rect(5, 6, 7, 8, Rgb{200, 100, 50});
  image.line(0, 0, 37, 21, kInk, 2);
  const std::string alt = "attention of \xC3\xA9, 2 heads";
  write_png(path, Image(3, 3), "an older file is replaced");
  write_png(path, image, alt, {{"Software", "heed\nand more"}});

  const std::string png = autograd::read_file(path);
  CHECK(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  const std::vector<Chunk> all = chunks(png);
  REQUIRE(all.size() >= 5);
  CHECK(all[0].type == "IHDR");
  CHECK(u32(all[0].data, 0) == 37);
  CHECK(u32(all[0].data, 4) == 21);
  CHECK(all[1].type == "iTXt");
  CHECK(all[1].data == std::string("Description\0\0\0\0\0", 16) + alt);
  CHECK(all[2].data == std::string("Software\0\0\0\0\0", 13) + "heed\\nand more");
  CHECK(all[3].type == "IDAT");
  CHECK(all.back().type == "IEND");
  for (const Chunk& chunk : all) {
    INFO(chunk.type);
    CHECK(chunk.crc == crc32(chunk.type + chunk.data));
  }

  CHECK(same_pixels(path, image));
  for (const std::string& keyword : {std::string(), std::string(80, 'k')})
    CHECK_THROWS_AS(encode_png(image, "", {{keyword, "text"}}), autograd::ValueError);
  CHECK(std::distance(fs::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("a chart draws curves and single points, and works without data", "[plot]") {
  const Rgb first{0, 114, 178}, second{213, 94, 0};
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const Image none = draw_chart({"", "step", "loss", {}, {}, false});
  CHECK(count(none, first) == 0);
  const Image point = draw_chart({"", "step", "loss", {{"", {3}, {2}}}, {}, false});
  const Image curve = draw_chart({"", "step", "loss", {{"", {0, 1}, {2, 1}}}, {}, false});
  CHECK(count(point, first) > 20);
  CHECK(count(point, first) < 80);
  CHECK(count(curve, first) > 500);

  SECTION("non-finite points leave a gap and do not move the axes") {
    const Image gap =
        draw_chart({"", "step", "loss", {{"", {0, 1, 2, 3, nan}, {2, 1, inf, 1.5, 9}}}, {}, false});
    const Image full =
        draw_chart({"", "step", "loss", {{"", {0, 1, 2, 3}, {2, 1, 1.2, 1.5}}}, {}, false});
    CHECK(count(gap, first) > 200);
    CHECK(count(gap, first) < count(full, first));
    CHECK(same(draw_chart({"", "step", "loss", {{"", {nan}, {inf}}}, {}, false}), none));
  }
  SECTION("a horizontal line is dashed and drawn in the next color") {
    const Image dashed =
        draw_chart({"", "", "", {{"", {0, 1}, {2, 1}}}, {{"optimal", 1.386}}, false});
    CHECK(count(dashed, second) > 500);
    CHECK(same(draw_chart({"", "", "", {}, {{"unknown", nan}}, false}),
               draw_chart({"", "", "", {}, {}, false})));
  }
  SECTION("a dashed line has gaps") {
    const auto line = [&](int dash) {
      return count(draw_chart({"", "", "", {{"", {0, 1}, {0, 0}, dash}}, {}, false}), first);
    };
    CHECK(line(1) > line(0) / 2);
    CHECK(line(1) < line(0) * 3 / 4);
  }
  SECTION("a logarithmic axis leaves out values that are not positive") {
    const Image log =
        draw_chart({"", "", "", {{"", {0, 1, 2}, {1e-3, 0, 10}}}, {{"optimal", 0}}, true});
    CHECK(count(log, first) > 40);  // two dots are drawn
    CHECK(count(log, first) < 160);
  }
  SECTION("with two logarithmic axes, a power of x is a straight line") {
    LineChart power{.series = {{"", {0, 1e-8, 1}, {1e5, 1e-16, 1}}}, .log_y = true, .log_x = true};
    const Image two = draw_chart(power);  // the point at x = 0 is left out
    CHECK(has_text(two, "10⁻⁷"));
    power.series[0] = {"", {1e-8, 1e-4, 1}, {1e-16, 1e-8, 1}};
    const Image three = draw_chart(power);
    for (int x = 0; x < two.width(); ++x)
      for (int y = 0; y < two.height(); ++y)
        if (two.at(x, y) == first) REQUIRE(three.at(x, y) == first);
  }
  SECTION("the title of a logarithmic axis contains 'logarithmic'") {
    LineChart chart{.x_name = "step", .series = {{"", {1, 10}, {1, 2}}}};
    CHECK(!has_text(draw_chart(chart), "logarithmic"));
    chart.log_x = true;
    CHECK(has_text(draw_chart(chart), "step, logarithmic"));
  }
  SECTION("extreme ranges do not throw and do not loop forever") {
    for (const bool log_y : {false, true}) {
      CHECK_NOTHROW(draw_chart({"", "", "", {{"", {1e15, 1e15 + 1}, {1e299, 1e-299}}}, {}, log_y}));
      CHECK_NOTHROW(draw_chart({"", "", "", {{"", {0, 1e308}, {1e-320, 3e-320}}}, {}, log_y}));
      CHECK_NOTHROW(draw_chart({"", "", "", {{"", {-1e308, 1e308}, {7, 7}}}, {}, log_y}));
    }
  }
  SECTION("x and y must have the same length") {
    CHECK_THROWS_AS(draw_chart({"", "", "", {{"loss", {1, 2}, {1}}}, {}, false}),
                    autograd::ShapeError);
  }
}

TEST_CASE("all text of a chart is inside the picture, does not overlap, and is large enough",
          "[plot]") {
  const std::string words(300, 'w'), long_name = "a curve with a name of many words";
  const std::vector<double> x{0, 1, 2, 3, 4};
  const std::vector<LineChart> charts{
      {"Loss while training", "step", "loss", {{"a", x, {5, 4, 3, 2, 1}}}, {}, false},
      {"", "", "", {{"a", {0, 123456}, {1e-9, 3e5}}}, {{"best possible", 1e-9}}, true},
      {"", "step", "loss", {{"a", {0, 9e15}, {-1.5, 2}}}, {{"p", 2}, {"q", 2}, {"r", 2}}, false},
      {"", "", "", {{"a", {1e-7, 2e-7}, {-3e-8, 4e-8}}}, {{long_name, 0}, {"b", 1e-8}}, false},
      {words, words, words, {{words, x, x}, {words, x, x}, {words, x, x}}, {{words, 2}}, false},
  };
  for (std::size_t i = 0; i < charts.size(); ++i) {
    INFO(i);
    CHECK(text_faults(draw_chart(charts[i])) == "");
  }
  // All values are whole numbers, so the ticks must be whole numbers, too.
  const Image steps = draw_chart(charts[0]);
  for (const char* number : {"0", "1", "2", "3", "4"}) CHECK(has_text(steps, number));
  CHECK_FALSE(has_text(steps, "0.5"));
}

TEST_CASE("a band is pale, is drawn behind its curve, and covers no pixel twice", "[plot]") {
  const Rgb blue{0, 114, 178}, pale = mix(kWhite, blue, 0.2);
  const LineChart chart{.title = "",
                        .series = {{.name = "",
                                    .x = {0, 1, 2},
                                    .y = {1, 2, 1},
                                    .low = {0.5, 1, 0.5},
                                    .high = {1.5, 3, 1.5}}}};
  const Image image = draw_chart(chart);
  const int shades = count(image, pale);
  CHECK(shades > 50'000);
  // If parts of the band overlapped, many pixels would have the color of a band that is drawn
  // twice. Only antialiased edges of the curve may have it.
  CHECK(count(image, mix(pale, blue, 0.2)) < shades / 100);
  LineChart without = chart;
  without.series[0].low.clear(), without.series[0].high.clear();
  CHECK(count(draw_chart(without), pale) < 100);

  SECTION("on a logarithmic axis, a band with a negative limit ends at the edge of the plot") {
    LineChart log = chart;
    log.log_y = true;
    log.series[0].low[1] = -1;
    CHECK(count(draw_chart(log), pale) > 50'000);
  }
  SECTION("a band must have as many values as its curve") {
    LineChart bad = chart;
    bad.series[0].low.pop_back();
    CHECK_THROWS_AS(draw_chart(bad), autograd::ShapeError);
  }
}

TEST_CASE("a picture has the same bytes when several threads draw it at the same time", "[plot]") {
  const auto picture = [] {
    const LineChart chart{"Title",    "step", "loss", {{"a", {0, 1, 2}, {3, 1, 2}}},
                          {{"b", 1}}, false};
    return encode_png(draw_chart(chart), "alt");
  };
  std::vector<std::future<std::string>> others;
  for (int i = 0; i < 4; ++i) others.push_back(std::async(std::launch::async, picture));
  const std::string here = picture();
  CHECK(here.size() > 1000);
  for (auto& other : others) CHECK(other.get() == here);
}

}  // namespace heed::plot
