// Tests of shards. Up to rounding, a batch in shards gives the same gradients and the same run as
// the whole batch.
#include "nn/train/shards.h"

#include "nn/lab.h"
#include "nn/train/cost/memory.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::nn;
using heed::autograd::ValueError;

// Returns a batch whose sequences have different numbers of targets: the first sequence has two
// targets, and the last sequence has a target at every position.
Batch uneven(const Task& task, std::int64_t size) {
  Generator g(3);
  Batch batch = task.sample(size, g);
  const std::int64_t T = batch.inputs.size(1);
  auto* target = batch.targets.mutable_data<std::int64_t>();
  for (std::int64_t b = 0; b + 1 < size; ++b)
    for (std::int64_t t = 0; t < T; ++t)
      if (t != T - 1 && t > T * b / size) target[b * T + t] = kIgnored;
  return batch;
}

RunConfig tiny_in_shards(std::int64_t shards) {
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
  const auto x = parameters(const_cast<Transformer&>(a)),
             y = parameters(const_cast<Transformer&>(b));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto u = x[i].tensor.to_vector<double>(), v = y[i].tensor.to_vector<double>();
    for (std::size_t k = 0; k < u.size(); ++k) largest = std::max(largest, std::abs(u[k] - v[k]));
  }
  return largest;
}

TEST_CASE("shards with different numbers of targets give the step of the whole batch") {
  for (const std::int64_t shards : {2, 4, 8}) {
    Trainer whole(tiny_in_shards(1)), split(tiny_in_shards(shards));
    const Batch batch = uneven(*whole.task, 8);
    for (int i = 0; i < 4; ++i) {
      const MetricsRow a = whole.step(&batch), b = split.step(&batch);
      INFO(shards << " shards, step " << i);
      CHECK(std::abs(a.loss - b.loss) <= 1e-14 * a.loss);
      CHECK(std::abs(a.grad_norm - b.grad_norm) <= 1e-12 * a.grad_norm);
    }
    CHECK(largest_difference(whole.model, split.model) <= 1e-12);
    CHECK(largest_difference(whole.model, split.model) > 0);  // the order of additions differs
  }
}

