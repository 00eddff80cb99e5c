#include "tools/heed/study/study_text.h"

#include <algorithm>
#include <cmath>

#include "nn/study/head_importance.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

std::string score_text(double x) { return std::isfinite(x) ? fmt::format("{:.3f}", x) : "-"; }

}  // namespace

nn::Json heads_json(const nn::Study& s, const std::vector<nn::Effect>& cuts) {
  nn::Json heads = nn::Json::array();
  for (std::size_t i = 0; i < s.heads.size(); ++i) {
    const nn::HeadReport& h = s.heads[i];
    nn::Json one = nn::Json::object({{"layer", h.layer}, {"head", h.head}});
    for (const nn::HeadQuantity& q : nn::head_quantities())
      one.append(std::string(q.name), h.*q.value);
    one.append("cut", cuts.empty() ? nn::Json() : nn::Json(cuts[i].mean));
    one.append("saturated",
               cuts.empty() ? nn::Json() : nn::Json(nn::is_saturated(h.importance, cuts[i].mean)));
    heads.push_back(one);
  }
  return heads;
}

void print_heads(const nn::Study& s, const std::vector<nn::Effect>& cuts) {
  print("{:<6} {:>7} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9}\n", "head", "entropy", "previous",
        "duplicate", "induction", "|dL/dq|", "|dL/dk|", "|dL/dv|", "cut");
  bool unscored = false, saturated = false;
  for (std::size_t i = 0; i < s.heads.size(); ++i) {
    const nn::HeadReport& h = s.heads[i];
    const bool marked = !cuts.empty() && nn::is_saturated(h.importance, cuts[i].mean);
    print("{:<6} {:>7.3f} {:>8} {:>9} {:>9} {:>8.2g} {:>8.2g} {:>8.2g} {:>9}{}\n",
          nn::head_name({h.layer, h.head}), h.entropy, score_text(h.previous_token),
          score_text(h.duplicate_token), score_text(h.induction), h.dq, h.dk, h.dv,
          cuts.empty() ? "-" : fmt::format("{:+.3g}", cuts[i].mean), marked ? "*" : "");
    unscored = unscored || !std::isfinite(h.previous_token + h.duplicate_token + h.induction);
    saturated = saturated || marked;
  }
  if (unscored) print("-: nothing to measure, as no token occurs twice here\n");
  print("cut: what L is more by without the head{}\n",
        cuts.empty() ? "; not measured, it would take long: --ablate all does" : "");
  if (saturated)
    print("*: saturated: on this sequence, cutting the head does not do what its gradient says\n");
}

void print_ascii(const nn::Study& s, const std::vector<std::string>& labels) {
  static constexpr char kShades[] = " .:-=+*#%@";
  for (std::size_t layer = 0; layer < s.layers.size(); ++layer) {
    const nn::Tensor x = to(s.layers[layer].pattern, autograd::float32);
    const auto values = x.to_vector<float>();
    const auto n = std::size_t(x.size(2));
    for (std::size_t head = 0; head < std::size_t(x.size(1)); ++head) {
      print("\n{}: each row a query, each column a key; darkest is 1\n",
            nn::head_name({std::int64_t(layer), std::int64_t(head)}));
      for (std::size_t i = 0; i < n; ++i) {
        std::string line;
        for (std::size_t j = 0; j <= i; ++j) {
          const float weight = values[(head * n + i) * n + j];
          line += kShades[std::clamp(int(weight * 10), 0, 9)];
        }
        print("{:>4} {}\n", labels[i], line);
      }
    }
  }
}

}  // namespace heed
