// Tests of shards. Up to rounding, a batch in shards gives the same gradients and the same run as
// the whole batch.
#include "nn/lab/train/shards.h"

#include "nn/lab.h"
#include "nn/lab/train/cost/memory.h"
#include "tests/support/catch.h"
#include "tests/support/runs.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using heed::lab::testing::FixedBatch;

// Returns a batch whose sequences have different numbers of targets: the first sequence has two
// targets, and the last sequence has a target at every position.
std::vector<Sequence> uneven(Index size, Index T, Index vocab) {
  Generator g(3);
  std::vector<Sequence> batch;
  for (Index b = 0; b < size; ++b) {
    Sequence& s = batch.emplace_back();
    for (Index t = 0; t < T; ++t) {
      s.inputs.push_back(draw_below(vocab, g));
      const bool ignored = b + 1 < size && t != T - 1 && t > T * b / size;
      s.targets.push_back(ignored ? kIgnored : draw_below(vocab, g));
      s.counted.push_back(!ignored);
    }
  }
  return batch;
}

RunConfig tiny_in_shards(Index shards) {
  RunConfig c = preset("markov");  // every position has a target
  c.model.layers = 1, c.model.mlp = true, c.model.attention.bias = true;
  c.model.attention.d_model = 16, c.model.attention.heads = 2, c.model.context = 12, c.batch = 8,
  c.eval_batch = 16;
  c.steps = 6, c.warmup = 2, c.model.attention.dtype = heed::autograd::float64, c.shards = shards;
  // The optimizer is SGD, because AdamW divides by the root of the mean squared gradient, which
  // would amplify rounding errors of gradients near 0.
  c.optimizer = OptimizerKind::kSGD, c.momentum = 0.9, c.lr = 0.3, c.min_lr = 0;
  return c;
}

double largest_difference(const Transformer& a, const Transformer& b) {
  double largest = 0;
  const auto x = parameters(a), y = parameters(b);
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, max(abs(x[i].tensor - y[i].tensor)).item());
  return largest;
}

TEST_CASE("shards with different numbers of targets give the step of the whole batch") {
  for (const Index shards : {2, 4, 8}) {
    const auto trainer = [](Index k) {
      const TaskInfo info = make_task("markov", 12)->info();
      return Trainer(tiny_in_shards(k),
                     std::make_unique<FixedBatch>(info, uneven(8, 12, info.classes)));
    };
    Trainer whole = trainer(1), split = trainer(shards);
    for (int i = 0; i < 4; ++i) {
      const MetricsRow a = whole.step(), b = split.step();
      INFO(shards << " shards, step " << i);
      CHECK(std::abs(a.loss - b.loss) <= 1e-14 * a.loss);
      CHECK(std::abs(a.grad_norm - b.grad_norm) <= 1e-12 * a.grad_norm);
    }
    CHECK(largest_difference(whole.model, split.model) <= 1e-12);
    CHECK(largest_difference(whole.model, split.model) > 0);  // the order of additions differs
  }
}

TEST_CASE("shards are summed as a balanced tree, at any number of threads") {
  const heed::autograd::testing::Threads restore_at_end;
  const RunConfig c = tiny_in_shards(8);
  Generator g(1);
  Transformer model = make_model(c, 8, 8, g);
  const Batch batch = make_batch(uneven(8, 12, 8));
  const double targets = sum(to(ne(batch.targets, double(kIgnored)), float64)).item();
  std::vector<Tensor> wrt;
  for (const NamedTensor& p : parameters(model)) wrt.push_back(p.tensor);
  struct Terms {
    double loss;
    std::vector<Tensor> gradients;
  };
  const auto plus = [](Terms a, const Terms& b) {
    a.loss += b.loss;
    for (std::size_t i = 0; i < a.gradients.size(); ++i)
      a.gradients[i] = a.gradients[i] + b.gradients[i];
    return a;
  };
  std::vector<Terms> of;
  for (Index b = 0; b < 8; ++b) {
    const Tensor loss = training_loss(model, slice(batch.inputs, 0, b, b + 1),
                                      slice(batch.targets, 0, b, b + 1), {}, Reduction::kSum) *
                        (1 / targets);
    of.push_back({loss.item(), grad(loss, wrt)});
  }
  const Terms tree = plus(plus(plus(of[0], of[1]), plus(of[2], of[3])),
                          plus(plus(of[4], of[5]), plus(of[6], of[7])));
  Terms line = of[0];
  for (std::size_t i = 1; i < 8; ++i) line = plus(line, of[i]);
  const auto equals = [&](const Terms& terms) {
    bool equal = true;
    for (std::size_t i = 0; i < wrt.size(); ++i)
      equal &= terms.gradients[i].to_vector<double>() == wrt[i].grad().to_vector<double>();
    return equal;
  };
  for (const int threads : {1, 2, 4, 8}) {
    heed::autograd::set_num_threads(threads);
    Generator dropout;
    CAPTURE(threads);
    CHECK(Shards().set_gradients(model, batch, c, 0, dropout) == tree.loss);
    CHECK(equals(tree));
    CHECK_FALSE(equals(line));
  }
}

