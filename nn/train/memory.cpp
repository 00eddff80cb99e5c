#include "nn/train/memory.h"

#include <fmt/format.h>

namespace heed::nn {

using namespace autograd;

void check_memory(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  constexpr double kLimit = 16e9;
  const double bytes = double(element_size(c.dtype));
  const auto d = double(c.d_model), layers = double(c.layers), tokens = double(c.batch * c.context);
  const double learned = c.positions == Positions::kLearned ? double(c.context) : 0;
  const double weights =
      4 * bytes * d *
      ((c.mlp ? 12 : 4) * d * layers + learned + double(vocab) + (c.tied ? 0 : double(classes)));
  const double scores = 3 * bytes * tokens * double(c.heads * c.context) * layers;
  const double stream = 12 * bytes * tokens * d * layers;
  const double logits = 3 * bytes * tokens * double(classes);
  const auto gb = [](double b) { return fmt::format("{:.3g} GB", b / 1e9); };
  check<ValueError>(weights < kLimit, "d-model", "a model of ", c.layers, " layers of d-model ",
                    c.d_model, " with ", vocab, " tokens needs about ", gb(weights),
                    " with its gradients and moments; the limit is 16 GB. Lower d-model or layers");
  const double all = weights + scores + stream + logits;
  check<ValueError>(all < kLimit, "context", "batch ", c.batch, " x context ", c.context, " x ",
                    c.layers, " layers of d-model ", c.d_model, " needs about ", gb(all),
                    "; the limit is 16 GB. Lower batch, context or layers");
}

}  // namespace heed::nn
