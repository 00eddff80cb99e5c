// Activation patching over pairs of prompts.
#include "nn/lab/study/patching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/base/text.h"
#include "nn/io/limits.h"
#include "nn/lab/tasks/corpus.h"
#include "tools/heed/study/analysis.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// N pairs of prompts of equal length, and L on them.
struct PromptPairs {
  lab::Batch clean, corrupt;  // [N, T]
  lab::Objective objective;
  std::string text;                 // "32 pairs of induction, corruption value"
  std::vector<std::string> labels;  // of the positions, [T]; empty: their numbers
};

// ---- pairs

// Returns the pairs as two batches. L is the logit of the right token minus that of the wrong one,
// at the last position.
PromptPairs pairs_of(const std::vector<lab::PromptPair>& pairs, std::string text) {
  std::vector<lab::Sequence> clean, corrupt;
  std::vector<Index> right, wrong;
  for (const lab::PromptPair& p : pairs) {
    std::vector<Index> targets(p.clean.size(), lab::kIgnored);
    std::vector<bool> counted(p.clean.size(), false);
    right.insert(right.end(), targets.begin(), targets.end());
    wrong.insert(wrong.end(), targets.begin(), targets.end());
    targets.back() = right.back() = p.right, wrong.back() = p.wrong, counted.back() = true;
    clean.push_back({.inputs = p.clean, .targets = targets, .counted = counted});
    corrupt.push_back({.inputs = p.corrupt, .targets = targets, .counted = counted});
  }
  PromptPairs all{lab::make_batch(clean), lab::make_batch(corrupt), {}, std::move(text), {}};
  all.objective = {.kind = lab::Objective::kPair,
                   .right = autograd::from_data(right, all.clean.inputs.shape()),
                   .wrong = autograd::from_data(wrong, all.clean.inputs.shape())};
  return all;
}

// Returns a label for each position: "c" if the token is c in both prompts, or "c/d" if it is c in
// the clean prompt and d in the corrupt prompt.
std::vector<std::string> pair_labels(const Subject& s, const lab::Batch& corrupt) {
  const auto other = s.info().vocabulary.labels(corrupt.inputs.to_vector<std::int64_t>());
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < other.size(); ++i)
    labels.push_back(s.texts.tokens[i] == other[i] ? other[i] : s.texts.tokens[i] + "/" + other[i]);
  return labels;
}

// Returns the answer to a prompt: the target that it determines or, if it determines none, the
// token with the largest logit. `second` becomes the token with the largest other logit.
Index answer_of(const Subject& s, const lab::Batch& prompt, Index& second) {
  const autograd::NoGrad guard;
  const Index answer = lab::prompt_objective(s.model(), prompt).a;
  const nn::Tensor logits =
      autograd::select(s.model()(prompt.inputs), 1, prompt.inputs.size(1) - 1);
  const nn::Tensor is_answer = autograd::eq(autograd::arange(logits.size(1)), double(answer));
  second = autograd::argmax(autograd::masked_fill(logits, is_answer, -HUGE_VAL), -1)
               .to_vector<std::int64_t>()[0];
  return answer;
}

