// Tests of SVG pictures: the same texts, rectangles and curves as in the Image of the same drawing,
// and files that are valid XML for every text.
#include "tools/plot/svg.h"

#include "autograd/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/pictures.h"
#include "tools/plot/network.h"

namespace heed::plot {
namespace {

// Returns the text between the first `begin` after `from` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end,
                    std::size_t from = 0) {
  const std::size_t at = text.find(begin, from);
  if (at == std::string::npos) return "(missing)";
  const std::size_t first = at + begin.size();
  return text.substr(first, text.find(end, first) - first);
}

int occurrences(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

// Returns the contents of the elements of the picture that are text.
std::vector<std::string> texts_of(const std::string& svg) {
  std::vector<std::string> texts;
  for (std::size_t at = svg.find("</metadata>"); (at = svg.find("<text ", at)) != svg.npos; ++at)
    texts.push_back(between(svg, ">", "<", at));
  return texts;
}

// Draws the rectangles of an SVG file into an Image. Fails if one has another form.
Image rectangles_of(const std::string& svg) {
  int width = 0, height = 0;
  REQUIRE(std::sscanf(between(svg, "viewBox=\"", "\"").c_str(), "0 0 %d %d", &width, &height) == 2);
  Image image(width, height, Rgb{1, 2, 3});
  for (std::size_t at = 0; (at = svg.find("<rect ", at)) != std::string::npos; ++at) {
    int x = 0, y = 0, w = 0, h = 0;
    unsigned r = 0, g = 0, b = 0;
    REQUIRE(std::sscanf(svg.c_str() + at,
                        "<rect y=\"%d\" height=\"%d\" fill=\"#%2x%2x%2x\" x=\"%d\" width=\"%d\"/>",
                        &y, &h, &r, &g, &b, &x, &w) == 7);
    image.rect(x, y, w, h, {std::uint8_t(r), std::uint8_t(g), std::uint8_t(b)});
  }
  return image;
}

template <class Drawing>
std::string svg_of(const Drawing& drawing) {
  SvgCanvas canvas;
  draw(drawing, canvas);
  return canvas.encode("title", "description");
}

HeatmapGrid some_grid() {
  HeatmapGrid grid{.title = "Two panels", .panel_columns = 2, .scale = ColorScale::kDiverging};
  for (const float shift : {0.0f, 1.0f}) {
    Panel panel{"L0H0", 3, 4, {}};
    for (int i = 0; i < 12; ++i) panel.values.push_back(float(i % 5) - 2 + shift);
    panel.masked.assign(12, 0);
    panel.masked[3] = panel.masked[7] = 1;
    grid.panels.push_back(panel);
  }
  grid.row_labels = {"a", "b", "c"};
  grid.row_axis = "query", grid.col_axis = "key", grid.value_name = "value";
  return grid;
}

}  // namespace

TEST_CASE("a heat map has the same rectangles and texts as SVG and as pixels", "[plot]") {
  const HeatmapGrid grid = some_grid();
  const std::string svg = svg_of(grid);
  const Image image = draw_heatmap(grid), rectangles = rectangles_of(svg);
  REQUIRE(rectangles.width() == image.width());
  REQUIRE(rectangles.height() == image.height());
  const auto in_text = [&](int x, int y) {
    return std::any_of(
        image.text_boxes().begin(), image.text_boxes().end(), [&](const TextBox& box) {
          return x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
        });
  };
  int different = 0, compared = 0;
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x)
      if (!in_text(x, y)) ++compared, different += !(rectangles.at(x, y) == image.at(x, y));
  CHECK(different == 0);
  CHECK(compared > image.width() * image.height() / 2);
  std::vector<std::string> drawn;
  for (const TextBox& box : image.text_boxes()) drawn.push_back(box.text);
  CHECK(texts_of(svg) == drawn);
}

