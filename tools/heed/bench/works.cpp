#include "tools/heed/bench/works.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

#include "autograd/base/text.h"
#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/io/nearest.h"
#include "nn/train/generate.h"
#include "nn/train/trainer.h"
#include "tools/heed/bench/presets.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

using autograd::Tensor;

enum class Work { kStep, kGeneration };

// Whether an option changes what is timed: of a run's schedule, data and evaluations there is none.
bool has_effect(const nn::Setting& s, Work work) {
  static const std::vector<std::string> of_steps = {
      "batch", "optimizer", "lr",           "beta1", "beta2",
      "eps",   "momentum",  "weight-decay", "clip",  "clip-value"};
  if (s.group == "Model") return work == Work::kStep || s.key != "dropout";
  return work == Work::kStep &&
         std::find(of_steps.begin(), of_steps.end(), s.key) != of_steps.end();
}

std::string preset_in(const std::string& model) { return model.substr(0, model.find(',')); }

[[noreturn]] void needs_options(const std::string& model) {
  usage_error("bench: needs PRESET,OPTION=VALUE, such as toy,context=256, got '{}'", model);
}

// Of "toy" or "toy,context=256,batch=1".
nn::RunConfig config_of(const std::string& model, Work work) {
  std::istringstream words(model);
  std::string preset, word;
  std::getline(words, preset, ',');
  if (model.ends_with(',')) needs_options(model);
  const auto presets = bench_presets();
  if (std::find(presets.begin(), presets.end(), preset) == presets.end())
    usage_error("bench: '{}' is no speed preset; these are: {}", preset, autograd::join(presets));
  nn::RunConfig config = nn::preset(preset);
  const std::vector<nn::Setting> settings = config.settings();
  std::vector<std::string> known;
  for (const nn::Setting& s : settings)
    if (has_effect(s, work)) known.push_back(s.key);
  std::vector<const nn::Setting*> given;
  while (std::getline(words, word, ',')) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string key = word.substr(0, equals);
    if (key.empty() || equals == word.size()) needs_options(model);
    const nn::Setting* setting = nn::find_setting(settings, key);
    if (!setting)
      usage_error("bench: there is no option '{}'; did you mean '{}'? Got '{}'", key,
                  nn::nearest(key, known), model);
    if (!has_effect(*setting, work))
      usage_error("bench: {} changes nothing of {}, got '{}'; leave it out", setting->key,
                  work == Work::kStep ? "a step that is timed" : "a generation", model);
    if (std::find(given.begin(), given.end(), setting) != given.end())
      usage_error("bench: {} is given twice, got '{}'; leave out one", key, model);
    setting->set(setting->key, word.substr(equals + 1));
    given.push_back(setting);
  }
  for (const nn::Setting* s : given)
    if (const std::string problem = s->unmet_need(s->key); !problem.empty())
      usage_error("bench: {}, got '{}'", problem, model);
  nn::validate(config);
  return config;
}

nn::Transformer model_of(const std::string& model, const nn::RunConfig& config) {
  autograd::Generator g(1);
  const std::int64_t vocabulary = bench_vocabulary(preset_in(model));
  return nn::make_model(config, vocabulary, vocabulary, g);
}

}  // namespace

TrainingStep::TrainingStep(const std::string& model)
    : name_(model),
      config_(config_of(model, Work::kStep)),
      model_(model_of(model, config_)),
      optimizer_(nn::make_optimizer(config_, model_)) {
  autograd::Generator g(2);
  for (Tensor* ids : {&x_, &y_})
    *ids = autograd::randint(0, bench_vocabulary(preset_in(model)),
                             {config_.batch, config_.model.context}, g);
}

double TrainingStep::operator()() {
  optimizer_->zero_grad();
  const Tensor loss = cross_entropy(model_.forward(x_, {.training = true}), y_);
  backward(loss);
  nn::clipped_step(*optimizer_, config_, config_.lr);
  last_ = loss.item();
  if (!stepped_) first_ = last_;
  stepped_ = true;
  return last_;
}

void TrainingStep::check_learned() const {
  if (!(last_ < first_))
    throw std::logic_error(
        fmt::format("bench: {} does not learn its batch: {} then {}", name_, first_, last_));
}

double TrainingStep::flop() { return report_on(model_).flops_per_token * tokens(); }

Generation::Generation(const std::string& model)
    : model_(model_of(model, config_of(model, Work::kGeneration))) {
  for (const nn::NamedTensor& p : nn::parameters(model_))
    if (!p.name.starts_with("tok") && !p.name.starts_with("pos"))
      weight_bytes_ += 4.0 * double(p.tensor.numel());
}

void Generation::operator()() {
  std::array streams = {autograd::Generator(1)};
  nn::generate_samples(model_, {0}, model_.options.context, {.sample = {.greedy = true}}, streams,
                       [](std::int64_t, const nn::GeneratedToken&) { return true; });
}

std::function<void()> attention_call(const std::string& shape) {
  std::istringstream in(shape);
  std::array<std::int64_t, 4> n{};
  char x = 'x';
  for (std::size_t i = 0; i < n.size() && x == 'x' && in >> n[i] && n[i] > 0; ++i)
    if (i + 1 < n.size()) in >> x;
  if (!in || x != 'x' || in.peek() != EOF || n.back() < 1)
    usage_error("attention needs a shape BxHxTxD such as 8x6x256x64, got '{}'", shape);
  autograd::Generator g(1);
  const auto draw = [&] { return autograd::randn(autograd::Shape(n), autograd::float32, g); };
  const Tensor q = draw().requires_grad_(), k = draw().requires_grad_(),
               v = draw().requires_grad_();
  return [q, k, v, out_grad = draw()] {
    autograd::grad(autograd::attention(q, k, v, {.causal = true}), {q, k, v},
                   {.grad_output = out_grad});
  };
}

}  // namespace heed