// Reads one line: clean TAB corrupt, or clean TAB corrupt TAB right TAB wrong.
lab::PromptPair read_pair(const std::string& line, const std::string& where, const Subject& s) {
  const std::vector<std::string> parts = split(line, '\t');
  if (parts.size() != 2 && parts.size() != 4)
    usage_error(
        "{}: needs 2 or 4 parts, got {}; write clean TAB corrupt, and optionally TAB right TAB "
        "wrong token",
        where, parts.size());
  const auto read = [&](const std::string& text) {
    try {
      return s.run->task->prompt(text);
    } catch (const autograd::ValueError& e) {
      usage_error("{}: {}", where, e.what());
    }
  };
  const lab::Batch clean = read(parts[0]), corrupt = read(parts[1]);
  lab::PromptPair pair{clean.inputs.to_vector<std::int64_t>(),
                       corrupt.inputs.to_vector<std::int64_t>(), 0, 0};
  if (parts.size() == 4) {
    const auto token = [&](const std::string& text) {
      const auto ids = s.info().vocabulary.encode(text, where);
      if (ids.size() != 1 || ids[0] >= s.info().classes)
        usage_error(
            "{}: '{}' is not one token that the model predicts; give one of the first {} tokens of "
            "{}",
            where, text, s.info().classes, s.info().vocabulary.summary());
      return ids[0];
    };
    pair.right = token(parts[2]), pair.wrong = token(parts[3]);
    if (pair.right == pair.wrong)
      usage_error("{}: right and wrong token are both '{}'; give two tokens", where, parts[2]);
    return pair;
  }
  Index second = 0, ignored = 0;
  pair.right = answer_of(s, clean, second), pair.wrong = answer_of(s, corrupt, ignored);
  if (pair.wrong == pair.right) pair.wrong = second;
  return pair;
}

std::vector<lab::PromptPair> read_pairs(const std::string& file, const Subject& s) {
  std::vector<lab::PromptPair> pairs;
  int number = 0;
  for (const std::string& line : split(lab::read_text(file, nn::kMaxPairsBytes), '\n')) {
    const std::string where = fmt::format("--pairs: {}, line {}", file, ++number);
    if (line.empty()) continue;
    pairs.push_back(read_pair(line, where, s));
    for (const auto* prompt : {&pairs.back().clean, &pairs.back().corrupt})
      if (prompt->size() != pairs[0].clean.size())
        usage_error(
            "{}: a prompt of {} tokens, but the first prompt of the file has {}; give equal "
            "numbers, so that "
            "positions correspond",
            where, prompt->size(), pairs[0].clean.size());
  }
  if (pairs.empty()) usage_error("--pairs: '{}' has no pair; write clean TAB corrupt", file);
  return pairs;
}

// Returns pairs of the task. Throws UsageError for a corruption that it does not have.
PromptPairs task_pairs(const StudyContext& c, const std::string& corruption) {
  constexpr Index kDefaultPairs = 32;
  const Subject& s = c.subject;
  const std::vector<std::string>& known = s.info().corruptions;
  if (std::ranges::count(known, corruption) == 0)
    usage_error("--corruption '{}': {}", corruption,
                known.empty() ? s.info().name + " has no corruptions; give pairs with --pairs"
                              : "use " + heed::join(known) + " for " + s.info().name);
  nn::Generator generator(1);
  std::vector<lab::PromptPair> pairs;
  const Index count = c.options.samples > 0 ? c.options.samples : kDefaultPairs;
  for (Index i = 0; i < count; ++i) pairs.push_back(s.run->task->pair(corruption, generator));
  return pairs_of(pairs,
                  fmt::format("{} pairs of {}, corruption {}", count, s.info().name, corruption));
}

// Returns the pairs that the options select.
PromptPairs chosen_pairs(const StudyContext& c) {
  const Subject& s = c.subject;
  const StudyOptions& o = c.options;
  if (int(!o.corrupt.empty()) + int(!o.pairs.empty()) + int(!o.corruption.empty()) > 1)
    usage_error(
        "--corrupt, --pairs and --corruption all select pairs of prompts; give one of them");
  if (!o.corrupt.empty()) {
    PromptPairs pair{s.sequence,
                     s.run->task->prompt(o.corrupt),
                     s.objective,
                     "the sequence and a corrupt prompt",
                     {}};
    if (pair.corrupt.inputs.numel() != pair.clean.inputs.numel())
      usage_error(
          "--corrupt: {} tokens, but the sequence has {}; give equal numbers, so that positions "
          "correspond",
          pair.corrupt.inputs.numel(), pair.clean.inputs.numel());
    pair.labels = pair_labels(s, pair.corrupt);
    return pair;
  }
  if (!o.corruption.empty()) return task_pairs(c, o.corruption);
  const std::vector<lab::PromptPair> pairs = read_pairs(o.pairs, s);
  PromptPairs all = pairs_of(pairs, fmt::format("{} pairs of {}", pairs.size(), o.pairs));
  if (!o.of.empty()) {
    all.objective = s.objective;
    all.objective.positions = {all.clean.inputs.size(1) - 1};
  }
  return all;
}

