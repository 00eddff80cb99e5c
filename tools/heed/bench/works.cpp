#include "tools/heed/bench/works.h"

#include <array>
#include <sstream>
#include <stdexcept>

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/train/generate.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

using autograd::Tensor;

std::int64_t vocabulary_of(const std::string& preset) {
  return preset == "micro" ? 32 : preset == "toy" ? 64 : 65;
}

nn::Transformer model_of(const std::string& preset) {
  autograd::Generator g(1);
  const std::int64_t vocabulary = vocabulary_of(preset);
  return nn::make_model(nn::preset(preset), vocabulary, vocabulary, g);
}

}  // namespace

TrainingStep::TrainingStep(const std::string& preset, autograd::Precision matmul)
    : preset_(preset),
      config_(nn::preset(preset)),
      model_(model_of(preset)),
      optimizer_(nn::decay_groups(nn::parameters(model_), config_.weight_decay),
                 {.beta1 = config_.beta1, .beta2 = config_.beta2, .eps = config_.eps}) {
  model_.options.matmul = matmul;
  autograd::Generator g(2);
  for (Tensor* ids : {&x_, &y_})
    *ids = autograd::randint(0, vocabulary_of(preset), {config_.batch, config_.context}, g);
}

double TrainingStep::operator()() {
  optimizer_.zero_grad();
  const Tensor loss = cross_entropy(model_.forward(x_, {.training = true}), y_);
  backward(loss);
  optimizer_.step(config_.lr, config_.clip);
  last_ = loss.item();
  if (!stepped_) first_ = last_;
  stepped_ = true;
  return last_;
}

void TrainingStep::check_learned() const {
  if (!(last_ < first_))
    throw std::logic_error(
        fmt::format("bench: {} does not learn its batch: {} then {}", preset_, first_, last_));
}

double TrainingStep::flop() { return report_on(model_).flops_per_token * tokens(); }

Generation::Generation(const std::string& preset) : model_(model_of(preset)) {
  for (const nn::NamedTensor& p : nn::parameters(model_))
    if (!p.name.starts_with("tok") && !p.name.starts_with("pos"))
      weight_bytes_ += 4.0 * double(p.tensor.numel());
}

void Generation::operator()() {
  autograd::Generator g(1);
  nn::generate(model_, {0}, model_.options.context, {.greedy = true}, g,
               [](const nn::GeneratedToken&) { return true; });
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
  const Tensor q = draw().requires_grad(), k = draw().requires_grad(), v = draw().requires_grad();
  return [q, k, v, out_grad = draw()] {
    autograd::grad(autograd::attention(q, k, v, {.causal = true}), {q, k, v},
                   {.grad_output = out_grad});
  };
}

}  // namespace heed