TEST_CASE("a shard's dropout depends only on seed, step and shard") {
  const auto first = [](std::int64_t seed, std::int64_t step, std::int64_t shard) {
    Generator g = shard_dropout(seed, step, shard);
    return g.next_u64();
  };
  CHECK(first(1, 2, 3) == first(1, 2, 3));
  CHECK(first(1, 2, 3) != first(2, 2, 3));
  CHECK(first(1, 2, 3) != first(1, 3, 3));
  CHECK(first(1, 2, 3) != first(1, 2, 4));
  CHECK(first(1, 2, 3) != first(1, 3, 2));
}

TEST_CASE("shards and accumulate are powers of two that divide the batch") {
  for (const Index bad : {3, 5, 16}) {
    RunConfig c = tiny_in_shards(bad);
    CHECK_THROWS_WITH(
        validate(c),
        Contains("`shards`: needs a power of two that divides `batch` 8, at most 8, got"));
    c.shards = 1, c.accumulate = bad;
    CHECK_THROWS_WITH(
        validate(c),
        Contains("`accumulate`: needs a power of two that divides `batch` 8, at most 8, got"));
  }
  RunConfig c = tiny_in_shards(3);
  c.batch = 9;
  CHECK_THROWS_AS(validate(c), ValueError);
}

TEST_CASE("the default number of shards depends on batch, tokens and weights") {
  const auto shards = [](const char* name, Index batch = 0, bool is_double = false) {
    RunConfig c = preset(name);
    if (batch > 0) c.batch = batch;
    if (is_double) c.model.attention.dtype = heed::autograd::float64;
    resolve_shards(c, 65, 65);
    return c.shards;
  };
  CHECK(shards("micro") == 2);
  CHECK(shards("toy") == 16);
  CHECK(shards("toy", 0, true) == 8);  // the weights do not fit into 512 KB
  CHECK(shards("chargpt") == 2);
  CHECK(shards("small") == 4);  // the weights take more than 8 MB
  CHECK(shards("small", 32) == 16);
  CHECK(shards("small", 12) == 4);  // 8 does not divide 12
  CHECK(shards("small", 7) == 1);   // odd
  CHECK(shards("toy", 512) == 64);  // at most 64
  CHECK(shards("micro", 8) == 1);   // too little work
}

TEST_CASE("accumulate above shards raises shards; a resumed run refuses it") {
  RunConfig c = tiny_in_shards(2);
  c.accumulate = 4;
  Trainer t(c);
  CHECK(t.config().shards == 4);
  c = t.config();
  c.accumulate = 8;
  CHECK_THROWS_WITH(t.set(c),
                    Contains("`accumulate`: needs at most the 4 shards of this run, got 8"));
  c.accumulate = 1;
  t.set(c);
  CHECK(t.config().accumulate == 1);
  c.shards = 2;
  CHECK_THROWS_WITH(t.set(c), Contains("cannot change 'shards = 4' of a run to 'shards = 2'"));
  Snapshot edited = t.snapshot();
  edited.config.accumulate = 8;
  CHECK_THROWS_WITH(Trainer::from(edited),
                    Contains("`accumulate`: is 8 in the configuration of a run of 4 shards"));
}

TEST_CASE("a batch larger than the training set is reduced to it, and shards must divide it") {
  RunConfig c = preset("modadd");
  c.task_parameters = {{"modulus", "7"}};  // 24 sums to train on
  c.batch = 64, c.shards = 8;
  Trainer t(c);
  CHECK(t.config().batch == 24);
  CHECK(std::isfinite(t.step().loss));
  c.shards = 16;
  CHECK_THROWS_WITH(
      Trainer(c),
      Contains("`shards`: 16 does not divide 24, the size of a batch of all training sequences "
               "of modadd"));
}

