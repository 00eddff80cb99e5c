// Tests of the data of a study's page. The data must contain the numbers of the study. If the
// sequence is long, tokens are combined into blocks.
#include "tools/heed/study/page_data.h"

#include "autograd/ops/ops.h"
#include "nn/study/routes.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"
#include "tests/support/page_map.h"

namespace {

using namespace heed;
using heed::testing::decoded;

// A study of a model with random weights, and its pane of the page. Checkpoint 0 contains only some
// of the maps, checkpoint 1 contains all of them.
struct PagedStudy {
  nn::Study study;
  nn::Routes routes;  // of layer 1
  nn::Json pane;

  explicit PagedStudy(std::int64_t length, std::int64_t window = 0) {
    std::vector<std::string> tokens;
    nn::Transformer::Options o{
        .vocab = 5, .layers = 2, .context = length, .attention = {.d_model = 8, .heads = 2}};
    o.attention.dtype = autograd::float64;
    o.attention.window = window;
    const nn::Transformer model = nn::testing::random_model(o);
    nn::Sequence s;
    for (std::int64_t t = 0; t < length; ++t) {
      s.inputs.push_back(t % 5), s.targets.push_back((t + 1) % 5), s.counted.push_back(true);
      tokens.push_back(std::to_string(t));
    }
    study = nn::study(model, nn::make_batch({s}), {});
    routes = nn::routes(model, study, 1);
    pane = sequence_json(tokens);
    pane["checkpoints"] = std::vector{checkpoint_json(7, model, study, false),
                                      checkpoint_json(8, model, study, true)};
  }
  const nn::Json& checkpoint(std::size_t i) const { return pane.find("checkpoints")->items()[i]; }
  const nn::Json& map(const char* name, std::size_t i) const {
    return checkpoint(1).find("maps")->find(name)->items()[i];
  }
  // Returns the routes of layer 1, after it has checked the sums of their parts.
  const nn::Json& checked_routes() const {
    const nn::Json& route = checkpoint(1).find("routes")->items()[1];
    for (std::size_t t = 0; t < pane.find("tokens")->items().size(); ++t) {
      double all = 0;
      for (const nn::Json& part : route.find("parts")->items())
        all += part.find("values")->items()[t].number();
      CHECK(all == Approx(route.find("total")->items()[t].number()).epsilon(1e-5));
    }
    return route;
  }
};

// Checks a map of blocks of `block` x `block` tokens: expected(i, j) adds the value of a cell to a
// block. NaN: the mask hides it.
template <class Add>
void check_map(const nn::Json& map, std::int64_t length, std::int64_t block, const Add& add) {
  const std::vector<double> cells = decoded(map);
  const double step = map.find("scale")->number() / 32767;
  std::size_t at = 0;
  for (std::int64_t row = 0; row < length / block; ++row)
    for (std::int64_t column = 0; column <= row; ++column, ++at) {
      CAPTURE(row, column);
      double expected = NAN;
      for (std::int64_t i = block * row; i < block * (row + 1); ++i)
        for (std::int64_t j = block * column; j < block * (column + 1) && j <= i; ++j)
          add(expected, i, j);
      if (std::isnan(expected))
        CHECK(std::isnan(cells[at]));
      else  // the sign is unknown if two cells have the largest magnitude
        CHECK(std::abs(std::abs(cells[at]) - std::abs(expected)) <= step);
    }
  CHECK(at == cells.size());
}

TEST_CASE("the page has the maps and routes of the study") {
  const PagedStudy p(6, 3);
  CHECK(*p.pane.find("block") == 1);
  CHECK(p.pane.find("tokens")->items().size() == 6);
  CHECK(p.pane.find("texts") == nullptr);
  const auto& shown = p.checkpoint(0).find("maps")->entries();
  REQUIRE(shown.size() == 3);
  CHECK((shown[0].first == "hook_pattern" && shown[1].first == "hook_attn_scores_grad"));
  CHECK((shown[2].first == "routes_from" && shown[2].second.items().empty()));
  CHECK(*p.checkpoint(1).find("step") == 8);
  CHECK(p.checkpoint(1).find("value")->number() == p.study.value);
  const nn::Tensor array = p.study.layers[1].pattern_grad;
  check_map(p.map("hook_pattern_grad", 3), 6, 1,  // of L1H1, with a window of three tokens
            [&](double& value, std::int64_t i, std::int64_t j) {
              if (i - j < 3) value = array.at({0, 1, i, j});
            });
  const nn::Json& route = p.checked_routes();
  for (std::size_t t = 0; t < 6; ++t) {
    const nn::Tensor gradient = select(select(p.routes.total, 0, 0), 0, std::int64_t(t));
    CHECK(route.find("total")->items()[t].number() ==
          Approx(std::sqrt(sum(gradient * gradient).item())).epsilon(1e-6));
    CHECK(route.find("total")->items()[t].dump().size() <= 14);  // "1.234567e-123" or shorter
  }
}

TEST_CASE("a long sequence is reduced to blocks with the largest visible cell of each") {
  const PagedStudy p(130);
  CHECK(*p.pane.find("block") == 2);
  CHECK(*p.pane.find("length") == 130);
  CHECK(p.pane.find("tokens")->items()[1].text() == "2-3");
  REQUIRE(p.pane.find("texts")->items().size() == 130);
  CHECK(p.pane.find("texts")->items()[3].text() == "3");
  const nn::Tensor array = p.study.layers[0].scores_grad;
  check_map(p.map("hook_attn_scores_grad", 0), 130, 2,
            [&](double& largest, std::int64_t i, std::int64_t j) {
              const double cell = array.at({0, 0, i, j});
              if (!(std::abs(cell) <= std::abs(largest))) largest = cell;
            });
  check_map(p.map("routes_from", 3), 130, 2, [&](double& total, std::int64_t i, std::int64_t j) {
    total = (std::isnan(total) ? 0 : total) + p.routes.from.at({0, 1, i, j});
  });
  CHECK(p.checked_routes().find("total")->items().size() == 65);
}

}  // namespace
