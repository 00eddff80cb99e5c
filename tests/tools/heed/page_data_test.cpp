// Tests of the data of a study's page. The data must contain the numbers of the study. If the
// sequence is long, tokens are combined into blocks.
#include "tools/heed/study/page_data.h"

#include "autograd/ops/ops.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/models.h"
#include "tests/support/page_map.h"

namespace {

using namespace heed;
using heed::testing::decoded;

// A study of a model with random weights, and its pane of the page. Checkpoint 0 contains only some
// of the maps, checkpoint 1 contains all of them.
struct PagedStudy {
  nn::Batch sequence;
  nn::Study study;
  nn::Routes routes;  // of layer 1
  PagePane page{"run", "hash", "the loss", {}, 2, 2};
  nn::Json pane;

  explicit PagedStudy(std::int64_t length, std::int64_t window = 0) {
    nn::Transformer::Options o{
        .vocab = 5, .layers = 2, .context = length, .attention = {.d_model = 8, .heads = 2}};
    o.attention.dtype = autograd::float64;
    o.attention.window = window;
    const nn::Transformer model = nn::testing::random_model(o);
    nn::Sequence s;
    for (std::int64_t t = 0; t < length; ++t) {
      s.inputs.push_back(t % 5), s.targets.push_back((t + 1) % 5), s.counted.push_back(true);
      page.tokens.push_back(std::to_string(t));
    }
    sequence = nn::make_batch({s});
    study = nn::study(model, sequence, {});
    routes = nn::routes(model, study, 1);
    page.add_checkpoint(7, &model, study, false);
    page.add_checkpoint(8, &model, study, true);
    pane = page.json();
  }
  const nn::Json& checkpoint(std::size_t i) const { return pane.find("checkpoints")->items()[i]; }
};

TEST_CASE("the page has the maps, heads and routes of the study") {
  const PagedStudy p(6, 3);
  CHECK(*p.pane.find("block") == 1);
  CHECK(p.pane.find("tokens")->items().size() == 6);
  CHECK(p.pane.find("texts") == nullptr);
  const auto& shown = p.checkpoint(0).find("maps")->entries();
  REQUIRE(shown.size() == 2);
  CHECK((shown[0].first == "hook_pattern" && shown[1].first == "hook_attn_scores_grad"));
  const nn::Json& complete = p.checkpoint(1);
  CHECK(*complete.find("step") == 8);
  CHECK(complete.find("value")->number() == p.study.value);
  const auto& numbers = complete.find("heads")->items()[2].find("values")->items();
  CHECK(numbers.size() == nn::head_quantities().size());
  CHECK(numbers[nn::kImportance].number() == p.study.heads[2][nn::kImportance]);
  const auto& maps = complete.find("maps")->find("hook_pattern_grad")->items();
  REQUIRE(maps.size() == 4);
  const nn::Tensor array = p.study.layers[1].pattern_grad;
  const std::vector<double> cells = decoded(maps[3]);  // the map of L1H1
  const double step = maps[3].find("scale")->number() / 32767;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j <= i; ++j, ++at) {
      CAPTURE(i, j);
      if (i - j >= 3)  // key j is outside the window
        CHECK(std::isnan(cells[at]));
      else
        CHECK(std::abs(cells[at] - array.at({0, 1, i, j})) <= step);
    }
  const nn::Json& route = complete.find("routes")->items()[1];
  const nn::Tensor total = p.routes.total;
  for (std::size_t t = 0; t < 6; ++t) {
    const nn::Tensor gradient = select(select(total, 0, 0), 0, std::int64_t(t));
    CHECK(route.find("total")->items()[t].number() ==
          Approx(std::sqrt(sum(gradient * gradient).item())).epsilon(1e-6));
    CHECK(route.find("total")->items()[t].dump().size() <= 14);  // "1.234567e-123" or shorter
    double shares = 0;
    for (const nn::Json& part : route.find("parts")->items())
      shares += part.find("share")->items()[t].number();
    CHECK(shares == Approx(1).epsilon(1e-5));
  }
  CHECK(p.checkpoint(0).find("routes")->items()[1].find("from")->items().empty());
  CHECK(route.find("from")->items().size() == 2);
}

TEST_CASE("a long sequence is reduced to blocks with the largest visible cell of each") {
  const PagedStudy p(130);
  CHECK(*p.pane.find("block") == 2);
  CHECK(p.pane.find("tokens")->items().size() == 65);
  CHECK(p.pane.find("tokens")->items()[1].text() == "2-3");
  REQUIRE(p.pane.find("texts")->items().size() == 130);
  CHECK(p.pane.find("texts")->items()[3].text() == "3");
  CHECK(*p.pane.find("length") == 130);
  const nn::Json& map = p.checkpoint(1).find("maps")->find("hook_attn_scores_grad")->items()[0];
  const nn::Tensor array = p.study.layers[0].scores_grad;
  const std::vector<double> cells = decoded(map);
  REQUIRE(cells.size() == 65 * 66 / 2);
  // Returns true if x equals the cell with the largest magnitude in its block of 2 x 2 cells. If
  // two cells have this magnitude and different signs, x may equal either cell.
  const auto is_largest = [&](double x, std::int64_t row, std::int64_t column, double within) {
    double most = 0;
    bool found = false;
    for (std::int64_t i = 2 * row; i < 2 * row + 2; ++i)
      for (std::int64_t j = 2 * column; j < 2 * column + 2 && j <= i; ++j) {
        const double cell = array.at({0, 0, i, j});
        most = std::max(most, std::abs(cell));
        found = found || std::abs(x - cell) <= within;
      }
    return found && std::abs(std::abs(x) - most) <= within;
  };
  const double step = map.find("scale")->number() / 32767;
  std::size_t at = 0;
  for (std::int64_t row = 0; row < 65; ++row)
    for (std::int64_t column = 0; column <= row; ++column, ++at)
      CHECK(is_largest(cells[at], row, column, step));
  const nn::Json& route = p.checkpoint(1).find("routes")->items()[1];
  CHECK(route.find("total")->items().size() == 65);
  const nn::Json& from =
      route.find("from")->items()[1];  // a block of `from` is the sum of its cells
  const std::vector<double> sent = decoded(from);
  const double unit = from.find("scale")->number() / 32767;
  at = 0;
  for (std::int64_t row = 0; row < 65; ++row)
    for (std::int64_t column = 0; column <= row; ++column, ++at) {
      double total = 0;
      for (std::int64_t i = 2 * row; i < 2 * row + 2; ++i)
        for (std::int64_t j = 2 * column; j < 2 * column + 2 && j <= i; ++j)
          total += p.routes.from.at({0, 1, i, j});
      CHECK(std::abs(sent[at] - total) <= unit);
    }
  double shares = 0;
  for (const nn::Json& part : route.find("parts")->items())
    shares += part.find("share")->items()[3].number();
  CHECK(shares == Approx(1).epsilon(1e-5));
}

TEST_CASE("the data of a page states which numbers of heads are the main ones") {
  const PagedStudy p(6);
  const nn::Json data = pane_data({p.page});
  const auto& columns = data.find("head_columns")->items();
  REQUIRE(columns.size() == nn::head_quantities().size());
  std::int64_t main = 0;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    CHECK(*columns[k].find("name") == nn::head_quantities()[k].name);
    main += *columns[k].find("main") == true;
    if (*columns[k].find("name") == "induction") CHECK(*columns[k].find("main") == true);
    if (*columns[k].find("name") == "dW_Q") CHECK(*columns[k].find("main") == false);
  }
  CHECK(main >= 6);  // the table shows the first five or six of them
}

}  // namespace
