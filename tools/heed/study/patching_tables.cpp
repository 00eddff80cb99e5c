#include "tools/heed/study/patching_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/io/limits.h"
#include "nn/study/patching.h"
#include "nn/tasks/corpus.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/study/head_study.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

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

// Returns the tokens with the largest and the second largest logit after a prompt.
std::pair<std::int64_t, std::int64_t> predicted_tokens(const Subject& s, const nn::Batch& prompt) {
  const nn::Objective o = nn::margin(s.model(), prompt, {prompt.inputs.numel() - 1});
  return {o.right.to_vector<std::int64_t>().back(), o.wrong.to_vector<std::int64_t>().back()};
}

// Reads one line: clean TAB corrupt, or clean TAB corrupt TAB right TAB wrong.
nn::PromptPair read_pair(const std::string& line, const std::string& where, const Subject& s) {
  std::vector<std::string> parts;
  std::istringstream in(line + "\t");
  for (std::string part; std::getline(in, part, '\t');) parts.push_back(part);
  if (parts.size() != 2 && parts.size() != 4)
    usage_error("{}: {} parts; write clean TAB corrupt, and optionally TAB right TAB wrong token",
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
        usage_error("{}: '{}' is not one token that the model predicts", where, text);
      return ids[0];
    };
    pair.right = token(parts[2]), pair.wrong = token(parts[3]);
    if (pair.right == pair.wrong)
      usage_error("{}: the right and the wrong token are both '{}'", where, parts[2]);
    return pair;
  }
  const auto target = [](const nn::Batch& prompt) {
    return prompt.targets.to_vector<std::int64_t>().back();
  };
  const auto of_clean = predicted_tokens(s, clean);
  pair.right = target(clean) != nn::kIgnored ? target(clean) : of_clean.first;
  pair.wrong =
      target(corrupt) != nn::kIgnored ? target(corrupt) : predicted_tokens(s, corrupt).first;
  if (pair.wrong == pair.right)
    pair.wrong = of_clean.first == pair.right ? of_clean.second : of_clean.first;
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
            "{}: a prompt of {} tokens, but the first one has {}; give equal numbers, so that "
            "positions correspond",
            where, prompt->size(), pairs[0].clean.size());
  }
  if (pairs.empty()) usage_error("--pairs: '{}' has no pair", file);
  return pairs;
}

// ---- tables and pictures

std::string place_name(const nn::PatchedPlace& p, const std::vector<std::string>& labels,
                       std::int64_t heads, std::int64_t kv_heads) {
  if (!p.by_head)
    return fmt::format("L{} {} at {}{}", p.layer, p.site.substr(5), p.column,
                       labels.empty() ? "" : " (" + labels[std::size_t(p.column)] + ")");
  const std::string site = p.site.substr(std::string("attn.hook_").size());
  const std::int64_t group = site == "k" || site == "v" ? heads / kv_heads : 1;
  return nn::head_range({p.layer, p.column * group}, group) + " " + site;
}

Table direction_table(const std::string& title, std::vector<nn::PatchedPlace> places,
                      const nn::Patching& p, const PromptPairs& pairs, const Subject& s) {
  const nn::MultiHeadAttention::Options& o = s.model().options.attention;
  std::vector<nn::EffectRow> rows;
  std::vector<double> predicted;
  for (const nn::PatchedPlace& place : places)
    rows.push_back(place.row()), predicted.push_back(place.predicted.mean);
  const double largest = nn::largest_effect(rows), smallest = s.smallest_effect(pairs.objective);
  const nn::Agreement agreement = nn::agreement(rows, predicted, smallest);
  Table t({{"", "place"},
           {"", "share", "", "{:.3f}"},
           {"", "error", "", "{:.2g}", 1},
           {"", "predicted", "", "{:.3f}"},
           {"", "mark"}});
  t.shown = 24;
  t.title = fmt::format("{}, {}", title, pairs.text);
  std::ranges::stable_sort(places, std::greater<>(), [](const nn::PatchedPlace& place) {
    return std::abs(place.share.value);
  });
  for (const nn::PatchedPlace& place : places)
    t.add({place_name(place, pairs.labels, o.heads, o.kv_heads), place.share.value,
           place.share.standard_error, place.predicted_share,
           mark_value(place.row(), nn::floor_of(place.row(), largest, smallest))});
  t.note = fmt::format(
      "L is {}. share: of the gap between L of the clean prompts, {:.4g}, and of the corrupt "
      "prompts, {:.4g}. predicted: by the gradient in the run that is patched.",
      pairs.objective_text(s), p.clean, p.corrupt);
  if (s.predicts)
    t.note +=
        " Marks as for heads, of the gains of L before the division; for few pairs these have "
        "large errors.";
  if (p.left_out > 0)
    t.note +=
        fmt::format(" {} pairs with less than 10 % of the median gap are left out.", p.left_out);
  if (agreement.rows > 0)
    t.note += fmt::format(
        " Over the {} places with an effect, the prediction is {} times the gain (median); the "
        "rank correlation over all places is {:.2f}.",
        agreement.rows, nn::factor_text(agreement.factor), agreement.rank_correlation);
  return t;
}

// Returns a panel with the shares of one site. Rows are layers.
plot::Panel panel_of(const std::vector<nn::PatchedPlace>& places, const std::string& site,
                     const char* direction, int layers) {
  plot::Panel panel{.title = site.substr(site.rfind("hook_") + 5) + ", " + direction,
                    .rows = layers,
                    .cols = 0,
                    .values = {}};
  for (const nn::PatchedPlace& p : places)
    if (p.site == site) panel.values.push_back(float(p.share.value));
  panel.cols = int(panel.values.size()) / layers;
  return panel;
}

}  // namespace

