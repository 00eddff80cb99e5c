#include "tools/heed/bench/works.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/train/generate.h"
#include "nn/train/model_cost.h"
#include "nn/train/trainer.h"

namespace heed {
namespace {

nn::Transformer model_of(const nn::RunConfig& config, std::int64_t vocabulary) {
  nn::validate(config);
  autograd::Generator g(1);
  return nn::make_model(config, vocabulary, vocabulary, g);
}

}  // namespace

TrainingStep::TrainingStep(const nn::RunConfig& config, std::int64_t vocabulary)
    : config_(config),
      model_(model_of(config, vocabulary)),
      optimizer_(nn::make_optimizer(config, model_)) {
  autograd::Generator g(2);
  for (autograd::Tensor* ids : {&x_, &y_})
    *ids = autograd::randint(0, vocabulary, {config.batch, config.model.context}, g);
}

double TrainingStep::operator()() {
  optimizer_->zero_grad();
  const autograd::Tensor loss = cross_entropy(model_.forward(x_, {.training = true}), y_);
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
        fmt::format("bench: the model does not learn its batch: {} then {}", first_, last_));
}

double TrainingStep::flop() { return nn::flops_per_token(model_) * tokens(); }

Generation::Generation(const nn::RunConfig& config, std::int64_t vocabulary)
    : model_(model_of(config, vocabulary)) {
  for (const nn::NamedTensor& p : nn::parameters(model_))
    if (!p.name.starts_with("tok") && !p.name.starts_with("pos"))
      weight_bytes_ += 4.0 * double(p.tensor.numel());
}

void Generation::operator()() {
  std::array streams = {autograd::Generator(1)};
  nn::generate_samples(model_, {0}, model_.options.context, {.sample = {.greedy = true}}, streams,
                       [](std::int64_t, const nn::GeneratedToken&) { return true; });
}

}  // namespace heed
