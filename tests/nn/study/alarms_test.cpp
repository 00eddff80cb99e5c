// Tests of the alarms of a training run: numbers of heads, thresholds, and the lines of heads.csv.
#include "nn/study/alarms.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::testing::Folder;

using History = std::vector<MetricsRow>;
using Names = std::vector<std::string>;

MetricsRow evaluation_row(std::int64_t step, double loss, double optimal = NAN) {
  MetricsRow row(step);
  row.eval_loss = loss, row.eval_optimal = optimal;
  return row;
}

const History kHigh{evaluation_row(0, 3, 1), evaluation_row(1, 1.41, 1)},
    kLow{evaluation_row(0, 3, 1), evaluation_row(1, 1.39, 1)},
    kStalled{evaluation_row(0, 4), evaluation_row(1, 2), MetricsRow(2),
             evaluation_row(3, 2), evaluation_row(4, 2), evaluation_row(5, 1.99)};

HeadReport health(double saturated, double dW_Q, double dW_K, double dW_V, double largest) {
  HeadReport head{};
  head[kDWQ] = dW_Q, head[kDWK] = dW_K, head[kDWV] = dW_V;
  head[kSaturatedQueries] = saturated, head[kLargestScore] = largest;
  return head;
}

TEST_CASE("head_health() has the numbers of study() and skips padding, in every variant") {
  Batch batch = batch_of({{0, 3, 1, 3, 6, 2, 1, 3}, {5, 5, 2, 0, 1, 4, 4, 6}});
  batch.padding = {0, 3};
  for (const NamedModel& m : studied_models()) {
    CAPTURE(m.name);
    const Transformer model = random_model(m.options);
    const Study s = study(model, batch, {Objective::kLoss, 0, 0, {}});
    const std::vector<HeadReport> heads = head_health(model, batch);
    const auto raw = record_forward(model, batch.inputs, {"attn.hook_attn_scores_raw"}).at[0];
    REQUIRE(heads.size() == s.heads.size());
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const auto& [layer, head] = static_cast<const HeadIndex&>(heads[i]);
      CHECK(HeadIndex(s.heads[i]) == HeadIndex{layer, head});
      for (const Quantity q : {kDWQ, kDWK, kDWV}) CHECK(heads[i][q] == Approx(s.heads[i][q]));
      const LayerStudy& arrays = s.layers[std::size_t(layer)];
      double largest = 0, queries = 0, saturated = 0;
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t query = 0; query < batch.tokens_of(b); ++query) {
          double gain = 0, keys = 0;
          for (std::int64_t key = 0; key <= query; ++key) {
            if (arrays.scores.at({b, head, query, key}) == -HUGE_VAL) continue;
            const double weight = arrays.pattern.at({b, head, query, key});
            gain += weight * (1 - weight), ++keys;
            largest =
                std::max(largest, std::abs(raw[std::size_t(layer)].at({b, head, query, key})));
          }
          queries += keys > 1, saturated += keys > 1 && gain < 0.02;
        }
      CHECK(heads[i][kLargestScore] == largest);
      CHECK(heads[i][kSaturatedQueries] == Approx(saturated / queries));
    }
    for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
  }
}

TEST_CASE(
    "head_health() is NaN if each query has one key; a batch without targets raises no alarm") {
  Batch batch = batch_of({{0, 3, 1, 6}});
  Transformer::Options o = small_options();
  o.attention.window = 1;
  CHECK(std::isnan(head_health(random_model(o), batch).front()[kSaturatedQueries]));
  batch.targets = full({1, 4}, kIgnored, int64);
  CHECK(alarms_of(head_health(random_model(small_options()), batch).front(), kHigh).empty());
}

TEST_CASE("a head is stuck if it is saturated and gets no gradient while the loss is high") {
  const HeadReport stuck = health(0.95, 0.9e-3, 0.9e-3, 1, 10);
  const auto is_stuck = [](const HeadReport& head, const History& history) {
    return alarms_of(head, history) == Names{"stuck"};
  };
  CHECK(is_stuck(stuck, kHigh));
  CHECK(is_stuck(stuck, {evaluation_row(0, 3, 1)}));
  CHECK(is_stuck(stuck, kStalled));
  CHECK(!is_stuck(stuck, kLow));
  CHECK(!is_stuck(stuck, {}));
  MetricsRow first(1);  // without an evaluation at step 0
  first.loss = 3;
  CHECK(is_stuck(stuck, {first, evaluation_row(2, 1.41, 1)}));
  CHECK(!is_stuck(stuck, {first, evaluation_row(2, 1.39, 1)}));
  History text = kStalled;
  text.back().eval_loss = 1.97;
  CHECK(!is_stuck(stuck, text));
  text = {evaluation_row(0, 2), evaluation_row(1, 2), evaluation_row(2, 2)};
  CHECK(!is_stuck(stuck, text));
  for (const Quantity q : {kSaturatedQueries, kDWQ, kDWK, kDWV})
    for (const double value : {q == kSaturatedQueries || q == kDWV ? 0.8 : 1.1e-3, double(NAN)}) {
      HeadReport other = stuck;
      other[q] = value;
      CHECK(!is_stuck(other, kHigh));
    }
}

TEST_CASE("a head explodes above a |score| of 1000, or earlier if it is saturated at a high loss") {
  const auto explodes = [](double score, double saturated, const History& history) {
    return alarms_of(health(saturated, 1, 1, 1, score), history) == Names{"exploding"};
  };
  CHECK(explodes(1001, 0, kLow));
  CHECK(!explodes(999, 1, kLow));
  CHECK(!explodes(999, 1, kStalled));
  CHECK(explodes(NAN, 0, kLow));
  CHECK(explodes(51, 0.25, kHigh));
  CHECK(!explodes(51, 0.24, kHigh));
  CHECK(!explodes(49, 1, kHigh));
}

