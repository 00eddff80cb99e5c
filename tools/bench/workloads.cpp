#include "tools/bench/workloads.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "autograd/tensor/create.h"
#include "nn/lab/train/generate.h"
#include "nn/lab/train/trainer.h"

namespace heed {
namespace {

constexpr std::pair<const char*, Index> kVocabularies[] = {
    {"micro", 32}, {"toy", 64}, {"chargpt", 65}, {"small", 65}};

nn::Transformer model_of(const lab::RunConfig& config, Index vocabulary) {
  lab::validate(config);
  autograd::Generator g(1);
  return lab::make_model(config, vocabulary, vocabulary, g);
}

}  // namespace

std::vector<std::string> bench_presets() {
  std::vector<std::string> names;
  for (const auto& [name, vocabulary] : kVocabularies) names.emplace_back(name);
  return names;
}

Index bench_vocabulary(std::string_view preset) {
  for (const auto& [name, vocabulary] : kVocabularies)
    if (name == preset) return vocabulary;
  throw std::logic_error("bench: no vocabulary for " + std::string(preset));
}

TrainingStep::TrainingStep(const lab::RunConfig& config, Index vocabulary)
    : config_(config),
      model_(model_of(config, vocabulary)),
      optimizer_(lab::make_optimizer(config, model_)) {
  autograd::Generator g(2);
  for (autograd::Tensor* ids : {&batch_.inputs, &batch_.targets})
    *ids = autograd::randint(0, vocabulary, {config.batch, config.model.context}, g);
  lab::resolve_shards(config_, vocabulary, vocabulary);
}

double TrainingStep::operator()() {
  last_ = *shards_.set_gradients(model_, batch_, config_, 0, no_dropout_);
  optimizer_->step({.lr = config_.lr, .clip_norm = config_.clip});
  if (!stepped_) first_ = last_;
  stepped_ = true;
  return last_;
}

void TrainingStep::check_learned() const {
  if (!(last_ < first_))
    throw std::logic_error(
        fmt::format("bench: the loss of a repeated batch did not fall: {} then {}", first_, last_));
}

Generation::Generation(const lab::RunConfig& config, Index vocabulary)
    : model_(model_of(config, vocabulary)) {
  for (const nn::NamedTensor& p : nn::parameters(model_))
    if (!p.name.starts_with("tok") && !p.name.starts_with("pos"))
      weight_bytes_ += 4.0 * double(p.tensor.numel());
}

void Generation::operator()() {
  std::array streams = {autograd::Generator(1)};
  lab::generate_samples(model_, {0}, model_.options.context, {.greedy = true}, streams,
                        [](Index, Index) { return true; });
}

}  // namespace heed