// ---- table and picture

Table shares_table(const std::string& title, const lab::Patching& p,
                   const std::vector<lab::Effect>& shares, const PromptPairs& pairs) {
  Table t{.columns = {{"place"}, {"share", "", "{:.3f}"}, {"error", "", "{:.2g}"}},
          .title = title,
          .shown = 24};
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return std::abs(shares[i].mean); });
  for (const std::size_t i : order) {
    std::string place = p.places[i].name();
    if (!p.places[i].by_head && !pairs.labels.empty())
      place += " (" + pairs.labels[std::size_t(p.places[i].column)] + ")";
    t.rows.push_back({place, shares[i].mean, shares[i].standard_error});
  }
  return t;
}

// Returns the heat maps of the shares, by position or by head, for both directions. Rows are
// layers.
plot::HeatmapGrid patching_grid(const lab::Patching& p, bool by_head, const PromptPairs& pairs,
                                const nn::Transformer::Options& o) {
  const Index columns = by_head ? o.attention.heads : pairs.clean.inputs.size(1);
  plot::HeatmapGrid grid;
  for (std::size_t i = 0; i < p.places.size(); ++i) {
    const auto& [site, is_head, layer, column, width] = p.places[i];
    if (is_head != by_head) continue;
    if (layer == 0 && column == 0)
      for (const char* direction : {", denoise", ", noise"})
        grid.panels.push_back({.title = site.substr(site.rfind("hook_") + 5) + direction,
                               .rows = int(o.layers),
                               .cols = int(columns),
                               .values = {}});
    // The heads of a group share keys and values, so each of them shows the value of the group.
    plot::Panel* panels = &grid.panels[grid.panels.size() - 2];
    for (const auto* direction : {&p.denoise, &p.noise}) {
      std::vector<float>& values = (panels++)->values;
      values.insert(values.end(), std::size_t(width), float((*direction)[i].mean));
    }
  }
  for (Index l = 0; l < o.layers; ++l) grid.row_labels.push_back(std::to_string(l));
  if (!by_head) grid.col_labels = pairs.labels;
  for (Index i = 0; i < columns && (by_head || pairs.labels.empty()); ++i)
    grid.col_labels.push_back(std::to_string(i));
  if (by_head) grid.panel_columns = 2;  // denoise beside noise
  grid.row_axis = "layer", grid.col_axis = by_head ? "head" : "position";
  grid.title = by_head ? "Activation patching of heads" : "Activation patching by position";
  grid.caption =
      fmt::format("{}. L: {} clean, {} corrupt. denoise: clean into corrupt.", pairs.text,
                  plot::format_number(p.clean, 4), plot::format_number(p.corrupt, 4));
  grid.value_name = "share of the gap";
  grid.scale = plot::ColorScale::kDiverging;
  return grid;
}

// Returns sentences about pairs that are left out or that the model gets wrong, or "".
std::string warnings_of(const lab::Patching& p) {
  std::string text;
  if (p.left_out > 0)
    text += fmt::format(" {} with less than 10 % of the median gap {} left out.",
                        counted(p.left_out, "pair"), p.left_out == 1 ? "is" : "are");
  if (p.wrong_clean > 0)
    text += fmt::format(" The model gets {} of the clean prompts wrong.", p.wrong_clean);
  return text;
}

