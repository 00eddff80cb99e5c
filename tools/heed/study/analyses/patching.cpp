// Activation patching over pairs of prompts.
#include "nn/study/patching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/io/limits.h"
#include "nn/tasks/corpus.h"
#include "tools/heed/study/analysis.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// N pairs of prompts of equal length, and L on them.
struct PromptPairs {
  nn::Batch clean, corrupt;  // [N, T]
  nn::Objective objective;
  std::string text;                 // "32 pairs of induction, corruption value"
  std::vector<std::string> labels;  // of the positions, [T]; empty: their numbers

  std::string objective_text(const Subject& s) const {
    if (objective.kind == nn::Objective::kMargin && clean.inputs.size(0) > 1)
      return "the logit of the right token minus that of the wrong token, at the last position";
    return objective_description(objective, s.info().vocabulary);
  }
};

// ---- pairs

// Returns the pairs as two batches. L is the logit of the right token minus that of the wrong one,
// at the last position.
PromptPairs pairs_of(const std::vector<nn::PromptPair>& pairs, std::string text) {
  std::vector<nn::Sequence> clean, corrupt;
  std::vector<std::int64_t> right, wrong;
  for (const nn::PromptPair& p : pairs) {
    std::vector<std::int64_t> targets(p.clean.size(), nn::kIgnored);
    std::vector<bool> counted(p.clean.size(), false);
    right.insert(right.end(), targets.begin(), targets.end());
    wrong.insert(wrong.end(), targets.begin(), targets.end());
    targets.back() = right.back() = p.right, wrong.back() = p.wrong, counted.back() = true;
    clean.push_back({.inputs = p.clean, .targets = targets, .counted = counted});
    corrupt.push_back({.inputs = p.corrupt, .targets = targets, .counted = counted});
  }
  PromptPairs all{nn::make_batch(clean), nn::make_batch(corrupt), {}, std::move(text), {}};
  all.objective = {.kind = nn::Objective::kMargin,
                   .right = autograd::from_data(right, all.clean.inputs.shape()),
                   .wrong = autograd::from_data(wrong, all.clean.inputs.shape())};
  return all;
}

// Returns a label for each position: "c" if the token is c in both prompts, or "c/d" if it is c in
// the clean prompt and d in the corrupt prompt.
std::vector<std::string> pair_labels(const Subject& s, const nn::Batch& corrupt) {
  const auto other = s.info().vocabulary.labels(corrupt.inputs.to_vector<std::int64_t>());
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < other.size(); ++i)
    labels.push_back(s.texts.tokens[i] == other[i] ? other[i] : s.texts.tokens[i] + "/" + other[i]);
  return labels;
}

// Returns the target after a prompt, or the token with the largest logit if there is none, and the
// token with the largest other logit.
std::pair<std::int64_t, std::int64_t> predicted_tokens(const Subject& s, const nn::Batch& prompt) {
  const nn::Objective o = nn::margin(s.model(), prompt, {prompt.inputs.numel() - 1});
  return {o.right.to_vector<std::int64_t>().back(), o.wrong.to_vector<std::int64_t>().back()};
}

