// Tests of cells: effects against a hand-written change of z, blocks against a mask, and names.
#include "nn/lab/study/cells.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

double value_with(const Transformer& model, const Batch& batch, Probe& probe, Index b = 0) {
  const NoGrad guard;
  return to_doubles(
      objective_values(model(batch.inputs, {.probe = &probe}), batch, kDiff))[std::size_t(b)];
}

TEST_CASE("the effect of cells is L with A (v' - v) added to z, also for several donors") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Batch batch = three_sequences();
    const Donors donors = next_donors(batch);
    const BaseRun run(model, batch, kDiff);
    const std::vector<std::vector<Cell>> sets{
        {{{1, 2}, 5, 4}}, {{{0, 1}, 4, 3}}, {{{0, 1}, 4, 3}, {{1, 0}, 5, 5}, {{1, 0}, 5, 4}}};
    const auto effects = CellEffects(run, donors).effects(sets);
    const auto pass = record_forward(model, batch.inputs, {"attn.hook_pattern", "attn.hook_v"}).at;
    for (std::size_t n = 0; n < sets.size(); ++n)
      for (Index b = 0; b < 3; ++b) {
        double mean = 0;
        for (const Index donor : {(b + 1) % 3, (b + 2) % 3}) {
          Probe probe;
          for (Index layer = 0; layer < o.layers; ++layer)
            probe.replace(block_site(layer, "attn.hook_z"), [&, layer](const Tensor& z) {
              const Tensor y = contiguous(z.detach() + 0);
              const auto l = std::size_t(layer);
              for (const Cell& c : sets[n]) {
                if (c.head.layer != layer) continue;
                const Index kv = c.head.head * pass[1][l].size(2) / 3, d = z.size(3);
                for (Index k = 0; k < d; ++k)
                  y.mutable_data<double>()[((b * 6 + c.query) * 3 + c.head.head) * d + k] +=
                      pass[0][l].at({b, c.head.head, c.query, c.key}) *
                      (pass[1][l].at({donor, c.key, kv, k}) - pass[1][l].at({b, c.key, kv, k}));
              }
              return y;
            });
          mean += (value_with(model, batch, probe, b) - run.values[std::size_t(b)]) / 2;
        }
        CHECK(std::abs(effects[n].changes[std::size_t(b)] - mean) <= 1e-11);
      }
  }
}

TEST_CASE("blocked cells are L with their scores at -inf") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const std::vector<Cell> set{{{0, 1}, 4, 3}, {{1, 0}, 5, 4}, {{1, 0}, 5, 5}};
    Probe probe;
    for (Index layer = 0; layer < o.layers; ++layer)
      probe.replace(block_site(layer, "attn.hook_attn_scores"), [&, layer](const Tensor& x) {
        const Tensor y = contiguous(x.detach() + 0);
        for (const Cell& c : set)
          if (c.head.layer == layer)
            y.mutable_data<double>()[(c.head.head * 6 + c.query) * 6 + c.key] = -HUGE_VAL;
        return y;
      });
    const BaseRun run(model, one_sequence(), kDiff);
    CHECK(std::abs(block_cells(run, set).mean -
                   (value_with(model, one_sequence(), probe) - run.values[0])) <= 1e-12);
  }
  CHECK(cells_text({{{0, 1}, 4, 2}, {{1, 0}, 5, 3}}) == "L0H1[4,2], L1H0[5,3]");
  CHECK(cells_text(std::vector<Cell>(5, Cell{{0, 1}, 4, 2})) == "5 cells");
}

TEST_CASE("cells are written L1H0[5,3], with ranges and *; names parse to the same cells") {
  const auto parsed = [](const std::string& text) { return parse_cells("--block", text, 2, 2, 6); };
  const auto names = [&](const std::string& text) {
    std::string all;
    for (const Cell& c : parsed(text)) all += (all.empty() ? "" : ",") + cell_name(c);
    CHECK(parsed(all) == parsed(text));
    return all;
  };
  CHECK(names("L1H0[5,3]") == "L1H0[5,3]");
  CHECK(names("L1H0[5,0-1],L0H1[2,2]") == "L1H0[5,0],L1H0[5,1],L0H1[2,2]");
  CHECK(names("L0H0[*,4]") == "L0H0[4,4],L0H0[5,4]");
  CHECK(names("L0H0[1,*]") == "L0H0[1,0],L0H0[1,1]");
  CHECK(names("L0H1,L1H0[5,3]") == "L0H1[5,3],L1H0[5,3]");
  CHECK(names("L0H0[2-3,2-3],L0H1,L1H1[0,*]") ==
        "L0H0[2,2],L0H0[3,2],L0H0[3,3],L0H1[0,0],L1H1[0,0]");
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"", "is not a cell"},
           {"L1H0", "is not a cell"},
           {"L1H0[5]", "is not a cell"},
           {"L1H0[5,3", "is not a cell"},
           {"L1H0 [5,3]", "is not a head"},
           {"L1H0[5,3],", "is not a cell"},
           {"L1H0[a,3]", "is not a cell"},
           {"L1H0[5,3]]", "is not a cell"},
           {"L1H0[,]", "is not a cell"},
           {"[5,3]", "is not a head"},
           {"L1H0[5,3-]", "is not a cell"},
           {"L1H0[5", "write a head, a query and a key"},
           {"L2H0[5,3]", "'L2H0' is not a head of this model"},
           {"L1H0[6,3]", "positions are 0 to 5"},
           {"L1H0[5,3-2]", "positions are 0 to 5"},
           {"L1H0[3,5]", "the query cannot read it"},
           {"L1H0[5,3],L1H0[*,3]", "names L1H0[5,3] twice"},
           {"L1H0[99999999999999999999,3]", "is not a cell"}}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parsed(text), Contains("--block") && Contains(error));
  }
}

}  // namespace
