// The tokens that a margin compares, at each position of the sequence.
#include <fmt/format.h>

#include "tools/heed/study/analysis.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

Section margin_by_position(StudyContext& c) {
  const Subject& s = c.subject;
  Table t({{"position", "position"},
           {"token", "token"},
           {"first", "first"},
           {"second", "second"},
           {"margin", "margin"}},
          "", 24);
  const autograd::NoGrad guard;
  const nn::Tensor logits = c.model()(s.sequence.inputs);  // [1, T, classes]
  const nn::Vocabulary& vocabulary = s.info().vocabulary;
  double smallest = HUGE_VAL;
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < logits.size(1); ++p) {
    const auto right = std::int64_t(s.objective.right.at({0, p})),
               wrong = std::int64_t(s.objective.wrong.at({0, p}));
    if (right == nn::kIgnored) continue;
    const double margin = logits.at({0, p, right}) - logits.at({0, p, wrong});
    if (margin < smallest) smallest = margin, at = p;
    t.add({p, s.texts.visible_token(p), plot::token_text(vocabulary.label(right)),
           plot::token_text(vocabulary.label(wrong)), margin});
  }
  const std::string finding =
      fmt::format("smallest {:.3g}, at position {} ({}), {}", smallest, at,
                  s.texts.visible_token(at), counted(std::ssize(t.rows), "row"));
  return {.key = "margin",
          .title = "Margin: the tokens that L compares",
          .sentences = {"margin: the logit of the token in column first minus that of the token in "
                        "column second; L is the mean. The first token is the target. At a "
                        "position without a target, it is the most probable token. The second "
                        "token has the largest other logit of the unchanged model. All "
                        "interventions keep these tokens."},
          .tables = {std::move(t)},
          .finding = finding};
}

const Analysis kMargin{
    .key = "margin",
    .order = 90,
    .shared = "--of margin",
    .by_default =
        [](StudyContext& c) { return c.subject.objective.kind == nn::Objective::kMargin; },
    .repeats = false,
    .run = margin_by_position};

}  // namespace
}  // namespace heed