// Reads one line: clean TAB corrupt, or clean TAB corrupt TAB right TAB wrong.
nn::PromptPair read_pair(const std::string& line, const std::string& where, const Subject& s) {
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
  const nn::Batch clean = read(parts[0]), corrupt = read(parts[1]);
  nn::PromptPair pair{clean.inputs.to_vector<std::int64_t>(),
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
  const auto [right, second] = predicted_tokens(s, clean);
  pair.right = right, pair.wrong = predicted_tokens(s, corrupt).first;
  if (pair.wrong == right) pair.wrong = second;
  return pair;
}

std::vector<nn::PromptPair> read_pairs(const std::string& file, const Subject& s) {
  std::vector<nn::PromptPair> pairs;
  int number = 0;
  for (const std::string& line : split(nn::read_text(file, nn::kMaxPairsBytes), '\n')) {
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

// Returns the pairs that the options select.
PromptPairs chosen_pairs(const StudyContext& c) {
  const Subject& s = c.subject;
  if (int(c.given("corrupt")) + int(c.given("pairs")) + int(c.given("corruption")) > 1)
    usage_error(
        "--corrupt, --pairs and --corruption all select pairs of prompts; give one of them");
  if (c.given("corrupt")) {
    PromptPairs pair{s.sequence,
                     s.run->task->prompt(c.text("corrupt")),
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
  std::vector<nn::PromptPair> pairs;
  std::string text;
  if (c.given("pairs")) {
    pairs = read_pairs(c.text("pairs"), s);
    text = fmt::format("{} pairs of {}", pairs.size(), c.text("pairs"));
  } else {
    constexpr std::int64_t kDefaultPairs = 32;
    constexpr std::uint64_t kSeed = 1;
    nn::Generator generator(kSeed);
    const std::vector<std::string> known = s.info().corruptions;
    if (std::ranges::count(known, c.text("corruption")) == 0)
      usage_error("--corruption '{}': {}", c.text("corruption"),
                  known.empty() ? s.info().name + " has no corruptions; give pairs with --pairs"
                                : "use " + heed::join(known) + " for " + s.info().name);
    const std::int64_t count = c.arguments.samples > 0 ? c.arguments.samples : kDefaultPairs;
    for (std::int64_t i = 0; i < count; ++i)
      pairs.push_back(s.run->task->pair(c.text("corruption"), generator));
    text = fmt::format("{} pairs of {}, corruption {}", count, s.info().name, c.text("corruption"));
  }
  PromptPairs all = pairs_of(pairs, std::move(text));
  if (c.given("of") && s.objective.kind != nn::Objective::kMargin) {
    all.objective = s.objective;
    all.objective.positions = {all.clean.inputs.size(1) - 1};
  }
  return all;
}

// ---- table and picture

Table direction_table(const std::string& title, const nn::Patching::Direction& d,
                      const PromptPairs& pairs, StudyContext& c) {
  const nn::Judgement j = c.judge(d.gains, pairs.objective);
  Table t{.columns = {{"place"},
                      {"share", "", "{:.3f}"},
                      {"error", "", "{:.2g}"},
                      {"predicted", "", "{:.3f}"},
                      {"mark"}},
          .title = title,
          .note = agreement_text(j),
          .shown = 24};
  const bool marks = c.subject.predicts && d.gains[0].effect.sequences > 1;
  for (const std::size_t i : j.order) {
    const nn::Effect& share = d.shares[i].effect;
    t.rows.push_back({d.gains[i].place, share.mean, share.standard_error, d.shares[i].predicted(),
                      marks ? Value(nn::mark_text(j.rows[i])) : Value()});
  }
  return t;
}

// Returns the heat maps of the shares, by position or by head, for both directions. Rows are
// layers.
plot::HeatmapGrid patching_grid(const nn::Patching& p, bool by_head, const PromptPairs& pairs,
                                const nn::Transformer::Options& o) {
  const std::int64_t columns = by_head ? o.attention.heads : pairs.clean.inputs.size(1);
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
      values.insert(values.end(), std::size_t(width), float(direction->shares[i].effect.mean));
    }
  }
  for (std::int64_t l = 0; l < o.layers; ++l) grid.row_labels.push_back(std::to_string(l));
  if (!by_head) grid.col_labels = pairs.labels;
  for (std::int64_t i = 0; i < columns && (by_head || pairs.labels.empty()); ++i)
    grid.col_labels.push_back(std::to_string(i));
  if (by_head) grid.panel_columns = 2;  // denoise beside noise
  grid.row_axis = "layer", grid.col_axis = by_head ? "head" : "position";
  grid.title = by_head ? "Activation patching of heads" : "Activation patching by position";
  grid.caption =
      fmt::format("{}. L: {} clean, {} corrupt. denoise: clean into corrupt.", pairs.text,
                  plot::format_number(p.clean, 4), plot::format_number(p.corrupt, 4));
  grid.value_name = "share of the gap";
  grid.scale = plot::ColorScale::kDiverging;
  grid.limit = largest_magnitude(grid);
  return grid;
}

Section patched_pairs(StudyContext& c) {
  const PromptPairs pairs = chosen_pairs(c);
  nn::Patching p =
      nn::patching(c.model(), pairs.clean, pairs.corrupt, pairs.objective, c.counting("Patching"));
  for (std::size_t i = 0; i < p.places.size() && !pairs.labels.empty(); ++i)
    if (!p.places[i].by_head)
      for (auto* rows : {&p.denoise.gains, &p.noise.gains})
        (*rows)[i].place += " (" + pairs.labels[std::size_t(p.places[i].column)] + ")";
  Section s{.key = "patching", .title = "Activation patching, " + pairs.text};
  s.sentences = {fmt::format(
      "L is {}. denoise: the clean value in the corrupt run; noise: the corrupt value in the clean "
      "run. share: of the gap between L of the clean prompts, {:.4g}, and of the corrupt prompts, "
      "{:.4g}. predicted: by the gradient in the run that is patched.{}",
      pairs.objective_text(c.subject), p.clean, p.corrupt,
      p.left_out > 0
          ? fmt::format(" {} pairs with less than 10 % of the median gap are left out.", p.left_out)
          : "")};
  s.tables = {direction_table("denoise: sufficient", p.denoise, pairs, c),
              direction_table("noise: necessary", p.noise, pairs, c)};
  for (const bool by_head : {false, true})
    s.pictures.push_back({by_head ? "patching_heads" : "patching",
                          patching_grid(p, by_head, pairs, c.model().options),
                          "denoise: the share of the gap that the clean activation restores in the "
                          "corrupt run. noise: the share that is lost with the corrupt activation "
                          "in the clean run."});
  s.finding = finding_of(p.denoise.gains, c.judge(p.denoise.gains, pairs.objective));
  return s;
}

const Analysis kPatching{
    .key = "patching",
    .order = 70,
    .options = {{"corrupt", "TEXT",
                 "a second prompt of the same length: patches activations between the two"},
                {"pairs", "FILE",
                 "patches over pairs of prompts; a line is clean TAB corrupt, and optionally TAB "
                 "right TAB wrong token"},
                {"corruption", "NAME",
                 "patches over --samples pairs of the task (default 32), such as value, key or "
                 "query of induction"}},
    .group = "Patching",
    .notes =
        R"(An activation of one prompt in the run on another. denoise: the clean value in the corrupt
run; noise: the corrupt value in the clean run. A share is a part of the gap between the two L. A
line of --pairs is clean TAB corrupt, optionally TAB right TAB wrong token; all prompts have the same
number of tokens. The default L of pairs is the logit of the right token minus that of the wrong one.)",
    .check =
        [](const StudyContext& c) {
          if (c.given("corrupt") || c.given("pairs") || c.given("corruption")) chosen_pairs(c);
        },
    .run = patched_pairs};

}  // namespace
}  // namespace heed