TEST_CASE("texts have the position, anchor and size of the same text in an Image", "[plot]") {
  SvgCanvas canvas;
  canvas.resize(100, 100);
  canvas.text(10, 20, "left", {.size = 22});
  canvas.text(50, 20, "middle", {.size = 22, .align = Align::kCenter});
  canvas.text(7, 90, "up", {.color = kMuted, .size = 22, .align = Align::kRight, .upward = true});
  canvas.text(7, 90, "", {.size = 22});
  const std::string svg = canvas.encode("", "");
  const int cap = cap_height(22);  // the baseline is below the tops of the capitals
  CHECK(em_size(22) == Approx(22).margin(0.7));
  CHECK(svg.find("<text x=\"10\" y=\"" + std::to_string(20 + cap) +
                 "\" font-size=\"21.95\" "
                 "text-anchor=\"start\" fill=\"#222222\">left</text>") != std::string::npos);
  CHECK(svg.find("text-anchor=\"middle\" fill=\"#222222\">middle<") != std::string::npos);
  const std::string x = std::to_string(7 + cap);
  CHECK(svg.find("<text x=\"" + x +
                 "\" y=\"90\" font-size=\"21.95\" text-anchor=\"end\" "
                 "fill=\"#6e6e6e\" transform=\"rotate(-90 " +
                 x + " 90)\">up</text>") != std::string::npos);
  CHECK(texts_of(svg).size() == 3);
  CHECK(svg.find("font-family=\"'DejaVu Sans', sans-serif\"") != std::string::npos);
  CHECK_THROWS_AS(canvas.text(0, 0, "a", {.size = 5}), autograd::ValueError);
}

TEST_CASE("the SVG of every text is valid XML", "[plot]") {
  const std::string hostile = "<a b=\"c\">&amp;]]>'\x01\n\xFF\xEF\xBF\xBE\xC2\x85 λ";
  HeatmapGrid grid = some_grid();
  grid.title = grid.row_labels[1] = hostile;
  SvgCanvas canvas;
  draw(grid, canvas);
  const std::string svg = canvas.encode(hostile, hostile, {{hostile, hostile}});
  // Without the markup of the file, no special character is left.
  std::string rest = svg.substr(svg.find("<svg"));
  for (std::size_t at; (at = rest.find('<')) != std::string::npos;) {
    const std::string element = rest.substr(at, rest.find('>', at) - at + 1);
    CHECK(element.find('<', 1) == std::string::npos);
    CHECK(occurrences(element, "\"") % 2 == 0);
    rest.erase(at, element.size());
  }
  CHECK(rest.find('>') == std::string::npos);
  for (std::size_t at = 0; (at = rest.find('&', at)) != std::string::npos; ++at)
    CHECK(rest.substr(at, 2) == "&#");
  for (const char c : svg) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n'));
  CHECK(svg.find("\xEF\xBF\xBE") == std::string::npos);
  CHECK(svg.find('\xFF') == std::string::npos);
  const std::string escaped =
      "&#60;a b=&#34;c&#34;&#62;&#38;amp;]]&#62;'\\x01\\n\\xff\uFFFD\\x85 λ";
  CHECK(between(svg, "<title>", "</title>") == escaped);
  CHECK(between(svg, "<desc>", "</desc>") == escaped);
  CHECK(svg.find("keyword=\"" + escaped + "\">" + escaped + "</text>") != std::string::npos);
}

TEST_CASE("a curve is one path with its dashes, and dots are circles above it", "[plot]") {
  const double nan = std::nan("");
  LineChart chart{.series = {{.name = "solid", .x = {0, 1, 2, 3, 4}, .y = {1, 2, nan, 3, 1}},
                             {.name = "dashed", .x = {0, 4}, .y = {2, 1}, .dash = 3}}};
  const std::string svg = svg_of(ChartStack{.panels = {chart}});
  CHECK(occurrences(svg, "<path") == 4);  // two curves and two entries of the legend
  CHECK(occurrences(svg, "stroke-dasharray=\"12 5 1.5 5 \"") == 2);
  CHECK(occurrences(svg, "<circle") == 4);
  const std::size_t last = svg.rfind("<path"), solid = svg.rfind("<path", last - 1);
  const std::string path = between(svg, "d=\"", "\"", solid);
  CHECK(occurrences(path, "M") == 2);  // the line breaks at the value that is not finite
  CHECK(occurrences(path, "L") == 2);
  const std::size_t dot = svg.find("<circle");
  CHECK(dot > solid);
  CHECK(dot < last);
  CHECK(texts_of(svg).size() == draw_chart(chart).text_boxes().size());
  chart.series[0].y = {1, 2, 2, 3, 1};
  chart.series[0].low = {0, 1, 1, 2, 0}, chart.series[0].high = {2, 3, 3, 4, 2};
  CHECK(occurrences(svg_of(ChartStack{.panels = {chart}}), "<polygon") == 4);
}

