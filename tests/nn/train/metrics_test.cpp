// metrics.csv and metrics.jsonl: the same rows, whole at any moment but for a torn last line.
#include "nn/train/metrics.h"

#include <cmath>
#include <sstream>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "nn/io/json.h"
#include "nn/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::nn;
using heed::autograd::read_file;
namespace fs = std::filesystem;

std::vector<MetricsRow> rows() {
  MetricsRow first(0), second(1);
  first.eval_loss = 2.5, first.eval_optimal = 1.0 / 3;
  second.loss = 2.25, second.lr = 1e-3, second.grad_norm = HUGE_VAL, second.clipped_norm = 1;
  return {first, second};
}

TEST_CASE("rows in CSV and JSON lines") {
  CHECK(metrics_csv(rows()) ==
        "step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy,clipped_norm\n"
        "0,,,,2.5,0.33333333333333331,,\n"
        "1,2.25,0.001,inf,,,,1\n");
  CHECK(metrics_jsonl(rows()) ==
        R"({"version":1,"step":0,"loss":null,"lr":null,"grad_norm":null,"eval_loss":2.5,)"
        R"("eval_optimal":0.33333333333333331,"eval_accuracy":null,"clipped_norm":null})"
        "\n"
        R"({"version":1,"step":1,"loss":2.25,"lr":0.001,"grad_norm":null,"eval_loss":null,)"
        R"("eval_optimal":null,"eval_accuracy":null,"clipped_norm":1})"
        "\n");
  std::istringstream lines(metrics_jsonl(rows()));
  for (std::string line; std::getline(lines, line);)
    CHECK(Json::parse(line).find("version")->integer() == kMetricsVersion);
}

TEST_CASE("metrics.csv reads back; a torn last line does not count") {
  MetricsRow first(1), second(2);
  first.loss = 1.0 / 3, first.lr = 1e-3;
  second.eval_loss = 2.5, second.eval_optimal = 2, second.eval_accuracy = 0.25;
  const std::string text = metrics_csv({first, second});
  CHECK(metrics_csv(parse_metrics_csv(text)) == text);
  const auto torn = parse_metrics_csv(text.substr(0, text.size() - 1));
  REQUIRE(torn.size() == 1);
  CHECK(torn[0].loss == first.loss);
  CHECK(parse_metrics_csv("step,loss\n1,2,3\n4,5\n").size() == 1);
  CHECK(parse_metrics_csv("step,loss\n1,2,3\n4,5\n")[0].step == 4);
  CHECK(parse_metrics_csv("").empty());
}

TEST_CASE("while a run trains its rows are in the files; saving rewrites them; resume goes on") {
  const heed::testing::Folder made;
  const fs::path folder = made.path();
  const auto csv = [&] { return read_file((folder / "metrics.csv").string()); };
  const auto jsonl = [&] { return read_file((folder / "metrics.jsonl").string()); };
  RunConfig c = preset("reverse");
  c.model.attention.d_model = 16, c.model.context = 8, c.batch = 4, c.eval_batch = 8, c.steps = 6;
  {
    Trainer t(c);
    t.save(folder);
    MetricsLog log;
    log.restart(folder, t.history().size());
    for (int i = 0; i < 3; ++i) {
      t.step();
      log.append(t.history());
      CHECK(csv() == metrics_csv(t.history()));
      CHECK(jsonl() == metrics_jsonl(t.history()));
    }
    t.save(folder);
    log.restart(folder, t.history().size());
    t.step();
    log.append(t.history());
    CHECK(csv() == metrics_csv(t.history()));
  }  // killed: the last row is of a step that was not saved, and torn
  fs::resize_file(folder / "metrics.csv", fs::file_size(folder / "metrics.csv") - 5);
  Trainer t = Trainer::resume(folder);
  CHECK(t.steps_done == 3);
  t.save(folder);
  CHECK(csv() == metrics_csv(t.history()));
  CHECK(t.history().size() == 3);
  fs::remove_all(folder);
  MetricsLog gone;
  CHECK_THROWS_AS(gone.restart(folder, 0), heed::autograd::IoError);
}

}  // namespace