TEST_CASE("threads compute shards side by side, as a power of two") {
  const heed::autograd::testing::Threads restore_at_end;
  RunConfig c = tiny_in_shards(8);
  const auto groups = [&](Index own = 8) { return shards_side_by_side(c, 8, 8, own, HUGE_VAL); };
  for (const auto& [threads, expected] : {std::pair(1, 1), {2, 2}, {3, 2}, {8, 8}, {64, 8}}) {
    heed::autograd::set_num_threads(threads);
    CHECK(groups() == expected);
  }
  CHECK(groups(4) == 4);  // the shards of one of two ranks
  c.accumulate = 4;       // 2 shards at a time
  CHECK(groups() == 2);
}

TEST_CASE("shards side by side need at most a quarter of the free memory") {
  const heed::autograd::testing::Threads restore_at_end;
  const RunConfig c = tiny_in_shards(8);
  const double shard = shard_bytes(c, 8, 8), sum = weight_bytes(c.model, 8, 8);
  const auto groups = [&](int threads, double free_bytes) {
    heed::autograd::set_num_threads(threads);
    return shards_side_by_side(c, 8, 8, 8, free_bytes);
  };
  CHECK(groups(8, 4 * 8 * shard) == 8);
  CHECK(groups(8, 4 * 8 * shard - 1) == 4);
  CHECK(groups(8, 0) == 1);
  CHECK(groups(8, std::nan("")) == 1);
  // 2 threads with 4 shards each, and so with 2 partial sums
  CHECK(groups(2, 4 * 2 * (shard + 2 * sum)) == 2);
  CHECK(groups(2, 4 * 2 * (shard + 2 * sum) - 1) == 1);
}

TEST_CASE("a step that fails in shards has the same error at any number of threads") {
  const heed::autograd::testing::Threads restore_at_end;
  std::vector<std::string> errors;
  for (const int threads : {1, 2, 8}) {
    heed::autograd::set_num_threads(threads);
    Trainer t(tiny_in_shards(8));
    t.step();
    t.model.tok.weight.detach().mutable_data<double>()[0] = std::nan("");
    errors.push_back(message_of<heed::autograd::NumericError>([&] { t.step(); }));
    CHECK(errors.back().find("first ") != std::string::npos);  // the op that made the first NaN
    CHECK(errors.back() == errors[0]);
    CHECK(t.steps_done == 1);
  }
}

TEST_CASE("threads that share the ops of a shard change no bit of its gradients") {
  const heed::autograd::testing::Threads restore_at_end;
  RunConfig c = preset("toy");
  c.batch = 8, c.shards = 2;
  Generator g(1);
  Transformer model = make_model(c, 64, 64, g);
  Batch batch;
  for (Tensor* ids : {&batch.inputs, &batch.targets})
    *ids = heed::autograd::randint(0, 64, {8, c.model.context}, g);
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 4, 5, 8}) {
    heed::autograd::set_num_threads(threads);
    const std::uint64_t before = heed::autograd::pool_jobs();
    Generator dropout(1);
    Shards().set_gradients(model, batch, c, 0, dropout);
    CAPTURE(threads);
    // one job for the passes, one for the sums, and the ops' jobs of the teams
    CHECK((heed::autograd::pool_jobs() - before > 20) == (threads > 1));
    std::vector<std::vector<float>> gradients;
    for (const NamedTensor& p : parameters(model))
      gradients.push_back(p.tensor.grad().to_vector<float>());
    if (threads == 1) expected = gradients;
    CHECK(gradients == expected);
  }
}

TEST_CASE("threads that are left share the ops of large shards") {
  const auto teams = [](const char* name, Index shards) {
    RunConfig c = preset(name);
    c.shards = shards;
    return shards_need_teams(c, 65, 65);
  };
  CHECK(!teams("micro", 2));  // 11 million operations
  CHECK(!teams("toy", 16));   // 83 million
  CHECK(teams("toy", 8));
  CHECK(teams("chargpt", 2));
  CHECK(teams("small", 8));
}

TEST_CASE("an observer sees the ops of all shards") {
  struct Count : heed::autograd::OpObserver {
    int ops = 0;
    void saw(const heed::autograd::Op&, const heed::autograd::Inputs&,
             const heed::autograd::Tensor&) override {
      ++ops;
    }
  };
  const heed::autograd::testing::Threads restore_at_end;
  const auto ops = [](int threads) {
    heed::autograd::set_num_threads(threads);
    Trainer t(tiny_in_shards(8));
    t.step();
    const Count count;
    t.step();
    return count.ops;
  };
  const int all = ops(1);
  CHECK(all > 100);
  for (int i = 0; i < 5; ++i) CHECK(ops(4) == all);
}

}  // namespace