plot::HeatmapGrid patching_grid(const nn::Patching& p, bool by_head,
                                const std::vector<std::string>& positions,
                                const std::string& pairs) {
  const int layers = int(p.denoise.back().layer) + 1;
  plot::HeatmapGrid grid;
  std::string last;
  int columns = 0;
  for (const nn::PatchedPlace& place : p.denoise) {
    if (place.by_head != by_head || place.site == last) continue;
    last = place.site;
    grid.panels.push_back(panel_of(p.denoise, last, "denoise", layers));
    grid.panels.push_back(panel_of(p.noise, last, "noise", layers));
    columns = std::max(columns, grid.panels.back().cols);
  }
  // Heads that share keys and values have the same value there.
  for (plot::Panel& panel : grid.panels) {
    std::vector<float> values;
    for (int i = 0; i < layers * columns; ++i)
      values.push_back(
          panel.values[std::size_t(i / columns * panel.cols + i % columns * panel.cols / columns)]);
    panel.values = std::move(values), panel.cols = columns;
  }
  for (int layer = 0; layer < layers; ++layer) grid.row_labels.push_back(std::to_string(layer));
  grid.col_labels = positions;
  if (by_head || positions.empty()) {
    grid.col_labels.clear();
    for (int i = 0; i < columns; ++i) grid.col_labels.push_back(std::to_string(i));
  }
  if (by_head) grid.panel_columns = 2;  // denoise beside noise
  grid.row_axis = "layer", grid.col_axis = by_head ? "head" : "position";
  grid.title = by_head ? "Activation patching of heads" : "Activation patching by position";
  grid.caption = fmt::format("{}. L: {} clean, {} corrupt. denoise: clean into corrupt.", pairs,
                             plot::format_number(p.clean, 4), plot::format_number(p.corrupt, 4));
  grid.value_name = "share of the gap";
  grid.scale = plot::ColorScale::kDiverging;
  grid.limit = largest_magnitude(grid);
  return grid;
}

std::string PromptPairs::objective_text(const Subject& s) const {
  if (objective.kind == nn::Objective::kMargin && clean.inputs.size(0) > 1)
    return "the logit of the right token minus that of the wrong token, at the last position";
  return objective_description(objective, s.info().vocabulary);
}

std::vector<nn::Setting> patching_settings(PatchingArguments& a) {
  return {nn::Setting("corrupt", a.corrupt, "TEXT",
                      "a second prompt of the same length: patches activations between the two")
              .shows(""),
          nn::Setting("pairs", a.pairs, "FILE",
                      "patches over pairs of prompts; a line is clean TAB corrupt, and optionally "
                      "TAB right TAB wrong token")
              .shows(""),
          nn::Setting("corruption", a.corruption, "NAME",
                      "patches over --samples pairs of the task (default 32), such as value, key "
                      "or query of induction")
              .shows("")};
}

std::optional<PromptPairs> chosen_pairs(const PatchingArguments& a, std::int64_t samples,
                                        const Command& c, const Subject& s) {
  if (int(c.given("corrupt")) + int(c.given("pairs")) + int(c.given("corruption")) > 1)
    usage_error(
        "--corrupt, --pairs and --corruption all select pairs of prompts; give one of them");
  if (c.given("corrupt")) {
    PromptPairs pair{s.sequence,
                     s.run->task->prompt(a.corrupt),
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
    pairs = read_pairs(a.pairs, s);
    text = fmt::format("{} pairs of {}", pairs.size(), a.pairs);
  } else if (c.given("corruption")) {
    constexpr std::int64_t kPairs = 32;
    constexpr std::uint64_t kSeed = 1;
    nn::Generator generator(kSeed);
    const std::vector<std::string> known = s.run->task->corruptions();
    if (std::ranges::count(known, a.corruption) == 0)
      usage_error("--corruption '{}': {}", a.corruption,
                  known.empty() ? s.info().name + " has no corruptions; give pairs with --pairs"
                                : "use " + heed::join(known) + " for " + s.info().name);
    const std::int64_t count = samples > 0 ? samples : kPairs;
    for (std::int64_t i = 0; i < count; ++i)
      pairs.push_back(s.run->task->pair(a.corruption, generator));
    text = fmt::format("{} pairs of {}, corruption {}", count, s.info().name, a.corruption);
  } else {
    return {};
  }
  PromptPairs all = pairs_of(pairs, std::move(text));
  if (c.given("of") && s.objective.kind != nn::Objective::kMargin) {
    all.objective = s.objective;
    all.objective.positions = {all.clean.inputs.size(1) - 1};
  }
  return all;
}

std::vector<Table> patching_tables(const PromptPairs& pairs, const Subject& s,
                                   const std::filesystem::path& out, Progress& progress,
                                   Files& files) {
  const nn::Patching p =
      nn::patching(s.model(), pairs.clean, pairs.corrupt, pairs.objective,
                   [&](std::int64_t done, std::int64_t total) {
                     progress.at_work(fmt::format("Patching: {} of {} steps", done, total));
                   });
  for (const bool by_head : {false, true})
    append(files,
           write_picture(out / (by_head ? "patching_heads.png" : "patching.png"),
                         patching_grid(p, by_head, pairs.labels, pairs.text), s.source,
                         "denoise: the share of the gap that the clean activation restores in the "
                         "corrupt run. noise: the share that is lost with the corrupt activation "
                         "in the clean run."));
  return {direction_table("Activation patching, clean into corrupt (denoise: sufficient)",
                          p.denoise, p, pairs, s),
          direction_table("Activation patching, corrupt into clean (noise: necessary)", p.noise, p,
                          pairs, s)};
}

}  // namespace heed
