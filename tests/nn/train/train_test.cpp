// The training loop: it learns, resumes bit for bit, evaluates without a trace, saves whole files.
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>

#include "autograd/base/files.h"
#include "autograd/base/parallel.h"
#include "nn/io/safetensors.h"
#include "nn/train/generate.h"
#include "nn/train/run_folder.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using heed::autograd::IoError;
using heed::autograd::NumericError;
using heed::autograd::ValueError;
namespace fs = std::filesystem;

// A folder that is gone at the end of the test.
class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() /
              ("heed_train_test_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// While it lives, no file can grow beyond some bytes: a write fails in the middle.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

std::string bytes_of(const fs::path& file) { return read_file(file.string()); }

RunConfig tiny() {
  RunConfig c = preset("reverse");
  c.d_model = 16, c.heads = 2, c.context = 8, c.batch = 8, c.eval_batch = 16;
  c.steps = 12, c.warmup = 2, c.schedule = Decay::kCosine, c.dropout = 0.1;
  return c;
}

void run_to(Trainer& t, std::int64_t step, std::int64_t eval_every) {
  while (t.steps_done < step) {
    t.step();
    if (eval_every > 0 && t.steps_done % eval_every == 0) t.evaluate(false);
  }
}

RunConfig on_text(const fs::path& file, const std::string& text) {
  write_file(file.string(), text);
  RunConfig c = tiny();
  c.task = "text", c.text = file.string();
  return c;
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "naïve line " + std::to_string(i) + "\n";
  return text;
}

// Writes a safetensors file again with one metadata entry changed.
void change_metadata(const fs::path& file, const std::string& key, const std::string& value) {
  SafeTensors content = load_safetensors(file.string());
  content.metadata.at(key) = value;
  save_safetensors(file.string(), content.tensors, content.metadata);
}

TEST_CASE("a tiny model learns one batch by heart") {
  RunConfig c = tiny();
  c.d_model = 32, c.dropout = 0, c.lr = 1e-2, c.schedule = Decay::kConstant, c.batch = 4,
  c.steps = 400;
  Trainer t(c);
  Generator g(3);
  const Batch batch = t.task->sample(c.batch, g);
  double loss = t.step(&batch).loss;
  CHECK(loss == Approx(std::log(16.0)).margin(0.5));  // it begins by guessing
  while (!(loss < 1e-3) && t.steps_done < c.steps) loss = t.step(&batch).loss;
  INFO("after " << t.steps_done << " steps");
  // Four sequences of reverse begin apart, and only answers count: nothing is left to chance.
  CHECK(loss < 1e-3);
}

TEST_CASE("the length of a run can change, but not its schedule") {
  Trainer t(tiny());
  const Schedule before = schedule(t.config());
  t.set_length(24, 3, 4);
  CHECK((t.config().steps == 24 && t.config().eval_every == 3 && t.config().save_every == 4));
  for (std::int64_t step = 0; step < 24; ++step)
    CHECK(schedule(t.config()).lr_at(step) == before.lr_at(step));
  CHECK_THROWS_AS(t.set_length(0, 3, 4), ValueError);
  CHECK(t.config().steps == 24);
  t.set_length(48, 3, 4);
  CHECK(schedule(t.config()).total_steps == 12);
  RunConfig constant = tiny();
  constant.schedule = Decay::kConstant;
  Trainer u(constant);
  u.set_length(24, 3, 4);
  CHECK(u.config().schedule_steps == 0);  // nothing that another run would have to copy
}

TEST_CASE("a run that is made longer is one that was started so") {
  Folder straight, longer;
  RunConfig c = tiny();
  c.steps = 20, c.schedule_steps = 12, c.min_lr = 1e-4;
  Trainer t(c);
  run_to(t, 20, 5);
  t.save(straight.path());
  c.steps = 12, c.schedule_steps = 0;
  Trainer first(c);
  run_to(first, 12, 5);
  first.save(longer.path());
  first.evaluate(false);  // of its end, which the longer run does not have
  first.save_results(longer.path());
  CHECK(bytes_of(longer / "metrics.csv").find("\n12,") != std::string::npos);
  Trainer second = Trainer::resume(longer.path());
  second.set_length(20, 50, 0);
  run_to(second, 20, 5);
  second.save(longer.path());
  for (const char* file : {"model.safetensors", "best.safetensors", "state.safetensors",
                           "metrics.csv", "config.toml"}) {
    INFO(file);
    CHECK(bytes_of(longer / file) == bytes_of(straight / file));
  }
}

TEST_CASE("a resumed run is the straight one, bit for bit, at any number of threads") {
  const int threads = heed::autograd::num_threads();
  Folder straight;
  {
    Trainer t(tiny());
    run_to(t, 12, 3);
    t.save(straight.path());
  }
  for (const int n : {1, 2})
    for (const std::int64_t stop : {0, 5, 6}) {
      heed::autograd::set_num_threads(n);
      Folder folder;
      {
        Trainer t(tiny());
        run_to(t, stop, 3);
        t.save(folder.path());
      }
      Trainer t = Trainer::resume(folder.path());
      CHECK(t.steps_done == stop);
      CHECK(t.warnings.empty());
      run_to(t, 12, 3);
      t.save(folder.path());
      for (const char* file : {"model.safetensors", "best.safetensors", "state.safetensors",
                               "metrics.csv", "config.toml"}) {
        INFO(file << ", " << n << " threads, stopped after " << stop);
        CHECK(bytes_of(folder / file) == bytes_of(straight / file));
      }
    }
  heed::autograd::set_num_threads(threads);
}

// 0 1 2 3 4 0 1 ..., from anywhere on.
TaskFacts facts_of() {
  TaskFacts f;
  f.name = "counting", f.vocabulary = Vocabulary::of("01234"), f.classes = 5, f.context = 8;
  return f;
}
class Counting : public Task {
 public:
  Counting() : Task(facts_of()) {}

 private:
  Sequence draw(Generator& g) const override {
    std::int64_t at = 0;
    g.randint({&at, 1}, 0, 5);
    Sequence s;
    for (; s.inputs.size() < 8; ++at) {
      s.inputs.push_back(at % 5);
      s.targets.push_back((at + 1) % 5);
    }
    s.counted.assign(8, true);
    return s;
  }
};

TEST_CASE("a task of one's own trains, and resumes where it is given again") {
  RunConfig c = tiny();
  c.lr = 1e-2, c.steps = 60;
  Folder straight, folder;
  {
    Trainer t(c, std::make_unique<Counting>());
    run_to(t, 20, 0);
    t.save(folder.path());
    run_to(t, 60, 0);
    const Evaluation e = t.evaluate(true);
    CHECK(e.accuracy == 1.0);
    CHECK(!e.optimal);
    t.save(straight.path());
  }
  CHECK_THROWS_WITH(Trainer::resume(folder.path()), Contains("there is no task 'counting'"));
  Trainer t = Trainer::resume(folder.path(), std::make_unique<Counting>());
  run_to(t, 60, 0);
  t.evaluate(true);
  t.save(folder.path());
  for (const char* file : {"model.safetensors", "state.safetensors", "config.toml"})
    CHECK(bytes_of(folder / file) == bytes_of(straight / file));
  c.context = 10;
  CHECK_THROWS_WITH(Trainer(c, std::make_unique<Counting>()),
                    Contains("counting has sequences of 8 tokens, not 10"));
}

TEST_CASE("training has the same bits at 1, 2, 3 and 8 threads") {
  RunConfig c;  // induction, large enough that every op and product is shared out
  c.mlp = c.bias = true;
  c.dropout = 0.1;
  c.batch = 48, c.steps = kSanitized ? 1 : 3, c.eval_batch = 16;
  const auto trained = [&] {
    Trainer t(c);
    run_to(t, c.steps, 2);
    std::vector<std::vector<float>> weights;
    for (const auto& p : heed::nn::parameters(t.model))
      weights.push_back(p.tensor.to_vector<float>());
    return std::pair(metrics_csv(t.history()), weights);
  };
  const int before = heed::autograd::num_threads();
  heed::autograd::set_num_threads(1);
  const auto [log, weights] = trained();
  for (const int n : {2, 3, 8}) {
    heed::autograd::set_num_threads(n);
    const auto [same_log, same_weights] = trained();
    INFO(n << " threads");
    CHECK(same_log == log);
    CHECK(same_weights == weights);
  }
  heed::autograd::set_num_threads(before);
}

TEST_CASE("evaluating more often changes no weight") {
  Folder folder;
  Trainer never(tiny()), often(tiny());
  run_to(never, 6, 0);
  run_to(often, 6, 1);
  never.save_weights(folder / "never");
  often.save_weights(folder / "often");
  CHECK(bytes_of(folder / "never") == bytes_of(folder / "often"));
}

TEST_CASE("a save that fails leaves the old files whole") {
  Folder folder;
  Trainer t(tiny());
  t.step();
  t.save(folder.path());
  const std::string model = bytes_of(folder / "model.safetensors");
  const std::string state = bytes_of(folder / "state.safetensors");
  t.step();
  {
    const FullDisk full(4096);  // config.toml and metrics.csv still fit, weights do not
    CHECK_THROWS_AS(t.save(folder.path()), IoError);
  }
  CHECK(bytes_of(folder / "model.safetensors") == model);
  CHECK(bytes_of(folder / "state.safetensors") == state);
  CHECK(Trainer::resume(folder.path()).steps_done == 1);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
}

TEST_CASE("a step that fails takes the same batch again") {
  Folder folder;
  Trainer t(tiny());
  t.step();
  t.save(folder / ".");
  const std::string before = bytes_of(folder / "state.safetensors");
  const Tensor weight = parameters(t.model)[0].tensor;
  const Tensor kept = to(weight.detach() * 1.0, weight.dtype());
  {
    const NoGrad guard;
    copy_(weight, full(weight.shape(), std::nan(""), weight.dtype()));
  }
  CHECK_THROWS_AS(t.step(), NumericError);
  {
    const NoGrad guard;
    copy_(weight, kept);
  }
  t.save(folder / ".");
  CHECK(bytes_of(folder / "state.safetensors") == before);
}

TEST_CASE("a loss that is not finite is never the best") {
  Folder folder;
  Trainer t(tiny());
  const Tensor weight = parameters(t.model)[0].tensor;
  const Tensor kept = to(weight.detach() * 1.0, weight.dtype());
  const auto set = [&](const Tensor& x) {
    const NoGrad guard;
    copy_(weight, x);
  };
  set(full(weight.shape(), std::nan(""), weight.dtype()));
  CHECK(!std::isfinite(t.evaluate(false).loss));
  CHECK_THROWS_WITH(t.save(folder.path()), Contains("tok.weight is not finite after step 0"));
  CHECK_THROWS_AS(t.save(folder.path()), NumericError);
  CHECK(fs::is_empty(folder.path()));
  CHECK_THROWS_WITH(sample_token(full({3}, std::nan("")), {.greedy = true}, default_generator()),
                    Contains("the logit of token 0 is nan"));
  set(kept);
  t.step();
  CHECK(std::isfinite(t.evaluate(false).loss));
  t.save(folder.path());
  CHECK(load_safetensors((folder / "best.safetensors").string()).metadata.at("step") == "1");
}

TEST_CASE("a temperature near 0 takes the likeliest") {
  Generator g(1);
  const Tensor logits = heed::autograd::tensor({1000.0, 1001.0, -1000.0}, heed::autograd::float32);
  for (int i = 0; i < 20; ++i) CHECK(sample_token(logits, {.temperature = 1e-300}, g) == 1);
}

TEST_CASE("a run on a text needs the text to evaluate and resume, not to generate") {
  Folder folder;
  const fs::path file = folder / "text.txt";
  {
    Trainer t(on_text(file, some_text()));
    t.step();
    t.evaluate(false);
    t.save(folder.path());
  }
  const LoadedRun full = load_run(folder.path(), "best.safetensors", Use::kSequences);
  CHECK(full.step == 1);
  CHECK(full.task->evaluation(0, 1).references.contains("4-gram"));

  std::string other = some_text();
  other[3] = 'a', other[4] = 'a';  // as long, but not the same
  write_file(file.string(), other);
  CHECK_THROWS_WITH(load_run(folder.path(), "model.safetensors", Use::kSequences),
                    Contains(file.string()));
  CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  CHECK_THROWS_WITH(Trainer::resume(folder.path()), Contains(file.string()));

  fs::remove(file);
  CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  CHECK_THROWS_AS(Trainer::resume(folder.path()), IoError);
  const LoadedRun prompts = load_run(folder.path(), "model.safetensors", Use::kPrompts);
  CHECK(prompts.task->facts().vocabulary == full.task->facts().vocabulary);
  CHECK(prompts.task->prompt("naïve").inputs.to_vector<std::int64_t>() ==
        full.task->prompt("naïve").inputs.to_vector<std::int64_t>());
  CHECK_THROWS_AS(prompts.task->evaluation(0, 1), ValueError);
}

TEST_CASE("a damaged or foreign state is refused or told of") {
  Folder folder;
  Trainer(tiny()).save(folder.path());
  const fs::path state = folder / "state.safetensors";
  change_metadata(state, "simd_target", "ABACUS");
  const std::vector<std::string> warnings = Trainer::resume(folder.path()).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("ABACUS"));
  for (const char* key : {"data_stream", "dropout_stream", "step", "best_step"}) {
    const SafeTensors good = load_safetensors(state.string());
    change_metadata(state, key, "12x");
    CHECK_THROWS_AS(Trainer::resume(folder.path()), IoError);
    CHECK_THROWS_WITH(Trainer::resume(folder.path()), Contains(state.string()));
    save_safetensors(state.string(), good.tensors, good.metadata);
  }
}