TEST_CASE("values that are not finite draw nothing in SVG", "[plot]") {
  SvgCanvas canvas;
  canvas.resize(10, 10);
  const double nan = std::nan(""), inf = HUGE_VAL;
  canvas.line(nan, 0, 1, 1, kInk);
  canvas.line(0, inf, 1, 1, kInk, 2);
  canvas.area(0, 0, 1, nan, 0, 1, kInk, 0.5);
  canvas.area(1, 0, 1, 1, 0, 1, kInk, 0.5);
  Pen pen{kInk, 1, 2};
  canvas.stroke(pen, {0, nan}, {1, 1});
  CHECK(occurrences(canvas.encode("", ""), "<") == 12);  // the frame of the file and the background
}

TEST_CASE("equal axes have one range, a square plot, lines at 0 and a diagonal", "[plot]") {
  LineChart chart{.x_name = "x", .y_name = "y", .equal = true, .height = 600};
  chart.series = {{.name = "dots",
                   .x = {1, 3, 3.01},
                   .y = {1, 2.9, 2.9},
                   .points = true,
                   .labels = {"", "near", "other"}},
                  {.name = "rings", .x = {2}, .y = {-5}, .points = true, .hollow = true}};
  const ChartStack stack{.panels = {chart}};
  const Image image = draw_chart_stack(stack);
  CHECK(text_faults(image) == "");
  CHECK(has_text(image, "near"));
  CHECK(has_text(image, "other"));
  int labels = 0;  // both axes have this tick
  for (const TextBox& box : image.text_boxes()) labels += box.text == "−4";
  CHECK(labels == 2);
  SvgCanvas canvas;
  draw(stack, canvas);
  const std::string svg = canvas.encode("", "");
  const std::size_t diagonal = svg.find("stroke=\"#6e6e6e\" stroke-width=\"2\" stroke-dasharray");
  REQUIRE(diagonal != std::string::npos);
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  REQUIRE(std::sscanf(between(svg, "d=\"", "\"", diagonal).c_str(), "M%lf %lfL%lf %lf", &x0, &y0,
                      &x1, &y1) == 4);
  CHECK(x1 - x0 == 600);
  CHECK(y0 - y1 == 600);
  CHECK(occurrences(svg, "fill=\"#6e6e6e\" x=") == 2);       // the lines at 0
  CHECK(occurrences(svg, "r=\"7\"") == 2);                   // the ring, and that of the legend
  CHECK(occurrences(svg, "r=\"5\" fill=\"#ffffff\"") == 2);  // their inner parts
  CHECK(occurrences(svg, "r=\"5\"") == 2 + 4);               // the dots, one of them in the legend
  chart.equal = false;
  CHECK(svg_of(ChartStack{.panels = {chart}}).find("#6e6e6e") == std::string::npos);
  // Twenty labels at one place do not overlap. Those that find no place beside the mark are left
  // out.
  chart.equal = true;
  chart.series[0].x.assign(20, 3), chart.series[0].y.assign(20, 3);
  chart.series[0].labels.assign(20, "L0H1");
  const Image crowded = draw_chart_stack({.panels = {chart}});
  CHECK(text_faults(crowded) == "");
  const auto drawn = std::count_if(crowded.text_boxes().begin(), crowded.text_boxes().end(),
                                   [](const TextBox& box) { return box.text == "L0H1"; });
  CHECK(drawn == 1);
}

TEST_CASE("a network has its nodes, and edges that go around nodes", "[plot]") {
  const Network network{
      .title = "N",
      .nodes = {{"embed", 0, 0}, {"L0H0", 2, 0}, {"logits", 9, 0}},
      .edges = {
          {"embed", "L0H0", "a", -4}, {"L0H0", "logits", "b", 2}, {"embed", "logits", "c", -1}}};
  SvgCanvas canvas;
  draw(network, canvas);
  const std::string svg = canvas.encode("", "");
  for (const char* name : {">embed<", ">L0H0<", ">logits<", ">N<"})
    CHECK(svg.find(name) != std::string::npos);
  CHECK(svg.find("stroke-width=\"9\"") != std::string::npos);  // the largest
  CHECK(svg.find("stroke-width=\"4.5\"") != std::string::npos);
  const std::string around = svg.substr(svg.find("stroke-width=\"2.25\""));
  CHECK(std::ranges::count(around.substr(0, around.find("/>")), 'L') == 3);
  Network wrong = network;
  wrong.edges[0].to = "L9H9";
  CHECK_THROWS_AS(draw(wrong, canvas), autograd::ValueError);
}

}  // namespace heed::plot