TEST_CASE("shards are summed as a balanced tree") {
  std::string order;
  const auto f = [&](std::int64_t i) {
    order += std::to_string(i);
    ShardGradients s;
    // Because of rounding, the sum of these values a, b, c, d depends on the order of the
    // additions: (a + b) + (c + d) is 0, and ((a + b) + c) + d is 1.
    const double values[] = {1e16, 1, -1e16, 1};
    s.loss = values[i];
    s.gradients = {heed::autograd::full({1}, values[i], heed::autograd::float64), Tensor()};
    return s;
  };
  const ShardGradients sum = sum_shards(0, 4, f);
  CHECK(order == "0123");
  CHECK(sum.loss == (1e16 + 1.0) + (-1e16 + 1.0));
  CHECK(sum.loss != ((1e16 + 1.0) + -1e16) + 1.0);
  CHECK(sum.gradients[0].item() == sum.loss);
  CHECK(!sum.gradients[1].defined());
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
  for (const std::int64_t bad : {3, 5, 16}) {
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
  const auto shards = [](const char* name, std::int64_t batch = 0, bool is_double = false) {
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
  const RunConfig c = tiny_in_shards(8);
  for (const auto& [threads, expected] : {std::pair(1, 1), {2, 2}, {3, 2}, {8, 8}, {64, 8}}) {
    heed::autograd::set_num_threads(threads);
    CHECK(Trainer(c).shards_side_by_side() == expected);
  }
  RunConfig turns = c;
  turns.accumulate = 4;  // 2 shards at a time
  CHECK(Trainer(turns).shards_side_by_side() == 2);
}

TEST_CASE("shards side by side need at most a quarter of the free memory") {
  CHECK(shards_side_by_side(8, 4, 1e6, 0, 16e6) == 4);
  CHECK(shards_side_by_side(8, 4, 1.01e6, 0, 16e6) == 2);
  CHECK(shards_side_by_side(8, 4, 1e9, 0, 16e6) == 1);
  CHECK(shards_side_by_side(2, 64, 0, 0, 0) == 2);
  CHECK(shards_side_by_side(8, 4, std::nan(""), 0, 16e6) == 1);
  // 2 threads with 4 shards each, and so with 2 partial sums: 2 x (1 + 2) MB
  CHECK(shards_side_by_side(8, 2, 1e6, 1e6, 24e6) == 2);
  CHECK(shards_side_by_side(8, 2, 1e6, 1.01e6, 24e6) == 1);
}

TEST_CASE("a step in shards on several threads has four barriers") {
  const heed::autograd::testing::Threads restore_at_end;
  for (const int threads : {2, 4, 8}) {
    heed::autograd::set_num_threads(threads);
    RunConfig c = preset("micro");
    c.task = "markov", c.shards = 8;
    Trainer t(c);
    t.step();
    const std::uint64_t before = heed::autograd::pool_jobs();
    for (int i = 0; i < 10; ++i) t.step();
    CAPTURE(threads);
    // In each step: the passes, the sum of the gradients, the norm of the gradient, and the update.
    CHECK(heed::autograd::pool_jobs() - before == 40);
  }
}

TEST_CASE("a step of micro in two shards moves as many cache lines as tools/peers/README.md says") {
  // With two groups, the thread that adds an element reads the other thread's gradient, and one of
  // the two threads reads a weight that the other has updated: each line crosses once.
  Generator g(1);
  Transformer micro = make_model(preset("micro"), 32, 32, g);
  std::int64_t lines = 0;
  for_each_tensor(micro, [&](const Tensor& p) { lines += (p.numel() * 4 + 63) / 64; });
  std::ifstream page(HEED_SOURCE_DIR "/tools/peers/README.md");
  std::string text{std::istreambuf_iterator(page), {}};
  std::ranges::replace(text, '\n', ' ');
  const std::string n = std::to_string(lines);
  CHECK_THAT(text, Contains("moves " + n + " cache lines of weights and " + n + " of gradients"));
}

TEST_CASE("the error of a step in shards is that of the lowest shard, at any number of threads") {
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
  Generator g(1);
  Transformer model = make_model(c, 64, 64, g);
  Batch batch;
  for (Tensor* ids : {&batch.inputs, &batch.targets})
    *ids = heed::autograd::randint(0, 64, {8, c.model.context}, g);
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 4, 5, 8}) {
    heed::autograd::set_num_threads(threads);
    const std::uint64_t before = heed::autograd::pool_jobs();
    const ShardGradients sum = ShardThreads().sum(
        model, 0, 2, std::min(2, threads), true, [&](Transformer& own, std::int64_t shard) {
          Generator dropout(1);
          return shard_gradients(own, batch, shard, 2, dropout);
        });
    CAPTURE(threads);
    // one job for the passes, one for the sums, and the ops' jobs of the teams
    CHECK((heed::autograd::pool_jobs() - before > 20) == (threads > 1));
    std::vector<std::vector<float>> gradients;
    for (const Tensor& t : sum.gradients) gradients.push_back(t.to_vector<float>());
    if (threads == 1) expected = gradients;
    CHECK(gradients == expected);
  }
}

TEST_CASE("threads that are left share the ops of large shards") {
  const auto teams = [](const char* name, std::int64_t shards) {
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

TEST_CASE("the sum of shards on threads has the gradients that some of them lack") {
  const heed::autograd::testing::Threads restore_at_end;
  heed::autograd::set_num_threads(4);
  RunConfig c = preset("micro");
  Generator g(1);
  Transformer model = make_model(c, 32, 32, g);
  const auto one = [](std::int64_t shard) {
    ShardGradients s;
    s.loss = 1;
    for (int p = 0; p < 2; ++p)  // the first parameter has no gradient in shards 0 and 3
      s.gradients.push_back(
          p == 0 && shard % 3 == 0 ? Tensor() : heed::autograd::full({2}, double(1 + shard)));
    return s;
  };
  const ShardGradients sum = ShardThreads().sum(
      model, 0, 4, 4, false, [&](Transformer&, std::int64_t shard) { return one(shard); });
  CHECK(sum.loss == 4);
  CHECK(sum.gradients[0].to_vector<float>() == std::vector<float>{5, 5});
  CHECK(sum.gradients[1].to_vector<float>() == std::vector<float>{10, 10});
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
