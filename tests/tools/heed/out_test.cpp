// Tests of the output of a command as text and JSON.
#include "tools/heed/report/out.h"

#include "tests/support/catch.h"
#include "tools/heed/report/evaluation_report.h"

namespace {

using namespace heed;

TEST_CASE("what is set is JSON, in order; a number that is not finite is null") {
  Out out;
  CHECK(out.as_json().empty());
  out.set("loss", NAN);
  out.set_all(Value::object({{"run", "a"}, {"rows", Value::array()}}));
  CHECK(out.as_json() == "{\"loss\":null,\"run\":\"a\",\"rows\":[]}\n");
  CHECK(out.as_text().empty());
}

TEST_CASE("a table aligns numbers right, wraps its last column and omits columns without values") {
  Out out;
  const std::string path(90, 'p'),
      words = "aaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee ffffffff";
  out.text("title");
  out.table({"name", "loss", "share", "none", "what"},
            {{"x\ty", "1.5", "12 / 20", "-", words + " " + words},
             {"ä", number_text("{:.3f}", -12.0), "-", "", "b"},
             {"z", number_text("{:.3f}", NAN), "+3.4 %", "-", path}});
  CHECK(out.as_text() ==
        "title\n"
        "name     loss    share  what\n"
        "x\\ty      1.5  12 / 20  " +
            words + "\n" + std::string(24, ' ') + words +
            "\n"
            "ä     -12.000        -  b\n"
            "z           -   +3.4 %  " +
            path + "\n");
  Out facts;
  facts.gap();
  facts.table({"", ""}, {{"run", "1: r"}, {"parameters", "a b"}});
  facts.gap(), facts.gap();
  facts.table({"x"}, {{"1"}, {"inf"}, {"-inf"}, {"nan"}});
  CHECK(facts.as_text() == "run         1: r\nparameters  a b\n\n   x\n   1\n inf\n-inf\n nan\n");
}

TEST_CASE("paragraphs wrap at 80 columns and keep their indentation; blocks do not") {
  const std::string a(50, 'a'), b(40, 'b');
  CHECK(wrapped(a + " " + b, 3) == a + "\n   " + b);
  Out out;
  out.text("  {} {}\nc", a, b);
  out.block(a + " " + b + "\n");
  CHECK(out.as_text() == "  " + a + "\n  " + b + "\nc\n" + a + " " + b + "\n");
}

TEST_CASE("the evaluation of a diverged model shows its loss as nan") {
  Out out;
  lab::Evaluation diverged{};
  diverged.loss = NAN;
  add_evaluation(out, diverged, *lab::make_task("copy"));
  CHECK(out.as_text().find("nan") != std::string::npos);
}

}  // namespace
