// Tests of metrics.csv. The file is complete at any moment, except that a kill may truncate the
// last line.
#include "autograd/base/files.h"
#include "nn/lab.h"
#include "nn/run/metrics_file.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::nn;
using heed::autograd::read_file;
namespace fs = std::filesystem;

std::vector<MetricsRow> rows() {
  MetricsRow first(0), second(1);
  first.eval_loss = 2.5, first.eval_optimal = 1.0 / 3;
  first.train_loss = 1.5, first.train_accuracy = 0.25;
  second.loss = 2.25, second.lr = 1e-3, second.grad_norm = HUGE_VAL, second.clipped_norm = 1;
  return {first, second};
}

TEST_CASE("the text of metrics.csv") {
  CHECK(metrics_csv(rows()) ==
        "step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy,clipped_norm,train_loss,"
        "train_accuracy\n"
        "0,,,,2.5,0.33333333333333331,,,1.5,0.25\n"
        "1,2.25,0.001,inf,,,,1,,\n");
}

TEST_CASE("metrics.csv is read as it was written; a truncated last line is ignored") {
  MetricsRow first(1), second(2);
  first.loss = 1.0 / 3, first.lr = 1e-3;
  second.eval_loss = 2.5, second.eval_optimal = 2, second.eval_accuracy = 0.25;
  const std::string text = metrics_csv({first, second});
  const auto parse = [](const std::string& csv) { return parse_metrics_csv(csv, "m.csv"); };
  CHECK(metrics_csv(parse(text)) == text);
  const auto torn = parse(text.substr(0, text.size() - 1));
  REQUIRE(torn.size() == 1);
  CHECK(torn[0].loss == first.loss);
  CHECK(parse(metrics_csv({})).empty());
}

TEST_CASE("a metrics.csv with an invalid line is rejected, with the number of the line") {
  const auto damage = [](const std::string& csv) {
    return message_of<heed::autograd::IoError>([&] { parse_metrics_csv(csv, "m.csv"); });
  };
  const std::string header = "step,loss,lr\n";
  for (const std::string text : {"", "step,lo", "a,b\n1,2\n", "step,lr,loss\n", "step,los\n", "\n",
                                 ",\n", "step,loss,loss\n1,2,3\n"}) {
    INFO(text);
    CHECK(damage(text).starts_with("m.csv: damaged, line 1: it is not 'step,loss,lr,grad_norm,"));
  }
  CHECK(damage("step" + std::string(65'536, ',') + "\n").starts_with("m.csv: damaged, line 1: "));
  std::string wide = metrics_csv({});
  wide.pop_back();
  CHECK(damage(wide + std::string(65'536, ',') + "\n") ==
        "m.csv: damaged, line 1: it has more than 65536 fields");
  CHECK(damage(header + "1,2,3\n4,5") == "");  // the last line is incomplete
  CHECK(damage(header + "1,2,3\n2,5\n") == "m.csv: damaged, line 3: it has 2 fields, needs 3");
  CHECK(damage(header + "1,2,3\n\n") == "m.csv: damaged, line 3: it has 1 fields, needs 3");
  CHECK(damage(header + "0,,\n1,2,x\x01\n") ==
        "m.csv: damaged, line 3: \"x\\u0001\" is not a number");
  CHECK(damage(header + "1,2 ,3\n") == "m.csv: damaged, line 2: \"2 \" is not a number");
  for (const char* step : {"", "-1", "2", "0.5", "nan", "x"})
    CHECK(damage(header + step + ",2,3\n") ==
          "m.csv: damaged, line 2: its step is \"" + std::string(step) + "\", needs 0 or 1");
  for (const char* step : {"", "6", "7", "9", "8.5", "80"}) {
    std::string csv = header;
    for (int i = 0; i <= 7; ++i) csv += std::to_string(i) + ",2,3\n";
    CHECK(damage(csv + step + ",2,3\n9,2,3\n") ==
          "m.csv: damaged, line 10: its step is \"" + std::string(step) + "\", needs 8");
  }
}

TEST_CASE("a metrics.csv with fewer or more columns at the end is read") {
  for (const char* csv :
       {"step,loss,lr\n0,2.5,\n1,inf,3\n",
        "step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy,clipped_norm\n0,2.5,,,,,,\n"
        "1,inf,3,,,,,\n",
        "step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy,clipped_norm,train_loss,"
        "train_accuracy,later\n0,2.5,,,,,,,,,7\n1,inf,3,,,,,,,,8\n"}) {
    const auto rows = parse_metrics_csv(csv, "m.csv");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].loss == 2.5);
    CHECK(std::isnan(rows[0].lr));
    CHECK((rows[1].step == 1 && rows[1].loss == HUGE_VAL && rows[1].lr == 3));
    CHECK(std::isnan(rows[1].clipped_norm));
  }
}

TEST_CASE("rows are written during training; a save rewrites the file; a resume continues it") {
  const heed::testing::Folder made;
  const fs::path folder = made.path();
  const auto csv = [&] { return read_file((folder / "metrics.csv").string()); };
  RunConfig c = preset("reverse");
  c.model.attention.d_model = 16, c.model.context = 8, c.batch = 4, c.eval_batch = 8, c.steps = 6;
  {
    Trainer t(c);
    RunFolder(folder).save(t.snapshot());
    MetricsLog log;
    log.restart(folder / "metrics.csv", t.history().size());
    for (int i = 0; i < 3; ++i) {
      t.step();
      log.append(t.history());
      CHECK(csv() == metrics_csv(t.history()));
    }
    RunFolder(folder).save(t.snapshot());
    log.restart(folder / "metrics.csv", t.history().size());
    t.step();
    log.append(t.history());
    CHECK(csv() == metrics_csv(t.history()));
  }  // simulates a kill: the last row, of a step that was not saved, is truncated below
  fs::resize_file(folder / "metrics.csv", fs::file_size(folder / "metrics.csv") - 5);
  Trainer t = RunFolder(folder).resume();
  CHECK(t.steps_done == 3);
  RunFolder(folder).save(t.snapshot());
  CHECK(csv() == metrics_csv(t.history()));
  CHECK(t.history().size() == 3);
  fs::remove_all(folder);
  MetricsLog gone;
  CHECK_THROWS_AS(gone.restart(folder / "metrics.csv", 0), heed::autograd::IoError);
}

}  // namespace