// Multiplies W_Q of a head by 50.
void enlarge_queries(const Trainer& t, std::int64_t layer, std::int64_t head) {
  const NoGrad guard;
  const MultiHeadAttention& attention = t.model.blocks[std::size_t(layer)].attn;
  const std::int64_t size = attention.options.d_head;
  const Tensor rows = slice(attention.weights.in_proj_weight, 0, head * size, (head + 1) * size);
  copy_(rows, 50 * rows);
}

std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_CASE("an alarm advises only what is not set") {
  RunConfig c = preset("induction");
  c.model.attention.scale = ScaleRule::kNone, c.model.attention.qk_norm = true;
  const Folder folder;
  Trainer t(c);
  {
    const NoGrad guard;
    const Tensor weight = t.model.blocks[0].attn.q_norm->weight;
    copy_(weight, weight * 1e3);
  }
  t.evaluate(false);
  HeadAlarms alarms(RunFolder(folder.path()), t);
  const std::vector<std::string> news = alarms.after_evaluation();
  REQUIRE(!news.empty());
  CHECK_THAT(news[0],
             Catch::Matchers::EndsWith("; a smaller `lr` or `scale` 1/sqrt-d-head may help"));
}

TEST_CASE("the head whose queries are too large is named, once") {
  for (const HeadIndex head : {HeadIndex{0, 1}, HeadIndex{1, 0}}) {
    const Folder folder;
    Trainer t(preset("induction"));
    enlarge_queries(t, head.layer, head.head);
    t.evaluate(false);
    const RunFolder run(folder.path());
    HeadAlarms alarms(run, t);
    const std::vector<std::string> news = alarms.after_evaluation();
    REQUIRE(news.size() == 1);
    CHECK_THAT(news[0], Catch::Matchers::StartsWith("step 0: " + head_name(head) +
                                                    " is exploding: the softmax is saturated ") &&
                            Catch::Matchers::EndsWith("; a smaller `lr` or `qk-norm` may help"));
    t.step(), t.evaluate(false);
    CHECK(alarms.after_evaluation().empty());
    const std::string text = bytes_of(run.file(RunFolder::kHeads));
    CHECK_THAT(text, Catch::Matchers::StartsWith(
                         "step,layer,head,quantity,value\n0,0,0,saturated_queries,"));
    CHECK(count(text, "\n") == 1 + 2 * (4 * 5 + 1));
    for (const char* step : {"\n0,", "\n1,"})
      CHECK(count(text, step + std::to_string(head.layer) + "," + std::to_string(head.head) +
                            ",exploding,1\n") == 1);
  }
}

TEST_CASE("a resume removes the lines after the saved step, and adds no line twice") {
  const Folder folder;
  const RunFolder run(folder.path());
  const auto heads = [&] { return bytes_of(run.file(RunFolder::kHeads)); };
  Trainer t(tiny_run());
  HeadAlarms alarms(run, t);
  std::vector<std::string> texts;  // after the evaluations of steps 0 to 3
  for (std::int64_t step = 0; step < 4; ++step) {
    if (step > 0) t.step();
    t.evaluate(false);
    alarms.after_evaluation();
    texts.push_back(heads());
    if (step == 1) run.save(t.snapshot());
  }
  CHECK(count(texts[3], "\n") == 1 + 4 * 2 * 5);
  Trainer resumed = run.resume();
  HeadAlarms(run, resumed).after_evaluation();  // step 1, which the file already has
  CHECK(heads() == texts[1]);
  const auto write = [&](const std::string& text) {
    write_file(run.file(RunFolder::kHeads).string(), std::string_view(text));
  };
  write(texts[2].substr(0, texts[2].size() - 5));  // a kill has truncated the last line
  HeadAlarms again(run, resumed);
  CHECK(heads() == texts[1]);
  run_to(resumed, 2, 1);
  again.after_evaluation();
  CHECK(heads() == texts[2]);
  // The saved state does not contain the evaluation of its last step.
  t.step();
  run.save(t.snapshot());
  write(texts[3] + "4,0,0,dW_Q,1\n");
  Trainer last = run.resume();
  HeadAlarms(run, last);
  CHECK(heads() == texts[3]);
}

TEST_CASE("heads are measured without a change of the run") {
  const Folder folder;
  Trainer plain(tiny_run()), observed(tiny_run());
  HeadAlarms alarms(RunFolder(folder.path()), observed);
  for (int step = 0; step < 6; ++step) {
    plain.step();
    observed.step();
    alarms.after_evaluation();
  }
  const Snapshot a = plain.snapshot(), b = observed.snapshot();
  CHECK((a.data_stream == b.data_stream && a.dropout_stream == b.dropout_stream));
  for (std::size_t i = 0; i < a.tensors.size(); ++i)
    CHECK(all(eq(a.tensors[i].tensor, b.tensors[i].tensor)).item() != 0);
}

TEST_CASE("patterns of long contexts and of many heads are measured on few tokens") {
  const Folder folder;
  RunConfig c = tiny_run("induction");
  c.model.context = 1536, c.model.attention.heads = 8, c.batch = 1, c.eval_batch = 1;
  Trainer t(c);
  t.evaluate(false);
  HeadAlarms(RunFolder(folder.path()), t).after_evaluation();
  CHECK(count(bytes_of(folder.path() / "heads.csv"), "\n") == 1 + 2 * 8 * 5);
}

}  // namespace