// As an editor that keeps the checksum right would do it.
TEST_CASE("what a state says must fit together") {
  Folder folder;
  Trainer t(tiny());
  run_to(t, 6, 3);
  t.save(folder.path());
  const fs::path path = folder / "state.safetensors";
  const SafeTensors good = load_safetensors(path.string());
  const auto refusal = [&](const SafeTensors& changed) {
    save_safetensors(path.string(), changed.tensors, changed.metadata);
    try {
      Trainer::resume(folder.path());
    } catch (const IoError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto with = [&](const std::string& key, const std::string& value) {
    SafeTensors changed = good;
    changed.metadata.at(key) = value;
    return refusal(changed);
  };
  CHECK(refusal(good).empty());
  CHECK_THAT(with("step", "5"), Contains("says step 5, its history ends with step 6"));
  CHECK_THAT(with("step", "9223372036854775807"), Contains("its history ends with step 6"));
  CHECK_THAT(with("best_step", "4"), Contains("which its history does not have"));
  CHECK_THAT(with("best_loss", "1.5"), Contains("which its history does not have"));
  CHECK_THAT(with("best_loss", ""), Contains("unexpected \"best."));
  const auto with_tensor = [&](const std::string& name, const Tensor& x) {
    SafeTensors changed = good;
    for (NamedTensor& n : changed.tensors)
      if (n.name == name) n.tensor = x;
    return refusal(changed);
  };
  for (const std::int64_t updates : {std::int64_t(-1), std::int64_t(7), INT64_MAX})
    CHECK_THAT(with_tensor("optimizer.tok.weight.step", from_data(std::vector{updates}, {})),
               Contains("optimizer.tok.weight.step is"));
  for (const double step : {std::nan(""), 1e300, -1.0, 2.0, 0.5}) {
    Tensor rows = good.find("history") * 1.0;
    *rows.mutable_data<double>() = step;
    CHECK_THAT(with_tensor("history", rows), Contains("of its history is of step"));
  }
  CHECK_THAT(with_tensor("history", zeros({6, 3}, float64)),
             Contains("has no 'history' [rows, 8]"));
}

TEST_CASE("a config.toml that the run was not trained with is refused") {
  const Folder folder;
  Trainer t(tiny());
  run_to(t, 3, 0);
  t.save(folder.path());
  RunConfig other = t.config();
  other.steps = 20, other.eval_every = 1;  // these may change, the schedule may not
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK_THROWS_WITH(Trainer::resume(folder.path()), Contains("trained with 'schedule-steps = 12'"));
  other.schedule_steps = 12;
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK(Trainer::resume(folder.path()).steps_done == 3);
  other.lr *= 2;
  write_file((folder / "config.toml").string(), std::string_view(to_toml(other)));
  CHECK_THROWS_AS(Trainer::resume(folder.path()), IoError);
  CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  // A lost value is not its default.
  const std::string whole = to_toml(t.config());
  for (const std::size_t length : {whole.size() / 2, std::size_t(0)}) {
    write_file((folder / "config.toml").string(), std::string_view(whole).substr(0, length));
    CHECK_THROWS_AS(load_run(folder.path(), "model.safetensors", Use::kSequences), IoError);
  }
}

TEST_CASE("a loss below the best possible one is a leak") {
  Evaluation e;
  e.loss = 1.0, e.optimal = 1.1, e.standard_error = 0.01;
  CHECK(leaks(e));
  e.standard_error = 0.03;  // 3.3 standard errors may be luck
  CHECK(!leaks(e));
  e.loss = 1.2, e.standard_error = 0.01;
  CHECK(!leaks(e));
  e.loss = 0, e.standard_error = 0;  // all targets seen: every sequence has the same gap
  CHECK(leaks(e));
  e.loss = 1.0, e.optimal.reset();
  CHECK(!leaks(e));
}

}  // namespace