// Returns the largest share of heads at these sites: "L1H0 z 0.53".
std::string largest_share(const lab::Patching& p, const std::vector<std::string>& sites) {
  std::size_t best = p.denoise.size();
  for (std::size_t i = 0; i < p.denoise.size(); ++i)
    if (std::ranges::count(sites, p.places[i].site) > 0 &&
        (best == p.denoise.size() || p.denoise[i].mean > p.denoise[best].mean))
      best = i;
  return fmt::format("{} {:.2f}", p.places[best].name(), p.denoise[best].mean);
}

Section patching_section(StudyContext& c) {
  const StudyOptions& o = c.options;
  Section s{.key = "patching", .title = {}};
  if (!kPatching.is_asked(o)) {
    s.title = "Activation patching of the task's corruptions";
    s.sentences = {
        "The largest shares of the gap between L of the clean and of the corrupt prompts "
        "that the clean value restores in the corrupt run; --corruption NAME shows all."};
    Table t{.columns = {{"corruption"}, {"output"}, {"input"}}};
    std::string answer, warnings;
    for (const std::string& corruption : c.subject.info().corruptions) {
      const PromptPairs pairs = task_pairs(c, corruption);
      const lab::Patching p =
          lab::patching(c.model(), pairs.clean, pairs.corrupt, pairs.objective, true);
      const std::string output = largest_share(p, {"attn.hook_z"}),
                        input = largest_share(p, {"attn.hook_q", "attn.hook_k", "attn.hook_v"});
      t.rows.push_back({corruption, output, input});
      answer += fmt::format(
          "{} {}: {}, {}",
          answer.empty() ? "Patching (share of the lost L that one clean head output z, or input "
                           "q, k, v, restores); sequences with another"
                         : "; another",
          corruption, output, input);
      if (const std::string some = warnings_of(p); !some.empty())
        warnings += fmt::format(" Corruption {}:{}", corruption, some);
    }
    s.answers = {answer + "." + warnings};
    s.tables = {std::move(t)};
    return s;
  }
  const PromptPairs pairs = chosen_pairs(c);
  const lab::Patching p = lab::patching(c.model(), pairs.clean, pairs.corrupt, pairs.objective,
                                        false, c.counting("Patching"));
  s.title = "Activation patching, " + pairs.text;
  s.sentences = {fmt::format(
      "L is {}. denoise: the clean value in the corrupt run; noise: the corrupt value in the clean "
      "run. share: of the gap between L of the clean prompts, {:.4g}, and of the corrupt prompts, "
      "{:.4g}; each pair counts with the sign of its gap.{}",
      objective_description(pairs.objective, c.subject.info().vocabulary), p.clean, p.corrupt,
      warnings_of(p))};
  s.tables = {shares_table("denoise: sufficient", p, p.denoise, pairs),
              shares_table("noise: necessary", p, p.noise, pairs)};
  for (const bool by_head : {false, true})
    s.pictures.push_back({by_head ? "patching_heads" : "patching",
                          patching_grid(p, by_head, pairs, c.model().options),
                          "denoise: the share of the gap that the clean activation restores in the "
                          "corrupt run. noise: the share that is lost with the corrupt activation "
                          "in the clean run."});
  const auto& largest = s.tables[0].rows[0];
  s.answers = {fmt::format("Patching, {}: the clean value of {} restores {:.2f} of the gap.{}",
                           pairs.text, *largest[0].as<std::string>(), *largest[1].as<double>(),
                           warnings_of(p))};
  return s;
}

}  // namespace

const Analysis kPatching{
    .key = "patching",
    .advice = "add --corrupt, --pairs or --corruption",
    .asked =
        [](const StudyOptions& o) {
          return !o.corrupt.empty() || !o.pairs.empty() || !o.corruption.empty();
        },
    .by_default =
        [](StudyContext& c) {
          return c.components() && c.predicts() && !c.subject.info().corruptions.empty();
        },
    .check =
        [](StudyContext& c) {
          if (kPatching.is_asked(c.options)) chosen_pairs(c);
        },
    .run = patching_section};

}  // namespace heed
