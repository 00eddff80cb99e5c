// Tests of the pictures of a study: masked cells and metadata. The pictures of
// README.md are compared pixel by pixel: examples/NAME.safetensors contains the arrays of
// examples/NAME.png. If the drawing code has changed, draw the pictures of README.md again with
// this command:
//
//   HEED_REDRAW=1 build/release/tests/heed_tests "[readme_pictures]"
#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include "autograd/base/files.h"
#include "nn/io/json.h"
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/models.h"
#include "tests/support/pictures.h"
#include "tests/support/png_pixels.h"
#include "tools/plot/color_range.h"

namespace {

using namespace heed;
using heed::testing::Folder;
using nn::Tensor;
using plot::same_pixels;

constexpr Index kLength = 6, kWindow = 3;

// Returns a study of a model with two layers of two heads and a window of three tokens.
const lab::Study& windowed_study() {
  static const lab::Study study = [] {
    const nn::Transformer model =
        nn::testing::random_model({.vocab = 5,
                                   .classes = 5,
                                   .layers = 2,
                                   .context = 8,
                                   .attention = {.d_model = 8, .heads = 2, .window = kWindow}});
    const Tensor tokens = autograd::tensor({{0, 1, 2, 3, 4, 0}}, autograd::int64);
    lab::Batch one;
    one.inputs = one.targets = tokens;
    return lab::study(model, one, {});
  }();
  return study;
}
// Returns the array `name`, such as "hook_pattern", of each layer from the file arrays.safetensors.
std::vector<Tensor> layers_of(const nn::SafeTensors& file, std::string_view name) {
  std::vector<Tensor> layers;
  for (const nn::NamedTensor& array : file.tensors)
    if (array.name == nn::block_site(Index(layers.size()), "attn." + std::string(name)))
      layers.push_back(array.tensor);
  return layers;
}

StudyTexts texts_of(const nn::SafeTensors& file) {
  const auto& metadata = file.metadata;
  StudyTexts texts{metadata.at("run"), metadata.at("task"), metadata.at("objective_words"), {}};
  const nn::Json labels = nn::Json::parse(metadata.at("labels"));
  for (const nn::Json& label : labels.items()) texts.tokens.push_back(label.text());
  return texts;
}

StudyTexts texts() { return {"first", "made up", "the mean loss", {"^", "a", "b", "c", " ", "é"}}; }

bool is_hidden(Index query, Index key) { return key > query || key + kWindow <= query; }

TEST_CASE("hidden cells are masked, and the scale ends at 1 or at the largest visible magnitude",
          "[plot]") {
  const lab::Study& s = windowed_study();
  const auto scores = s.by_layer(&lab::LayerStudy::scores);
  for (const lab::MapQuantity& quantity : lab::map_quantities()) {
    INFO(quantity.file);
    const auto maps = s.by_layer(quantity.values);
    const plot::HeatmapGrid grid = study_grid(quantity, maps, scores, texts());
    REQUIRE(grid.panels.size() == 4);
    float visible = 0;
    for (std::size_t h = 0; h < 4; ++h) {
      const plot::Panel& panel = grid.panels[h];
      const auto map = contiguous(select(maps[h / 2], 1, Index(h % 2))).to_vector<float>();
      REQUIRE(panel.masked.size() == map.size());
      for (std::size_t i = 0; i < map.size(); ++i) {
        const auto at = Index(i);
        CHECK((panel.masked[i] != 0) == is_hidden(at / kLength, at % kLength));
        if (panel.masked[i]) continue;
        CHECK(panel.values[i] == map[i]);
        visible = std::max(visible, std::abs(map[i]));
      }
    }
    const bool is_weight = quantity.values == &lab::LayerStudy::pattern;
    CHECK(plot::color_range(grid).limit == (is_weight ? 1.0 : double(visible)));
    if (is_weight) CHECK(plot::color_range(grid).text() == "0 to 1");
    const plot::Image image = plot::draw_heatmap(grid);
    CHECK(plot::text_faults(image) == "");
    CHECK(plot::has_text(image, "gray: masked"));
    // In each of the four panels, 15 of 36 cells are visible and 21 are masked.
    CHECK(plot::count(image, plot::kMaskedGray) > 4 * 15 * 30 * 30);
  }
}

TEST_CASE("pictures have the maps of all heads, and their metadata name the source", "[plot]") {
  const Folder folder;
  const lab::Study& s = windowed_study();
  const PictureSource source{"runs/first", "crc32c 01234567", {"png", "svg"}};
  ResultFolder result(folder.path(), "");
  const auto files = draw_pictures(result, map_pictures(s, texts()), source);
  REQUIRE(files.size() == 6);
  const auto scores = s.by_layer(&lab::LayerStudy::scores);
  for (const lab::MapQuantity& quantity : lab::map_quantities()) {
    const std::string stem{quantity.file};
    INFO(stem);
    const auto maps = s.by_layer(quantity.values);
    const plot::HeatmapGrid grid = study_grid(quantity, maps, scores, texts());
    CHECK(same_pixels(folder / (stem + ".png"), plot::draw_heatmap(grid)));
    CHECK(grid.title.ends_with(", on ^abc␣é"));
    CHECK(std::max(grid.title.size(), grid.caption.size()) <= 100);

    std::map<std::string, std::string> metadata;
    for (const plot::PngText& t : plot::png_texts(folder / (stem + ".png")))
      metadata[t.keyword] = t.text;
    CHECK(metadata["Description"] ==
          fmt::format("{}. {} Run first, task made up; L is the mean loss. {}", grid.title,
                      grid.caption, quantity.what));
    CHECK(metadata["Software"].starts_with("heed "));
    CHECK(metadata["Run"] == "runs/first");
    CHECK(metadata["Weights"] == "crc32c 01234567");
    CHECK(metadata["Color range"] == plot::color_range(grid).text());
    CHECK(metadata.contains("Command line"));
    plot::SvgCanvas svg;
    draw(grid, svg);
    std::vector<plot::PngText> facts = plot::png_texts(folder / (stem + ".png"));
    facts.erase(facts.begin());  // the description
    CHECK(autograd::read_file(folder / (stem + ".svg")) ==
          svg.encode(grid.title, metadata["Description"], facts));
  }
}

TEST_CASE("the hash of weights depends on names and elements, not on their order in a file") {
  const std::vector<nn::NamedTensor> some = {{"a", autograd::tensor({1, 2})},
                                             {"b", autograd::tensor({3, 4}, autograd::float64)}};
  const std::string hash = nn::hash_of_tensors(some);
  CHECK(hash.size() == std::string("crc32c 01234567").size());
  const Folder folder;
  nn::save_safetensors(folder / "f", {some[1], some[0]}, {{"more", "facts"}});
  const nn::SafeTensors file = nn::load_safetensors(folder / "f");
  CHECK(nn::hash_of_tensors({{"a", file.find("a")}, {"b", file.find("b")}}) == hash);
  CHECK(nn::hash_of_tensors({some[1], some[0]}) != hash);
  CHECK(nn::hash_of_tensors({{"c", some[0].tensor}, some[1]}) != hash);
  CHECK(nn::hash_of_tensors({{"a", autograd::tensor({1, 2.0000002})}, some[1]}) != hash);
}

TEST_CASE("the pictures of README.md equal drawings of their arrays, pixel by pixel",
          "[readme_pictures]") {
  const std::filesystem::path examples = HEED_SOURCE_DIR "/examples";
  const std::string readme = autograd::read_file(HEED_SOURCE_DIR "/README.md");
  for (const std::string name : {"study", "induction"}) {
    INFO(name);
    CHECK(readme.find("examples/" + name + ".png") != std::string::npos);
    const nn::SafeTensors stored =
        nn::load_safetensors((examples / (name + ".safetensors")).string());
    const std::string png = (examples / (name + ".png")).string();
    const auto scores = layers_of(stored, "hook_attn_scores");
    const plot::HeatmapGrid grid =
        name == "study"
            ? study_grid(lab::map_quantities()[2], layers_of(stored, "hook_attn_scores_grad"),
                         scores, texts_of(stored))
            : attention_grid(layers_of(stored, "hook_pattern"), scores, texts_of(stored).tokens,
                             stored.metadata.at("title"));
    if (std::getenv("HEED_REDRAW")) {
      std::vector<plot::PngText> metadata = plot::png_texts(png);
      for (plot::PngText& fact : metadata)
        if (fact.keyword == "Color range") fact.text = plot::color_range(grid).text();
      plot::write_png(png, plot::draw_heatmap(grid), grid.title + ". " + grid.caption,
                      {metadata.begin() + 1, metadata.end()});
    }
    CHECK(same_pixels(png, plot::draw_heatmap(grid)));
  }
}

}  // namespace
